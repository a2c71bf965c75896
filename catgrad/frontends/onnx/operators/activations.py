"""Activation functions, and normalised exponentials."""

from __future__ import annotations

from catgrad import ops
from catgrad.frontends.onnx.operators.operands import axis_of, full
from catgrad.frontends.onnx.registry import onnx
from catgrad.terms.var import Var

onnx("Relu", since=(13, 14))(ops.relu)
onnx("Sigmoid", since=13)(ops.sigmoid)
onnx("Softplus", since=(1, 22))(ops.softplus)
onnx("Softsign", since=(1, 22))(lambda x: x / (1 + ops.absolute(x)))
onnx("Softmax", since=13)(lambda x, *, axis=-1: ops.softmax(x, axis))
onnx("LogSoftmax", since=13)(lambda x, *, axis=-1: ops.log_softmax(x, axis))
onnx("LeakyRelu", since=(6, 16))(lambda x, *, alpha=0.01: ops.leaky_relu(x, alpha))
onnx("Elu", since=(6, 22))(lambda x, *, alpha=1.0: ops.elu(x, alpha))


@onnx("Selu", since=(6, 22))
def selu(x: Var, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Var:
    """γ x where x > 0, γ α (eˣ - 1) elsewhere."""
    return gamma * ops.elu(x, alpha)


@onnx("Shrink", since=9)
def shrink(x: Var, *, lambd: float = 0.5, bias: float = 0.0) -> Var:
    """x moved towards 0 by a bias where |x| > λ, 0 elsewhere."""
    return ops.select(x < -lambd, x + bias, ops.select(x > lambd, x - bias, full(x, 0)))


onnx("Gelu", since=20)(
    lambda x, *, approximate="none": ops.gelu(x) if approximate == "none" else ops.gelu_tanh(x)
)
onnx("HardSigmoid", since=(6, 22))(lambda x, *, alpha=0.2, beta=0.5: ops.clamp(alpha * x + beta, 0.0, 1.0))
onnx("PRelu", since=(9, 16))(lambda x, slope: ops.select(x < 0, ops.broadcast_to(slope, x.shape) * x, x))


@onnx("Hardmax", since=13)
def hardmax(x: Var, *, axis: int = -1) -> Var:
    """1 at the first greatest element along an axis, 0 elsewhere."""
    axis = axis_of(x, axis)
    place = ops.broadcast(ops.argmax(x, axis), x.shape, [axis])
    numbers = ops.iota(x.shape[axis], place.dtype)
    others = [k for k in range(x.type.rank) if k != axis]
    return ops.select(place == ops.broadcast(numbers, x.shape, others), full(x, 1), full(x, 0))
