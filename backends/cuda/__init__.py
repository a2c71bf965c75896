"""CUDA C++ for NVIDIA GPUs: a library without dependencies, a program that trains, and what builds them."""

from __future__ import annotations

from catgrad.backend import Backend
from catgrad.dims import Dim, Size
from catgrad.loops import OPERATIONS

from .. import templates
from ..c import BACKEND as C
from .entries import template_context
from .loading import load
from .tools import NEEDS

FILES = {
    "{name}.cu": "model.cu.j2",
    "{name}.h": "model.h.j2",
    "manifest.json": "manifest.json.j2",
}


def index_bits(reach: Size) -> int:
    """Return the bits of a signed integer that holds all numbers up to a bound: 32 or 64."""
    return 64 if isinstance(reach, Dim) or reach >= 2**31 else 32


BACKEND = Backend(
    name="cuda",
    summary="CUDA C++ for NVIDIA GPUs, without libraries: kernels, CUDA graphs, a program that trains",
    folders=(templates("cuda"), templates("c"), templates("kernels")),
    files=FILES,
    load=load,
    needs=NEEDS,
    prepare=C.prepare,
    template_context=template_context,
    lowers_to_loops=OPERATIONS,
    runtime_learning_rate=True,
    helpers={**C.helpers, "index_bits": index_bits},
)
