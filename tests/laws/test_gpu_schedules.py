"""Schedules for GPUs keep the meaning of programs: in every order of threads, and without races."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.functors import Expand, reverse_derivative
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Barrier, Combine, Kernel, Loop, Store, loops, nested, scalars, statements
from catgrad.loops.ir.scalar import Buffer, Compute, Load, Masked, Space
from catgrad.loops.ir.steps import Lowered, kernels
from catgrad.loops.lowering import data_movement
from catgrad.loops.memory_plan import byte_size
from catgrad.loops.passes.gpu import schedule_threads
from catgrad.loops.passes.gpu.grids import transposes
from catgrad.loops.passes.gpu.products import tiles
from catgrad.loops.passes.simplify.propagate_copies import propagate_copies
from catgrad.ops.arithmetic import Add, Multiply
from catgrad.ops.transcendental import Exp
from catgrad.programs.program import Program, evaluate
from catgrad.programs.program import lower as straight
from catgrad.targets import get_backend
from tests.differential import difference, pruned
from tests.gpu import MACHINES, limits, run_in_teams
from tests.kernels import has, prepared
from tests.nests import arrays_for, nests, run_in_order
from tests.programs import programs
from tests.targets import cannot

EXPAND = Expand(has)
BACKEND = get_backend("cuda")
SHARED_BYTES = 48 * 2**10
"""Shared memory of a block that does not ask for more."""
ANY = settings(suppress_health_check=list(HealthCheck), max_examples=60)


def function_of(term):
    return prepared(straight(EXPAND(pruned(term))))


def scheduled(term, machine):
    """Compile a term for a GPU, with limits that suit small programs."""
    with limits(machine):
        return compile_kernels(function_of(term), MACHINES[machine])


def assert_well_formed(kernel):
    """Assert what printers rely on: the nests of a kernel, and where threads wait for each other."""
    assert kernel.body
    for nest in kernel.body:
        assert nest.axis in (Axis.GRID, Axis.BLOCK, Axis.WARP)
        assert nest.axis is Axis.GRID or nest.threads in (32, 256, 512)
        body = nest
        while len(body.body) == 1 and isinstance(body.body[0], Loop) and body.body[0].axis is nest.axis:
            body = body.body[0]
        _assert_levels(body, nest.axis)
    assert sum(map(shared_bytes, kernel.body)) <= SHARED_BYTES


def shared_bytes(nest):
    """Count the bytes of shared memory of a nest, of which each warp of a block has its own."""
    shared = {b for b, _ in (*nest.reads, *nest.writes) if b.space is Space.SHARED}
    return sum(map(byte_size, shared)) * (8 if nest.axis is Axis.WARP else 1)


def _assert_levels(around, axis):
    """Assert that threads of a team are only within a team, and barriers where all of them come by."""
    for item in around.body:
        if isinstance(item, Loop):
            assert item.axis in (Axis.SERIAL, Axis.ROLLED, Axis.UNROLLED, Axis.THREAD, Axis.SELECTED)
            assert item.axis is not Axis.SELECTED or axis is Axis.BLOCK
            if item.axis is Axis.THREAD:
                assert axis in (Axis.BLOCK, Axis.WARP)
                assert not any(isinstance(s, (Barrier, Combine)) for s in statements([item]))
                assert all(each.axis is not Axis.THREAD or perfect(item, each) for each in loops(item.body))
            else:
                _assert_levels(item, axis)
        elif isinstance(item, (Barrier, Combine)):
            assert axis is not Axis.GRID
            assert around.axis.has_team or not around.conditions
    assert not any(isinstance(a, Barrier) and isinstance(b, Barrier) for a, b in pairwise(around.body))


def perfect(outer, inner):
    while outer is not inner:
        if len(outer.body) > 1 or not isinstance(outer.body[0], Loop):
            return False
        [outer] = outer.body
    return True


@pytest.mark.parametrize("machine", ["default", "small"])
@ANY
@given(program=programs(dtypes=tuple(Dtype)))
def test_random_programs(machine, program):
    """Compare results with the reference in float64 arithmetic of errors, and integers exactly."""
    lowered = scheduled(program.term, machine)
    for kernel in kernels(lowered.steps):
        assert_well_formed(kernel)
    message = difference(BACKEND, program, partial(run_in_teams, lowered), straight(program.term))
    assert message is None, f"{message} in{program!r}"


@ANY
@given(lowered=nests(), seed=st.integers(0, 9))
def test_random_kernels(lowered, seed):
    """Run kernels whose loops carry dependences in one block, whose threads share what they may."""
    with limits("small"):
        team = schedule_threads(propagate_copies(lowered, MACHINES["small"]), MACHINES["small"])
    for kernel in kernels(team.steps):
        assert_well_formed(kernel)
    arrays = arrays_for(lowered, seed)
    for found, wanted in zip(run_in_teams(team, *arrays), run_in_order(lowered, arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)


N = Dim("n")
TEAMS = {
    "softmax": (lambda x: ops.softmax(x @ ops.transpose(x)), [(N, 9)]),
    "product": (lambda x, w: ops.tanh(x @ w), [(N, 9), (9, 5)]),
}


def drawn(types, n):
    rng = np.random.default_rng(0)
    return [rng.normal(size=t.substitute({"n": n}).shape).astype(np.float32) for t in types]


def without_barriers(kernel):
    """Drop every barrier of a kernel."""

    def kept(items):
        rest = [item for item in items if not isinstance(item, Barrier)]
        return [replace(item, body=kept(item.body)) if isinstance(item, Loop) else item for item in rest]

    return Kernel(kept(kernel.body))


@pytest.mark.parametrize("name", TEAMS)
def test_a_missing_barrier_is_a_race(name):
    """The detector of races that the laws rely on notices that barriers are missing."""
    function, shapes = TEAMS[name]
    types = [NdArrayType(shape) for shape in shapes]
    lowered, arrays = scheduled(build(function, types), "small"), drawn(types, 13)
    run_in_teams(lowered, *arrays)
    with pytest.raises(AssertionError, match="without a barrier between threads"):
        run_in_teams(lowered.map_kernels(without_barriers), *arrays)


def without_waits(kernel):
    """Let barriers wait for no asynchronous copies."""

    def kept(items):
        every = [Barrier() if isinstance(item, Barrier) else item for item in items]
        return [replace(item, body=kept(item.body)) if isinstance(item, Loop) else item for item in every]

    return Kernel(kept(kernel.body))


def test_a_ring_of_tiles_needs_its_barriers_and_its_waits(monkeypatch):
    """Tensor cores multiply what asynchronous copies bring, here in slices of 8 terms."""
    types = [NdArrayType((N, 24), Dtype.bfloat16), NdArrayType((24, 32), Dtype.bfloat16)]
    monkeypatch.setattr(tiles, "DEPTH", 4)
    lowered = scheduled(build(ops.matmul, types), "default")
    arrays = [x.astype(Dtype.bfloat16.numpy) for x in drawn(types, 30)]
    [kernel] = kernels(lowered.steps)
    assert any(isinstance(s, Barrier) and s.pending for s in statements(kernel.body))
    wide = [a.astype(np.float64) for a in arrays]
    [found] = run_in_teams(lowered, *arrays)
    np.testing.assert_allclose(found.astype(np.float64), wide[0] @ wide[1], rtol=1e-2, atol=0.1)
    with pytest.raises(AssertionError, match="without a barrier between threads"):
        run_in_teams(lowered.map_kernels(without_barriers), *arrays)
    [wrong] = run_in_teams(lowered.map_kernels(without_waits), *arrays)
    assert not np.array_equal(found, wrong)


def test_a_scattered_sum_of_many_rows_stays_distributed():
    """Fusion lost that blocks had tiles of rows: threads added each term once for every tile."""
    types = [NdArrayType((N, 8)), NdArrayType((N,), Dtype.int64)]
    lowered = scheduled(build(lambda x, i: ops.scatter_add(x, i, 11), types), "small")
    *_, last = kernels(lowered.steps)
    assert_well_formed(last)
    assert [loop.axis for loop in loops(last.body)] == [Axis.BLOCK, Axis.SELECTED, Axis.THREAD, Axis.UNROLLED]
    x, i = drawn(types[:1], 15)[0], np.arange(15) * 7 % 11
    wanted = np.zeros((11, 8), np.float32)
    np.add.at(wanted, i, x)
    np.testing.assert_allclose(run_in_teams(lowered, x, i)[0], wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rows", [3, 2_000, 50_257])
def test_inspections_of_a_scattered_sum_do_not_grow_with_its_rows(rows):
    types = [NdArrayType((8192, 768)), NdArrayType((8192,), Dtype.int64)]
    lowered = scheduled(build(lambda x, i: ops.scatter_add(x, i, rows), types), "default")
    nests = [nest for kernel in kernels(lowered.steps) for nest in kernel.body]
    blocks = [-(-n.variable.extent // n.variable.step) for n in nests if n.axis is Axis.BLOCK]
    assert max(blocks, default=0) <= 528


def test_parts_of_a_product_with_symbolic_rows():
    """The number of a block was divided by a quotient without its parentheses."""
    if reason := cannot("cuda"):
        pytest.skip(f"target cuda: {reason}")
    types = [NdArrayType((N, 9)), NdArrayType((9, 5))]
    term = EXPAND(build(lambda x, w: x @ w, types))
    with limits("small"):
        artifact = BACKEND.emit(Program("case", (straight(term, "f", doc="A product."),)))
    x, w = drawn(types, 40)
    [found] = artifact.load()().f(x, w)
    np.testing.assert_allclose(found, x @ w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("machine", MACHINES)
def test_terms_that_are_scattered_to_one_row_are_summed(machine, rows):
    """Loops that no index of the result depends on were taken for those of its elements."""
    types = [NdArrayType((N, 2)), NdArrayType((), Dtype.int32)]
    term = build(lambda x, i: ops.scatter_add(x, ops.broadcast(i, (N, 2)), 4), types)
    [found] = run_in_teams(scheduled(term, machine), np.ones((rows, 2), np.float32), np.int32(1))
    np.testing.assert_array_equal(found, [0, 2 * rows, 0, 0])


@pytest.mark.parametrize("machine", MACHINES)
def test_a_sum_scattered_to_no_rows_has_no_kernel(machine):
    types = [NdArrayType((N, 2)), NdArrayType((N,), Dtype.int32)]
    term = build(lambda x, i: ops.scatter_add(x, i, 0), types)
    [found] = run_in_teams(scheduled(term, machine), np.ones((0, 2), np.float32), np.zeros(0, np.int32))
    assert found.shape == (0, 2)


def axes(function, *shapes):
    """Return the axes of all loops of each kernel that are not unrolled, with the default limits."""
    lowered = scheduled(build(function, [NdArrayType(shape) for shape in shapes]), "default")
    every = ([loop.axis for loop in loops(kernel.body)] for kernel in kernels(lowered.steps))
    return [[axis for axis in found if axis is not Axis.UNROLLED] for found in every]


def test_long_rows_have_a_team_whatever_is_read_once_for_each():
    """Count accesses along a row only: vectors had threads run through rows, each far from the next."""

    def scaled(x, a, b, c):
        return x * ops.transpose(ops.broadcast(ops.sum(x, (1,)) * a * b * c, (4000, 8192)))

    [found] = axes(scaled, (8192, 4000), (8192,), (8192,), (8192,))
    assert found == [Axis.BLOCK, Axis.THREAD, Axis.THREAD]


def test_columns_are_summed_side_by_side_whatever_vector_is_read_along():
    """Sum as the gradient of the weight of layer norm: one contiguous vector is not what is read most."""

    def total(x, v):
        return ops.sum(x * ops.transpose(ops.broadcast(v, (64, 32768))), (0,))

    first, second = axes(total, (32768, 64), (32768,))
    assert first == [Axis.GRID, Axis.GRID, Axis.SERIAL]
    assert second[0] is not Axis.GRID


def transposing(shape):
    """Schedule the transpose of an array plus another, which goes through shared memory; list the types."""
    types = [NdArrayType(shape), NdArrayType((*shape[:-2], shape[-1], shape[-2]))]
    lowered = scheduled(build(lambda x, y: y + ops.transpose(x), types), "default")
    [kernel] = kernels(lowered.steps)
    assert_well_formed(kernel)
    assert [loop.axis for loop in loops(kernel.body)][-4:] == [Axis.THREAD] * 4
    assert any(isinstance(s, Barrier) for s in statements(kernel.body))
    return lowered, types


@pytest.mark.parametrize("shape", [(512, 160), (500, 150), (3, 160, 160)])
def test_large_arrays_are_transposed_through_shared_memory(shape):
    transposing(shape)


@pytest.mark.parametrize("shape", [(96, 64), (84, 54), (3, 64, 64), (2, 33, 65)])
def test_arrays_are_transposed_through_shared_memory(shape, monkeypatch):
    """Neighbouring threads load and store neighbouring elements, also at the edges, beside other operands."""
    monkeypatch.setattr(transposes, "MIN_TRANSPOSED", 2**10)
    lowered, types = transposing(shape)
    x, y = drawn(types, 0)
    np.testing.assert_array_equal(run_in_teams(lowered, x, y)[0], np.swapaxes(x, -1, -2) + y)


@pytest.mark.parametrize("shape", [(5, 3, 7), (4, 6, 8), (3, 5, 2, 3)])
def test_arrays_are_stored_across_rows_through_shared_memory(shape):
    """One of two results of a nest has another order; factors of rows are not read beyond their end."""
    last = (0, *range(2, len(shape)), 1)
    types = [NdArrayType(shape), NdArrayType(shape[1:2])]
    x, scale = (Buffer(name, type) for name, type in zip(("x", "scale"), types, strict=True))
    y, z = Buffer("y", types[0]), Buffer("z", types[0], order=last)
    free = [Variable(size) for size in shape]
    at = tuple(map(index, free))
    product = Compute(Multiply(), Dtype.float32, (Load(x, at), Load(scale, at[1:2])))
    total = Compute(Add(), Dtype.float32, (product, product))
    kernel = Kernel(nested(free, [Store(y, at, product), Store(z, at, total)]))
    lowered = Lowered(function_of(build(lambda x, s: (x, s), types)), [kernel], [x, scale], [y, z])
    with limits("small"):
        lowered = schedule_threads(lowered, MACHINES["small"])
    [kernel] = kernels(lowered.steps)
    assert_well_formed(kernel)
    assert any(isinstance(s, Barrier) for s in statements(kernel.body))
    arrays = drawn(types, 0)
    once, twice = run_in_teams(lowered.map_kernels(MACHINES["small"].finish), *arrays)
    wanted = arrays[0] * arrays[1].reshape(-1, *[1] * (len(shape) - 2))
    np.testing.assert_array_equal(once, wanted)
    np.testing.assert_array_equal(twice.reshape(*[shape[a] for a in last]), np.transpose(2 * wanted, last))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("machine", MACHINES)
def test_large_parts_of_a_concatenation_are_copied_one_by_one(machine, axis, monkeypatch):
    """Threads that find the part of each element load 16-bit elements one after the other."""
    monkeypatch.setattr(data_movement, "MIN_PART", 2**8)
    types = [NdArrayType((24, 20)), NdArrayType((24, 20)), NdArrayType((N, 20) if axis == 0 else (24, N))]
    lowered = scheduled(build(lambda x, y, z: ops.concat([x, 2 * y, z], axis), types), machine)
    assert not any(isinstance(node, Masked) for k in kernels(lowered.steps) for node in nodes(k))
    x, y, z = arrays = drawn(types, 13)
    [found] = run_in_teams(lowered, *arrays)
    np.testing.assert_array_equal(found, np.concatenate([x, 2 * y, z], axis))


def nodes(kernel):
    return [node for s in statements(kernel.body) for scalar in scalars(s) for node in scalar.nodes()]


def test_a_mean_that_is_stored_is_read_from_registers():
    """Threads waited for the one that stored it, and loaded it again."""

    def centred(x):
        mean = ops.sum(x, (1,)) * (1 / 96)
        return mean, x - ops.transpose(ops.broadcast(mean, (96, 80)))

    types = [NdArrayType((80, 96))]
    lowered = scheduled(build(centred, types), "default")
    [kernel] = kernels(lowered.steps)
    assert not any(isinstance(s, Barrier) for s in statements(kernel.body))
    [x] = drawn(types, 0)
    mean, rest = run_in_teams(lowered, x)
    np.testing.assert_allclose(mean, x.mean(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(rest, x - mean[:, None])


def test_only_the_last_strip_of_each_thread_has_a_guard():
    """Branches around loads kept each from being issued before the one before it was used."""
    lowered = scheduled(build(ops.softmax, [NdArrayType((512, 30001))]), "default")
    every = [loop for kernel in kernels(lowered.steps) for loop in loops(kernel.body)]
    unrolled = [loop for loop in every if loop.axis is Axis.UNROLLED]
    assert {loop.variable.extent for loop in unrolled if loop.conditions} == {1}
    assert {loop.variable.extent for loop in unrolled if not loop.conditions} == {30001 // 512}


def copied(touches):
    """Return a kernel that stores y[i] = exp(x[i]) by a register, which other statements touch too."""
    v, type = Variable(8), NdArrayType((8,))
    x, y, z = (Buffer(name, type) for name in "xyz")
    register = Buffer("r", NdArrayType(()), Space.REGISTER)
    exp = Compute(Exp(), Dtype.float32, (Load(x, (index(v),)),))
    body = [Store(register, (), exp), Store(y, (index(v),), Load(register, ()))]
    body += [Store(z, (index(v),), Load(register, ()))] if touches else []
    return Lowered(function_of(build(ops.exp, [type])), [Kernel([Loop(v, body)])], [x], [y])


def test_a_register_that_is_only_stored_is_left_out():
    [kernel] = kernels(propagate_copies(copied(False), MACHINES["default"]).steps)
    [s] = statements(kernel.body)
    assert s.buffer.name == "y" and isinstance(s.scalar, Compute)


def test_a_register_that_others_read_is_kept():
    [kernel] = kernels(propagate_copies(copied(True), MACHINES["default"]).steps)
    assert len([*statements(kernel.body)]) == 3


@pytest.mark.parametrize("target", ["cuda", "webgpu"])
def test_tiles_are_multiplied_by_one_function_where_a_language_has_such(target):
    term = EXPAND(build(ops.matmul, [NdArrayType((64, 64)), NdArrayType((64, 64))]))
    artifact = get_backend(target).emit(Program("case", (straight(term, "f", doc="A product."),)))
    text = "".join(str(text) for text in artifact.files.values())
    assert ("add_products<16, " in text) == (target == "cuda")
    assert "lefts" in text


def test_a_stride_multiplies_all_terms_that_have_it():
    """A row of a tile and its first row were multiplied one by one, as other terms lay between them."""
    term = EXPAND(build(ops.matmul, [NdArrayType((N, 64)), NdArrayType((64, 64))]))
    text = BACKEND.emit(Program("case", (straight(term, "f", doc="A product."),))).text("case.cu")
    assert "(row_tile + row) * 64 + slice + term" in " ".join(text.split())


EMITTED = {
    "norm": lambda: reverse_derivative(build(ops.affine_layer_norm, affine(64, 132))),
    "transpose": lambda: build(lambda x: ops.tanh(ops.transpose(x)), [NdArrayType((300, 290))]),
    "long rows": lambda: build(ops.log_softmax, [NdArrayType((3, 30001))]),
}


def affine(rows, columns):
    return [NdArrayType((rows, columns)), NdArrayType((columns,)), NdArrayType((columns,))]


@pytest.mark.parametrize("name", EMITTED)
def test_emitted_rows_columns_and_tiles_have_the_same_bits_in_any_order_of_threads(name, monkeypatch):
    if reason := cannot("cuda"):
        pytest.skip(f"target cuda: {reason}")
    term = EMITTED[name]()
    with limits("rows"):
        artifact = BACKEND.emit(Program("case", (straight(EXPAND(term), "f", doc="A kernel."),)))
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=t.shape).astype(np.float32) for t in term.source]
    runs = []
    for order in ("forward", "backward", "random:1"):
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        runs.append(artifact.load()().f(*arrays))
    for found, *others, wanted in zip(*runs, evaluate(term, *arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        assert all(found.tobytes() == other.tobytes() for other in others)


@pytest.mark.parametrize(
    ("shape", "features"), [((600,), (8,)), ((3, 150), (2, 6)), ((256,), ()), ((5,), (3,))]
)
def test_blocks_add_the_terms_that_they_select_in_order(shape, features, monkeypatch):
    """A sum is that of its terms one after the other, bit by bit, in any order of threads."""
    if reason := cannot("cuda"):
        pytest.skip(f"target cuda: {reason}")
    types = [NdArrayType((*shape, *features)), NdArrayType(shape, Dtype.int64)]
    term = EXPAND(build(lambda x, i: ops.scatter_add(x, i, 11), types))
    with limits("small"):
        artifact = BACKEND.emit(Program("case", (straight(term, "f", doc="A sum."),)))
    assert "select_in_block(" in artifact.files["case.cu"]
    rng = np.random.default_rng(0)
    x, i = rng.normal(size=types[0].shape).astype(np.float32), rng.integers(0, 9, size=shape) ** 2 % 11
    wanted = np.zeros((11, *features), np.float32)
    np.add.at(wanted, i, x)
    for order in ("forward", "backward", "random:1"):
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        [found] = artifact.load()().f(x, i)
        assert found.tobytes() == wanted.tobytes()
