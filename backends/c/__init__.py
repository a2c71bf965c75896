"""C11 without dependencies: a library, a program that trains, and what builds them."""

from __future__ import annotations

from catgrad.backend import Backend
from catgrad.loops import OPERATIONS, TABLES
from catgrad.loops.printing.functions import KERNELS
from catgrad.programs.ports import Kind
from catgrad.programs.program import Program

from .. import templates
from ..host.learner import STEP_MANY
from ..host.sizes import with_free_sizes
from ..kernels import signatures
from . import interface
from .bindings import with_bindings
from .budget import fitted
from .compiler import NEEDS, REQUIRED
from .constants import weights
from .files import longest_name, most_axes
from .footprints import footprint
from .languages import LANGUAGES
from .lines import filled, fits, listed, stacked
from .loading import load
from .manifest import manifest
from .options import Options
from .prepare import PREDICT_PREPARED, template_context
from .training import require_shared, training

FILES = {
    "{name}.c": "model.c.j2",
    "{name}.h": "model.h.j2",
    "{name}_runtime.h": "runtime.h.j2",
    "{name}_files.c": "files.c.j2",
    "{name}_files.h": "files.h.j2",
    "{name}.hpp": "model.hpp.j2",
    "{name}_weights.h": "weights.h.j2",
    "{name}_tiles.c": "tiles.c.j2",
    "train.c": "train.c.j2",
    "train_mpi.c": "train_mpi.c.j2",
    "Makefile": "Makefile.j2",
    "CMakeLists.txt": "CMakeLists.txt.j2",
    "manifest.json": "manifest.json.j2",
    "README.md": "README.md.j2",
}


def prepare(backend: Backend, program: Program) -> Program:
    """The program with sizes that C can name.

    Raises: OptionError if its name is that of the program that trains; or if it trains, so that a namespace
            is called like it, and its name is a word of C, C++ or the emitted files
    """
    reserved = backend.dialect.reserved
    interface.require_name(program, reserved if Kind.STEP in program.kinds else ())
    interface.require_functions(program)
    return with_free_sizes(program, (*reserved, *KERNELS, f"{interface.prefix(program)}_*"))


def _prepare(backend: Backend, program: Program) -> Program:
    """Prepare a program. Raises: as `prepare`; OptionError if processes under MPI cannot share its batches"""
    if backend.options.mpi:
        require_shared(program)
    return prepare(backend, program)


BACKEND = Backend(
    name="c",
    summary="C11 that needs libm and nothing else: a library, a program that trains, a class in C++",
    folders=(templates("c"), templates("kernels")),
    files=FILES,
    load=load,
    needs=(*NEEDS, *LANGUAGES),
    options=Options(),
    required=lambda options: options.required,
    variants={STEP_MANY: Kind.STEP, PREDICT_PREPARED: Kind.PREDICT},
    fit=fitted,
    prepare=_prepare,
    template_context=template_context,
    postprocess=with_bindings,
    lowers_to_loops=OPERATIONS | TABLES,
    footprint=footprint,
    helpers={
        "codes": lambda: interface.CODES,
        "flags": lambda: " ".join(REQUIRED),
        "filled": filled,
        "fits": fits,
        "listed": listed,
        "longest_name": longest_name,
        "manifest": manifest,
        "most_axes": most_axes,
        "prefix": interface.prefix,
        "stacked": stacked,
        "training": training,
        "unused": signatures.unused,
        "weights": weights,
    },
)
