# SHA-256 of the terms: 81697d092628c2d01682f88c6a680ed1e143a38f0126b633a2a328e7dba69e89
"""two_inputs: a model and its training, emitted by catgrad for NumPy.

Needs NumPy and nothing else. The functions are plain array arithmetic; `CompiledModel` puts a check
of the arguments in front of them, and `Learner` keeps the parameters between steps.
"""

from collections.abc import Mapping, MutableMapping
from difflib import get_close_matches
from threading import RLock

import numpy as np

# P: shape and dtype of each parameter, in the order in which functions take and return them.
PARAMETERS = {
    "weight": ((4, 3), np.float32),
}


def init(seed):
    """Initial values of the parameters."""
    weight = np.full((4, 3), 0.0, np.float32)  # f32[4,3]
    return [weight]


def predict(weight, x_0, x_1):
    """P × X → Ŷ: the model's output."""
    y_hat_0 = np.tanh(x_0 @ weight)  # f32[batch,3]
    y_hat_1 = np.exp(np.square(x_1) @ weight)  # f32[batch,3]
    return [y_hat_0, y_hat_1]


def loss(weight, x_0, x_1, y_0, y_1):
    """P × X × Y → R: the loss between the output and y."""
    batch = x_0.shape[0]
    y_hat_0 = np.tanh(x_0 @ weight)  # f32[batch,3]
    y_hat_1 = np.exp(np.square(x_1) @ weight)  # f32[batch,3]
    count = np.float32(3 * batch)  # f32[]
    loss = np.square(y_hat_0 - y_0).sum() / count + np.square(y_hat_1 - y_1).sum() / count  # f32[]
    return [loss]


def rev(weight, x_0, x_1, d_y_hat_0, d_y_hat_1):
    """P × X × Ŷ′ → P′ × X′: the reverse derivative of predict."""
    y_hat_0 = np.tanh(x_0 @ weight)  # f32[batch,3]
    square = np.square(x_1)  # f32[batch,4]
    y_hat_1 = np.exp(square @ weight)  # f32[batch,3]
    product = d_y_hat_0 * (1 - y_hat_0 * y_hat_0)  # f32[batch,3]
    weight_transposed = weight.T  # f32[3,4]
    d_x_0 = product @ weight_transposed  # f32[batch,4]
    product_1 = d_y_hat_1 * y_hat_1  # f32[batch,3]
    d_x_1 = 2 * (product_1 @ weight_transposed) * x_1  # f32[batch,4]
    d_weight = x_0.T @ product + square.T @ product_1  # f32[4,3]
    return [d_weight, d_x_0, d_x_1]


def rev_p(weight, x_0, x_1, d_y_hat_0, d_y_hat_1):
    """P × X × Ŷ′ → P′: the part of rev for the parameters."""
    y_hat_0 = np.tanh(x_0 @ weight)  # f32[batch,3]
    square = np.square(x_1)  # f32[batch,4]
    y_hat_1 = np.exp(square @ weight)  # f32[batch,3]
    d_weight = x_0.T @ (d_y_hat_0 * (1 - y_hat_0 * y_hat_0)) + square.T @ (d_y_hat_1 * y_hat_1)  # f32[4,3]
    return [d_weight]


def grads(weight, x_0, x_1, y_0, y_1):
    """P × X × Y → R × P′: the loss in training and its gradient."""
    batch = x_0.shape[0]
    y_hat_0 = np.tanh(x_0 @ weight)  # f32[batch,3]
    square = np.square(x_1)  # f32[batch,4]
    y_hat_1 = np.exp(square @ weight)  # f32[batch,3]
    difference = y_hat_0 - y_0  # f32[batch,3]
    count = np.float32(3 * batch)  # f32[]
    difference_1 = y_hat_1 - y_1  # f32[batch,3]
    loss = np.square(difference).sum() / count + np.square(difference_1).sum() / count  # f32[]
    quotient = np.float32(2) / count  # f32[]
    d_y_hat_0 = quotient * difference  # f32[batch,3]
    d_y_hat_1 = quotient * difference_1  # f32[batch,3]
    d_weight = x_0.T @ (d_y_hat_0 * (1 - y_hat_0 * y_hat_0)) + square.T @ (d_y_hat_1 * y_hat_1)  # f32[4,3]
    return [loss, d_weight]


def update(weight, d_weight):
    """P × P′ → P: the optimiser's part of a step."""
    new_weight = weight - 0.1 * d_weight  # f32[4,3]
    return [new_weight]


def step(weight, x_0, x_1, y_0, y_1):
    """P × X × Y → R × P: one step of training, and the loss before it."""
    batch = x_0.shape[0]
    y_hat_0 = np.tanh(x_0 @ weight)  # f32[batch,3]
    square = np.square(x_1)  # f32[batch,4]
    y_hat_1 = np.exp(square @ weight)  # f32[batch,3]
    difference = y_hat_0 - y_0  # f32[batch,3]
    count = np.float32(3 * batch)  # f32[]
    difference_1 = y_hat_1 - y_1  # f32[batch,3]
    loss = np.square(difference).sum() / count + np.square(difference_1).sum() / count  # f32[]
    quotient = np.float32(2) / count  # f32[]
    d_y_hat_0 = quotient * difference  # f32[batch,3]
    d_y_hat_1 = quotient * difference_1  # f32[batch,3]
    d_weight = x_0.T @ (d_y_hat_0 * (1 - y_hat_0 * y_hat_0)) + square.T @ (d_y_hat_1 * y_hat_1)  # f32[4,3]
    new_weight = weight - 0.1 * d_weight  # f32[4,3]
    return [loss, new_weight]
