"""Layers of PyTorch train as in PyTorch on batches of several sizes, and predict as in evaluation."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from catgrad import compile_module, mse, ops, sgd, verify
from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch import from_torch
from tests.targets import emit

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_layers import (  # noqa: E402  # it needs PyTorch
    LAYERS,
    LENGTHS,
    QUICK_IN_C,
    TIME,
    Bag,
    Offsets,
    Packed,
    Weighted,
    bags,
    later,
    made,
    pack,
    sequences,
)
from tests.conformance.torch_models import Function  # noqa: E402

nn = torch.nn
CASES = [
    pytest.param(name, target, marks=() if target == "numpy" or name in QUICK_IN_C else pytest.mark.long)
    for name in LAYERS
    for target in ("numpy", "c")
]


def trained_as_in_pytorch(module, example, batches, target, **options):
    """Compare some steps, and what the module predicts before and after them, on these batches of inputs."""
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    learner = compile_module(module, tuple(example), optimiser, nn.MSELoss(), target, **options)
    whole = [(*given, torch.randn_like(deepcopy(module)(*given))) for given in batches]
    verify(module, learner, whole, steps=4).check()
    return learner


@pytest.mark.covering
@pytest.mark.parametrize(("name", "target"), CASES)
def test_layers_train_as_in_pytorch_at_several_batches(name, target):
    module, example = made(name, 4)
    trained_as_in_pytorch(module, example, map(LAYERS[name][1], (4, 3, 6)), target)


LENGTH_CASES = [
    pytest.param(name, target, marks=() if target == "numpy" or name == "padded" else pytest.mark.long)
    for name in LENGTHS
    for target in ("numpy", "c")
]


@pytest.mark.covering
@pytest.mark.parametrize(("name", "target"), LENGTH_CASES)
def test_layers_over_symbolic_lengths_train_as_in_pytorch(name, target):
    torch.manual_seed(0)
    make, spatial = LENGTHS[name]
    rest = (5, 3)[: spatial - 1]
    first, *others = (
        [torch.randn(batch, 3, length, *rest, dtype=torch.float64)]
        for batch, length in ((4, 9), (3, 6), (2, 17))
    )
    axes = {"x": ("batch", None, "length")}
    trained_as_in_pytorch(Weighted(make()).double(), first, [first, *others], target, dynamic=axes)


SHORT = {
    "convolution": (lambda: nn.Conv1d(2, 3, 3, dilation=2), 5),
    "pooling": (lambda: nn.Sequential(nn.Conv1d(2, 3, 1), nn.AvgPool1d(4, 1, 1)), 2),
}


@pytest.mark.parametrize("target", ["numpy", "c"])
@pytest.mark.parametrize("name", SHORT)
def test_windows_must_fit_into_symbolic_lengths(name, target):
    make, least = SHORT[name]
    module = make()
    imported = from_torch(module, torch.randn(2, 2, 9), dynamic={"input": ("batch", None, "length")})
    learner = emit(imported.task(sgd(0.1), lambda y, w: ops.mean(y * w)), target).load()().learner()
    x = torch.randn(2, 2, least)
    np.testing.assert_allclose(learner.predict(x.numpy()), module(x).detach(), rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match=r"must be at least \d, but it is (0|-1) where"):
        learner.predict(x.numpy()[..., 1:])


@pytest.mark.parametrize(
    ("layer", "pattern"),
    [
        (nn.Conv1d(2, 3, 3, stride=2), "must be a polynomial in its size.*the stride is 2 along length"),
        (nn.MaxPool1d(2), "must be a polynomial in its size.*the stride is 2 along length"),
        (nn.AdaptiveAvgPool1d(2), "one bin along each axis"),
    ],
)
def test_lengths_of_other_kinds_are_refused(layer, pattern):
    with pytest.raises(UnsupportedOp, match=pattern):
        from_torch(layer, torch.randn(2, 2, 9), dynamic={"input": ("batch", None, "length")})


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_at_fixed_offsets(mode):
    torch.manual_seed(0)
    trained_as_in_pytorch(Offsets(mode).double(), bags(4), [bags(4)], "numpy", dynamic=())


@pytest.mark.covering(0)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences_with_time_first_and_of_any_length(kind):
    torch.manual_seed(0)
    module, axes = Packed(kind, 4, 3, 2, bidirectional=True, is_summed=True).double(), ("time", "batch")
    x, lengths = later(6)
    batches = [later(4), [torch.cat([x, x]), 2 * lengths]]
    trained_as_in_pytorch(module, batches[0], batches, "numpy", dynamic={"x": axes, "lengths": axes[1:]})


@pytest.mark.covering(0)
@pytest.mark.parametrize("target", ["numpy", "c"])
def test_padded_arrays_have_the_length_of_the_longest_sequence(target):
    """PyTorch cuts them to it, which would change their shape: without a total length, others are refused."""
    x, lengths = sequences(3)
    module = Packed(nn.GRU, 4, 3, batch_first=True).double()
    learner = compile_module(module, (x, lengths), sgd(0.1), mse, target)
    learner.predict(x.numpy(), lengths.numpy())
    with pytest.raises((IndexError, ValueError)):
        learner.predict(x.numpy(), lengths.numpy() // 2)
    total = Packed(nn.GRU, 4, 3, batch_first=True, total=TIME).double()
    learner = compile_module(total, (x, lengths), sgd(0.1), mse, target)
    wanted = total(x, lengths.sub(1).clamp(1)).detach()
    np.testing.assert_allclose(
        learner.predict(x.numpy(), lengths.sub(1).clamp(1).numpy()), wanted, atol=1e-12
    )


READ = [
    lambda x, lengths: pack(x, lengths, True).data.mean(),
    lambda x, lengths: torch.tanh(pack(x, lengths, True).data),
    lambda x, lengths: pack(x, lengths, True)[0] * 2,
    lambda x, lengths: pack(x, lengths, True).batch_sizes[1],
]


@pytest.mark.parametrize("function", READ)
def test_rows_of_packed_sequences_are_refused(function):
    with pytest.raises(UnsupportedOp, match="packed sequences must be read by recurrent layers.*a mask"):
        from_torch(Function(function), *sequences(3))


def test_bags_scaled_by_frequency_are_refused():
    for make in (
        lambda: nn.EmbeddingBag(7, 3, scale_grad_by_freq=True),
        lambda: Bag(scale_grad_by_freq=True),
    ):
        with pytest.raises(UnsupportedOp, match="scaled by frequency"):
            from_torch(make(), *bags(3))
    bag = nn.EmbeddingBag(7, 3, scale_grad_by_freq=True)
    with pytest.raises(UnsupportedOp, match="scaled by frequency"):
        from_torch(Function(lambda words: bag(words, torch.tensor([0, 2]))), bags(3)[0][0])


def test_pytorch_is_as_it_was_after_a_trace():
    before = (nn.functional.embedding_bag, nn.BatchNorm1d.forward, nn.modules.rnn._VF)
    validates = torch.distributions.Distribution._validate_args
    from_torch(Packed(nn.GRU, 4, 3).double(), *later(4))
    with pytest.raises(UnsupportedOp):
        from_torch(Function(lambda x: pack(x, [1]).data + 1), torch.randn(2, 1, 3))
    assert before == (nn.functional.embedding_bag, nn.BatchNorm1d.forward, nn.modules.rnn._VF)
    assert torch.distributions.Distribution._validate_args is validates
    assert isinstance(pack(*later(4), enforce_sorted=False).data, torch.Tensor)
