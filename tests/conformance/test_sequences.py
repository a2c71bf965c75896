"""Layers over sequences of different lengths, against PyTorch's packed sequences and masks of padding."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, losses, mse, ops, sgd
from catgrad.errors import DtypeError, OptionError
from tests.conformance.twins import normal
from tests.targets import emit, on_all_targets_with, on_targets_with

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.test_pytorch_layers import (  # noqa: E402  # it needs PyTorch
    assert_trains_as,
    f64,
    projections,
)

nn = torch.nn
pack, unpack = nn.utils.rnn.pack_padded_sequence, nn.utils.rnn.pad_packed_sequence

N, T = Dim("batch"), Dim("time")
A, B, C = f64(N, T), f64(4), f64(3)
LENGTHS = np.array([3, 6, 1, 6])

RECURRENT = {
    "lstm": (layers.lstm, nn.LSTM, {}, {}),
    "gru": (layers.gru, nn.GRU, {}, {}),
    "rnn": (layers.rnn, nn.RNN, {}, {}),
    "rectified": (layers.rnn, nn.RNN, {"activation": layers.relu}, {"nonlinearity": "relu"}),
}
"""For each name, our layer, that of PyTorch, and the options of both."""


def packed(kind, options):
    """Return a recurrent layer of PyTorch over packed sequences."""

    class Layer(kind):
        def forward(self, x, lengths):
            y, _ = super().forward(pack(x, lengths, True, enforce_sorted=False))
            return unpack(y, True, total_length=x.shape[1])[0]

    return Layer(4, 3, batch_first=True, **options)


@pytest.mark.covering
@on_targets_with("learner")
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_train_as_packed_sequences(target, name):
    layer, kind, ours, theirs = RECURRENT[name]
    model = layer(A, B, C, name="", lengths=True, **ours)
    assert_trains_as(model, packed(kind, theirs), [*normal((4, 6, 4)), LENGTHS], target, projections, 5)


def hidden(lengths, time):
    """Return where sequences have ended: [batch, time]."""
    return torch.arange(time) >= lengths[:, None]


class Attention(nn.MultiheadAttention):
    """Self-attention that ignores padding, and is 0 there."""

    def __init__(self, *sizes, is_causal):
        super().__init__(*sizes, batch_first=True)
        self.is_causal = is_causal

    def forward(self, x, lengths):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=bool) != 0
        padding = hidden(lengths, x.shape[1])
        y, _ = super().forward(x, x, x, padding, attn_mask=mask if self.is_causal else None)
        return y.masked_fill(padding[..., None], 0)


@pytest.mark.covering
@on_all_targets_with("learner")
@pytest.mark.parametrize("causal", [False, True])
def test_attention_trains_as_with_a_mask_of_padding(target, causal):
    model = layers.attention(A, B, 2, causal, name="", lengths=True)
    module = Attention(4, 2, is_causal=causal)
    assert_trains_as(model, module, [*normal((4, 6, 4)), LENGTHS], target, projections, 5)


class Block(nn.TransformerEncoderLayer):
    """A transformer block that ignores padding, and is 0 there."""

    def forward(self, x, lengths):
        padding = hidden(lengths, x.shape[1])
        return super().forward(x, src_key_padding_mask=padding).masked_fill(padding[..., None], 0)


@pytest.mark.covering
@pytest.mark.parametrize("target", ["numpy", "c"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_blocks_train_as_with_a_mask_of_padding(target, norm_first):
    model = layers.transformer_block(A, B, 2, 5, norm_first=norm_first, name="", lengths=True)
    module = Block(4, 2, 5, 0.0, "gelu", 1e-5, True, norm_first)
    assert_trains_as(model, module, [*normal((4, 6, 4)), LENGTHS], target, projections, 5)


def windowed(**options):
    return layers.attention(A, B, 2, True, 100.0, kv_heads=1, window=2, **options)


EVERY = {
    **{
        name: lambda l=layer, o=ours, **more: l(A, B, C, **o, **more)
        for name, (layer, _, ours, _) in RECURRENT.items()
    },
    "attention": lambda **options: layers.attention(A, B, 2, **options),
    "causal attention in a window": windowed,
    "block": lambda **options: layers.transformer_block(A, B, 2, **options),
}


@pytest.mark.parametrize("name", EVERY)
def test_padding_changes_nothing_and_results_beyond_the_end_are_0(name):
    """Each sequence has the results that it has alone; an empty one has zeros, and finite gradients."""
    make = EVERY[name]
    ended, alone = (
        emit(Task(make(**options), sgd(0.1), mse)).load()().learner(seed=0)
        for options in ({"lengths": True}, {})
    )
    (x,), lengths = normal((4, 6, 4)), np.array([3, 6, 0, 1])
    y = ended.predict(x, lengths)
    for row, results, n in zip(x, y, lengths, strict=True):
        assert not results[n:].any()
        if n:
            np.testing.assert_allclose(results[:n], alone.predict(row[None, :n])[0], atol=1e-12)
    assert np.isfinite(ended.step(x, lengths, y + 1))
    assert all(np.isfinite(array).all() for array in ended.parameters.values())


class Tagger(nn.Module):
    """A class for each word, by two recurrent layers over packed sequences."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(7, 4), nn.Linear(3, 5)
        self.first, self.second = nn.LSTM(4, 3, batch_first=True), nn.GRU(3, 3, batch_first=True)

    def forward(self, words, lengths):
        rows = pack(self.words(words), lengths, True, enforce_sorted=False)
        y, _ = self.second(self.first(rows)[0])
        return self.out(unpack(y, True, total_length=words.shape[1])[0])


