"""float16 and bfloat16: stored in 16 bits, computed in 32, on every target and against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, losses, mse, ops, sgd
from catgrad.errors import DtypeError
from catgrad.functors import reverse
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.terms.op import OPS
from catgrad.terms.structural import Constant
from catgrad.terms.term import singleton
from catgrad.testing import Batches, Case, draw_arrays, in_dtype, run_on
from catgrad.types import as_numpy, widened
from tests.conformance.pytorch import torch
from tests.models import mlp
from tests.targets import BOTH_WAYS, TOGETHER, emit, is_later, on_targets_with

F16, BF16 = Dtype.float16, Dtype.bfloat16
EPSILON = {F16: 2**-10, BF16: 2**-7}
both_dtypes = pytest.mark.parametrize("dtype", [F16, BF16], ids=lambda d: d.name)


def cases():
    """List the examples of operations on floats, first ones first, without constants that overflow."""
    found = [
        (op, dtype, Case(f"{name}-{number}-{dtype.name}-{way}", function, op.domain, way == "reverse"))
        for name, op_class in OPS.items()
        if op_class is not Constant
        for number, (op, types) in enumerate(op_class.examples())
        if in_dtype((op, types), F16) != (op, types)
        for dtype in (F16, BF16)
        for function in [singleton(in_dtype(op, dtype), *in_dtype(types, dtype))]
        for way in ("forward", "reverse")
    ]
    return sorted(found, key=lambda each: is_later(each[-1]))


CASES = cases()
BATCHES = {
    both: Batches([case for _, _, case in CASES if both or case.reversed], TOGETHER) for both in (False, True)
}
ON_TARGETS = [
    pytest.param(*target.values, *each, id=f"{each[-1]}-{target.values[0]}", marks=marks)
    for each in CASES
    for target in on_targets_with("16 bits").args[1]
    if "16 bits" not in get_backend(*target.values).known_gaps
    for both in [target.values[0] in BOTH_WAYS]
    if each[-1].reversed or both
    for marks in [[*target.marks, *([pytest.mark.long] * (is_later(each[-1]) and not both))]]
]
"""Operations on targets; where compiling takes long, the first example of each is run in every run."""


@pytest.mark.parametrize(("target", "op", "dtype", "case"), ON_TARGETS)
def test_every_operation(target, op, dtype, case):
    """The tolerance is two units in the last place, of the maximum where sums may cancel."""
    arrays = draw_arrays(tuple(case.term.source.table), case.domain)
    results, wanted = (
        BATCHES[target in BOTH_WAYS].run_on(get_backend(target), case, *arrays),
        evaluate(case.term, *arrays),
    )
    for found, reference, type in zip(results, wanted, case.term.target.table, strict=True):
        assert found.dtype == type.dtype.numpy
        a, b = found.astype(np.float64), reference.astype(np.float64)
        finite = np.abs(b[np.isfinite(b)])
        scale = max(1, np.max(finite, initial=0)) if not op.elementwise else 1
        np.testing.assert_allclose(a, b, rtol=2 * EPSILON[dtype], atol=2 * EPSILON[dtype] * scale)


def both(x, dtype):
    """Return an array and a tensor of the same 16-bit numbers."""
    array = np.asarray(x, dtype.numpy)
    return array, torch.tensor(widened(array)).to(getattr(torch, dtype.name))


def assert_near(found, wanted, dtype, units=2.0):
    """Compare with a tolerance in units in the last place of the maximum."""
    wanted = wanted.detach().double().numpy()
    scale = np.max(np.abs(wanted), initial=1e-3)
    found = as_numpy(found).astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=units * EPSILON[dtype] * scale)


def value_and_gradient(function, tensor, cotangent):
    """Return value and gradient in float64, as NumPy arrays."""
    x = tensor.clone().requires_grad_()
    y = function(x)
    (gradient,) = torch.autograd.grad(y, x, cotangent)
    return y.detach().double().numpy(), gradient.double().numpy()


SAVED_ROUNDED = {"softmax", "log_softmax", "logsumexp"}
"""Operations whose reverse reads the rounded value, as in PyTorch, with the error of that value."""

LONG = {
    "sum": (lambda x: ops.sum(x, 0), lambda x: x.sum(0)),
    "sum of all": (ops.sum, torch.sum),
    "mean": (ops.mean, torch.mean),
    "cumsum": (lambda x: ops.cumsum(x, 0), lambda x: x.cumsum(0)),
    "softmax": (lambda x: ops.softmax(x, 0), lambda x: x.softmax(0)),
    "log_softmax": (lambda x: ops.log_softmax(x, 0), lambda x: x.log_softmax(0)),
    "logsumexp": (lambda x: ops.logsumexp(x, 0), lambda x: x.logsumexp(0)),
    "layer_norm": (ops.layer_norm, lambda x: torch.layer_norm(x, x.shape[-1:])),
    "contract": (lambda x: ops.transpose(x) @ x, lambda x: x.T @ x),
    "sigmoid": (ops.sigmoid, torch.sigmoid),
    "gelu": (lambda x: ops.gelu(x), torch.nn.functional.gelu),
}


@pytest.mark.covering(2)
@on_targets_with("16 bits")
@both_dtypes
@pytest.mark.parametrize("name", LONG)
def test_long_sums_are_as_accurate_as_in_torch(target, dtype, name):
    """Sums in 16 bits would lose all but the first hundreds of the 5000 terms."""
    ours, theirs = LONG[name]
    x, tensor = both(np.random.default_rng(0).uniform(0, 1, (5000, 3)), dtype)
    dy, cotangent = both(np.random.default_rng(1).uniform(-1, 1, theirs(tensor).shape), dtype)
    in_torch = value_and_gradient(theirs, tensor, cotangent)
    exact = value_and_gradient(theirs, tensor.double(), cotangent.double())
    term = reverse(build(ours, [NdArrayType(x.shape, dtype)]))
    for found in (run_on(get_backend(target), term, x, dy), evaluate(term, x, dy)):
        for a, b, c in zip(found, in_torch, exact, strict=True):
            allowed = np.maximum(np.abs(b - c), EPSILON[dtype] * np.abs(c) + 1e-7)
            if name in SAVED_ROUNDED:
                allowed = np.max(allowed)
            assert np.all(np.abs(a.astype(np.float64) - c) <= allowed)


@on_targets_with("16 bits")
@both_dtypes
def test_rows_are_added_up_in_float32(target, dtype):
    """PyTorch rounds after every row."""
    x, index = np.ones(3000, dtype.numpy), np.zeros(3000, np.int64)
    types = [NdArrayType((3000,), dtype), NdArrayType((3000,), Dtype.int64)]
    for add in (lambda x, i: ops.scatter_add(x, i, 1), lambda x, i: ops.scatter_add_along_axis(x, i, 1)):
        [found] = run_on(get_backend(target), build(add, types), x, index)
        assert found == dtype.numpy.type(3000)


@on_targets_with("16 bits")
def test_a_mean_of_squares_does_not_overflow(target):
    """The squares and their sum overflow float16; the norm of the result does not."""
    x, tensor = both([[300.0, -300.0, 900.0, 1000.0]], F16)
    term = build(ops.rms_norm, [NdArrayType((1, 4), F16)])
    [found] = run_on(get_backend(target), term, x)
    assert_near(found, torch.nn.functional.rms_norm(tensor, (4,), eps=1e-5), F16)
    many = np.ones((70000,), np.float16)
    assert run_on(get_backend(target), build(ops.mean, [NdArrayType((70000,), F16)]), many) == [1]


SCALAR_MAPS = {
    "exp": (ops.exp, torch.exp), "log": (ops.log, torch.log), "tanh": (ops.tanh, torch.tanh),
    "sqrt": (ops.sqrt, torch.sqrt), "sin": (ops.sin, torch.sin), "erf": (ops.erf, torch.erf),
    "log1p": (ops.log1p, torch.log1p), "expm1": (ops.expm1, torch.expm1), "sign": (ops.sign, torch.sign),
    "floor": (ops.floor, torch.floor), "round": (ops.round, torch.round),
    "silu": (ops.silu, torch.nn.functional.silu),
    "relu": (ops.relu, torch.relu), "square": (ops.square, torch.square), "rsqrt": (ops.rsqrt, torch.rsqrt),
    "numbers": (lambda x: 1 - x * 2.5 + 1000, lambda x: 1 - x * 2.5 + 1000),
    "clamp": (lambda x: ops.clamp(x, 0.1, 200), lambda x: torch.clamp(x, 0.1, 200)),
    "maximum": (lambda x: ops.maximum(x, ops.negate(x)), lambda x: torch.maximum(x, -x)),
    "power": (lambda x: x**3, lambda x: x**3),
}  # fmt: skip


@pytest.mark.covering(2)
@on_targets_with("16 bits")
@both_dtypes
@pytest.mark.parametrize("name", SCALAR_MAPS)
def test_scalar_maps(target, dtype, name):
    ours, theirs = SCALAR_MAPS[name]
    places = [0.01, 0.1, 0.5, 1.0, 2.5, 7.0, 10.0]
    x, tensor = both(places, dtype)
    tensor.requires_grad_()
    wanted = theirs(tensor)
    (gradient,) = torch.autograd.grad(wanted.sum(), tensor)
    term = reverse(build(ours, [NdArrayType(x.shape, dtype)]))
    found = run_on(get_backend(target), term, x, np.ones(x.shape, dtype.numpy))
    for a, b in zip(found, (wanted, gradient), strict=True):
        b = b.detach().double().numpy()
        np.testing.assert_allclose(
            a.astype(np.float64), b, rtol=4 * EPSILON[dtype], atol=EPSILON[dtype] / 100
        )
        assert a.dtype == dtype.numpy


@on_targets_with("16 bits")
@both_dtypes
def test_sorting_and_nan(target, dtype):
    x = np.array([1, np.nan, -np.inf, 1, 0, np.nan], dtype.numpy)
    term = build(
        lambda x: [*ops.sort(x), ops.max(x), ops.argmax(x), ops.is_nan(x)], [NdArrayType((6,), dtype)]
    )
    ordered, places, greatest, where, nan = run_on(get_backend(target), term, x)
    np.testing.assert_array_equal(widened(ordered), [-np.inf, 0, 1, 1, np.nan, np.nan])
    assert places.tolist() == [2, 4, 0, 3, 1, 5]
    assert np.isnan(widened(greatest))
    assert where == 1
    assert nan.tolist() == [False, True, False, False, False, True]


@pytest.mark.covering
@on_targets_with("16 bits")
@both_dtypes
def test_a_network_trains_as_in_torch(target, dtype):
    """Compare weights and losses of five steps in units in the last place."""
    learner = emit(mlp(sgd(0.1, 0.9), dtype), target).load()().learner(seed=3)
    kind = getattr(torch, dtype.name)
    tensors = {
        n: torch.tensor(widened(as_numpy(a))).to(kind).requires_grad_() for n, a in learner.parameters.items()
    }
    optimiser = torch.optim.SGD(tensors.values(), lr=0.1, momentum=0.9)
    rng = np.random.default_rng(0)
    for batch in (7, 2, 1, 7, 2):
        x, tx = both(rng.normal(size=(batch, 4)), dtype)
        y, ty = both(rng.normal(size=(batch, 3)), dtype)
        h = torch.sigmoid(tx @ tensors["dense_0.weight"] + tensors["dense_0.bias"])
        out = torch.tanh(h @ tensors["dense_1.weight"] + tensors["dense_1.bias"])
        wanted = torch.nn.functional.mse_loss(out, ty)
        optimiser.zero_grad()
        wanted.backward()
        optimiser.step()
        loss = learner.step(*(widened(a) if dtype is BF16 else a for a in (x, y)))
        assert_near(loss, wanted, dtype, 4)
    for name, array in learner.parameters.items():
        assert str(array.dtype).rpartition(".")[2] == dtype.name
        assert_near(array, tensors[name], dtype, 8)


@both_dtypes
def test_numpy_takes_bfloat16_arrays_and_refuses_what_does_not_fit(dtype):
    term = build(lambda x: x + 1, [NdArrayType((2,), dtype)])
    compiled = get_backend("numpy").emit(Program("case", (lower(term, "f"),))).load()()
    for given in (np.array([1, 2], dtype.numpy), np.float32([1, 2]), [1.0, 2.0]):
        [found] = compiled.f(given)
        assert found.dtype == dtype.numpy
        assert found.tolist() == [2, 3]
    with pytest.raises(TypeError, match="values outside"):
        compiled.f(np.array([1e39, 1]))


@on_targets_with("16 bits")
@both_dtypes
def test_symbolic_means(target, dtype):
    x = NdArrayType((Dim("n"), 3), dtype)
    term = build(lambda x: ops.mean(x, 0), [x])
    [found] = run_on(get_backend(target), term, np.ones((4000, 3), dtype.numpy))
    assert found.tolist() == [1, 1, 1]


MANY = 70000
"""Examples in a batch that float16 cannot count."""


@on_targets_with("16 bits")
@both_dtypes
def test_losses_of_more_examples_than_float16_counts(target, dtype):
    rows, batch = NdArrayType((Dim("n"), 3), dtype), NdArrayType((Dim("n"),), Dtype.int64)
    labels, scores = np.zeros(MANY, np.int64), np.zeros((MANY, 3), dtype.numpy)
    chances = np.full((MANY, 3), 1 / 4, dtype.numpy)
    for loss, types, arrays, wanted in (
        (losses.cross_entropy, [rows, batch], [scores, labels], np.log(3)),
        (losses.kl_div, [rows, rows], [scores, chances], -0.75 * np.log(4)),
    ):
        [found] = run_on(get_backend(target), build(loss, types), *arrays)
        np.testing.assert_allclose(widened(found), wanted, rtol=EPSILON[dtype])


@on_targets_with("16 bits")
@both_dtypes
def test_running_statistics_of_more_examples_than_float16_counts(target, dtype):
    rows = NdArrayType((Dim("n"), 1), dtype)
    learner = emit(Task(layers.batch_norm(rows), sgd(0.1), mse), target).load()().learner()
    x = np.resize([-2.0, 2.0], (MANY, 1))
    learner.step(x, x)
    variance = float(learner.buffers["norm.running_var"][0])
    assert variance == pytest.approx(0.9 + 0.1 * 4, rel=2 * EPSILON[dtype])


def test_constants_that_do_not_fit_are_refused_and_others_have_their_shortest_digits():
    with pytest.raises(DtypeError, match="must fit the dtype float16"):
        Constant(NdArrayType((), F16), 70000)
    assert Constant(NdArrayType((), BF16), 70000).digits == "70000.0"
    for dtype, digits in ((F16, "0.1"), (BF16, "0.1")):
        assert Constant(NdArrayType((), dtype), 0.1).digits == digits
    for bits in range(0, 2**16, 7):
        number = np.uint16(bits).reshape(1).view(BF16.numpy)[0]
        if np.isfinite(float(number)):
            assert BF16.numpy.type(float(Constant(NdArrayType((), BF16), number.item()).digits)) == number


def test_ml_dtypes_is_needed_by_programs_with_bfloat16_only():
    sources = {d: emit(mlp(dtype=d)).source for d in (Dtype.float32, F16, BF16)}
    assert ["ml_dtypes" in source for source in sources.values()] == [False, False, True]
    assert "Needs NumPy and ml_dtypes and nothing else" in sources[BF16]
    assert "ml_dtypes" not in emit(mlp(dtype=BF16), "torch").source
