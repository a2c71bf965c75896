"""JavaScript: an ES module without dependencies, of a model that predicts and trains on typed arrays."""

from __future__ import annotations

from catgrad.backend import Backend
from catgrad.formats.elements import FORMAT_NAMES
from catgrad.loops import OPERATIONS, TABLES
from catgrad.loops.printing.functions import KERNELS
from catgrad.programs.program import Program

from .. import templates
from ..host.sizes import with_free_sizes
from .functions import ModuleFunctions
from .loading import load
from .session import NODE

NO_16_BITS = "JavaScript has no arrays of bfloat16, and few machines have those of float16"
NO_64_BITS = "whole numbers of 64 bits are float64, which rounds those of more than 53 bits"


def prepare(backend: Backend, program: Program) -> Program:
    """Rename sizes that are words of JavaScript."""
    return with_free_sizes(program, (*backend.dialect.reserved, *KERNELS))


BACKEND = Backend(
    name="javascript",
    summary="an ES module without dependencies, for browsers and Node.js, with types for TypeScript",
    folders=(templates("javascript"), templates("kernels")),
    files={"{name}.mjs": "model.mjs.j2", "{name}.d.mts": "model.d.mts.j2", "README.md": "README.md.j2"},
    load=load,
    needs=(NODE,),
    prepare=prepare,
    template_context=lambda backend, program: ModuleFunctions(backend, program).context(),
    lowers_to_loops=OPERATIONS | TABLES,
    helpers={"format_names": lambda: FORMAT_NAMES},
    known_gaps={"16 bits": NO_16_BITS, "64 bits": NO_64_BITS},
)
