"""Normalisation, with a learned scale and shift."""

from __future__ import annotations

from catgrad import ops
from catgrad.initialisers import ZEROS, Filled, Initial, chosen
from catgrad.learn.layers.arguments import checked
from catgrad.learn.layers.parts import copies, label, parameter
from catgrad.terms.build import build
from catgrad.terms.op import scope
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import NdArrayType

ONES = Filled(1.0)


@checked
def layer_norm(
    A: NdArrayType,
    B: NdArrayType,
    epsilon: float = 1e-5,
    name: str = "norm",
    bias: bool = True,
    initial: Initial = ONES,
    bias_initial: Initial = ZEROS,
) -> Term:
    """y = (x - μ) / √(σ² + ε) · w + b, with mean and variance over the axes of B.

    Type:       A + B -> A + B, with the parameters `<name>.weight` and `<name>.bias` of type B
    Initial:    1 and 0, as in torch.nn.LayerNorm
    """

    def forward(x: Var) -> Var:
        weight = parameter("weight", B, chosen(initial, B.size, B.size))
        if not bias:
            return label("out", ops.layer_norm(x, B.rank, epsilon) * copies(weight, A + B))
        shift = parameter("bias", B, chosen(bias_initial, B.size, B.size))
        return label("out", ops.affine_layer_norm(x, weight, shift, epsilon))

    with scope(name):
        return build(forward, [A + B])


@checked
def rms_norm(
    A: NdArrayType, B: NdArrayType, epsilon: float = 1e-5, name: str = "norm", initial: Initial = ONES
) -> Term:
    """y = x / √(mean x² + ε) · w, with the mean over the axes of B.

    Type:       A + B -> A + B, with the parameter `<name>.weight` of type B
    Initial:    1, as in torch.nn.RMSNorm
    """

    def forward(x: Var) -> Var:
        weight = parameter("weight", B, chosen(initial, B.size, B.size))
        return label("out", ops.rms_norm(x, B.rank, epsilon) * copies(weight, A + B))

    with scope(name):
        return build(forward, [A + B])


@checked
def group_norm(
    x: NdArrayType,
    groups: int,
    epsilon: float = 1e-5,
    name: str = "norm",
    initial: Initial = ONES,
    bias_initial: Initial = ZEROS,
) -> Term:
    """y = (x - μ) / √(σ² + ε) · w + b, with mean and variance over each group of channels.

    Type:       T[N, C, …] -> T[N, C, …], with the parameters `<name>.weight` and `<name>.bias` of type [C]
    Initial:    1 and 0, as in torch.nn.GroupNorm
    Raises:     ShapeError unless the groups divide the channels
    """
    channels = x.with_shape(x.shape[1:2])
    others = (0, *range(2, x.rank))

    def forward(image: Var) -> Var:
        y = ops.group_norm(image, groups, epsilon)
        weight = parameter("weight", channels, chosen(initial, channels.size, channels.size))
        shift = parameter("bias", channels, chosen(bias_initial, channels.size, channels.size))
        scaled = y * ops.broadcast(weight, x.shape, others)
        return label("out", scaled + ops.broadcast(shift, x.shape, others))

    with scope(name):
        return build(forward, [x])
