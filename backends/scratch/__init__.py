"""Scratch 3: sprites that predict and learn, of ordinary blocks."""

from __future__ import annotations

from catgrad.backend import TOLERANCE, Backend
from catgrad.loops import OPERATIONS

from .. import templates
from .files import assembled, spelled
from .harness import load
from .interface import extent
from .language import spell
from .limits import LIMITS
from .manifest import manifest
from .node import NEEDS
from .options import Options
from .sizes import arranged

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
