"""The reverse derivative, as an optic functor applied to the whole term.

The functor R takes an object A to the pair (A, A′) of values and cotangents, and an operation
f : A → B to its forward map A → B ⊗ M and its reverse map M ⊗ B′ → A′, joined along the residual
M. Composition of optics is the chain rule.

Source: Cockett et al. 2019, Reverse derivative categories (arXiv:1910.07065);
Wilson and Zanasi 2023, Data-parallel algorithms for string diagrams (arXiv:2305.01041), section 9.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from open_hypergraphs import FiniteFunction, IndexedCoproduct, Optic

from catgrad.dims import Size
from catgrad.errors import TypeMismatch, UnsupportedOp
from catgrad.functors.expand import Expand
from catgrad.functors.local import LocalFunctor
from catgrad.functors.wide import in_wide
from catgrad.ops.derivatives import VectorJacobian
from catgrad.terms.block import Block
from catgrad.terms.build import build
from catgrad.terms.dead_code import eliminate_dead_code
from catgrad.terms.op import INPUTS, Examples, Op, Types
from catgrad.terms.structural import Constant, is_differentiable
from catgrad.terms.term import Term, check_functional, discard, identity, obj, singleton
from catgrad.types import Array, Dtype, NdArrayType

Objects = tuple[NdArrayType, ...]


def cotangents(types: Objects) -> Objects:
    """A′: the wires of A that have a cotangent."""
    return tuple(filter(is_differentiable, types))


class Reversed(Op):
    """R[f], the reverse derivative of a definition f that saves its `count` inputs.

    It is a definition too, so a target with a better implementation prints it by a macro, whose name is
    that of f with the prefix `Reverse`.

    Type:     (A…, B′…) -> (A′…), for f : A -> B
    Gradient: of the body
    """

    op: Op
    count: int

    @property
    def macro(self) -> str:
        """The name of the macro that prints it."""
        return f"Reverse{self.op.macro}"

    @property
    def rounds_once(self) -> bool:  # type: ignore[override]
        """Return whether it rounds each element once: it does if f does."""
        return self.op.rounds_once

    @property
    def contracts(self) -> bool:  # type: ignore[override]
        """Return whether it contracts arrays: it does if f does."""
        return self.op.contracts

    def type(self, *types: NdArrayType) -> Types:
        inputs = self._inputs(types)
        wanted = (*inputs, *cotangents(self.op.outputs(*inputs)))
        if types != wanted:
            raise TypeMismatch(
                f"the reverse of {self.op} must get {wanted}",
                f"it gets {types}",
                "give a cotangent for each output",
            )
        return cotangents(inputs)

    def minimum_sizes(self, *types: Any, **_: Any) -> tuple[tuple[Size, int], ...]:
        return self.op.minimum_sizes(*self._inputs(types))

    def result_name(self, *operands: str) -> str:
        """Return `d_norm.x` for the cotangent `d_norm.out`, after the layer that it is reversed in."""
        layer = operands[-1].rpartition(".")[0]
        return f"{layer}.x" if layer.startswith("d_") else "reversed"

    def ref(self, *arrays: Array) -> Any:
        types = tuple(NdArrayType(a.shape, Dtype[a.dtype.name]) for a in arrays)
        return tuple(Block(self._term(self._inputs(types))).evaluate(*arrays))

    def body(self, *arguments: Any) -> Any:
        term = self._term(self._inputs(tuple(a.type for a in arguments)))
        return list(term.apply(*arguments))

    def _inputs(self, types: Objects) -> Objects:
        return types[: self.count]

    def _term(self, inputs: Objects) -> Term:
        if self.op.rev is not None:
            return build(self.op.rev, [*inputs, *cotangents(self.op.outputs(*inputs))])
        return reverse_derivative(build(self.op.body or _no_body, inputs))

    @classmethod
    def examples(cls) -> Examples:
        from catgrad.ops.activations import Silu

        x = NdArrayType((2, 3))
        return [(cls(Silu(), 1), (x, x))]


def _no_body(*_: Any) -> Any:
    raise UnsupportedOp(
        "an operation without rev must be a definition to be reversed", "it has no body", "declare rev"
    )


class Optics:
    """The forward and reverse maps of operations with an `optic`, cached by operation and types."""

    def __init__(self) -> None:
        self._known: dict[tuple[Op, Objects], tuple[Term, Term]] = {}

    def of(self, op: Op, inputs: Objects) -> tuple[Term, Term]:
        """Return the maps A → B ⊗ M and M ⊗ B′ → A′."""
        if op.optic is None:
            raise UnsupportedOp("an operation must declare its optic", f"{op} does not", "declare rev")
        if (op, inputs) not in self._known:
            self._known[op, inputs] = op.optic(reverse, *inputs)
        return self._known[op, inputs]


class Forward(LocalFunctor):
    """Map f : A → B to A → B ⊗ M: apply f, and save the residual of its reverse."""

    def __init__(self, optics: Optics) -> None:
        super().__init__()
        self.optics = optics

    def map_op(self, op: Op, inputs: Objects) -> Term:
        if op.optic is not None:
            return self.optics.of(op, inputs)[0]

        def apply_and_save(*x: Any) -> Any:
            y = op.apply(*x)
            return (*y, *op.saves.pick(x, y))

        return build(apply_and_save, inputs)


class Backward(LocalFunctor):
    """Map f : A → B to M ⊗ B′ → A′."""

    def __init__(self, optics: Optics) -> None:
        super().__init__()
        self.optics = optics

    def map_objects(self, objects: FiniteFunction) -> IndexedCoproduct:
        has_one = np.fromiter(map(is_differentiable, objects.table), dtype=bool, count=len(objects))
        return IndexedCoproduct(
            FiniteFunction(None, has_one.astype(FiniteFunction.Dtype)),
            FiniteFunction(None, objects.table[has_one]),
        )

    def map_op(self, op: Op, inputs: Objects) -> Term:
        if op.optic is not None:
            return self.optics.of(op, inputs)[1]
        outputs = op.outputs(*inputs)
        saved = op.saves.pick(inputs, outputs)
        arguments = (*saved, *cotangents(outputs))
        if not cotangents(outputs):
            return build(lambda *_: [Constant(t, 0)() for t in cotangents(inputs)], saved)
        if op.body is not None and op.saves == INPUTS:
            return singleton(Reversed(op, len(inputs)), *arguments)
        if op.rev is not None:
            return build(in_wide(op, op.rev, arguments, cotangents(inputs)), arguments)
        if op.body is not None:
            return reverse_derivative(build(in_wide(op, op.body, inputs, outputs), inputs))
        raise UnsupportedOp(
            "an operation must have a reverse derivative to be differentiated",
            f"{op} has neither rev nor body",
            "declare rev, or keep it out of the model",
        )


class Reverse(Optic):  # type: ignore[misc]  # open-hypergraphs is not annotated
    """The optic functor of the reverse derivative."""

    def __init__(self) -> None:
        self.optics = Optics()
        self.F, self.R = Forward(self.optics), Backward(self.optics)

    @classmethod
    def OpenHypergraph(cls) -> type[Term]:
        return Term

    def residual(
        self, ops: FiniteFunction, sources: IndexedCoproduct, targets: IndexedCoproduct
    ) -> IndexedCoproduct:
        saved = [
            obj(*self._saved(op, tuple(s.table), tuple(t.table)))
            for op, s, t in zip(ops.table, sources, targets, strict=True)
        ]
        return IndexedCoproduct.from_list(None, saved, dtype=object)

    def _saved(self, op: Op, inputs: Objects, outputs: Objects) -> Objects:
        if op.optic is None:
            return op.saves.pick(inputs, outputs)
        return tuple(self.optics.of(op, inputs)[0].target.table[len(outputs) :])


def reverse(f: Term, functor: Reverse | None = None) -> Term:
    """Return A ⊗ B′ → B ⊗ A′ for F : A → B: the value and the vector-Jacobian product.

    Dead code is eliminated first: its cotangent is 0, and 0 times an infinite slope would be NaN.
    Use one `functor` for several terms with common operations: it caches their images.
    Raises: TermError if a wire dangles or is merged; UnsupportedOp.
    """
    check_functional(f)
    # Derivatives inside the term are differentiated as what they compute, which shares its values.
    f = eliminate_dead_code(Expand(lambda op: not isinstance(op, VectorJacobian))(f))
    functor = functor or Reverse()
    return cast(Term, functor.adapt(functor(f), f.source, f.target))


def reverse_derivative(f: Term) -> Term:
    """Return R[f] : A ⊗ B′ → A′, for f : A → B."""
    values, cotangent = tuple(f.target.table), cotangents(tuple(f.source.table))
    return reverse(f) >> discard(*values) @ identity(*cotangent)
