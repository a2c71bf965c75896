"""Scratch 3: sprites that predict and learn, of ordinary blocks."""

from __future__ import annotations

from catgrad.backend import TOLERANCE, Backend
from catgrad.loops import OPERATIONS

from .. import templates
from .compile.files import assembled, spelled
from .compile.interface import extent
from .compile.limits import LIMITS
from .compile.manifest import manifest
from .compile.options import Options
from .compile.sizes import arranged
from .language import spell
from .machine.loading import load
from .machine.node import NEEDS

FILES = {
    "{name}.scratch": "sprite.j2",
    "{name}_demo.scratch": "demo.j2",
    "{name}_manifest.json": "manifest.json.j2",
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
    entries=lambda options: options.entries,
    arrange=arranged,
    spell=spelled,
    dissolves=OPERATIONS | {"Erf", "RandomBits", "BitAnd"},
    adjustable=True,
    assemble=assembled,
    helpers={
        "comment": spell.comment,
        "extent": extent,
        "literal": spell.literal,
        "manifest": manifest,
        "word": spell.name,
    },
    limits=LIMITS,
)
