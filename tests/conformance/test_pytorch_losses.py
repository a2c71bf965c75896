"""Losses with all options against PyTorch."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType, Task, build, layers, losses, ops, sgd
from catgrad.errors import OptionError, ShapeError
from catgrad.functors import reverse
from catgrad.programs.program import evaluate
from tests.conformance.twins import assert_same, normal
from tests.targets import drawn, emit, on, on_all_targets, on_targets, on_targets_with

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
F = torch.nn.functional
REDUCTIONS = st.sampled_from(["mean", "sum"])
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


def batchmean(log_q, p, reduction):
    return F.kl_div(log_q, p, reduction="batchmean" if reduction == "mean" else reduction)


PAIRS = {
    "mse": (losses.mse, F.mse_loss),
    "l1": (losses.l1, F.l1_loss),
    "huber": (partial(losses.huber, delta=0.7), partial(F.huber_loss, delta=0.7)),
    "bce": (losses.bce_with_logits, F.binary_cross_entropy_with_logits),
    "kl": (losses.kl_div, batchmean),
}


@pytest.mark.covering
@on_targets
@pytest.mark.parametrize("name", PAIRS)
@drawn(shape=SHAPES, reduction=REDUCTIONS)
def test_reductions(target, name, shape, reduction):
    ours, theirs = PAIRS[name]
    y_hat, y = normal(shape, shape)
    y = abs(y) if name == "kl" else y
    assert_same(
        target,
        lambda x: ours(x, ops.square(x) + 0.1, reduction=reduction),
        lambda x: theirs(x, torch.square(x) + 0.1, reduction=reduction),
        y_hat,
    )


@st.composite
def classifications(draw):
    """Draw a shape of predictions, labels, and options that both libraries support."""
    *batch, classes = draw(SHAPES.filter(lambda s: len(s) > 1))
    labels = np.array(
        draw(st.lists(st.integers(0, classes - 1), min_size=(n := int(np.prod(batch))), max_size=n))
    )
    ignored = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    ignore_index = draw(st.sampled_from([-100, 0]))
    labels = np.where(ignored, ignore_index, labels).astype(np.int64).reshape(batch)
    options = dict(ignore_index=ignore_index, reduction=draw(REDUCTIONS))
    weight = draw(
        st.none() | st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.25]), min_size=classes, max_size=classes)
    )
    return (*batch, classes), labels, weight, options


def twin(function, labels, weight, options):
    """Adapt PyTorch's function, whose classes are on axis 1, and whose weights are a tensor."""
    array = None if weight is None else torch.tensor(weight, dtype=torch.float64)
    return lambda x: function(torch.movedim(x, -1, 1), torch.tensor(labels), weight=array, **options)


@on_targets_with("nan")
@drawn(case=classifications(), smoothing=st.sampled_from([0.0, 0.1, 1.0]))
def test_cross_entropy(target, case, smoothing):
    shape, labels, weight, options = case
    theirs = twin(F.cross_entropy, labels, weight, options | dict(label_smoothing=smoothing))
    ours = partial(losses.cross_entropy, label_smoothing=smoothing, weight=weight, **options)
    assert_same_for_labels(target, ours, theirs, 3 * normal(shape)[0], labels)


@on_targets_with("nan")
@drawn(case=classifications())
def test_nll(target, case):
    shape, labels, weight, options = case
    theirs, ours = twin(F.nll_loss, labels, weight, options), partial(losses.nll, weight=weight, **options)
    assert_same_for_labels(target, ours, theirs, -abs(normal(shape)[0]), labels)


def assert_same_for_labels(target, ours, theirs, x, labels):
    assert_same(target, ours, lambda x, labels: theirs(x), x, labels)


def test_weights_may_be_an_array_of_the_term():
    weights, labels = np.array([0.5, 2.0, 0.0]), np.array([1, 0, 2, 1])
    (x,) = normal((4, 3))
    types = [
        NdArrayType(x.shape, Dtype.float64),
        NdArrayType((4,), Dtype.int64),
        NdArrayType((3,), Dtype.float64),
    ]
    term = reverse(build(lambda x, y, w: losses.cross_entropy(x, y, weight=w), types))
    found, dx, _, dw = evaluate(term, x, labels, weights, np.float64(1))
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, weights)]
    wanted = F.cross_entropy(tensors[0], torch.tensor(labels), weight=tensors[1].detach())
    np.testing.assert_allclose(found, wanted.item(), rtol=1e-12)
    np.testing.assert_allclose(dx, torch.autograd.grad(wanted, tensors[0])[0], rtol=1e-10)
    likelihood = torch.log_softmax(tensors[0], -1)[torch.arange(4), torch.tensor(labels)]
    by_hand = -(likelihood * tensors[1][torch.tensor(labels)]).sum() / tensors[1][torch.tensor(labels)].sum()
    np.testing.assert_allclose(dw, torch.autograd.grad(by_hand, tensors[1])[0], rtol=1e-10)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("label", [3, -1])
