"""CUDA C++ for NVIDIA GPUs: a library without dependencies, a program that trains, and what builds them."""

from __future__ import annotations

from catgrad.backend import Backend
from catgrad.dims import Dim, Size, coefficients
from catgrad.loops import ATTENTION, OPERATIONS
from catgrad.types import NdArrayType

from .. import templates
from ..c import BACKEND as C
from ..c.interface import CODES
from .entries import template_context
from .loading import load
from .machine import ALIGNMENT
from .options import Options
from .tools import NEEDS

MISALIGNED = "the workspace does not begin at a multiple of 64 bytes, or an array at one of 16"

FILES = {
    "{name}.cu": "model.cu.j2",
    "{name}.h": "model.h.j2",
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
    """Return the bits of a signed integer that holds all numbers up to a bound: 32 or 64."""
    return 64 if isinstance(reach, Dim) or reach >= 2**31 else 32


def is_aligned(type: NdArrayType) -> bool:
    """Tell whether an array keeps the alignment of the one before it, in a sequence of such arrays."""
    bytes = type.size * type.dtype.itemsize
    return all(c % ALIGNMENT == 0 for c in coefficients(bytes).values())


BACKEND = Backend(
    name="cuda",
    summary="CUDA C++ for NVIDIA GPUs, without libraries: kernels, CUDA graphs, a program that trains",
    folders=(templates("cuda"), templates("c"), templates("kernels")),
    files=FILES,
    load=load,
    needs=NEEDS,
    options=Options(),
    prepare=C.prepare,
    template_context=template_context,
    lowers_to_loops=OPERATIONS | ATTENTION,
    runtime_learning_rate=True,
    helpers={
        **C.helpers,
        "codes": lambda: {**CODES, "MISALIGNED": MISALIGNED},
        "index_bits": index_bits,
        "is_aligned": is_aligned,
    },
)
