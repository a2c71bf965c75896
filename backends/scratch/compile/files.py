"""Template context and emitted files: the sprite and the project are assembled from rendered texts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from catgrad.backend import Backend
from catgrad.errors import CatgradWarning
from catgrad.programs.ports import Role
from catgrad.programs.program import Program

from ..assemble import sb3, sprite3
from ..assemble.limits import check_saved
from ..demo.examples import examples
from ..demo.pace import POINTS, pace
from ..demo.stage import monitors
from ..kernels.scripts import HOISTED, MAX_HOISTED_ITEMS
from ..kernels.texts import blocks, written
from ..tokens.writer import writer
from . import bits
from .classes import classes
from .entries import Routine, Sprite
from .interface import Interface, tables
from .sizes import predicts, streams, uses_masks
from .storage import storage
from .values import first_values

MAX_UNROLLED_BLOCKS = 4_000
"""Blocks above which loops are not unrolled, because the editor takes seconds to show more."""


def template_context(backend: Backend, program: Program) -> dict[str, Any]:
    """Return the variables that the templates of the target scratch read."""
    sprite, entries = printed(backend, program)
    interface = Interface(backend, sprite, entries) if is_called(backend, program) else None
    first, taught, drawn = first_values(backend, program), examples(backend, interface), streams(program)
    masks = uses_masks(program)
    named = classes(backend, interface, taught) if interface else None
    hoisted = backend.dialect.macros["local"](HOISTED)
    if any(hoisted in written(definition.lines) for definition in sprite.definitions):
        sprite.lists[hoisted] = MAX_HOISTED_ITEMS
    return {
        "sprite": sprite,
        "writer": writer(backend, program, entries),
        "entries": entries,
        "interface": interface,
        "tables": tables(sprite),
        "storage": storage(sprite, first),
        "first": first,
        "macros": backend.dialect.macros,
        "bits": bits.lists(backend) if drawn or masks else {},
        "masks": masks,
        "streams": drawn,
        "examples": taught,
        "classes": named,
        "shows_last": named and backend.options.predict_batch == 1,
        "shown": monitors(program, interface, first, taught, named) if interface else [],
        "points": POINTS,
        "pace": pace(sprite, interface, taught, named) if interface and taught else None,
        "loss": next((v.place for e in entries.values() for v in e.gives if v.role is Role.LOSS), ""),
    }


def is_called(backend: Backend, program: Program) -> bool:
    """Tell whether others call its functions by shared lists, unlike those of a sprite that writes text."""
    return backend.options.tokenizer is None and any(map(predicts, program.functions))


def printed(backend: Backend, program: Program) -> tuple[Sprite, dict[str, Routine]]:
    """Print the functions of a program as custom blocks: compact ones, if there are too many otherwise."""
    sprite = Sprite(backend, program)
    entries = {f.name: sprite.entry(f) for f in program.functions if not f.kind.is_initial}
    many = sum(blocks(definition.lines) for definition in sprite.definitions) > MAX_UNROLLED_BLOCKS
    if many and backend.options.unroll == "auto":
        return printed(backend.configured(unroll="compact"), program)
    return sprite, entries


def postprocess(context: Mapping[str, Any], files: dict[str, str]) -> Mapping[str, str | bytes]:
    """Assemble the emitted files: the rendered texts, the sprite, and a project with it."""
    name, stored = context["program"].name, context["storage"]
    writes, taught = context["writer"], context["examples"]
    check_saved({text.name: text.numbers().tolist() for text in stored.packed})
    lists = {**stored.lists, **context["bits"], **(writes.t.lists if writes else {})}
    if taught is not None:
        lists |= {column.name: column.array.reshape(-1) for column in taught.columns}
    figures = context["backend"].options.sig_figs
    texts = [text for file, text in files.items() if file.endswith(".scratch")]
    project = sb3(texts, lists, figures)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CatgradWarning)  # the project has warned of it
        sprite = sprite3(texts[0], lists, figures)
    return {**files, f"{name}.sprite3": sprite, f"{name}.sb3": project}