def tagger():
    """The same in layers: lengths are a second input of the model, and of each recurrent layer."""
    whole = NdArrayType((N, T), Dtype.int64)
    words = layers.embedding(whole, 7, B, name="words")
    first = layers.lstm(A, B, C, "first", lengths=True)
    second, out = layers.gru(A, C, C, "second", lengths=True), layers.linear(A, C, f64(5), name="out")
    biased = out >> layers.bias(A, f64(5), name="out")

    def forward(x, lengths):
        return biased(second(first(words(x), lengths), lengths))

    model = build(forward, [whole, NdArrayType((N,), Dtype.int64)])
    return Task(model, sgd(0.1), losses.cross_entropy, labels=(whole,))


@on_targets_with("learner")
def test_targets_have_the_symbolic_axes_batch_and_time(target):
    learner, module = emit(tagger(), target).load()().learner(seed=1), Tagger().double()
    for name, parameter in module.named_parameters():
        value = torch.tensor(np.array(learner.parameters[name]))
        parameter.data.copy_(value if name == "words.weight" or value.ndim == 1 else value.T)
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    draw = np.random.default_rng(0)
    for n, time in ((4, 6), (2, 9), (5, 1), (3, 4), (4, 6)):
        lengths = draw.integers(1, time + 1, n)
        words, tags = draw.integers(0, 7, (n, time)), draw.integers(0, 5, (n, time))
        tags[np.arange(time) >= lengths[:, None]] = -100
        scores = module(torch.tensor(words), torch.tensor(lengths))
        wanted = nn.functional.cross_entropy(scores.flatten(0, 1), torch.tensor(tags).flatten())
        optimiser.zero_grad()
        wanted.backward()
        optimiser.step()
        np.testing.assert_allclose(learner.step(words, lengths, tags), wanted.item(), rtol=1e-9)


def test_lengths_that_cannot_be_are_refused():
    with pytest.raises(OptionError, match="one position at a time, but it has lengths, .*leave them out"):
        layers.attention(f64(N, 1), B, 2, memory=4, lengths=True)
    with pytest.raises(DtypeError, match="lengths must be whole numbers"):
        build(lambda n: ops.sequence_mask(n, 3), [f64(N)])
