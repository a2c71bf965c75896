"""C++ on ggml: graphs that predict and train, on any device that ggml has."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.backend import Backend
from catgrad.formats.gguf import file_name
from catgrad.initialisers import Stored
from catgrad.learn.task import Task
from catgrad.loops import TABLES
from catgrad.programs.passes.forward_rows import forward_rows
from catgrad.programs.ports import Kind
from catgrad.programs.program import Program
from catgrad.programs.signatures import SIGNATURES
from catgrad.programs.terms import Terms
from catgrad.terms.op import OPS

from .. import templates
from ..c import BACKEND as C
from ..c import interface
from ..c.compiler import REQUIRED
from ..host.learner import STEP_MANY
from ..host.sizes import with_free_sizes
from .files import groups, long_names
from .functions import template_context
from .loading import load
from .options import Options
from .select import NODES
from .tools import NEEDS, TESTED_VERSION

CODES = {
    **interface.CODES,
    "BAD_FILE": "the file is damaged, or of another format",
    "NO_DEVICE": "there is no such device",
    "FAILED": "ggml failed",
}
"""Status codes of functions and their meanings; the first have the numbers of those of functions in C."""

NOT_FINITE = "nodes choose by products: NaN stays where a number is left out that is not finite"
"""A gap on devices that are no CPU, and without kernels."""

FILES = {
    "{name}.cpp": "model.cpp.j2",
    "{name}.h": "model.h.j2",
    "{name}_kernels.c": "kernels.c.j2",
    "{name}_kernels.h": "kernels.h.j2",
    "{name}_files.c": "files.c.j2",
    "{name}_files.h": "files.h.j2",
    "train.cpp": "train.cpp.j2",
    "CMakeLists.txt": "CMakeLists.txt.j2",
    "manifest.json": "manifest.json.j2",
    "README.md": "README.md.j2",
    "{name}_host.c": "host.c.j2",
    "{name}_host.h": "host.h.j2",
}


def prepare(backend: Backend, program: Program) -> Program:
    """The program with sizes that C++ can name.

    Raises: OptionError if its name is that of the program that trains, or begins like ggml's functions
    """
    interface.require_name(program, ("ggml*", "gguf*"))
    interface.require_functions(program)
    return with_free_sizes(program, (*backend.dialect.reserved, f"{interface.prefix(program)}_*"))


def entries(options: Options, task: Task | Terms) -> Sequence[Kind]:
    """List the functions that can be printed: where weights are quantised, training needs frozen ones.

    Those of an imported module are buffers with stored values. Terms from a file do not say what is frozen.
    """
    if options.weights == "f32":
        return tuple(SIGNATURES)
    if isinstance(task, Terms):
        return (Kind.PREDICT,)
    constant = (slot for slot in task.buffers if isinstance(slot.initial, Stored) and slot.type.rank == 2)
    frozen = (*filter(task.optimiser.is_frozen, task.parameters), *constant)
    return tuple(SIGNATURES) if frozen else (Kind.PREDICT,)


BACKEND = Backend(
    name="ggml",
    summary="C++ on ggml, for the devices and files of llama.cpp",
    folders=(templates("ggml"),),
    files=FILES,
    load=load,
    needs=NEEDS,
    options=Options(),
    entries=entries,
    variants={STEP_MANY: Kind.STEP},
    prepare=prepare,
    template_context=template_context,
    lowers_to_loops=frozenset(NODES)
    | {name for name, op in OPS.items() if op.body is None}
    | {"CastToInteger"}
    | TABLES,
    weights_suffix=".gguf",
    passes=(forward_rows,),
    known_gaps={"not finite on other devices": NOT_FINITE},
    helpers={
        **C.helpers,
        "c_flags": lambda: REQUIRED,
        "codes": lambda: CODES,
        "file_name": file_name,
        "ggml_version": lambda: TESTED_VERSION,
        "groups": groups,
        "long_names": long_names,
    },
)
