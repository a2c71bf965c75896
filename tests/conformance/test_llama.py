"""Grouped-query attention, windows and gated networks against PyTorch, and text by a key/value cache."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, Functions, NdArrayType, emit, layers, ops
from catgrad.errors import OptionError, ShapeError
from examples.llama import llama
from tests.conformance.test_pytorch_layers import assert_trains_as, f64
from tests.conformance.twins import normal
from tests.targets import on, on_all_targets_with

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
nn, F = torch.nn, torch.nn.functional

WIDTH, HIDDEN, BASE = 6, 7, 100.0


def rotated(x):
    """Turn pairs of features, half the width apart, as transformers do for Llama."""
    t, d = x.shape[-2:]
    frequencies = 1 / BASE ** (torch.arange(0, d, 2, dtype=x.dtype) / d)
    angles = torch.outer(torch.arange(t, dtype=x.dtype), frequencies).repeat(1, 2)
    first, second = x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-second, first], -1) * angles.sin()


class Attention(nn.Module):
    def __init__(self, heads, kv_heads, head_dim, window, bias):
        super().__init__()
        self.sizes, self.head_dim = [n * head_dim for n in (heads, kv_heads, kv_heads)], head_dim
        self.in_proj = nn.Linear(WIDTH, sum(self.sizes), bias)
        self.out_proj = nn.Linear(heads * head_dim, WIDTH, bias)
        self.window = window

    def forward(self, x):
        parts = self.in_proj(x).split(self.sizes, -1)
        q, k, v = (part.unflatten(-1, (-1, self.head_dim)).transpose(-2, -3) for part in parts)
        mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril()
        mask = mask.triu(1 - self.window) if self.window else mask
        y = F.scaled_dot_product_attention(rotated(q), rotated(k), v, mask, enable_gqa=True)
        return self.out_proj(y.transpose(-2, -3).flatten(-2))


class Gated(nn.Module):
    def __init__(self, activation, bias):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(WIDTH, HIDDEN, bias), nn.Linear(WIDTH, HIDDEN, bias)
        self.down_proj, self.activation = nn.Linear(HIDDEN, WIDTH, bias), activation

    def forward(self, x):
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """A decoder layer of Llama, or with a window of Mistral."""

    def __init__(self, *sizes, bias):
        super().__init__()
        self.norm1, self.norm2 = (nn.RMSNorm(WIDTH, 1e-5) for _ in range(2))
        self.self_attn, self.mlp = Attention(*sizes, bias), Gated(F.silu, bias)

    def forward(self, x):
        x = x + self.self_attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def block(A, heads, kv_heads, head_dim, window, bias):
    """Build the same from layers."""
    B = f64(WIDTH)
    attend = layers.attention(
        A, B, heads, True, BASE, bias, "self_attn", kv_heads=kv_heads, head_dim=head_dim, window=window
    )
    feed = layers.swiglu(A, B, HIDDEN, bias)
    norm1, norm2 = (layers.rms_norm(A, B, name=name) for name in ("norm1", "norm2"))
    return layers.residual(norm1 >> attend) >> layers.residual(norm2 >> feed)


def transposed(name, array):
    """Transpose matrices: our products are x · W, those of PyTorch x · Wᵀ."""
    return name, array.T if array.ndim == 2 else array


@on_all_targets_with("learner")
def test_a_block_of_llama_trains_as_in_pytorch(target):
    sizes = (4, 2, 4, 3)
    model = block(f64(Dim("n"), Dim("t")), *sizes, bias=False)
    assert_trains_as(model, Block(*sizes, bias=False), normal((2, 5, WIDTH)), target, transposed)


@settings(max_examples=8, deadline=None)
@given(
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    half=st.integers(1, 3),
    window=st.none() | st.integers(1, 6),
    bias=st.booleans(),
    length=st.integers(1, 5),
)
def test_heads_and_windows_of_any_sizes(kv_heads, group, half, window, bias, length):
    sizes = (kv_heads * group, kv_heads, 2 * half, window)
    model, module = block(f64(2, length), *sizes, bias), Block(*sizes, bias=bias)
    assert_trains_as(model, module, normal((2, length, WIDTH)), "numpy", transposed, steps=2)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("layer", "activation"),
    [
        (layers.swiglu, F.silu),
        (layers.geglu, F.gelu),
        (partial(layers.gated, activation=layers.sigmoid), F.sigmoid),
        (
            partial(layers.gated, activation=layers.pointwise(ops.gelu_tanh)),
            partial(F.gelu, approximate="tanh"),
        ),
    ],
    ids=["swiglu", "geglu", "glu", "geglu of Gemma"],
)
def test_gated_networks(layer, activation, bias):
    model = layer(f64(Dim("n")), f64(WIDTH), HIDDEN, bias=bias, name="")
    assert_trains_as(model, Gated(activation, bias), normal((3, WIDTH)), "numpy", transposed)


VOCABULARY, LENGTH, WINDOW = 11, 9, 4


@on("numpy", "torch", "jax", "c", long=("torch", "jax"))
def test_a_llama_with_a_cache_reads_as_the_whole_text(target):
    """Compare the scores after each token of a text that is longer than the window."""
    whole = llama(VOCABULARY, 2, LENGTH, window=WINDOW, depth=1, dtype=Dtype.float64)
    one = llama(VOCABULARY, 2, 1, memory=LENGTH, window=WINDOW, depth=1, dtype=Dtype.float64)
    functions = Functions({"score": whole, "read": one}, "llama")
    assert {slot.type.shape[-2] for slot in functions.buffers if slot.type.rank} == {WINDOW}
    model = emit(functions, target).load()()
    parameters, buffers = model.init(0), model.init_buffers(0)
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (2, LENGTH))
    [wanted] = model.score(*parameters, tokens)
    wanted = np.asarray(wanted)
    for k in range(LENGTH):
        *buffers, scores = model.read(*buffers, *parameters, tokens[:, k : k + 1])
        np.testing.assert_allclose(np.asarray(scores)[:, 0], wanted[:, k], rtol=1e-9, atol=1e-9)


A, B, ONE = NdArrayType((2, 3)), NdArrayType((6,)), NdArrayType((1, 1))
ATTEND = partial(layers.attention, A, B, name="encoder.0")
REFUSED = {
    "no heads": (partial(ATTEND, 0), OptionError, "heads must be an integer .*, but it is 0"),
    "a fraction of heads": (partial(ATTEND, 2.0), OptionError, "heads must be an integer"),
    "heads that do not divide": (partial(ATTEND, 4), ShapeError, r"a multiple of 4, but they are"),
    "no keys": (partial(ATTEND, 2, kv_heads=0), OptionError, "kv_heads must be an integer"),
    "groups of two sizes": (partial(ATTEND, 3, kv_heads=2), OptionError, "divide .* 2 and 3"),
    "more keys": (partial(ATTEND, 2, kv_heads=4), OptionError, "divide .* 4 and 2"),
    "no features": (partial(ATTEND, 2, head_dim=0), OptionError, "head_dim must be an integer"),
    "rotated odd features": (partial(ATTEND, 2, rotary=10.0), ShapeError, "an even number d"),
    "no base": (partial(ATTEND, 2, rotary=0.0, head_dim=2), OptionError, "rotary must be a positive number"),
    "no window": (partial(ATTEND, 2, True, window=0), OptionError, "window must be an integer"),
    "a window of later positions": (
        partial(ATTEND, 2, window=3),
        OptionError,
        "a window must be one of causal attention",
    ),
    "a window in a cache": (
        partial(layers.attention, ONE, B, 2, name="encoder.0", memory=4, window=-1),
        OptionError,
        "window must be an integer",
    ),
    "nothing hidden": (
        partial(layers.swiglu, A, B, 0, name="encoder.0"),
        OptionError,
        "hidden must be an integer",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_name_the_layer(name):
    make, error, sentence = REFUSED[name]
    with pytest.raises(error, match=rf"{sentence}.*, in encoder\.0[,;] "):
        make()
