"""WebGPU: kernels in WGSL, in an ES module by which browsers train on a GPU."""

from __future__ import annotations

from catgrad.backend import NO_16_BITS, Backend
from catgrad.errors import DtypeError
from catgrad.formats.elements import FORMAT_NAMES
from catgrad.loops import OPERATIONS, TABLES
from catgrad.loops.printing.functions import KERNELS
from catgrad.ops.literal import ArrayLiteral
from catgrad.programs.program import Program, operations
from catgrad.terms.structural import Constant
from catgrad.types import Dtype

from .. import templates
from ..host.sizes import with_free_sizes
from ..javascript import BACKEND as JAVASCRIPT
from .adapter import ADAPTER
from .functions import WebGpuFunctions
from .loading import load

NO_FLOATS = "WGSL has no numbers of 64 bits, and those of 16 are optional"
INT64 = "whole numbers of 64 bits have 32 on the device: arrays with larger ones are refused"


def prepare(backend: Backend, program: Program) -> Program:
    """Rename sizes that are words of WGSL or JavaScript.

    Raises: DtypeError for arrays of float64, and for whole numbers beyond 32 bits
    """
    _require_float32(program)
    _require_32_bits(program)
    return with_free_sizes(program, (*backend.dialect.reserved, *JAVASCRIPT.dialect.reserved, *KERNELS))


def _require_float32(program: Program) -> None:
    """Refuse float64, but for single numbers within a function, such as the step size of Adam."""
    ports = [port.type for f in program.functions for port in (*f.inputs, *f.outputs)]
    slots = [slot.type for table in program.tables.values() for slot in table]
    arrays = [type for f in program.functions for type in f.types if type and type.rank]
    if any(type.dtype is Dtype.float64 for type in (*ports, *slots, *arrays)):
        raise DtypeError(
            "a program for webgpu must have no arrays of float64",
            f"{program.name} has some: {NO_FLOATS}",
            "build the model in float32, or choose another target",
        )


def _require_32_bits(program: Program) -> None:
    """Refuse constants of int64 that are no int32."""
    used = [op for function in program.functions for op in operations(function)]
    for op in [op for op in used if isinstance(op, Constant | ArrayLiteral)]:
        numbers = op.elements if isinstance(op, ArrayLiteral) else (op.value,)
        large = [n for n in numbers if not -(2**31) <= n < 2**31]
        if op.array_type.dtype is Dtype.int64 and large:
            raise DtypeError(
                "whole numbers of a program for webgpu must have 32 bits",
                f"{program.name} has the constant {large[0]}",
                "use smaller numbers, or choose another target",
            )


BACKEND = Backend(
    name="webgpu",
    summary="WebGPU: kernels in WGSL, in an ES module that predicts and trains on a GPU from a browser",
    folders=(templates("webgpu"), templates("grids"), templates("kernels")),
    files={"{name}.mjs": "model.mjs.j2", "{name}.d.mts": "model.d.mts.j2", "README.md": "README.md.j2"},
    load=load,
    needs=(ADAPTER,),
    prepare=prepare,
    template_context=lambda backend, program: WebGpuFunctions(backend, program).context(),
    lowers_to_loops=OPERATIONS | TABLES,
    helpers={"format_names": lambda: FORMAT_NAMES},
    known_gaps={NO_16_BITS: NO_FLOATS, "float64": NO_FLOATS, "64 bits": INT64, "beyond 32 bits": INT64},
)
