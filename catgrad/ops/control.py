"""Loops, branches and recomputation: operations whose attributes are terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catgrad.dims import Size
from catgrad.errors import DtypeError, OptionError, TermError, TypeMismatch
from catgrad.ops.scan import Reverse, Scan
from catgrad.ops.transcendental import tanh
from catgrad.terms.block import Block, HigherOrder
from catgrad.terms.build import build, build_inside
from catgrad.terms.dead_code import selected, used_inputs, with_inputs
from catgrad.terms.op import Examples, Op, Types
from catgrad.terms.structural import Barrier, is_differentiable
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = ["checkpoint", "cond", "repeat", "scan"]

Variables = Var | Sequence[Var]
"""One variable, or several."""


class Cond(HigherOrder):
    """Branch: y = then(x) if the condition holds, else otherwise(x).

    Type:     (bool[], X…) -> (Y…), for then, otherwise : (X…) -> (Y…)
    Raises:   DtypeError, ShapeError if the condition is not one boolean; TypeMismatch if the
              branches do not fit
    Gradient: the branch of the reverses
    """

    then: Block
    otherwise: Block

    def type(self, condition: NdArrayType, *types: NdArrayType) -> Types:
        if condition is not NdArrayType((), Dtype.bool):
            raise DtypeError(
                "the condition of a branch must be a boolean scalar", f"it is {condition}", "reduce it first"
            )
        if (
            not self.then.inputs == self.otherwise.inputs == types
            or self.then.outputs != self.otherwise.outputs
        ):
            raise TypeMismatch(
                "both branches must take the operands, and return the same types",
                f"they map {self.then.inputs} to {self.then.outputs} and from {self.otherwise.inputs} "
                f"to {self.otherwise.outputs}",
                "give both the same types",
            )
        return self.then.outputs

    def ref(self, condition: Array, *arrays: Array) -> tuple[Array, ...]:
        return tuple((self.then if condition else self.otherwise).evaluate(*arrays))

    def pruned(self, needed: Sequence[bool]) -> tuple[Op, Sequence[int], Sequence[int]] | None:
        """Remove unused results, and dead code and inputs that only they needed."""
        outputs = [i for i, wanted in enumerate(needed) if wanted]
        branches = [selected(block.term, outputs) for block in (self.then, self.otherwise)]
        inputs = used_inputs(branches)
        if len(outputs) == len(needed) and len(inputs) == len(self.then.inputs):
            return None
        then, otherwise = (Block(with_inputs(term, inputs)) for term in branches)
        return Cond(then, otherwise), [0, *(1 + i for i in inputs)], outputs

    def optic(self, reverse: Reverse, *types: NdArrayType) -> tuple[Term, Term]:
        """Return the branch with its arguments as residual, and the branch between the reverses."""
        values = len(self.then.outputs)
        then, otherwise = (
            Block(selected(joint, range(values, len(joint.target))))
            for joint in (reverse(self.then.term), reverse(self.otherwise.term))
        )
        cotangents = filter(is_differentiable, self.then.outputs)
        return (
            build(lambda *a: [*self.apply(*a), *a], types),
            build(lambda *a: list(Cond(then, otherwise).apply(*a)), [*types, *cotangents]),
        )

    @classmethod
    def examples(cls) -> Examples:
        x = NdArrayType((2,))
        then = Block(build(lambda x, y: x * y, [x, x]))
        otherwise = Block(build(lambda x, y: tanh(x), [x, x]))
        return [(cls(then, otherwise), (NdArrayType((), Dtype.bool), x, x))]


class Checkpoint(HigherOrder):
    """Checkpoint: a term whose inner values are recomputed in the reverse; the residual is its arguments.

    Type:     (X…) -> (Y…), for block : (X…) -> (Y…)
    Gradient: that of the block, recomputed from its arguments
    Source:   Chen et al. 2016 (arXiv:1604.06174), section 4
    """

    block: Block

    def type(self, *types: NdArrayType) -> Types:
        if self.block.inputs != types:
            raise TypeMismatch(
                f"the term must be applied to {self.block.inputs}",
                f"the operands are {types}",
                "check the sizes",
            )
        return self.block.outputs

    def ref(self, *arrays: Array) -> tuple[Array, ...]:
        return tuple(self.block.evaluate(*arrays))

    def body(self, *x: Var) -> list[Var]:
        return list(self.block.term.apply(*x))

    def pruned(self, needed: Sequence[bool]) -> tuple[Op, Sequence[int], Sequence[int]] | None:
        """Remove unused results, and dead code and inputs that only they needed."""
        outputs = [i for i, wanted in enumerate(needed) if wanted]
        term = selected(self.block.term, outputs)
        inputs = used_inputs([term])
        if len(outputs) == len(needed) and len(inputs) == len(self.block.inputs):
            return None
        return Checkpoint(Block(with_inputs(term, inputs))), inputs, outputs

    def optic(self, reverse: Reverse, *types: NdArrayType) -> tuple[Term, Term]:
        """Return the term with its arguments as residual, and its reverse after a barrier."""
        joint = reverse(self.block.term)
        cotangents = tuple(filter(is_differentiable, self.block.outputs))

        def again(*arguments: Var) -> list[Var]:
            # Without the barrier, common subexpressions with the forward map would be shared and stored.
            return list(joint.apply(*Barrier(len(arguments)).apply(*arguments))[len(self.block.outputs) :])

        return build(lambda *x: [*self.apply(*x), *x], types), build(again, [*types, *cotangents])

    @classmethod
    def examples(cls) -> Examples:
        x = NdArrayType((2,))
        return [(cls(Block(build(lambda x: tanh(tanh(x) * x), [x]))), (x,))]


def scan(
    body: Callable[..., tuple[Variables, Variables]],
    initial: Variables,
    arrays: Variables = (),
    length: Size | None = None,
    backwards: bool = False,
) -> tuple[Any, Any]:
    """Apply (c, y) = body(c, x) to the rows x of arrays; return the last c, and all y stacked.

    `initial`, `arrays` and the results of the body are each a variable or a tuple of them. The body
    may read variables and parameters of the enclosing function.

    Raises: OptionError if there are no arrays and no length; ShapeError if rows differ in number;
            TypeMismatch if the carry changes its type; TermError for a result that is not a variable
    """
    carry, rows = as_tuple(initial), as_tuple(arrays)
    check_variables("scan", *carry, *rows)
    if length is None:
        if not rows or not rows[0].shape:
            raise OptionError(
                "a loop must have rows to run over, or a length", "it has neither", "give length"
            )
        length = rows[0].shape[0]

    def iteration(*arguments: Var) -> list[Var]:
        c, x = arguments[: len(carry)], arguments[len(carry) :]
        new, stacked = _split_results(body(like(initial, c), like(arrays, x)), len(carry))
        return [*new, *stacked]

    inside = [*(c.type for c in carry), *(x.type.with_shape(x.shape[1:]) for x in rows)]
    term, around = build_inside(iteration, inside)
    results = Scan(Block(term), length, len(carry), len(rows), backwards).apply(*carry, *rows, *around)
    outputs = results[len(carry) :]
    return like(initial, results[: len(carry)]), outputs[0] if len(outputs) == 1 else outputs


def _split_results(result: object, carried: int) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
    """Split the results of a loop body into carry and stacked rows."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise OptionError(
            "the body of scan must return the carries and the row to stack",
            f"it returns {result!r}",
            "return for example (h, h)",
        )
    new, stacked = map(as_tuple, result)
    if len(new) != carried:
        # Otherwise the last of them would be taken for the stacked rows.
        raise TypeMismatch(
            "the body of scan must return as many carries as it takes",
            f"it takes {carried} and returns {len(new)}",
            "return (c, y) with c like the initial value",
        )
    return new, stacked


