"""Each pass over kernels preserves the meaning of random programs on its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.functors import Expand, reverse
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dense_stores import densely_stored, initialised
from catgrad.loops.ir.dependence import verify
from catgrad.loops.ir.index import Index, Read, Variable, index
from catgrad.loops.ir.nest import Accumulate, Kernel, Loop, Sort, Store, loops, nested, statements
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Number, Space, number
from catgrad.loops.ir.steps import Lowered, kernels
from catgrad.loops.machine import Machine
from catgrad.loops.passes.schedule.expand_sorts import expand_sorts
from catgrad.loops.passes.schedule.interchange_sums import interchange_sums
from catgrad.loops.passes.schedule.parallelise import parallelise
from catgrad.loops.passes.schedule.unroll import unroll
from catgrad.loops.passes.schedule.unroll_by_cost import Unrolling, unroll_by_cost
from catgrad.loops.passes.simplify.bind import RegisterCosts, binder
from catgrad.loops.passes.simplify.fold_constants import fold_constants
from catgrad.loops.passes.simplify.forward_substitute import forward_substitute
from catgrad.loops.passes.simplify.reassociate import reassociate_products
from catgrad.loops.passes.simplify.rename_registers import rename_registers
from catgrad.loops.reference import run
from catgrad.ops.arithmetic import Add, Multiply
from catgrad.ops.transcendental import Exp
from catgrad.programs.program import Function
from catgrad.programs.program import lower as straight
from catgrad.terms.block import Block
from catgrad.terms.structural import Constant
from catgrad.testing import draw_arrays, in_float64
from catgrad.types import widened
from tests.differential import outcome, pruned
from tests.kernels import BIND, SCALARS, has, prepared
from tests.nests import InOrder, arrays_for, nests, run_in_order
from tests.programs import programs
from tests.strategies import float_terms, integer_terms

EXPAND = Expand(has)

costs = st.integers(0, 12) | st.just(200)


def unrollings():
    """Draw limits, in numbers of statements."""
    return st.builds(Unrolling, st.just(lambda items: sum(1 for _ in statements(items))), *[costs] * 5)


ALL = Unrolling(lambda items: 1, 99, 99, 99, 99, 99)
"""Limits that unroll every loop."""


def unrolled(limits):
    return lambda items: unroll_by_cost(items, limits)


exact = st.sampled_from([rename_registers, fold_constants]) | unrollings().map(unrolled)
"""Passes that keep results bit for bit."""

substitutions = st.integers(1, 50).map(lambda depth: lambda items: forward_substitute(items, depth))
interchanges = st.integers(1, 4).map(lambda least: lambda items: interchange_sums(items, least))
rounding = substitutions | interchanges | st.just(reassociate_products)
"""Passes that reassociate sums or products."""

bindings = st.builds(RegisterCosts, st.integers(5, 40), st.booleans()).map(binder)
PASSES = {
    "bind": bindings.map(lambda bind: lambda items: bind(Kernel(items), SCALARS).body),
    "unroll_by_cost": unrollings().map(unrolled),
    "interchange_sums": interchanges,
    "rename_registers": st.just(rename_registers),
    "forward_substitute": substitutions,
    "fold_constants": st.just(lambda items: fold_constants(unroll_by_cost(items, ALL))),
}


def scalar_kernels(term, in_place=None):
    """Lower a term for a machine without vectors."""
    return compile_kernels(prepared(straight(EXPAND(term))), SCALARS, in_place)


def transformed(lowered, change):
    """Apply a pass to the items of every kernel."""
    return lowered.map_kernels(lambda kernel: Kernel(change(kernel.body)))


def assert_same(found, wanted):
    assert isinstance(found, list) == isinstance(wanted, list)
    for x, y in zip(found, wanted, strict=True) if isinstance(wanted, list) else ():
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(widened(x), widened(y))


@settings(suppress_health_check=list(HealthCheck))
@given(programs(symbolic=False), exact)
def test_exact_passes_preserve_every_bit(program, change):
    """Results agree for numbers that are not finite, too, and so do errors of indices."""
    lowered, inputs = scalar_kernels(pruned(program.term)), program.inputs
    wanted = outcome(lambda: run(lowered, *inputs))
    assert_same(outcome(lambda: run(transformed(lowered, change), *inputs, shuffled=True)), wanted)


@pytest.mark.parametrize("name", PASSES)
@settings(suppress_health_check=list(HealthCheck), max_examples=60)
@given(lowered=nests(), seed=st.integers(0, 9), data=st.data())
def test_passes_preserve_random_kernels(name, lowered, seed, data):
    change = data.draw(PASSES[name])
    arrays = arrays_for(lowered, seed)
    assert_same(run_in_order(transformed(lowered, change), arrays), run_in_order(lowered, arrays))


def test_an_element_that_an_alias_overwrote_is_loaded_again():
    """The square of the element was in a register from before the store to the alias."""
    x, y = (Buffer(name, NdArrayType((2,), Dtype.int64), Space.ARGUMENT) for name in "xy")
    new_x = Buffer("new_x", x.type, Space.RESULT, alias=x)
    first, second, five = Index((), 0), Index((), 1), number(5, Dtype.int64)
    squares = [Compute(Multiply(), Dtype.int64, (Load(x, (first,)), Load(x, (first,)))) for _ in range(2)]
    body = [Store(y, (first,), squares[0]), Store(new_x, (first,), five), Store(y, (second,), squares[1])]
    lowered = Lowered(Function("f", (), (), (), (), (), ()), [Kernel(body)], [x, y], [y])
    bound = lowered.map_kernels(lambda kernel: BIND(kernel, SCALARS))
    [found] = run_in_order(bound, [np.array([3, 4]), np.zeros(2)])
    assert found.tolist() == [9, 25]


@settings(suppress_health_check=list(HealthCheck))
@given(nests(Dtype.float64), st.integers(0, 9))
def test_reassociated_products_have_the_same_value(lowered, seed):
    """Integers below 2⁵³ are exact in float64, whatever the order of factors."""
    arrays = arrays_for(lowered, seed)
    wanted = run_in_order(lowered, arrays)
    assume(all(np.all(np.abs(result) < 2**40) for result in wanted))
    assert_same(run_in_order(transformed(lowered, reassociate_products), arrays), wanted)


def moved(f):
    """Return the results of f, and its arguments after a step of gradient descent."""
    optic, values, inputs = reverse(f), len(f.target), len(f.source)

    def step(*arguments):
        results = optic.apply(*arguments)
        new = [x - 2 * dx for x, dx in zip(arguments[:inputs], results[values:], strict=True)]
        return [*results[:values], *new]

    return build(step, list(optic.source.table))


def assert_kept(f, changes, seed=0):
    """Check that a pass preserves the kernels of f's reverse, which update arguments in place."""
    f = in_float64(Block(f)).term
    term, values = moved(f), len(f.target)
    arrays = draw_arrays(tuple(term.source.table), (-1.0, 1.0), seed)
    lowered = scalar_kernels(term, {values + n: n for n in range(len(f.source))})
    wanted = run(lowered, *arrays)
    for change in changes:
        lowered = transformed(lowered, change)
    for found, reference in zip(run(lowered, *arrays, shuffled=True), wanted, strict=True):
        np.testing.assert_allclose(found, reference, rtol=1e-9, atol=1e-9)


