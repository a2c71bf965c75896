"""Gated linear units, as the feed-forward networks of transformers."""

from __future__ import annotations

from catgrad.initialisers import Initial, fan_in_uniform
from catgrad.learn.layers.arguments import checked
from catgrad.learn.layers.basic import affine
from catgrad.learn.layers.parts import Activation, gelu, label, silu
from catgrad.learn.options import check_integer
from catgrad.terms.build import build
from catgrad.terms.op import scope
from catgrad.terms.term import Term, obj
from catgrad.types import NdArrayType


@checked
def gated(
    A: NdArrayType,
    B: NdArrayType,
    hidden: int,
    activation: Activation = silu,
    bias: bool = False,
    name: str = "mlp",
    initial: Initial = fan_in_uniform,
) -> Term:
    """Gated feed-forward network: y = (σ(x · W) · (x · V)) · U, with `bias` plus b, c and a.

    Type:       A + B -> A + B, with `hidden` features between, and the matrices `<name>.gate_proj.weight` W,
                `<name>.up_proj.weight` V of type B + [hidden], `<name>.down_proj.weight` U of type
                [hidden] + B; with bias `<name>.gate_proj.bias` b, `<name>.up_proj.bias` c and
                `<name>.down_proj.bias` a
    Initial:    all U(-1/√n, 1/√n), n the number of elements contracted; `initial` is for the matrices
    Raises:     OptionError unless `hidden` is an integer ≥ 1
    Source:     Shazeer 2020 (arXiv:2002.05202), equation 6; the names are those of Llama
    """
    with scope(name):
        check_integer("hidden", hidden, 1)
        H = B.with_shape((hidden,))
        gate = affine(A, B, H, "gate_proj", bias, initial) >> activation(obj(A + H))
        up, down = affine(A, B, H, "up_proj", bias, initial), affine(A, H, B, "down_proj", bias, initial)
        return build(lambda x: label("out", down(gate(x) * up(x))), [A + B])


@checked
def swiglu(
    A: NdArrayType,
    B: NdArrayType,
    hidden: int,
    bias: bool = False,
    name: str = "mlp",
    initial: Initial = fan_in_uniform,
) -> Term:
    """SwiGLU: the feed-forward network of Llama, Mistral and Qwen, `gated` by σ(z) = z · sigmoid(z)."""
    return gated(A, B, hidden, silu, bias, name, initial)


@checked
def geglu(
    A: NdArrayType,
    B: NdArrayType,
    hidden: int,
    bias: bool = False,
    name: str = "mlp",
    initial: Initial = fan_in_uniform,
) -> Term:
    """GEGLU: a feed-forward network `gated` by the exact GELU."""
    return gated(A, B, hidden, gelu, bias, name, initial)
