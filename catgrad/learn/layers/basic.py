"""Linear, affine and bilinear maps, and embeddings."""

from __future__ import annotations

from catgrad import ops
from catgrad.initialisers import ZEROS, Initial, Normal, chosen, fan_in_uniform
from catgrad.learn.layers.arguments import checked
from catgrad.learn.layers.parts import Activation, copies, identity, label, parameter, sigmoid
from catgrad.learn.options import check_integer, positive
from catgrad.ops.contract import Contract
from catgrad.terms.build import build
from catgrad.terms.op import scope
from catgrad.terms.structural import stop_gradient
from catgrad.terms.term import Term, obj
from catgrad.terms.var import Var
from catgrad.types import NdArrayType

STANDARD_NORMAL = Normal()


@checked
def linear(
    A: NdArrayType, B: NdArrayType, C: NdArrayType, name: str = "linear", initial: Initial = fan_in_uniform
) -> Term:
    """Linear map: y = x · W, contracted over the axes of B.

    Type:       A + B -> A + C, with the parameter `<name>.weight` of type B + C
    Initial:    U(-1/√n, 1/√n), n the number of elements of B
    Raises:     DtypeError if A, B and C differ in dtype
    """
    with scope(name):
        return build(lambda x: label("out", _product(x, B, C, initial)), [A + B])


@checked
def bias(A: NdArrayType, B: NdArrayType, name: str = "", initial: Initial = ZEROS) -> Term:
    """Bias: y = x + b, the same b for every element of the batch.

    Type:       A + B -> A + B, with the parameter `bias` of type B, under `name` if it is given
    Initial:    0
    """
    with scope(name):
        first = chosen(initial, B.size, B.size)
        return build(lambda x: x + copies(parameter("bias", B, first), A + B), [A + B])


@checked
def dense(
    A: NdArrayType,
    B: NdArrayType,
    C: NdArrayType,
    activation: Activation | None = None,
    name: str = "dense",
    initial: Initial = fan_in_uniform,
    bias_initial: Initial = fan_in_uniform,
) -> Term:
    """Dense layer: y = σ(x · W + b), with σ the logistic function unless another is given.

    Type:       A + B -> A + C, with the parameters `<name>.weight : B + C` and `<name>.bias : C`
    Initial:    both U(-1/√n, 1/√n), n the number of elements of B, as in torch.nn.Linear
    Raises:     DtypeError if A, B and C differ in dtype
    """
    outer = (activation or sigmoid)(obj(A + C))

    def forward(x: Var) -> Var:
        product = _product(x, B, C, initial)
        b = copies(parameter("bias", C, chosen(bias_initial, B.size, C.size)), A + C)
        return label("out", outer(label("linear", product + b)))

    with scope(name):
        return build(forward, [A + B])


def affine(
    A: NdArrayType,
    B: NdArrayType,
    C: NdArrayType,
    name: str,
    bias: bool,
    initial: Initial = fan_in_uniform,
    bias_initial: Initial = fan_in_uniform,
) -> Term:
    """Affine map: y = x · W + b, or x · W without `bias`, with the parameters of `dense` or `linear`."""
    if bias:
        return dense(A, B, C, identity, name, initial, bias_initial)
    return linear(A, B, C, name, initial)


@checked
def lora(
    A: NdArrayType,
    B: NdArrayType,
    C: NdArrayType,
    rank: int,
    alpha: float,
    name: str = "linear",
    initial: Initial = fan_in_uniform,
) -> Term:
    """Linear map with a low-rank adapter: y = x · W + (α / r) · x · U · V, where W has no gradient.

    Type:       A + B -> A + C, with the parameters `<name>.weight` W of type B + C, `<name>.lora_a` U of
                type B + [r], and `<name>.lora_b` V of type [r] + C
    Initial:    W and U U(-1/√n, 1/√n), n the number of elements of B, and V 0, so that y = x · W
    Raises:     OptionError unless r is an integer ≥ 1 and α > 0; DtypeError if A, B and C differ in dtype
    Source:     Hu et al. 2021 (arXiv:2106.09685), section 4.1
    """
    check_integer("rank", rank, 1)
    scale = positive("alpha", alpha) / rank
    narrow = NdArrayType((rank,), B.dtype)

    def forward(x: Var) -> Var:
        weight = stop_gradient(parameter("weight", B + C, chosen(initial, B.size, C.size)))
        down = parameter("lora_a", B + narrow, fan_in_uniform(B.size, rank))
        up = parameter("lora_b", narrow + C)
        change = ops.contract(ops.contract(x, down, B.rank), up, 1)
        return label("out", ops.contract(x, weight, B.rank) + scale * change)

    with scope(name):
        return build(forward, [A + B])


@checked
def bilinear(
    A: NdArrayType,
    B1: NdArrayType,
    B2: NdArrayType,
    C: NdArrayType,
    name: str = "bilinear",
    initial: Initial = fan_in_uniform,
    bias_initial: Initial = fan_in_uniform,
) -> Term:
    """Bilinear map: y = x · W · z + b, linear in x and in z, contracted over the axes of B1 and of B2.

    Type:       (A + B1, A + B2) -> A + C, with the parameters `<name>.weight : B1 + B2 + C` and
                `<name>.bias : C`
    Initial:    both U(-1/√n, 1/√n), n the number of elements of B1, as in torch.nn.Bilinear
    Raises:     DtypeError if the types differ in dtype
    """
    a, b2 = tuple(range(A.rank)), tuple(range(A.rank, A.rank + B2.rank))
    c = tuple(range(A.rank + B2.rank, A.rank + B2.rank + C.rank))

    def forward(x: Var, z: Var) -> Var:
        weight = parameter("weight", B1 + B2 + C, chosen(initial, B1.size, C.size))
        maps = ops.contract(x, weight, B1.rank)
        y = Contract(a + b2 + c, a + b2, a + c)(maps, z)
        shift = parameter("bias", C, chosen(bias_initial, B1.size, C.size))
        return label("out", y + copies(shift, A + C))

    with scope(name):
        return build(forward, [A + B1, A + B2])


@checked
def embedding(
    A: NdArrayType, rows: int, C: NdArrayType, name: str = "embedding", initial: Initial = STANDARD_NORMAL
) -> Term:
    """Embedding: y = W[x], a row of the table for each integer.

    Type:       A (int32 or int64) -> A + C, with the parameter `<name>.weight` of type [rows] + C
    Initial:    N(0, 1), as in torch.nn.Embedding
    Raises:     DtypeError unless A is an integer type; at run time, IndexError outside 0 … rows - 1
    """
    table = NdArrayType((rows, *C.shape), C.dtype)
    first = chosen(initial, C.size, rows)
    with scope(name):
        return build(lambda x: label("out", ops.gather(parameter("weight", table, first), x)), [A])


def _product(x: Var, B: NdArrayType, C: NdArrayType, initial: Initial) -> Var:
    return ops.contract(x, parameter("weight", B + C, chosen(initial, B.size, C.size)), B.rank)
