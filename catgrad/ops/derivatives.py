"""Derivatives as operations: gradients, and vector-Jacobian, Jacobian-vector and Hessian-vector products.

Each is made of the reverse derivative of a block. That is linear in the cotangent, so that its own reverse
derivative in that is the forward derivative. It is differentiated like any operation, to any order.

Source: Cockett et al. 2019, Reverse derivative categories (arXiv:1910.07065), section 3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catgrad.errors import DtypeError, OptionError, ShapeError, TypeMismatch
from catgrad.ops.control import Variables, as_tuple, check_variables, like
from catgrad.ops.scan import Reverse
from catgrad.ops.transcendental import tanh
from catgrad.terms.block import Block, HigherOrder
from catgrad.terms.build import build, build_inside
from catgrad.terms.dead_code import selected, used_inputs, with_inputs
from catgrad.terms.op import Examples, Op, Types
from catgrad.terms.structural import Constant, is_differentiable
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["grad", "hvp", "jvp", "vjp"]


class VectorJacobian(HigherOrder):
    """Reverse derivative of a block at a point, by its arguments at `positions`: x′ = y′ J(x).

    Type:     (X…, Y′…) -> (X′…), for block : (X…) -> (Y…), without cotangents of booleans
    Gradient: of the body, so of the second order
    """

    block: Block
    positions: tuple[int, ...]

    def type(self, *types: NdArrayType) -> Types:
        expected = (*self.block.inputs, *filter(is_differentiable, self.block.outputs))
        if types != expected:
            raise TypeMismatch(
                f"a reverse derivative must get {expected}",
                f"it gets {types}",
                "give a cotangent for each result",
            )
        return tuple(self.block.inputs[k] for k in self.positions)

    def ref(self, *arrays: Array) -> tuple[Array, ...]:
        return tuple(Block(self._term()).evaluate(*arrays))

    def body(self, *arguments: Var) -> list[Var]:
        return list(self._term().apply(*arguments))

    def pruned(self, needed: Sequence[bool]) -> tuple[Op, Sequence[int], Sequence[int]] | None:
        """Remove unused cotangents, and inputs that the block does not read and no cotangent belongs to."""
        results = [i for i, wanted in enumerate(needed) if wanted]
        positions = [self.positions[i] for i in results]
        term, count = self.block.term, len(self.block.inputs)
        inputs = sorted({*used_inputs([term]), *positions})
        if len(results) == len(needed) and len(inputs) == count:
            return None
        block = Block(with_inputs(term, inputs))
        cotangents = sum(map(is_differentiable, block.outputs))
        op = VectorJacobian(block, tuple(map(inputs.index, positions)))
        return op, [*inputs, *range(count, count + cotangents)], results

    def _term(self) -> Term:
        from catgrad.functors.reverse import reverse_derivative  # it expands this operation

        differentiable = [k for k, type in enumerate(self.block.inputs) if is_differentiable(type)]
        return selected(reverse_derivative(self.block.term), [*map(differentiable.index, self.positions)])

    @classmethod
    def examples(cls) -> Examples:
        x = NdArrayType((2, 3))
        block = Block(build(lambda x, y: x * tanh(x * y), [x, x]))
        once = cls(block, (0, 1))
        again = Block(build(lambda *a: list(once.apply(*a)), [x, x, x]))
        return [(once, (x, x, x)), (cls(block, (1,)), (x, x, x)), (cls(again, (0, 2)), (x, x, x, x, x))]


class DeclaredReverse(HigherOrder):
    """A block whose reverse derivative is another one, as in `jax.custom_vjp`.

    Values that both blocks compute from the inputs are shared.

    Type:     (X…) -> (Y…), for forward : (X…) -> (Y…) and backward : (X…, Y′…) -> (X′…)
    Raises:   TypeMismatch if the blocks do not fit
    Gradient: as declared
    """

    forward: Block
    backward: Block

    def __post_init__(self) -> None:
        x, y = (tuple(filter(is_differentiable, t)) for t in (self.forward.inputs, self.forward.outputs))
        if (self.backward.inputs, self.backward.outputs) != ((*self.forward.inputs, *y), x):
            raise TypeMismatch(
                f"the reverse of a block must map {(*self.forward.inputs, *y)} to {x}",
                f"it maps {self.backward.inputs} to {self.backward.outputs}",
                "take the inputs and a cotangent of each output, and return one of each input",
            )

    def type(self, *types: NdArrayType) -> Types:
        if types != self.forward.inputs:
            raise TypeMismatch(
                f"a block must get {self.forward.inputs}", f"it gets {types}", "check the sizes"
            )
        return self.forward.outputs

    def ref(self, *arrays: Array) -> tuple[Array, ...]:
        return tuple(self.forward.evaluate(*arrays))

    def body(self, *arguments: Var) -> list[Var]:
        return list(self.forward.term.apply(*arguments))

    def optic(self, reverse: Reverse, *types: NdArrayType) -> tuple[Term, Term]:
        """Return the block with its arguments as residual, and the other one."""
        return build(lambda *x: [*self.apply(*x), *x], types), self.backward.term

    @classmethod
    def examples(cls) -> Examples:
        x = NdArrayType((2, 3))
        forward = Block(build(lambda x, y: x * tanh(y), [x, x]))
        backward = Block(build(lambda x, y, dz: [dz * tanh(y), dz * x * (1 - tanh(y) * tanh(y))], [x, x, x]))
        return [(cls(forward, backward), (x, x))]


def vjp(function: Callable[..., Variables]) -> Callable[[Variables, Variables], Any]:
    """Return (x, y′) ↦ y′ J(x), the vector-Jacobian product of y = function(x).

    x, y′ and the results are each a variable or a tuple of them. The function may read variables and
    parameters of the enclosing function.

    Raises: DtypeError for an argument or a result that is not floating-point; TypeMismatch if y′ has other
            types than y; TermError for what is no variable
    """

    def product(x: Variables, cotangent: Variables) -> Any:
        points, cotangents = as_tuple(x), as_tuple(cotangent)
        check_variables("vjp", *points, *cotangents)
        op, around = _derivative(function, points, range(len(points)))
        return like(x, op.apply(*points, *around, *cotangents))

    return product


def jvp(function: Callable[..., Variables]) -> Callable[[Variables, Variables], Any]:
    """Return (x, v) ↦ J(x) v, the Jacobian-vector product of y = function(x).

    It is the vector-Jacobian product of u ↦ u J(x), which is linear, at any u.

    Raises: as vjp
    """

    def product(x: Variables, tangent: Variables) -> Any:
        points, tangents = as_tuple(x), as_tuple(tangent)
        check_variables("jvp", *points, *tangents)
        op, around = _derivative(function, points, range(len(points)))

        def transposed(*cotangents: Var) -> tuple[Var, ...]:
            return op.apply(*points, *around, *cotangents)

        zeros = tuple(Constant(type, 0)() for type in op.block.outputs)
        results = vjp(transposed)(zeros, tangents)
        return results[0] if len(results) == 1 else results

    return product


def grad(function: Callable[..., Var], argument: int | Sequence[int] = 0) -> Callable[..., Any]:
    """Return (x…) ↦ ∂y/∂x, the gradient of one number y = function(x…) by one argument, or by several.

    The function may read variables and parameters of the enclosing function, and a training step
    differentiates the gradient like any operation.

    Raises: ShapeError if the function does not return one number; OptionError if there is no such argument;
            as vjp
    """
    chosen = (argument,) if isinstance(argument, int) else tuple(argument)

    def gradient(*x: Var) -> Any:
        check_variables("grad", *x)
        if not all(0 <= k < len(x) for k in chosen):
            raise OptionError(
                f"the arguments of a gradient must be among the {len(x)} of its function",
                f"they are {argument}",
                "count from 0",
            )
        op, around = _derivative(function, x, chosen)
        if [type.shape for type in op.block.outputs] != [()]:
            raise ShapeError(
                "a gradient must be that of one number",
                f"the function returns {', '.join(map(str, op.block.outputs))}",
                "apply ops.sum to it, or use ops.vjp",
            )
        results = op.apply(*x, *around, Constant(op.block.outputs[0], 1)())
        return results[0] if isinstance(argument, int) else results

    return gradient


def hvp(function: Callable[..., Var]) -> Callable[[Variables, Variables], Any]:
    """Return (x, v) ↦ H(x) v, the Hessian-vector product of one number y = function(x).

    H is symmetric, so it is the vector-Jacobian product of the gradient.

    Raises: as grad
    """

    def product(x: Variables, vector: Variables) -> Any:
        return vjp(grad(function, range(len(as_tuple(x)))))(x, vector)

    return product


def _derivative(
    function: Callable[..., Variables], x: Sequence[Var], chosen: Sequence[int]
) -> tuple[VectorJacobian, tuple[Var, ...]]:
    """Build a function on variables; return its derivative, and the variables that it reads from around.

    Raises: DtypeError unless its results and the chosen arguments are floating-point
    """
    term, around = build_inside(function, [v.type for v in x])
    block = Block(term)
    for type in (*(x[k].type for k in chosen), *block.outputs):
        if not type.dtype.is_floating:
            raise DtypeError(
                "a derivative must be that of floating-point arrays",
                f"one is {type}",
                "cast it, or let the function read it from around",
            )
    return VectorJacobian(block, tuple(chosen)), around
