"""Scratch 3: sprites that predict and learn, of ordinary blocks."""

from __future__ import annotations

from catgrad.backend import TOLERANCE, Backend
from catgrad.loops import OPERATIONS

from .. import templates
from .compile.files import postprocess, template_context
from .compile.interface import extent
from .compile.known_gaps import KNOWN_GAPS
from .compile.manifest import manifest
from .compile.options import Options
from .compile.sizes import prepare
from .language import spell
from .machine.loading import load
from .machine.node import NEEDS

FILES = {
    "{name}.scratch": "sprite.j2",
    "{name}_demo.scratch": "demo.j2",
    "{name}_manifest.json": "manifest.json.j2",
    "README.md": "README.md.j2",
}

BACKEND = Backend(
    name="scratch",
    summary="Scratch 3: a sprite with blocks that predict and train, and a project around it",
    folders=(templates("scratch"),),
    files=FILES,
    load=load,
    needs=NEEDS,
    tolerance={**TOLERANCE, "f64": 1e-9},
    options=Options(),
    entries=lambda options, task: options.entries,
    prepare=prepare,
    template_context=template_context,
    lowers_to_loops=OPERATIONS | {"Erf", "RandomBits", "BitAnd"},
    runtime_learning_rate=True,
    weights_suffix="",
    postprocess=postprocess,
    helpers={
        "comment": spell.comment,
        "extent": extent,
        "literal": spell.literal,
        "manifest": manifest,
        "word": spell.name,
    },
    known_gaps=KNOWN_GAPS,
)
