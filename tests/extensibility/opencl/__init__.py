"""OpenCL C: kernels in a .cl file, and Python that calls them; a target outside of catgrad's own tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from catgrad.backends import templates
from catgrad.backends.c.lines import listed
from catgrad.backends.host.sizes import with_free_sizes
from catgrad.backends.kernels.functions import PrintedFunctions
from catgrad.backends.webgpu.machine import MACHINE

from catgrad.backend import NO_16_BITS, Backend
from catgrad.loops import OPERATIONS, TABLES
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.printing.expressions import Expressions
from catgrad.loops.printing.functions import KERNELS
from catgrad.printing.dialect import Dialect
from catgrad.tools import Package

from .loading import load


class HostExpressions(Expressions):
    """The text of what Python gives to kernels, for which macros are prefixed with `host_`."""

    def __init__(self, dialect: Dialect, name_of: Callable[[Buffer], str]) -> None:
        host = {name: dialect.macros[f"host_{name}"] for name in ("divided", "element", "Literal")}
        super().__init__(replace(dialect, macros={**dialect.macros, **host}), name_of)


class OpenClFunctions(PrintedFunctions):
    """The functions of one program; each temporary array is a buffer."""

    expressions = HostExpressions
    machine = replace(MACHINE, passes_rows=False)


BACKEND = Backend(
    name="opencl",
    summary="OpenCL C, and Python that calls it",
    folders=(Path(__file__).parent / "templates", templates("grids"), templates("c"), templates("kernels")),
    files={"{name}.cl": "model.cl.j2", "{name}.py": "model.py.j2"},
    load=load,
    needs=(Package(name="PyOpenCL", module="pyopencl", install="pip install pyopencl"),),
    prepare=lambda backend, program: with_free_sizes(program, (*backend.dialect.reserved, *KERNELS)),
    template_context=lambda backend, program: OpenClFunctions(backend, program).context(),
    lowers_to_loops=OPERATIONS | TABLES,
    helpers={"listed": listed},
    known_gaps={NO_16_BITS: "few devices of OpenCL compute with them"},
)
