"""Functors that are the identity on objects, defined by one term for each operation."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from open_hypergraphs import FiniteFunction, FrobeniusFunctor, IndexedCoproduct

from catgrad.terms.op import Op
from catgrad.terms.term import Term, substituted, tensor
from catgrad.types import NdArrayType


class LocalFunctor(FrobeniusFunctor):  # type: ignore[misc]  # open-hypergraphs is not annotated
    """F(A) = A on objects; subclasses define the image of an operation, in `map_op`.

    The image is cached by operation and input types, which makes functors linear with a small constant.
    """

    def __init__(self) -> None:
        self._images: dict[tuple[Any, ...], Term] = {}

    @classmethod
    def OpenHypergraph(cls) -> type[Term]:
        return Term

    def map_arrow(self, term: Term) -> Term:
        """Replace each operation by its image, where it is."""
        return substituted(term, lambda op, inputs: None if self.keeps(op) else self._image(op, inputs))

    def keeps(self, op: Op) -> bool:
        """Tell whether an operation is known to be its own image."""
        return False

    def map_objects(self, objects: FiniteFunction) -> IndexedCoproduct:
        return IndexedCoproduct.elements(objects)

    def map_operations(
        self, ops: FiniteFunction, sources: IndexedCoproduct, targets: IndexedCoproduct
    ) -> Term:
        return tensor(*(self._image(op, tuple(s.table)) for op, s in zip(ops.table, sources, strict=True)))

    def _image(self, op: Op, inputs: tuple[NdArrayType, ...]) -> Term:
        key = (op, *inputs)
        if key not in self._images:
            self._images[key] = self.map_op(op, inputs)
        return self._images[key]

    @abstractmethod
    def map_op(self, op: Op, inputs: tuple[NdArrayType, ...]) -> Term:
        """Return the image of one operation at these input types."""