def repeat(body: Callable[..., Variables], times: Size, *initial: Var) -> Any:
    """Apply body to x `times` times: body(… body(body(x))).

    Raises: TypeMismatch if the body changes the types; as scan
    """
    carry = initial[0] if len(initial) == 1 else initial
    result, _ = scan(lambda c, _: (body(*as_tuple(c)), ()), carry, length=times)
    return result


def cond(
    condition: Var, then: Callable[..., Variables], otherwise: Callable[..., Variables], *operands: Var
) -> Any:
    """Return then(*operands) if the condition, one boolean, holds, else otherwise(*operands).

    Both may read variables and parameters of the enclosing function.

    Raises: DtypeError unless the condition is one boolean; TypeMismatch if the branches return
            other types; TermError for what is no variable
    """
    check_variables("cond", condition, *operands)
    types = [operand.type for operand in operands]
    built = [build_inside(branch, types) for branch in (then, otherwise)]
    around = {variable.wire: variable for _, captured in built for variable in captured}
    inputs = [*types, *(variable.type for variable in around.values())]
    place = {wire: len(types) + i for i, wire in enumerate(around)}

    def widened(term: Term, captured: Sequence[Var]) -> Block:
        read = [*range(len(types)), *(place[variable.wire] for variable in captured)]
        return Block(build(lambda *a: list(term.apply(*(a[i] for i in read))), inputs))

    results = Cond(*(widened(*each) for each in built)).apply(condition, *operands, *around.values())
    return results[0] if len(results) == 1 else results


def checkpoint(function: Callable[..., Variables], *operands: Var) -> Any:
    """Return function(*operands), whose inner values are recomputed in the reverse and not stored.

    Raises: TermError for an operand that is no variable
    """
    check_variables("checkpoint", *operands)
    term, around = build_inside(function, [operand.type for operand in operands])
    results = Checkpoint(Block(term)).apply(*operands, *around)
    return results[0] if len(results) == 1 else results


def check_variables(subject: str, *values: object) -> None:
    """Raise TermError unless all values are variables."""
    for value in values:
        if not isinstance(value, Var):
            raise TermError(
                f"{subject} must be applied to variables",
                f"one is {value!r}",
                "write for example zeros_like(x)",
            )


def as_tuple(values: Any) -> tuple[Any, ...]:
    """Return several values, or a single one, as a tuple."""
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def like(pattern: Variables, values: Sequence[Var]) -> Any:
    """Return values as a tuple if the pattern is several, else the only one."""
    return tuple(values) if isinstance(pattern, (tuple, list)) else values[0]
