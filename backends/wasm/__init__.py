"""WebAssembly: emitted C compiled with SIMD, behind the interface of the target javascript."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catgrad.backend import Backend
from catgrad.formats.elements import FORMAT_NAMES
from catgrad.loops import OPERATIONS, TABLES
from catgrad.programs.program import Program
from catgrad.types import Dtype

from .. import templates
from ..c import BACKEND as C
from ..c import prepare
from ..c.functions import CFunctions
from ..javascript.functions import model_context
from ..javascript.session import NODE
from .build import INITIAL_PAGES, MAX_PAGES, MAX_THREADS, ZIG, exports, flags
from .loading import BAD_INDEX, load
from .options import Options


def template_context(backend: Backend, program: Program) -> Mapping[str, Any]:
    """Return the variables that the templates of the target wasm read."""
    context = {**CFunctions(backend, program).context(), **model_context(program)}
    inputs = [x for f in context["functions"].values() for x in f.inputs]
    memory = {"initial_pages": INITIAL_PAGES, "max_pages": MAX_PAGES, "max_threads": MAX_THREADS}
    own = {"takes_integers": any(x.type.dtype is Dtype.int64 for x in inputs), "bad_index": BAD_INDEX}
    return {**context, **memory, **own, "prepared": (), "single_file": False}


BACKEND = Backend(
    name="wasm",
    summary="C compiled to WebAssembly with SIMD, as an ES module with the interface of javascript",
    folders=(templates("wasm"), templates("c"), templates("kernels")),
    files={
        "{name}.mjs": "wasm/model.mjs.j2",
        "{name}.d.mts": "wasm/model.d.mts.j2",
        "{name}_threads.mjs": "wasm/threads.mjs.j2",
        "{name}_worker.mjs": "wasm/worker.mjs.j2",
        "{name}.c": "c/model.c.j2",
        "{name}.h": "c/model.h.j2",
        "{name}_runtime.h": "c/runtime.h.j2",
        "omp.h": "wasm/omp.h.j2",
        "Makefile": "wasm/Makefile.j2",
        "README.md": "wasm/README.md.j2",
    },
    load=load,
    needs=(NODE, ZIG),
    options=Options(),
    prepare=prepare,
    template_context=template_context,
    lowers_to_loops=OPERATIONS | TABLES,
    helpers={**C.helpers, "format_names": lambda: FORMAT_NAMES, "flags": flags, "exports": exports},
)
