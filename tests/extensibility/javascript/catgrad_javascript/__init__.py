"""JavaScript: an ES module of plain functions on typed arrays, by a kernel language outside catgrad."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from catgrad.backends.host.sizes import with_free_sizes

from catgrad.backend import Backend
from catgrad.errors import DtypeError
from catgrad.loops import OPERATIONS
from catgrad.loops.printing.functions import KERNELS
from catgrad.programs.program import Program
from catgrad.types import Dtype

from .functions import template_context
from .loading import NODE, load


def prepare(backend: Backend, program: Program) -> Program:
    """Rename sizes that are words of JavaScript. Raises: DtypeError for arrays of floats of 16 bits."""
    for function in program.functions:
        for type in filter(None, function.types):
            if type.dtype in (Dtype.float16, Dtype.bfloat16):
                raise DtypeError(
                    "an array in JavaScript must have elements of at least 32 bits, or be bool",
                    f"{function.name} has one of {type}",
                    "build the model in float32, or choose another target",
                )
    return with_free_sizes(program, (*backend.dialect.reserved, *KERNELS))


def is_float32(digits: str) -> bool:
    """Tell whether a number of float64 with these digits is one of float32 too."""
    return digits == "nan" or float(np.float32(digits)) == float(digits)


BACKEND = Backend(
    name="javascript",
    summary="an ES module without dependencies, of functions on typed arrays",
    folders=(Path(__file__).parent / "templates",),
    files={"{name}.mjs": "model.mjs.j2"},
    load=load,
    needs=(NODE,),
    prepare=prepare,
    template_context=template_context,
    lowers_to_loops=OPERATIONS,
    helpers={"is_float32": is_float32},
    known_gaps={
        "16 bits": "JavaScript has no arrays of bfloat16, and few machines have those of float16",
        "64 bits": "whole numbers of 64 bits are float64, which rounds those of more than 53 bits",
    },
)


def provide() -> dict[str, Callable[[], Backend]]:
    """Return the target `javascript`."""
    return {"javascript": lambda: BACKEND}
