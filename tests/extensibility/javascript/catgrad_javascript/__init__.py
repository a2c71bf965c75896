"""JavaScript: an ES module of plain functions on typed arrays, by a kernel language outside catgrad."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from catgrad.backends import templates
from catgrad.backends.host.sizes import with_free_sizes

from catgrad.backend import Backend
from catgrad.loops import OPERATIONS
from catgrad.loops.printing.functions import KERNELS
from catgrad.programs.program import Program

from .functions import template_context
from .loading import NODE, load


def prepare(backend: Backend, program: Program) -> Program:
    """Rename sizes that are words of JavaScript."""
    return with_free_sizes(program, (*backend.dialect.reserved, *KERNELS))


BACKEND = Backend(
    name="javascript",
    summary="an ES module without dependencies, of functions on typed arrays",
    folders=(Path(__file__).parent / "templates", templates("kernels")),
    files={"{name}.mjs": "model.mjs.j2"},
    load=load,
    needs=(NODE,),
    prepare=prepare,
    template_context=template_context,
    lowers_to_loops=OPERATIONS,
    known_gaps={
        "16 bits": "JavaScript has no arrays of bfloat16, and few machines have those of float16",
        "64 bits": "whole numbers of 64 bits are float64, which rounds those of more than 53 bits",
    },
)


def provide() -> dict[str, Callable[[], Backend]]:
    """Return the target `javascript`."""
    return {"javascript": lambda: BACKEND}
