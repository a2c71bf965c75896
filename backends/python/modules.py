"""Load emitted Python as a module."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable, Collection, Mapping
from itertools import count
from types import ModuleType
from typing import Any, NoReturn

from catgrad.artifact import Artifact
from catgrad.errors import not_emitted
from catgrad.learn.copies import Copied
from catgrad.learn.task import LEARNER
from catgrad.programs.ports import Kind

from ..host.process import Turns

_NUMBER = count()


class Unforked(Copied):
    """A learner of a library whose threads a fork of the process lacks."""

    tables: Mapping[str, Any]

    def __init__(self, *seed: int) -> None:
        super().__init__(*seed)
        self.lock = Turns()
        for table in self.tables.values():
            table.lock = self.lock


def _refusing(kind: Kind, lacks: Collection[Kind]) -> Callable[..., NoReturn]:
    def refuse(self: Any, *arrays: Any) -> NoReturn:
        """Raise NotEmitted."""
        raise not_emitted(kind, [each for each in LEARNER if each not in lacks])

    return refuse


def load_module(
    artifact: Artifact,
    find: Callable[[ModuleType], type] = lambda module: module.CompiledModel,
    base: type[Copied] = Copied,
) -> type:
    """Run the artifact's main file as a new module, and return a class of it, by default `CompiledModel`.

    It runs only text that was just emitted, never a file. Its learner gets the methods of a base.
    """
    filename = f"<catgrad {artifact.program.name} {next(_NUMBER)}>"
    module = ModuleType(f"catgrad_emitted_{artifact.program.name}")
    exec(compile(artifact.source, filename, "exec"), vars(module))
    if emitted := vars(module).get("Learner"):  # without plots, as it imports one library only
        lacks = frozenset(kind for kind in LEARNER if not hasattr(emitted, kind))
        own: dict[str, Any] = {kind: _refusing(kind, lacks) for kind in lacks}
        own |= {"__doc__": emitted.__doc__, "lacks": lacks}
        vars(module)["Learner"] = type("Learner", (base, emitted), own)
    found = find(module)
    weakref.finalize(found, linecache.cache.pop, filename, None)
    # Tracebacks through emitted code then show its lines.
    lines = artifact.source.splitlines(keepends=True)
    linecache.cache[filename] = (len(artifact.source), None, lines, filename)
    return found
