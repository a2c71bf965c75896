"""Sizes in emitted C: the size of the workspace, and overflow."""

from __future__ import annotations

import json
from ctypes import c_size_t, c_ssize_t, c_void_p
from math import prod

import jinja2
import numpy as np
import pytest
from catgrad.backends.c.interface import CODES
from hypothesis import example, given, settings
from hypothesis import strategies as st

from catgrad import Dim, NdArrayType, build, ops
from catgrad.errors import ShapeError
from catgrad.functors import Expand, reverse
from catgrad.loops.compile import compile_kernels
from catgrad.loops.memory_plan import planned
from catgrad.programs.program import Program, lower
from catgrad.targets import get_backend
from catgrad.testing import run_on
from catgrad.types import substitute, symbols
from tests.kernels import VECTORS
from tests.unit.c.build import NEEDS_C, PROGRAMS, SANE, STRICT, built, run

pytestmark = NEEDS_C
N, M = Dim("n"), Dim("m")
ROWS, TABLE = NdArrayType((N,)), NdArrayType((N, M))


def with_sums_so_far(x):
    return ops.scan(lambda carry, row: (carry + row, ops.softmax(carry)), ops.sum(x, 0), x)


TERMS = {
    "softmax": build(ops.softmax, [TABLE]),
    "softmax along the first axis": reverse(build(lambda x: ops.softmax(x, 0), [TABLE])),
    "sorted": build(lambda x: ops.sum(ops.sort(x * 2)[0] * x), [ROWS]),
    "turned round": build(lambda x: ops.flip(ops.reshape(ops.transpose(x), N * M)) * 2, [TABLE]),
    "with more rows": build(lambda x: ops.concat([x, ops.exp(ops.tanh(x)), x]), [TABLE]),
    "padded": build(lambda x: ops.cumsum(ops.pad(x, [(0, 0), (2, 1)]), 0), [NdArrayType((N, 3))]),
    "times its transpose": reverse(build(lambda x: ops.sum(x @ ops.transpose(x), 1), [TABLE])),
    "in a loop": reverse(build(with_sums_so_far, [TABLE])),
    "of no columns": build(lambda x: ops.sum(ops.exp(x), 1), [NdArrayType((N, 0))]),
}
MOST = 2**63 - 1
"""The maximum size, and the maximum bytes of an array."""

HUGE = [-1, 2**20, 2**31, 2**32, 2**60, 2**62, MOST]
SIZE = st.integers(0, 5) | st.integers(-2, MOST) | st.sampled_from(HUGE)
SAYS_SIZE, SAYS_NULL, SAYS_MISALIGNED = map([*CODES].index, ("BAD_SIZE", "NULL", "MISALIGNED"))


@pytest.fixture(scope="module")
def artifact():
    backend = get_backend("c")
    functions = [
        lower(Expand(backend.has)(term), f"f{i}", doc=name) for i, (name, term) in enumerate(TERMS.items())
    ]
    return backend.emit(Program("cases", tuple(functions)))


@pytest.fixture(scope="module")
def program(artifact, tmp_path_factory):
    """Build a program that prints the status of each function for given sizes; overflow ends it."""
    folder = tmp_path_factory.mktemp("sizes")
    artifact.write(folder)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PROGRAMS), undefined=jinja2.StrictUndefined
    )
    told = json.loads(artifact.files["manifest.json"])
    (folder / "main.c").write_text(environment.get_template("sizes.c.j2").render(told=told))
    built("gcc", "-std=c11", "-O1", *STRICT, *SANE, "main.c", "cases.c", "-o", "main", "-lm", cwd=folder)
    return folder / "main"


@pytest.fixture(scope="module")
def arrays(artifact):
    """Return for each function its sizes, requirements, and shapes with the bytes of elements."""
    every = []
    for function in artifact.program.functions:
        lowered = compile_kernels(function, VECTORS)
        stored = [*lowered.arguments, *lowered.results, *planned(lowered).offsets]
        shapes = [(array.type.dtype.itemsize, array.type.shape) for array in stored]
        every.append((symbols(function.argument_types), function.requirements, shapes))
    return every


@settings(max_examples=10)
@given(pairs=st.lists(st.tuples(SIZE, SIZE), min_size=30, max_size=40))
@example(pairs=[(n, m) for n in [0, 1, *HUGE] for m in [0, 1, *HUGE]])
def test_sizes_are_refused_if_bytes_cannot_be_counted_or_they_are_too_small(program, arrays, pairs):
    """A size of 0 counts as 1, because a product may overflow before it is multiplied by 0."""
    done = run(program, input="\n".join(f"{n} {m}" for n, m in pairs))
    assert done.returncode == 0, done.stderr
    said = iter(line.split() for line in done.stdout.splitlines())
    for n, m in pairs:
        for names, demands, shapes in arrays:
            workspace, code = map(int, next(said))
            sizes = {"n": max(n, 1), "m": max(m, 1)}
            counted = max(width * prod(substitute(shape, sizes)) for width, shape in shapes)
            negative = min(n if name == "n" else m for name in names) < 0
            small = any(size.substitute({"n": n, "m": m}) < least for size, least in demands)
            if negative or small or counted > MOST:
                assert (workspace, code) == (2**64 - 1, SAYS_SIZE)
            elif code == SAYS_SIZE:
                assert workspace == 2**64 - 1
                assert counted > MOST / 64  # so close to the limit that several such arrays are beyond it
            else:
                assert code == SAYS_NULL
                assert workspace < 2**63


def test_arrays_of_no_elements_may_be_too_large_too():
    """The functions have empty arguments, and results that are not empty."""
    term = build(lambda x: ops.sum(ops.sort(ops.sum(x, 1))[0]), [NdArrayType((N, 0))])
    backend = get_backend("c")
    with pytest.raises(
        ShapeError, match=r"f: arrays must have at most \d+ bytes, .* where n = 1152921504606846976"
    ):
        run_on(backend, term, np.zeros((2**60, 0), np.float32))
    with pytest.raises(MemoryError, match="there is no room for it; pass smaller arrays"):
        run_on(backend, term, np.zeros((2**58, 0), np.float32))
    assert run_on(backend, term, np.zeros((5, 0), np.float32)) == [0]


ALONE = {"sorted": TERMS["sorted"], "softmax": build(lambda x: ops.softmax(x, 0), [TABLE])}


@pytest.mark.parametrize(("name", "empty", "some"), [("sorted", (0,), (4,)), ("softmax", (0, 2), (2, 2))])
def test_an_empty_workspace_may_be_any_pointer(name, empty, some):
    """The function needs a workspace for some sizes, and none for others."""
    backend, sizes = get_backend("c"), [c_ssize_t] * len(empty)
    program = Program("alone", (lower(Expand(backend.has)(ALONE[name])),))
    library = backend.emit(program).load().library
    needed = library.function("f_workspace_bytes", sizes, c_size_t)
    call = library.function("f", [*sizes, c_void_p, c_void_p, c_void_p])
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    assert needed(*empty) == 0 < needed(*some)
    for workspace in (None, x.ctypes.data + 4):
        assert call(*empty, x.ctypes.data, y.ctypes.data, workspace) == 0
    assert call(*some, x.ctypes.data, y.ctypes.data, None) == SAYS_NULL
    assert call(*some, x.ctypes.data, y.ctypes.data, x.ctypes.data + 4) == SAYS_MISALIGNED
