"""Mixed precision against torch.autocast: loss curves of a network, a convolutional one and a transformer."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from catgrad import Dtype, NdArrayType, Task, build, layers, losses, obj, ops, optimisers
from catgrad.functors import reverse
from catgrad.learn.precision import mixed_precision
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.conformance.pytorch import torch
from tests.targets import emit, on, on_targets_with

F = torch.nn.functional
UNIT = 2.0**-8
"""The greatest relative error of rounding to bfloat16."""
STEPS = 8
ROWS, CLASSES = 16, 5
N, D, H, C = (NdArrayType((size,)) for size in (ROWS, 24, 32, CLASSES))
IMAGE = NdArrayType((ROWS, 1, 9, 9))
TEXT = NdArrayType((2, 8))


def network():
    """Two hidden layers."""
    hidden = layers.dense(N, D, H, layers.gelu, "a") >> layers.dense(N, H, H, layers.relu, "b")
    return hidden >> layers.dense(N, H, C, layers.identity, "c")


def network_in_torch(affine, p, x):
    hidden = F.gelu(affine(x, p, "a"))
    return affine(F.relu(affine(hidden, p, "b")), p, "c")


def convolutional():
    """Two convolutions with a pool between."""
    first = layers.conv(IMAGE, 4, 3, name="a") >> layers.relu(obj(NdArrayType((ROWS, 4, 7, 7))))
    pooled = first >> layers.max_pool(NdArrayType((ROWS, 4, 7, 7)), 2)
    second = pooled >> layers.conv(NdArrayType((ROWS, 4, 3, 3)), 8, 2, name="b")
    image = NdArrayType((ROWS, 8, 2, 2))
    last = layers.dense(N, NdArrayType((32,)), C, layers.identity, "c")
    return second >> layers.relu(obj(image)) >> layers.flatten(image) >> last


def convolutional_in_torch(affine, p, x):
    image = F.max_pool2d(F.relu(affine(x, p, "a")), 2)
    return affine(F.relu(affine(image, p, "b")).flatten(1), p, "c")


def transformer():
    """A block with causal attention, a norm and a linear map."""
    block = layers.transformer_block(TEXT, D, 4, 48, causal=True, name="t")
    return block >> layers.layer_norm(TEXT, D, name="n") >> layers.dense(TEXT, D, C, layers.identity, "c")


def transformer_in_torch(affine, p, x):
    def norm(x, name):
        return F.layer_norm(x, (24,), p[f"{name}.weight"], p[f"{name}.bias"])

    def heads(part):
        return part.unflatten(-1, (4, 6)).transpose(1, 2)

    q, k, v = map(heads, affine(norm(x, "t.norm1"), p, "t.self_attn.in_proj").chunk(3, -1))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
    x = x + affine(y, p, "t.self_attn.out_proj")
    hidden = F.gelu(affine(norm(x, "t.norm2"), p, "t.linear1"))
    return affine(norm(x + affine(hidden, p, "t.linear2"), "n"), p, "c")


ADAMW = optimisers.adamw(0.01), lambda p: torch.optim.AdamW(p, 0.01)
SGD = optimisers.sgd(0.1, momentum=0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)
MODELS = {
    "network": (network, network_in_torch, ADAMW),
    "convolutional": (convolutional, convolutional_in_torch, SGD),
    "transformer": (transformer, transformer_in_torch, ADAMW),
}


@cache
def adds_in_float32():
    """Tell whether PyTorch rounds the reverse of a convolution once; without AVX-512, each term."""
    x = torch.zeros(1, 1, 1, 5, dtype=torch.bfloat16, requires_grad=True)
    w = torch.tensor([1, 256, 1], dtype=torch.bfloat16).reshape(1, 1, 1, 3)
    [dx] = torch.autograd.grad(F.conv2d(x, w).sum(), x)
    return dx[0, 0, 0, 2].item() == 258


def conv2d(x, w, bias=None):
    """Convolve as under autocast on a processor on which PyTorch rounds once, whatever this one is."""
    if adds_in_float32():
        return F.conv2d(x, w, bias)
    with torch.autocast("cpu", enabled=False):
        rounded = (None if each is None else each.to(torch.bfloat16).float() for each in (x, w, bias))
        return F.conv2d(*rounded).to(torch.bfloat16)


def added(x, p, name):
    """Add the bias to the result of the contraction, as in catgrad, so in float32."""
    w, b = p[f"{name}.weight"], p[f"{name}.bias"]
    return conv2d(x, w) + b[:, None, None] if w.ndim == 4 else x @ w + b


def fused(x, p, name):
    """Add the bias before the result of the contraction is rounded, as in torch.nn.Linear."""
    w, b = p[f"{name}.weight"], p[f"{name}.bias"]
    return conv2d(x, w, b) if w.ndim == 4 else F.linear(x, w.T, b)


def batch(model, step):
    """Draw one of two batches, which alternate."""
    rng = np.random.default_rng(step % 2)
    x, labels = model.source.table[0].shape, model.target.table[0].shape[:-1]
    return rng.normal(size=x).astype(np.float32), rng.integers(0, CLASSES, labels)


@cache
def learnt(target, name, change=mixed_precision):
    """Return the initial parameters of a changed model, and the losses of the steps, on a target."""
    model, _, (optimiser, _) = MODELS[name]
    labels = (NdArrayType(model().target.table[0].shape[:-1], Dtype.int64),)
    task = Task(change(model()), optimiser, losses.cross_entropy, name, labels)
    learner = emit(task, target).load()().learner(seed=0)
    first = {name: np.array(array) for name, array in learner.parameters.items()}
    return first, np.array([float(learner.step(*batch(model(), step))) for step in range(STEPS)])


@cache
def learnt_in_torch(name, affine):
    """Return the losses of PyTorch under autocast, from the same parameters."""
    model, forward, (_, made) = MODELS[name]
    first, _ = learnt("torch", name)
    parameters = {name: torch.tensor(array).requires_grad_() for name, array in first.items()}
    optimiser, found = made(parameters.values()), []
    for step in range(STEPS):
        x, y = map(torch.tensor, batch(model(), step))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y_hat = forward(affine, parameters, x)
            loss = F.cross_entropy(y_hat.flatten(0, -2), y.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return np.array(found)


def distance(one, other):
    """Compute the root mean square of the difference of two loss curves."""
    return np.sqrt(np.mean(np.square(one - other)))


def in_float32(model):
    """Return the model as it is."""
    return model


every_model = pytest.mark.parametrize("name", MODELS)


@pytest.mark.covering
@on_targets_with("16 bits")
@every_model
def test_the_loss_curve_is_that_of_autocast(target, name):
    """The same values are rounded, so only the order of sums differs: float32 is many times as far.

    PyTorch's attention also rounds the weights after softmax; others compute attention in float32.
    """
    _, mixed = learnt(target, name)
    _, single = learnt("torch", name, in_float32)
    autocast = learnt_in_torch(name, added)
    if name != "transformer" or target == "torch":
        assert distance(mixed, autocast) < distance(single, autocast) / 20
    assert distance(mixed, single) > 2.0**-14
    assert np.max(np.abs(mixed - autocast)) < UNIT


@on_targets_with("16 bits")
@every_model
def test_fused_biases_change_the_loss_curve_by_rounding(target, name):
    """torch.nn.Linear adds its bias before it rounds. Logits are about 1, and off by some roundings."""
    _, mixed = learnt(target, name)
    assert np.max(np.abs(mixed - learnt_in_torch(name, fused))) < 2 * UNIT


@on("jax", needed=("16 bits",))
def test_jax_changes_the_loss_curve_by_rounding(target):
    """JAX's compiler omits the rounding of a result that is cast to float32 next."""
    _, mixed = learnt(target, "network")
    assert np.max(np.abs(mixed - learnt_in_torch("network", added))) < 2 * UNIT


