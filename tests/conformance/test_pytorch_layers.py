"""Layers against the modules of PyTorch: a few steps of training from the same parameters."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, Task, initialisers, layers, mse, ops, sgd
from catgrad.errors import OptionError, ShapeError
from catgrad.functors import factor_parameters
from tests.conformance.twins import normal
from tests.targets import emit, on_all_targets_with

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
nn, init = torch.nn, torch.nn.init


def f64(*shape):
    return NdArrayType(shape, Dtype.float64)


def same(name, array):
    return name, array


def projections(name, array):
    """Convert names and transposes: our products are x · W, those of PyTorch x · Wᵀ."""
    array = array.T if array.ndim == 2 else array
    return name.replace("in_proj.", "in_proj_"), array


def assert_trains_as(model, module, inputs, target, translated=same, steps=3):
    """Compare the losses of training from the same parameters by name."""
    learner = emit(Task(model, sgd(0.1), mse), target).load()().learner(seed=1)
    module = module.double()
    found = dict(translated(name, torch.tensor(np.array(a))) for name, a in learner.parameters.items())
    assert {name: p.shape for name, p in module.named_parameters()} == {n: a.shape for n, a in found.items()}
    for name, parameter in module.named_parameters():
        parameter.data.copy_(found[name])
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    for _ in range(steps):
        y_hat = module(*map(torch.tensor, inputs))
        (y,) = normal(tuple(y_hat.shape), seed=2)
        wanted = nn.functional.mse_loss(y_hat, torch.tensor(y))
        optimiser.zero_grad()
        wanted.backward()
        optimiser.step()
        np.testing.assert_allclose(learner.step(*inputs, y), wanted.item(), rtol=1e-9)


@pytest.mark.covering(0)
@on_all_targets_with("learner")
def test_bilinear(target):
    A, B1, B2, C = f64(Dim("n"), 3), f64(4), f64(5), f64(2)
    model = layers.bilinear(A, B1, B2, C, name="")

    def translated(name, array):
        return name, torch.movedim(array, -1, 0) if name == "weight" else array

    assert_trains_as(model, nn.Bilinear(4, 5, 2), normal((7, 3, 4), (7, 3, 5)), target, translated)


@pytest.mark.covering(0)
@on_all_targets_with("learner")
def test_group_norm(target):
    model = layers.conv(f64(Dim("n"), 3, 5), 6, 1, name="") >> layers.group_norm(f64(Dim("n"), 6, 5), 2)
    module = nn.Sequential(nn.Conv1d(3, 6, 1), nn.GroupNorm(2, 6))

    def translated(name, array):
        kind = name.rpartition(".")[2]
        return f"1.{kind}" if name.startswith("norm.") else f"0.{kind}", array

    assert_trains_as(model, module, normal((4, 3, 5)), target, translated)


@on_all_targets_with("learner")
def test_an_image_autoencoder(target):
    """Train convolutions, all poolings and their transposes."""
    N = Dim("n")
    model = layers.sequential(
        layers.conv(f64(N, 2, 9, 9), 4, 3, 2, 1, bias=False, name=""),
        layers.silu([f64(N, 4, 5, 5)]),
        layers.max_pool(f64(N, 4, 5, 5), 3, 2, 1),
        layers.upsample_nearest(f64(N, 4, 3, 3), 2),
        layers.avg_pool(f64(N, 4, 6, 6), 2, 1, 1, False),
        layers.adaptive_avg_pool(f64(N, 4, 7, 7), (4, 3)),
        layers.conv_transpose(f64(N, 4, 4, 3), 2, 3, 2, 1, 1, groups=2, name=""),
        layers.adaptive_max_pool(f64(N, 2, 8, 6), 3),
        layers.global_avg_pool(f64(N, 2, 3, 3)),
    )
    module = nn.Sequential(
        nn.Conv2d(2, 4, 3, 2, 1, bias=False),
        nn.SiLU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Upsample(scale_factor=2),
        nn.AvgPool2d(2, 1, 1, count_include_pad=False),
        nn.AdaptiveAvgPool2d((4, 3)),
        nn.ConvTranspose2d(4, 2, 3, 2, 1, 1, groups=2),
        nn.AdaptiveMaxPool2d(3),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    assert_trains_as(model, module, normal((3, 2, 9, 9)), target)


class SelfAttention(nn.MultiheadAttention):
    def __init__(self, *sizes, causal, **options):
        super().__init__(*sizes, batch_first=True, **options)
        self.causal = causal

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        return super().forward(x, x, x, attn_mask=mask if self.causal else None)[0]


@pytest.mark.covering
@on_all_targets_with("learner")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_attention(target, causal, bias):
    model = layers.attention(f64(Dim("n"), Dim("t")), f64(6), 3, causal, bias=bias, name="")
    module = SelfAttention(6, 3, causal=causal, bias=bias)
    assert_trains_as(model, module, normal((2, 5, 6)), target, projections)


def test_attention_with_rotary_embedding():
    """Causal attention at the beginning does not depend on the rest of the sequence."""
    model = layers.attention(f64(Dim("t")), f64(8), 2, rotary=100.0)
    learner = emit(Task(model, sgd(0.1), mse)).load()().learner(seed=0)
    x, w = normal((5, 8))[0], learner.parameters
    q, k, v = np.split(x @ w["attention.in_proj.weight"] + w["attention.in_proj.bias"], 3, -1)
    heads = []
    for h in range(2):
        part = np.s_[:, 4 * h : 4 * h + 4]
        angles = np.outer(np.arange(5), 100.0 ** (-np.arange(2) / 2))
        turned = [
            np.concatenate(
                [a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1
            )
            for a, b in (np.split(y[part], 2, -1) for y in (q, k))
        ]
        scores = np.exp(turned[0] @ turned[1].T / 2)
        heads.append(scores / scores.sum(-1, keepdims=True) @ v[part])
    wanted = np.concatenate(heads, -1) @ w["attention.out_proj.weight"] + w["attention.out_proj.bias"]
    np.testing.assert_allclose(learner.predict(x), wanted, rtol=1e-9)


@pytest.mark.covering
@on_all_targets_with("learner")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_transformer_block(target, norm_first, bias):
    model = layers.transformer_block(
        f64(Dim("n"), Dim("t")), f64(6), 2, 10, norm_first=norm_first, bias=bias, name=""
    )
    module = nn.TransformerEncoderLayer(6, 2, 10, 0.0, "gelu", 1e-5, True, norm_first, bias)
    assert_trains_as(model, module, normal((2, 5, 6)), target, projections)


def test_stacked_blocks_have_distinct_names():
    A, B = f64(Dim("t")), f64(4)
    stack = layers.sequential(*[layers.transformer_block(A, B, 2, causal=True, name="")] * 2)
    names = [slot.name for slot in factor_parameters(stack)[0]]
    assert names[:4] == [
        "0.norm1.weight",
        "0.norm1.bias",
        "0.self_attn.in_proj.weight",
        "0.self_attn.in_proj.bias",
    ]
    assert len(set(names)) == len(names) == 24
    assert factor_parameters(stack)[0][8].type.shape == (4, 16)


@pytest.mark.covering
@on_all_targets_with("learner")
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_causal_block_ignores_later_positions(target, norm_first):
    model = layers.transformer_block(
        f64(Dim("t")), f64(4), 2, causal=True, rotary=10.0, norm_first=norm_first
    )
    learner = emit(Task(model, sgd(0.1), mse), target).load()().learner(seed=0)
    (x,) = normal((6, 4))
    whole = np.asarray(learner.predict(x))
    for length in (1, 4):
        np.testing.assert_allclose(whole[:length], learner.predict(x[:length]), rtol=1e-9)


FANS = st.integers(1, 200)
GAINS = {"linear": 0.01, "sigmoid": 0.01, "tanh": 0.01, "relu": 0.01, "selu": 0.01, "leaky_relu": 0.3}


@given(FANS, FANS, st.sampled_from(sorted(GAINS)))
@settings(max_examples=20)
def test_initialisers_agree_with_torch(fan_in, fan_out, nonlinearity):
    """Compare bounds and deviations with torch.nn.init."""
    ours = initialisers.gain(nonlinearity, GAINS[nonlinearity])
    gain = init.calculate_gain(nonlinearity, GAINS[nonlinearity])
    assert ours == pytest.approx(gain)
    both, deviation = fan_in + fan_out, gain / np.sqrt(fan_in)
    fans = fan_in, fan_out, gain
    assert initialisers.kaiming_normal(*fans).deviation == pytest.approx(deviation, rel=1e-6)
    assert initialisers.kaiming_uniform(*fans).high == pytest.approx(np.sqrt(3) * deviation, rel=1e-6)
    assert initialisers.xavier_normal(*fans).deviation == pytest.approx(gain * np.sqrt(2 / both), rel=1e-6)
    assert initialisers.xavier_uniform(*fans).high == pytest.approx(gain * np.sqrt(6 / both), rel=1e-6)


A, x = f64(Dim("n"), 3), f64(2, 6, 8)
MODULES = {
    "linear": (layers.linear(A, f64(5), f64(4), "", initialisers.xavier_uniform), nn.Linear(5, 4)),
    "conv": (
        layers.conv(x, 4, 3, groups=2, name="", initial=initialisers.xavier_uniform),
        nn.Conv1d(6, 4, 3, groups=2),
    ),
    "conv_transpose": (
        layers.conv_transpose(x, 4, 3, groups=2, name="", initial=initialisers.xavier_uniform),
        nn.ConvTranspose1d(6, 4, 3, groups=2),
    ),
    "embedding": (
        layers.embedding(NdArrayType((3,), Dtype.int64), 9, f64(4), "", initialisers.xavier_uniform),
        nn.Embedding(9, 4),
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_fans_agree_with_torch(name):
    model, module = MODULES[name]
    fan_in, fan_out = init._calculate_fan_in_and_fan_out(module.weight)
    slot = factor_parameters(model)[0][0]
    assert slot.initial.high == pytest.approx(np.sqrt(6 / (fan_in + fan_out)), rel=1e-6)


DEFAULTS = {
    "conv_transpose": (layers.conv_transpose(x, 4, 3, groups=2), nn.ConvTranspose1d(6, 4, 3, groups=2)),
    "bilinear": (layers.bilinear(A, f64(5), f64(7), f64(4)), nn.Bilinear(5, 7, 4)),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_agree_with_torch(name):
    """No draw of PyTorch lies outside our bounds, and many come near."""
    model, module = DEFAULTS[name]
    for slot, parameter in zip(factor_parameters(model)[0], module.parameters(), strict=True):
        for _ in range(200):
            module.reset_parameters()
            assert parameter.abs().max() <= slot.initial.high * (1 + 1e-6)
        assert slot.initial.high == factor_parameters(model)[0][0].initial.high
    draws = [module.reset_parameters() or module.weight.abs().max().item() for _ in range(50)]
    assert max(draws) > 0.99 * slot.initial.high


def test_every_layer_takes_initialisers():
    """Fill all parameters by an initialiser, or by a function of the fans."""
    seven = initialisers.Filled(7.0)
    both = dict(initial=seven, bias_initial=lambda fan_in, fan_out: seven)
    B = f64(6)
    every = [
        layers.linear(A, B, B, initial=seven),
        layers.bias(A, B, initial=seven),
        layers.dense(A, B, B, **both),
        layers.bilinear(A, B, B, B, **both),
        layers.embedding(NdArrayType((3,), Dtype.int64), 9, B, initial=seven),
        layers.conv(x, 4, 3, **both),
        layers.conv_transpose(x, 4, 3, **both),
        layers.layer_norm(A, B, **both),
        layers.rms_norm(A, B, initial=seven),
        layers.group_norm(x, 2, **both),
        layers.attention(A, B, 2, out_initial=seven, **both),
    ]
    for model in every:
        assert {slot.initial for slot in factor_parameters(model)[0]} == {seven}
    block = layers.transformer_block(A, B, 2, initial=seven)
    matrices = [slot for slot in factor_parameters(block)[0] if slot.type.rank == 2]
    assert [slot.initial for slot in matrices] == [seven] * 4
    wide = layers.linear(A, B, B, initial=partial(initialisers.kaiming_normal, gain=1.0))
    assert factor_parameters(wide)[0][0].initial.deviation == pytest.approx(6**-0.5)


def test_residual():
    model = layers.residual(layers.pointwise(ops.square)([f64(3), f64(2)]))
    learner = emit(Task(model, sgd(0.1), lambda a, b, c, d: mse(a, c) + mse(b, d))).load()()
    a, b = learner.predict(np.arange(3.0), np.arange(2.0))
    assert a.tolist() == [0, 2, 6]
    assert b.tolist() == [0, 2]


REFUSED = {
    "a residual that ends elsewhere": (lambda: layers.residual(layers.linear(A, f64(3), f64(2))), ShapeError),
    "heads that do not divide": (lambda: layers.attention(A, f64(6), 4), ShapeError),
    "attention without positions": (lambda: layers.attention(f64(), f64(6), 2), ShapeError),
    "no heads": (lambda: layers.transformer_block(A, f64(6), 0), OptionError),
    "a symbolic fan": (lambda: initialisers.xavier_normal(Dim("n"), 3), OptionError),
    "an unknown nonlinearity": (lambda: initialisers.gain("mish"), OptionError),
    "a nonsensical initialiser": (lambda: layers.linear(A, f64(6), f64(2), initial="zeros"), OptionError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_layers_are_refused(name):
    make, error = REFUSED[name]
    with pytest.raises(error):
        make()
