"""Selection: operations become nodes of ggml where it has them, and functions in C elsewhere.

Operations without a node, and those on elements, are grouped into cones; each is one function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from catgrad.ops.reduce import Broadcast
from catgrad.printing.dialect import Layers
from catgrad.programs.cones import Cones
from catgrad.programs.passes.prune import prune
from catgrad.programs.program import Apply, Function, Nested
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant
from catgrad.types import Dtype, NdArrayType

from .host import HostFunctions
from .lists import OF_LISTS
from .nodes import LayerLoop

MAX_OPERANDS = 8
"""Operands of a function in C, of which a node has fewer than ten (GGML_MAX_SRC)."""

SINGLE = (Dtype.float32, *(dtype for dtype in Dtype if not dtype.is_numeric))
"""Dtypes whose tensors are float32, of which ggml has arithmetic; truth is 1 or 0."""

DEFERRED = (Constant, Broadcast)
"""Operations that are computed by those that read them."""

Condition = Callable[[Any, Sequence[NdArrayType]], bool]


def _single(op: Op, types: Sequence[NdArrayType]) -> bool:
    return all(type.dtype in SINGLE for type in types)


def _rows(op: Op, types: Sequence[NdArrayType]) -> bool:
    return types[0].dtype is Dtype.float32 and types[1].dtype in (Dtype.int32, Dtype.int64)


def _images(op: Any, types: Sequence[NdArrayType]) -> bool:
    return _single(op, types) and len(op.strides) <= 2 and getattr(op, "groups", 1) == 1


def _pool(op: Any, types: Sequence[NdArrayType]) -> bool:
    counts = getattr(op, "counts_padding", True) or not any(op.padding)
    return _images(op, types) and set(op.dilations) == {1} and counts


def _block(op: Any, types: Sequence[NdArrayType]) -> bool:
    """Return whether four axes tell a block from the whole; one that it has whole joins the one before."""
    partial = [k for k, (size, whole) in enumerate(zip(op.sizes, op.whole, strict=True)) if size != whole]
    return _single(op, types) and len({0, *partial}) <= 4


ELEMENTWISE = (
    "Negate", "Abs", "Sign", "Square", "Exp", "Expm1", "Log", "Sqrt", "Sin", "Cos", "Tanh", "Floor", "Relu",
    "Sigmoid", "Silu", "Gelu", "Add", "Subtract", "Multiply", "Divide", "Greater", "Less", "And", "Or", "Not",
)  # fmt: skip

REDUCTIONS = ("Sum", "Softmax", "LayerNorm", "RmsNorm")
"""Operations on rows that are fused with those on elements."""

SLOW = ("Exp", "Expm1", "Log", "Sin", "Cos", "Tanh", "Sigmoid", "Gelu", "Softmax")
"""Operations for which ggml calls libm for each element on a CPU, so that a function is worth its call."""

INEXACT = ("Relu", "Sign", "Select", "MaxPool")
"""Operations whose nodes are slow or wrong for numbers that are not finite: a CPU calls functions."""

NODES: Mapping[str, Condition] = {
    **dict.fromkeys(("Constant", "ArrayLiteral", "Iota", "NumberOf"), lambda op, types: True),
    **dict.fromkeys((*ELEMENTWISE, "Reshape", "Permute", "Concat", "Sum", "Contract", "Broadcast"), _single),
    **dict.fromkeys(("LayerNorm", "RmsNorm"), _single),
    **dict.fromkeys(("Slice", "Pad"), _block),
    **dict.fromkeys(("Gather", "ScatterAdd"), _rows),
    **dict.fromkeys(("Conv", "ConvWeight", "ConvTranspose"), _images),
    **dict.fromkeys(("MaxPool", "AvgPool"), _pool),
    "Cast": lambda op, types: op.before in SINGLE and op.after is Dtype.float32,
    "Softmax": lambda op, types: _single(op, types) and op.axis == types[0].rank - 1,
}
"""For each operation that ggml has, at which attributes and types."""


def selected(function: Function, hosts: HostFunctions, kernels: bool, loop: Layers | None = None) -> Function:
    """Replace each cone by a call of a function in C, in nested blocks too; single fast nodes stay.

    Without `kernels`, operations on elements stay nodes. The function may be the body of a `loop`.
    """
    nodes = Nodes(function, kernels, loop)
    cones = Cones(function, nodes.join_others, lambda apply: isinstance(apply.op, DEFERRED), MAX_OPERANDS)
    body = []
    for place, apply in enumerate(function.body):
        if isinstance(apply.op, Nested):
            inside = tuple(selected(block, hosts, kernels) for block in apply.op.functions)
            body.append(apply._replace(op=Nested(apply.op.op, inside)))
        elif isinstance(apply.op, LayerLoop):
            layer = selected(apply.op.function, hosts, kernels, apply.op.loop)
            body.append(apply._replace(op=replace(apply.op, function=layer)))
        elif place not in cones.roots:
            body.append(apply)
        elif cones.roots[place] == place:
            for value in apply.outputs:
                cone = cones.at(place, value)
                steps = [step for step in cone.body if not isinstance(step.op, DEFERRED)]
                have_nodes = all(map(nodes.has, steps))
                if have_nodes and len(steps) == 1 and apply.op.macro not in (*SLOW, *INEXACT):
                    body.append(apply)
                else:
                    is_exact = any(step.op.macro in INEXACT for step in steps)
                    call = hosts.call(cone, function, have_nodes, is_exact)
                    body.append(Apply(call, cone.inputs, (value,)))
    return prune(replace(function, body=tuple(body)))


class Nodes:
    """The operations of one function that are nodes of ggml."""

    def __init__(self, function: Function, kernels: bool, loop: Layers | None) -> None:
        self.function, self.kernels = function, kernels
        self.taken = loop.parts(function.arguments)[1] if loop else function.arguments
        self.replacing = function.results[loop.carried :] if loop else function.results
        self.producer = {value: apply for apply in function.body for value in apply.outputs}

    def has(self, apply: Apply) -> bool:
        """Return whether ggml has the operation."""
        if apply.op.macro == "Select":
            return self._chooses_number(apply)
        condition = NODES.get(apply.op.macro)
        return condition is not None and condition(
            apply.op, [self.function.types[value] for value in (*apply.inputs, *apply.outputs)]
        )

    def join_others(self, apply: Apply) -> bool:
        """Return whether an operation belongs to a cone; one that adds to an argument is done in place."""
        if isinstance(apply.op, (Nested, *OF_LISTS)):
            return False
        adds = apply.op.macro in ("Add", "Subtract") and apply.inputs[0] in self.taken
        fuses = self.kernels and (apply.op.elementwise or apply.op.macro in (*REDUCTIONS, *INEXACT))
        return not self.has(apply) or (fuses and not (adds and apply.outputs[0] in self.replacing))

    def _chooses_number(self, apply: Apply) -> bool:
        """Return whether a Select is a product or a sum: between float32 and 0, or float32 and -inf."""
        x, y = (self._constant(value) for value in apply.inputs[1:])
        is_float = self.function.types[apply.outputs[0]].dtype is Dtype.float32
        return is_float and (0 in (x, y) or (y == -inf and x is None))

    def _constant(self, value: int) -> float | None:
        apply = self.producer.get(value)
        while apply is not None and isinstance(apply.op, Broadcast):
            apply = self.producer.get(apply.inputs[0])
        return apply.op.value if apply is not None and isinstance(apply.op, Constant) else None
