"""The operations. Every module here declares some; importing the package registers them all."""

from catgrad.ops.compare import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    maximum,
    relu,
    select,
)
from catgrad.ops.contract import contract, matmul
from catgrad.ops.elementwise import (
    add,
    divide,
    exp,
    log,
    multiply,
    negate,
    sigmoid,
    sqrt,
    square,
    subtract,
    tanh,
)
from catgrad.ops.reduce import broadcast, mean, number_of, sum  # noqa: A004
from catgrad.ops.shape import permute, reshape, transpose
from catgrad.structural import zeros_like

__all__ = [
    "add", "broadcast", "contract", "divide", "equal", "exp", "greater", "greater_equal",
    "less", "less_equal", "log", "matmul",
    "maximum", "mean", "multiply", "negate", "number_of", "permute", "relu", "reshape", "select",
    "sigmoid", "sqrt", "square", "subtract", "sum", "tanh", "transpose", "zeros_like",
]  # fmt: skip
