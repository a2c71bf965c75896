"""Prediction in 8 bits: the functor applied to the model in evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from catgrad.initialisers import Stored
from catgrad.quantisation.affine import Affine
from catgrad.quantisation.code import Code
from catgrad.quantisation.functor import Quantiser
from catgrad.quantisation.grids import Grid
from catgrad.quantisation.values import Eight, Known, Plain, Value
from catgrad.terms.build import build
from catgrad.terms.state import Parameter, Slot
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType


class Evaluation:
    """The model whose evaluation computes in int8, by the arrays of a task; what is kept is in float32."""

    def __init__(
        self,
        code: Code,
        slots: Sequence[Slot],
        named: Mapping[str, Array],
        kept: Set[str],
        grids: Mapping[int, Grid],
    ) -> None:
        self.code, self.slots, self.named, self.kept, self.grids = code, slots, named, kept, grids

    def model(
        self, extrema: Mapping[int, tuple[float, float]], inputs: Dtype, outputs: Dtype
    ) -> tuple[Term, list[Affine | None], list[Affine | None]]:
        """Return the model, and the scales of inputs and of outputs that are int8."""
        function, scales = self.code.function, list[Affine | None]()
        q = Quantiser(self.code, extrema, sorted(self.kept), grids=self.grids)
        wires = function.arguments[len(self.slots) :]
        given = [q.affine(wire) if _is_narrow(function.types[wire], inputs) else None for wire in wires]

        def evaluated(*x: Var) -> list[Var]:
            values = [Plain(v) if a is None else Eight(v, a) for v, a in zip(x, given, strict=True)]
            results = q.run([*map(self._value, self.slots), *values])
            eights = [q.eight(w) if _is_narrow(function.types[w], outputs) else None for w in results]
            scales[:] = [None if eight is None else eight.affine for eight in eights]
            return [q.real(w) if e is None else e.q for w, e in zip(results, eights, strict=True)]

        types = [function.types[wire] for wire in wires]
        inner = [NdArrayType(t.shape, Dtype.int8) if a else t for t, a in zip(types, given, strict=True)]
        return build(evaluated, inner), given, scales

    def _value(self, slot: Slot) -> Value:
        """Return an array of the model: known numbers, or a parameter that trains."""
        array = self.named[slot.name]
        if slot.name not in self.kept:
            return Known(array, slot.name)
        return Plain(Parameter(slot.name, slot.type, Stored(array), slot.outputs_first)(), trains=True)


def _is_narrow(type: NdArrayType, dtype: Dtype) -> bool:
    """Tell whether an input or output becomes int8."""
    return dtype is Dtype.int8 and type.dtype is Dtype.float32