def test_a_label_out_of_range_is_refused(reduction, smoothing, label):
    loss = partial(losses.cross_entropy, label_smoothing=smoothing, weight=(1, 2, 3), reduction=reduction)
    term = build(loss, [NdArrayType((2, 3)), NdArrayType((2,), Dtype.int64)])
    for each in (term, reverse(term)):
        arrays = [np.zeros((2, 3), np.float32), np.array([0, label]), np.float32(1)]
        with pytest.raises(IndexError, match=r"an index must lie in 0 … 2"):
            evaluate(each, *arrays[: len(each.source)])


@on("numpy", "torch", "jax", "c")
def test_a_label_out_of_range_changes_nothing(target):
    """JAX cannot raise an error, so the loss is NaN; sprites validate examples before training."""
    A, B, C = (NdArrayType(s) for s in ((2,), (4,), (3,)))
    task = Task(
        layers.linear(A, B, C), sgd(0.1), losses.cross_entropy, labels=(NdArrayType((2,), Dtype.int64),)
    )
    learner = emit(task, target).load()().learner(seed=0)
    (x,) = normal((2, 4))
    before = [np.array(p) for p in learner.parameters.values()]
    for label in (3, -1):
        if target == "jax":
            assert np.isnan(learner.loss(x, np.array([0, label])))
            continue
        with pytest.raises(IndexError, match="an index must lie in"):
            learner.step(x, np.array([0, label]))
        for array, old in zip(learner.parameters.values(), before, strict=True):
            np.testing.assert_array_equal(np.array(array), old)
    assert np.isfinite(learner.step(x, np.array([0, -100])))


@pytest.mark.parametrize("labels", [[0, 0], [-100, -100]])
def test_only_ignored_labels(labels):
    """The sum is 0 and the mean 0 / 0, as in PyTorch; an impossible class that is ignored costs nothing."""
    log_p, labels = np.array([[-np.inf, 0.0]] * 2), np.array(labels)
    types = [NdArrayType(log_p.shape, Dtype.float64), NdArrayType((2,), Dtype.int64)]
    for reduction in ("mean", "sum"):
        options = dict(ignore_index=int(labels[0]), reduction=reduction)
        term = reverse(build(partial(losses.nll, **options), types))
        found, gradient, _ = evaluate(term, log_p, labels, np.float64(1))
        tensor = torch.tensor(log_p, requires_grad=True)
        wanted = F.nll_loss(tensor, torch.tensor(labels), **options)
        np.testing.assert_array_equal(found, wanted.detach())
        if reduction == "sum":
            np.testing.assert_array_equal(gradient, np.zeros((2, 2)))


@on_all_targets
def test_a_weighted_loss_trains(target):
    A, B, C = (NdArrayType(s, Dtype.float64) for s in ((5,), (4,), (3,)))
    loss = partial(losses.cross_entropy, weight=[1.0, 0.25, 2.0], reduction="sum")
    model = layers.dense(A, B, C, layers.identity)
    task = Task(model, sgd(0.1), loss, labels=(NdArrayType((5,), Dtype.int64),))
    learner = emit(task, target).load()().learner(seed=0)
    x, y = normal((5, 4))[0], np.array([0, 1, 2, 0, 1])
    before = learner.step(x, y)
    assert all(learner.step(x, y) < before for _ in range(5))


X, Y = NdArrayType((2, 3)), NdArrayType((2,), Dtype.int64)
REFUSED = {
    "another reduction": (lambda x, y: losses.mse(x, x, reduction="none"), OptionError),
    "another reduction of the divergence": (
        lambda x, y: losses.kl_div(x, x, reduction="batchmean"),
        OptionError,
    ),
    "too few weights": (lambda x, y: losses.nll(x, y, weight=[1.0, 2.0]), ShapeError),
    "no weights": (lambda x, y: losses.nll(x, y, weight=()), ShapeError),
    "weights of another shape": (lambda x, y: losses.nll(x, y, weight=x), ShapeError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_shapes_and_dtypes_are_refused(name):
    function, error = REFUSED[name]
    with pytest.raises(error):
        build(function, [X, Y])