PRODUCTS = {
    "matrix product": (lambda x, w: x @ w, lambda x, w: x @ w, (5, 24), (24, 7)),
    "convolution": (lambda x, w: ops.conv(x, w), conv2d, (1, 2, 4, 4), (3, 2, 2, 2)),
}


@on_targets_with("16 bits")
@pytest.mark.parametrize("product", PRODUCTS)
def test_contractions_and_their_gradients_are_those_of_autocast_bit_for_bit(target, product):
    """Operands are whole numbers of 9 bits, which bfloat16 rounds to 8; float32 adds up products exactly."""
    ours, theirs, *shapes = PRODUCTS[product]
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-511, 512, shape).astype(np.float32) for shape in shapes)
    tensors = [torch.tensor(array).requires_grad_() for array in (x, w)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        wanted = theirs(*tensors)
    dy = rng.integers(-511, 512, wanted.shape).astype(np.float32)
    gradients = torch.autograd.grad(wanted, tensors, torch.tensor(dy).to(torch.bfloat16))
    term = reverse(mixed_precision(build(ours, [NdArrayType(shape) for shape in shapes])))
    for found, expected in zip(
        run_on(get_backend(target), term, x, w, dy), (wanted, *gradients), strict=True
    ):
        np.testing.assert_array_equal(found, expected.detach().float())
