# SHA-256 of the terms: a4778d8eab73eeac71f44392d3f0aa04f7edcde873cadd175a58c8214b6c7414
"""rectified: a model and its training, emitted by catgrad for NumPy.

Needs NumPy and nothing else. The functions are plain array arithmetic; `CompiledModel` puts a check
of the arguments in front of them, and `Learner` keeps the parameters between steps.
"""

import math
from collections.abc import Mapping, MutableMapping
from difflib import get_close_matches
from threading import RLock

import numpy as np

# P: shape and dtype of each parameter, in the order in which functions take and return them.
PARAMETERS = {
    "0.weight": ((4, 5), np.float32),
    "1.bias": ((5,), np.float32),
    "3.weight": ((5, 3), np.float32),
}
# S: shape and dtype of each array of the optimiser's state, in the order in which functions take and return them.
STATE = {
    **{f"momentum.{name}": slot for name, slot in PARAMETERS.items()},
}


def masked(x, condition):
    """Return x where the condition holds, 0 elsewhere: bits times 1 or 0, without branches."""
    return (x.view(f"u{x.itemsize}") * condition).view(x.dtype)


def random_bits(seed, counter, stream, shape):
    """Draw 32 random bits for each element: Philox 4×32 in 10 rounds (Salmon et al. 2011, section 4.2)."""
    count = math.prod(shape)
    low, wide = np.uint64(0xFFFFFFFF), np.uint64(32)
    block = np.arange(-(-count // 4), dtype=np.uint64)
    step, key = np.asarray(counter).astype(np.uint64), np.asarray(seed).astype(np.uint64)
    a, b, c, d = np.broadcast_arrays(block & low, np.uint64(stream), step & low, step >> wide)
    k, m = key & low, key >> wide
    for _ in range(10):
        x, y = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (y >> wide) ^ b ^ k, y & low, (x >> wide) ^ d ^ m, x & low
        k, m = (k + np.uint64(0x9E3779B9)) & low, (m + np.uint64(0xBB67AE85)) & low
    return np.stack([a, b, c, d], axis=-1).reshape(-1)[:count].reshape(shape).astype(np.uint32)


def uniform(seed, counter, stream, shape, dtype):
    """Draw uniform random numbers in [0, 1), with as many bits as the dtype holds."""
    digits = min(np.finfo(dtype).nmant + 1, 32)
    bits = random_bits(seed, counter, stream, shape) >> np.uint32(32 - digits)
    return (bits * 2.0**-digits).astype(dtype)


def init_state(seed):
    """Initial values of the optimiser's state."""
    momentum_0_weight = np.full((4, 5), 0.0, np.float32)  # f32[4,5]
    momentum_1_bias = np.full((5,), 0.0, np.float32)  # f32[5]
    momentum_3_weight = np.full((5, 3), 0.0, np.float32)  # f32[5,3]
    return [momentum_0_weight, momentum_1_bias, momentum_3_weight]


def init(seed):
    """Initial values of the parameters."""
    layer_0_weight = -0.5 + uniform(seed, 0, 3378657847, (4, 5), np.float32)  # f32[4,5]
    layer_1_bias = np.full((5,), 0.0, np.float32)  # f32[5]
    layer_3_weight = -0.4472136 + 0.8944272 * uniform(seed, 0, 1206730196, (5, 3), np.float32)  # f32[5,3]
    return [layer_0_weight, layer_1_bias, layer_3_weight]


def predict(layer_0_weight, layer_1_bias, layer_3_weight, x):
    """P × X → Ŷ: the model's output."""
    layer_0_out = x @ layer_0_weight  # f32[batch,5]
    layer_1_relu = np.maximum(layer_0_out + layer_1_bias, 0)  # f32[batch,5]
    y_hat = layer_1_relu @ layer_3_weight  # f32[batch,3]
    return [y_hat]


def loss(layer_0_weight, layer_1_bias, layer_3_weight, x, y):
    """P × X × Y → R: the loss between the output and y."""
    batch = x.shape[0]
    layer_0_out = x @ layer_0_weight  # f32[batch,5]
    layer_1_relu = np.maximum(layer_0_out + layer_1_bias, 0)  # f32[batch,5]
    y_hat = layer_1_relu @ layer_3_weight  # f32[batch,3]
    loss = np.square(y_hat - y).sum() / np.float32(3 * batch)  # f32[]
    return [loss]


def rev(layer_0_weight, layer_1_bias, layer_3_weight, x, d_y_hat):
    """P × X × Ŷ′ → P′ × X′: the reverse derivative of predict."""
    layer_0_out = x @ layer_0_weight  # f32[batch,5]
    total = layer_0_out + layer_1_bias  # f32[batch,5]
    layer_1_relu = np.maximum(total, 0)  # f32[batch,5]
    d_0_out = masked(d_y_hat @ layer_3_weight.T, ~(total <= 0))  # f32[batch,5]
    d_x = d_0_out @ layer_0_weight.T  # f32[batch,4]
    d_0_weight = x.T @ d_0_out  # f32[4,5]
    d_1_bias = d_0_out.sum(axis=0)  # f32[5]
    d_3_weight = layer_1_relu.T @ d_y_hat  # f32[5,3]
    return [d_0_weight, d_1_bias, d_3_weight, d_x]


def rev_p(layer_0_weight, layer_1_bias, layer_3_weight, x, d_y_hat):
    """P × X × Ŷ′ → P′: the part of rev for the parameters."""
    layer_0_out = x @ layer_0_weight  # f32[batch,5]
    total = layer_0_out + layer_1_bias  # f32[batch,5]
    layer_1_relu = np.maximum(total, 0)  # f32[batch,5]
    d_0_out = masked(d_y_hat @ layer_3_weight.T, ~(total <= 0))  # f32[batch,5]
    d_0_weight = x.T @ d_0_out  # f32[4,5]
    d_1_bias = d_0_out.sum(axis=0)  # f32[5]
    d_3_weight = layer_1_relu.T @ d_y_hat  # f32[5,3]
    return [d_0_weight, d_1_bias, d_3_weight]


def grads(layer_0_weight, layer_1_bias, layer_3_weight, x, y):
    """P × X × Y → R × P′: the loss in training and its gradient."""
    batch = x.shape[0]
    layer_0_out = x @ layer_0_weight  # f32[batch,5]
    total = layer_0_out + layer_1_bias  # f32[batch,5]
    layer_1_relu = np.maximum(total, 0)  # f32[batch,5]
    y_hat = layer_1_relu @ layer_3_weight  # f32[batch,3]
    difference = y_hat - y  # f32[batch,3]
    count = np.float32(3 * batch)  # f32[]
    loss = np.square(difference).sum() / count  # f32[]
    d_y_hat = np.float32(2) / count * difference  # f32[batch,3]
    d_0_out = masked(d_y_hat @ layer_3_weight.T, ~(total <= 0))  # f32[batch,5]
    d_0_weight = x.T @ d_0_out  # f32[4,5]
    d_1_bias = d_0_out.sum(axis=0)  # f32[5]
    d_3_weight = layer_1_relu.T @ d_y_hat  # f32[5,3]
    return [loss, d_0_weight, d_1_bias, d_3_weight]


def update(
    momentum_0_weight, momentum_1_bias, momentum_3_weight, layer_0_weight, layer_1_bias,
    layer_3_weight, d_0_weight, d_1_bias, d_3_weight
):
    """S × P × P′ → S × P: the optimiser's part of a step."""
    new_momentum_0_weight = 0.9 * momentum_0_weight + d_0_weight  # f32[4,5]
    new_0_weight = layer_0_weight - 0.05 * new_momentum_0_weight  # f32[4,5]
    new_momentum_1_bias = 0.9 * momentum_1_bias + d_1_bias  # f32[5]
    new_1_bias = layer_1_bias - 0.05 * new_momentum_1_bias  # f32[5]
    new_momentum_3_weight = 0.9 * momentum_3_weight + d_3_weight  # f32[5,3]
    new_3_weight = layer_3_weight - 0.05 * new_momentum_3_weight  # f32[5,3]
    return [
        new_momentum_0_weight, new_momentum_1_bias, new_momentum_3_weight, new_0_weight, new_1_bias,
        new_3_weight
    ]


def step(
    momentum_0_weight, momentum_1_bias, momentum_3_weight, layer_0_weight, layer_1_bias,
    layer_3_weight, x, y
):
    """S × P × X × Y → R × S × P: one step of training, and the loss before it."""
    batch = x.shape[0]
    layer_0_out = x @ layer_0_weight  # f32[batch,5]
    total = layer_0_out + layer_1_bias  # f32[batch,5]
    layer_1_relu = np.maximum(total, 0)  # f32[batch,5]
    y_hat = layer_1_relu @ layer_3_weight  # f32[batch,3]
    difference = y_hat - y  # f32[batch,3]
    count = np.float32(3 * batch)  # f32[]
    loss = np.square(difference).sum() / count  # f32[]
    d_y_hat = np.float32(2) / count * difference  # f32[batch,3]
    d_0_out = masked(d_y_hat @ layer_3_weight.T, ~(total <= 0))  # f32[batch,5]
    d_0_weight = x.T @ d_0_out  # f32[4,5]
    d_1_bias = d_0_out.sum(axis=0)  # f32[5]
    d_3_weight = layer_1_relu.T @ d_y_hat  # f32[5,3]
    new_momentum_0_weight = 0.9 * momentum_0_weight + d_0_weight  # f32[4,5]
    new_0_weight = layer_0_weight - 0.05 * new_momentum_0_weight  # f32[4,5]
    new_momentum_1_bias = 0.9 * momentum_1_bias + d_1_bias  # f32[5]
    new_1_bias = layer_1_bias - 0.05 * new_momentum_1_bias  # f32[5]
    new_momentum_3_weight = 0.9 * momentum_3_weight + d_3_weight  # f32[5,3]
    new_3_weight = layer_3_weight - 0.05 * new_momentum_3_weight  # f32[5,3]
    return [
        loss, new_momentum_0_weight, new_momentum_1_bias, new_momentum_3_weight, new_0_weight,
        new_1_bias, new_3_weight
    ]
