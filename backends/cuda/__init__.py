"""CUDA C++ for NVIDIA GPUs: a library without dependencies, a program that trains, and what builds them."""

from __future__ import annotations

from catgrad.backend import Backend
from catgrad.dims import Dim, Size
from catgrad.errors import OptionError
from catgrad.loops import ATTENTION, OPERATIONS, TABLES
from catgrad.loops.passes.gpu.grids.wide import keeps_alignment
from catgrad.programs.passes.widen_late import widen_late
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Program

from .. import templates
from ..c import BACKEND as C
from ..c import prepare as prepare_c
from ..c.interface import CODES
from ..host.learner import STEP_MANY
from .functions import CudaFunctions
from .loading import load
from .machine import ALIGNMENT
from .options import Options
from .rows import shared_rows
from .tools import NEEDS

MAX_INDEX = 2**31 - 2**16
"""Largest index of 32 bits, with room for the threads beyond the last element."""

MISALIGNED = "the workspace does not begin at a multiple of 64 bytes, or an array at one of 16"

FILES = {
    "{name}.cu": "model.cu.j2",
    "{name}.h": "model.h.j2",
    "{name}_runtime.cuh": "runtime.cuh.j2",
    "{name}_files.c": "files.c.j2",
    "{name}_files.h": "files.h.j2",
    "{name}.hpp": "model.hpp.j2",
    "train.cu": "train.cu.j2",
    "Makefile": "Makefile.j2",
    "CMakeLists.txt": "CMakeLists.txt.j2",
    "manifest.json": "manifest.json.j2",
    "README.md": "README.md.j2",
}


def index_bits(reach: Size) -> int:
    """Return the bits of a signed integer that holds all indices of a kernel: 32 or 64.

    Sizes at which a symbolic bound exceeds 32 bits are refused.
    """
    return 64 if not isinstance(reach, Dim) and reach > MAX_INDEX else 32


def prepare(backend: Backend, program: Program) -> Program:
    """Prepare a program as the target c does. Raises: OptionError also if NCCL has no gradients to average"""
    trains = {Kind.GRADS, Kind.UPDATE, Kind.STEP} <= program.kinds.keys()
    if backend.options.nccl and not (trains and program.tables.get(Role.PARAMETER)):
        raise OptionError(
            "with nccl=True, a program must train parameters, whose gradients are averaged",
            f"{program.name} does not",
            "emit a Task whose model has parameters, or leave nccl out",
        )
    return prepare_c(backend, program)


BACKEND = Backend(
    name="cuda",
    summary="CUDA C++ for NVIDIA GPUs, without libraries: kernels, CUDA graphs, a program that trains",
    folders=(templates("cuda"), templates("c"), templates("kernels")),
    files=FILES,
    load=load,
    needs=NEEDS,
    options=Options(),
    required=lambda options: options.required,
    variants={STEP_MANY: Kind.STEP},
    prepare=prepare,
    passes=(widen_late,),
    template_context=lambda backend, program: CudaFunctions(backend, program).context(),
    lowers_to_loops=OPERATIONS | TABLES | ATTENTION,
    runtime_learning_rate=True,
    known_gaps={"infinite weights": "a reverse of a convolution multiplies them by zeros beside its windows"},
    helpers={
        **C.helpers,
        "codes": lambda: {**CODES, "MISALIGNED": MISALIGNED},
        "index_bits": index_bits,
        "shared_rows": shared_rows,
        "max_index": lambda: MAX_INDEX,
        "is_aligned": lambda array_type: keeps_alignment(array_type, ALIGNMENT),
    },
)