@given(float_terms(size=10) | integer_terms(size=8), rounding, st.integers(0, 99))
def test_reassociating_passes_preserve_the_meaning(term, change, seed):
    assert_kept(term, [change], seed)


def network(rows, inner, columns):
    def net(x, w, b):
        h = ops.tanh(x @ w + ops.broadcast(b, (rows, columns)))
        return ops.mean(ops.square(ops.softmax(h))), ops.cumsum(ops.max(h, 0)), ops.sort(h, 0)[0]

    types = [NdArrayType(s, Dtype.float64) for s in ((rows, inner), (inner, columns), (columns,))]
    return build(net, types)


@given(
    rows=st.integers(1, 5),
    inner=st.integers(1, 4) | st.integers(1, 25),
    columns=st.integers(1, 6),
    changes=st.lists(rounding | unrollings().map(unrolled), min_size=1, max_size=4),
)
@settings(max_examples=15)
def test_passes_in_any_order_preserve_networks(rows, inner, columns, changes):
    assert_kept(network(rows, inner, columns), changes)


@given(
    shape=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    dtype=st.sampled_from([Dtype.float32, Dtype.int64]),
    descending=st.booleans(),
    data=st.data(),
)
def test_sorts_are_expanded_to_counting(shape, dtype, descending, data):
    """Few distinct keys test that the sort is stable."""
    axis = data.draw(st.integers(0, len(shape) - 1))
    keys = data.draw(st.lists(st.integers(0, 2), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    x = np.array(keys).reshape(shape).astype(dtype.numpy)
    term = build(lambda x: ops.argsort(x, axis, descending), [NdArrayType(tuple(shape), dtype)])
    lowered = scalar_kernels(term)
    expanded = transformed(lowered, expand_sorts)
    assert not any(isinstance(s, Sort) for kernel in kernels(expanded.steps) for s in statements(kernel.body))
    assert_same(run(expanded, x, shuffled=True), run(lowered, x))


def test_sums_that_share_loads_are_interchanged():
    """For x · W, the loop over x becomes the outer one, so each of its elements is loaded once."""
    term = build(lambda x, w: x @ w, [NdArrayType((5,)), NdArrayType((5, 6))])
    [kernel] = kernels(scalar_kernels(term).steps)

    def extents(items):
        return [int(loop.variable.extent) for loop in loops(items)]

    assert extents(kernel.body) == [6, 5] == extents(interchange_sums(kernel.body, 7))
    assert extents(interchange_sums(kernel.body, 6)) == [6, 5, 6, 6]


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("carried", [False, True])
def test_sums_that_read_earlier_ones_are_not_interchanged(carried, first):
    """h[i + 1] = Σ h[i] · x[k] is a recurrence; y[i] = Σ h[i] · x[k] is none."""
    f64 = Dtype.float64
    arguments = h, x, y = [Buffer(name, NdArrayType((9,), f64), Space.ARGUMENT) for name in "hxy"]
    total, i, k = Buffer("total", NdArrayType((), f64), Space.REGISTER), Variable(8), Variable(9)
    terms = Loop(k, [Accumulate(total, (), Add(), Load(x, (index(k),)))])
    more = Accumulate(total, (), Add(), Load(h, (index(i),)))
    end = Store(h if carried else y, (index(i) + 1,), Load(total, ()))
    nest = Loop(i, [Store(total, (), Number(Constant(total.type, first))), terms, more, end])
    assert len(interchange_sums([nest], 2)) == (1 if carried or first else 3)
    lowered = Lowered(Function("f", (), (), (), (), (), ()), [Kernel([nest])], arguments, [h, y])
    arrays = [np.arange(9.0), np.arange(9.0) + 1, np.zeros(9)]
    changed = transformed(lowered, lambda items: interchange_sums(items, 2))
    assert_same(run_in_order(changed, arrays), run_in_order(lowered, arrays))


@pytest.mark.parametrize("place", [-1, 2, 4])
@pytest.mark.parametrize("sides", [(True, True), (True, False), (False, True)])
def test_folding_decides_only_the_sides_of_bounds_that_are_tested(place, sides):
    below, above = sides
    inside, outside = number(1, Dtype.float32), number(2, Dtype.float32)
    y = Buffer("y", NdArrayType(()))
    masked = Masked((Bounds(Index((), place), 4, below, above),), inside, outside)
    [store] = fold_constants([Store(y, (), masked)])
    assert store.scalar is (outside if (below and place < 0) or (above and place >= 4) else inside)


@pytest.mark.parametrize("carried", [False, True])
def test_threads_share_the_outermost_loops_that_carry_no_dependence(carried):
    """A sum over n that is added up in y is computed by threads within the loop over n."""
    n, i, j = Variable(4), Variable(512), Variable(512)
    x, y = (Buffer(name, NdArrayType((4, 512, 512))) for name in "xy")
    place = index(0) if carried else index(n)
    add = Accumulate(y, (place, index(i), index(j)), Add(), Load(x, (index(n), index(i), index(j))))
    kernel = parallelise(Kernel([Loop(n, [Loop(i, [Loop(j, [add])])])]), Machine((), threads=True))
    verify(kernel)
    assert [loop.variable for loop in loops(kernel.body) if loop.axis is Axis.PARALLEL] == [
        i if carried else n
    ]


@pytest.mark.parametrize(
    ("kind", "has_threads"),
    [("copy", False), ("transposition", True), ("gather", True), ("exponential", True)],
)
def test_threads_share_loops_that_take_long(kind, has_threads):
    """Copy as many elements: functions, and elements that are apart, take longer."""
    i, j = Variable(128), Variable(256)
    x, y = Buffer("x", NdArrayType((256, 256))), Buffer("y", NdArrayType((128, 256)))
    places = Buffer("places", NdArrayType((256,), Dtype.int64))
    place = index(Read(Load(places, (index(j),)), 256)) if kind == "gather" else index(j)
    loaded = Load(x, (index(j), index(i)) if kind == "transposition" else (index(i), place))
    value = Compute(Exp(), Dtype.float32, (loaded,)) if kind == "exponential" else loaded
    nest = Loop(i, [Loop(j, [Store(y, (index(i), index(j)), value)])])
    [loop] = parallelise(Kernel([nest]), Machine((), threads=True)).body
    assert (loop.axis is Axis.PARALLEL) is has_threads


@pytest.mark.parametrize("strip", range(1, 6))
def test_strips_and_the_remainder_are_the_sum(strip):
    term = build(lambda x, w: x @ w, [NdArrayType((5,)), NdArrayType((5, 3))])
    lowered, arrays = scalar_kernels(term), [np.arange(5.0) + 1, np.arange(15.0).reshape(5, 3)]
    limits = Unrolling(lambda items: 1, 0, strip, 0, 0, 0)
    assert_same(run(transformed(lowered, unrolled(limits)), *arrays), run(lowered, *arrays))


class Recorder(InOrder):
    """A machine that records where each buffer is written, and which are read before."""

    def __init__(self, lowered, arrays) -> None:
        super().__init__(lowered, arrays)
        self.written: dict[Buffer, list[int]] = {}
        self.read_first: set[Buffer] = set()

    def read(self, array, indices):
        if array not in self.written:
            self.read_first.add(array)
        return super().read(array, indices)

    def write(self, array, indices, value):
        self.written.setdefault(array, []).extend(np.ravel(self.place(array, indices)).tolist())
        super().write(array, indices, value)


@settings(suppress_health_check=list(HealthCheck), max_examples=30)
@given(float_terms(size=10), unrollings(), st.integers(0, 99))
def test_dense_stores_fill_buffers_in_order(term, limits, seed):
    """Each claim is verified by the interpreter; in-place results are never claimed."""
    term = reverse(term)
    lowered = transformed(scalar_kernels(term), unrolled(limits))
    machine = Recorder(lowered, draw_arrays(tuple(term.source.table), seed=seed))
    for kernel in kernels(lowered.steps):
        machine.written, machine.read_first = {}, set()
        machine.items(kernel.body)
        for buffer in densely_stored(kernel.body):
            assert machine.written[buffer] == [*range(int(buffer.size))]
            assert buffer not in machine.read_first and buffer not in lowered.arguments


def test_a_matrix_filled_row_by_row_is_dense():
    """A matrix filled by columns is not dense, nor one without its last rows."""

    def stored(order, rows=3):
        y = Buffer("y", NdArrayType((rows, 4)))
        i, j = Variable(3), Variable(4)
        value = Number(Constant(NdArrayType((), Dtype.float32), 1.0))
        inner = [Store(y, (index(i), index(j)), value)]
        for variable in reversed([(i, j)[axis] for axis in order]):
            inner = [Loop(variable, inner)]
        return list(densely_stored(inner)) == [y]

    assert stored((0, 1)) and not stored((1, 0)) and not stored((0, 1), rows=5)


def test_zeros_are_an_initialiser_if_they_come_first_and_are_all():
    """Stores to other arrays may stand between them."""
    x, y = (Buffer(name, NdArrayType((2,))) for name in "xy")

    def store(to, place, value=0.0):
        return Store(to, (Index((), place),), Number(Constant(NdArrayType(()), value)))

    read = Store(y, (Index(),), Load(x, (Index(),)))
    i = Variable(2)
    zeros = [store(x, 0), store(x, 1)]
    loop = Loop(i, [Store(x, (index(i),), zeros[0].scalar)])
    assert initialised([x], [zeros[0], store(y, 0, 2.0), zeros[1], read]) == {x: zeros}
    assert initialised([x], [loop, read, store(x, 0, 1.0)]) == {x: [loop]}
    for others in ([zeros[0]], [zeros[0], read, zeros[1]], [zeros[0], store(x, 1, -0.0)], [read, loop]):
        assert initialised([x], others) == {}


def test_zeros_of_several_arrays_are_an_initialiser_if_all_of_them_are():
    """A loop that sets another array to zero too must stay, unless that array is initialised as well."""
    x, y = (Buffer(name, NdArrayType((2,))) for name in "xy")
    i, zero = Variable(2), Number(Constant(NdArrayType(()), 0.0))
    both = Loop(i, [Store(x, (index(i),), zero), Store(y, (index(i),), zero)])
    assert initialised([x, y], [both]) == {x: [both], y: [both]}
    assert initialised([x], [both]) == {}
    read = Store(x, (Index(),), Load(y, (Index(),)))
    assert initialised([x, y], [read, both]) == {}


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_a_contiguous_nest_is_never_unrolled(shape):
    """Collapsing comes first: short loops of a contiguous nest become a longer one."""
    x, y = (Buffer(name, NdArrayType(tuple(shape)), Space.ARGUMENT) for name in "xy")
    variables = [Variable(size) for size in shape]
    places = tuple(map(index, variables))
    kernel = unroll(Kernel(nested(variables, [Store(y, places, Load(x, places))])), Machine(()))
    assert len(list(statements(kernel.body))) == 1
    assert len(list(loops(kernel.body))) <= 2
