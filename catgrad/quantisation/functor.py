"""Quantisation: a functor from terms on float32 to terms on int8, given the extrema of each value.

A float32 array becomes an int8 one with a scale and a zero point. Products with known weights become sums in
int32, to which functions of each channel that follow are joined, until one rounding to int8. A function of
each element becomes a table of 256 levels. An operation with no such form stays as it is, between
`dequantise` and `quantise`; so does all that depends on a parameter which is trained.

Source: Jacob et al. 2018 (arXiv:1712.05877), section 2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from catgrad import ops
from catgrad.dims import numbers
from catgrad.initialisers import Stored
from catgrad.ops.quantised import LEAST, narrowed
from catgrad.ops.reduce import Broadcast
from catgrad.programs.program import Apply, Function
from catgrad.quantisation.affine import LEVELS, Affine, affine_of, fixed_point, symmetric
from catgrad.quantisation.clamps import with_clamps
from catgrad.quantisation.known import computed
from catgrad.quantisation.rules import RULES, moved
from catgrad.quantisation.values import Eight, Known, Map, Plain, Summand, Sums, Value, levels
from catgrad.terms.op import Op
from catgrad.terms.state import Buffer
from catgrad.terms.structural import Barrier, Constant, Copy, Discard, Label
from catgrad.types import Array, Dtype, NdArrayType


class Quantiser:
    """The image of one function: a value for each of its values, computed while a term is built."""

    def __init__(
        self, function: Function, extrema: Mapping[int, tuple[float, float]], taken: Sequence[str]
    ) -> None:
        self.function, self.extrema = function, extrema
        self.values: dict[int, Value] = {}
        self.names, self.labels = Counter(taken), dict[int, str]()
        self._weights: dict[Any, tuple[Any, Array, Array]] = {}
        self._rounded: dict[int, Eight] = {}
        self._root: dict[int, int] = {}
        for op, inputs, outputs in function.body:
            if isinstance(op, (Copy, Label)):
                self._root |= dict.fromkeys(outputs, self.root(inputs[0]))
                if isinstance(op, Label) and not op.is_relative:
                    self.labels.setdefault(self.root(inputs[0]), op.name)
        structural = (Copy, Label, Discard)
        body = [apply for apply in function.body if not isinstance(apply.op, structural)]
        self.body = with_clamps(body, function.results, self.root)
        read = (wire for apply in self.body for wire in apply.inputs)
        self.readers = Counter(map(self.root, (*read, *function.results)))

    def root(self, value: int) -> int:
        """Return the value that this one is a copy of."""
        return self._root.get(value, value)

    def run(self, arguments: Sequence[Value]) -> list[int]:
        """Compute the image of each operation in turn; return the values of the results."""
        self.values |= zip(self.function.arguments, arguments, strict=True)
        for apply in self.body:
            self._apply(apply._replace(inputs=tuple(map(self.root, apply.inputs))))
        return [self.root(value) for value in self.function.results]

    def _apply(self, apply: Apply) -> None:
        images = self._images(apply)
        for wire, value in zip(apply.outputs, images, strict=True):
            self.values[wire] = value
            # A value that is read repeatedly is rounded once.
            if isinstance(value, Sums) and self.readers[wire] != 1:
                self.values[wire] = self.eight(wire)

    def _images(self, apply: Apply) -> Sequence[Value]:
        op, wires, outputs = apply
        inputs = [self.values[wire] for wire in wires]
        if isinstance(op, Barrier):
            return inputs
        types = [self.function.types[wire] for wire in outputs]
        known = computed(op, inputs, [self.function.types[wire] for wire in wires], types)
        if known is not None:
            return known
        if not any(isinstance(value, Plain) and value.trains for value in inputs):
            rule = RULES.get(type(op), moved if op.rearranges else None)
            found = rule(self, op, *wires) if rule else None
            found = found or self._table(op, wires, types)
            if found is not None:
                return found if isinstance(found, list) else [found]
        return self._float(op, wires)

    def _float(self, op: Op, wires: Sequence[int]) -> list[Value]:
        """Apply the operation to floats."""
        trains = any(isinstance(value, Plain) and value.trains for value in map(self.values.get, wires))
        return [Plain(y, trains) for y in op.apply(*map(self.real, wires))]

    def _table(self, op: Op, wires: Sequence[int], types: Sequence[NdArrayType]) -> Map | None:
        """Compute a function of each element of one int8 array at all levels."""
        if not op.elementwise or len(types) != 1:
            return None
        if not all(map(self._is_level_or_number, wires)):
            return None
        maps = {w: self._map(w) for w in wires if not isinstance(self.values[w], Known)}
        if len({id(each.source.q) for each in maps.values()}) != 1:
            return None
        columns = (maps[w].values if w in maps else _number(self.values[w]) for w in wires)
        with np.errstate(all="ignore"):
            values = np.asarray(op.compute(*columns), types[0].dtype.numpy)
        return Map(next(iter(maps.values())).source, np.broadcast_to(values, (LEVELS,)))

    def _is_level_or_number(self, wire: int) -> bool:
        value = self.values[wire]
        return isinstance(value, (Eight, Map, Sums)) or (isinstance(value, Known) and value.is_uniform)

    def _map(self, wire: int) -> Map:
        """Return a value as a function of the levels of an int8 array, such as the identity."""
        value = self.values[wire]
        if isinstance(value, Map):
            return value
        eight = self.eight(wire)
        return Map(eight, eight.affine.dequantise(levels()).astype(np.float32))

    def layer(self, wire: int) -> str:
        """Return the dotted name of the layer that known numbers are of."""
        value = self.values[wire]
        return value.layer if isinstance(value, Known) else ""

    def is_integral(self, wire: int) -> bool:
        """Tell whether a value is, or will be, an int8 array."""
        is_float = self.function.types[wire].dtype is Dtype.float32
        return is_float and isinstance(self.values[wire], (Eight, Map, Sums))

    def can_round(self, wire: int) -> bool:
        """Tell whether a value is an int8 array, or float32 with extrema."""
        return self.function.types[wire].dtype is Dtype.float32

    def eight(self, wire: int) -> Eight:
        """Return a value as an int8 array, which is computed once."""
        value = self.values[wire]
        if isinstance(value, Eight):
            return value
        if wire not in self._rounded:
            made = self.rounded(wire, affine_of(*self.extrema[wire]))
            name = self.labels.get(wire, ".levels")
            self._rounded[wire] = Eight(Label(name)(made.q), made.affine)
        return self._rounded[wire]

    def rounded(self, wire: int, affine: Affine) -> Eight:
        """Return a value as an int8 array of this scale and zero point."""
        value, shape = self.values[wire], self.function.types[wire].shape
        if isinstance(value, Eight):
            return value if value.affine == affine else self._requantised(self.sums(wire), shape, affine)
        if isinstance(value, Sums):
            return self._requantised(value, shape, affine)
        if isinstance(value, Map):
            return Eight(self._looked_up(value, affine.quantise(value.values)), affine)
        if isinstance(value, Known):
            return Eight(self.spread(affine.quantise(value.array), shape, value.name or "constant"), affine)
        return Eight(ops.quantise(value.var, affine.scale, affine.zero), affine)

    def _looked_up(self, value: Map, table: Array) -> Any:
        """Read the results at all levels by the level of each element."""
        return ops.take(self.stored("table", table), ops.cast(value.source.q, Dtype.int32) - LEAST)

    def _requantised(self, sums: Sums, shape: Any, affine: Affine) -> Eight:
        """Round sums: (Σ t · m + b) / 2ˢ, where b has all zero points, offsets and the half of rounding."""
        factors = [summand.factor / affine.scale for summand in sums.summands]
        offset = sums.offset / affine.scale + affine.zero
        bounds = (abs(f) * (s.bound + abs(s.centre)) for f, s in zip(factors, sums.summands, strict=True))
        multipliers, shift = fixed_point(factors, sum(bounds, abs(offset) + 1))
        bias = np.rint(offset * 2.0**shift).astype(np.int64) + (1 << (shift - 1))
        products, layer = [], sums.layer and f"{sums.layer}."
        for summand, m in zip(sums.summands, multipliers, strict=True):
            bias = bias - summand.centre * m.astype(np.int64)
            wide = ops.cast(summand.total, Dtype.int64)
            products.append(wide * ops.cast(self.spread(m, shape, f"{layer}multiplier"), Dtype.int64))
        scaled = self.spread(bias, shape, f"{layer}bias")
        for product in products:
            scaled = product + scaled
        low, high = affine.quantise(np.array([sums.low, sums.high]))
        return Eight(ops.cast(narrowed(scaled, shift, int(low), int(high)), Dtype.int8), affine)

    def sums(self, wire: int) -> Sums:
        """Return a value as a sum, to which affine functions of each channel can be joined."""
        value = self.values[wire]
        if isinstance(value, Sums) and not value.is_bounded:
            return value
        q, (scale, zero) = (eight := self.eight(wire)).q, eight.affine
        axes = (1,) * self.function.types[wire].rank
        numbers_of = (np.full(axes, scale), np.full(axes, zero, np.int64), np.full(axes, -LEAST))
        return Sums((Summand(ops.cast(q, Dtype.int32), *numbers_of),), np.zeros(axes))

    def real(self, wire: int) -> Any:
        """Return a value as the variable that it was before."""
        value, shape = self.values[wire], self.function.types[wire].shape
        if isinstance(value, Plain):
            return value.var
        if isinstance(value, Known):
            return self.spread(value.array, shape, value.name or "constant")
        if isinstance(value, Map) and self.function.types[wire].dtype is not Dtype.float32:
            return self._looked_up(value, value.values)
        eight = self.eight(wire)
        return ops.dequantise(eight.q, *eight.affine)

    def weights(self, wire: int, axes: Sequence[int]) -> tuple[Any, Array, Array] | None:
        """Return known weights as an int8 variable, its levels, and scales that are equal along `axes`."""
        value, type = self.values[wire], self.function.types[wire]
        if not isinstance(value, Known) or type.dtype is not Dtype.float32:
            return None
        key = (wire, tuple(axes))
        if key not in self._weights:
            levels, scales = symmetric(np.broadcast_to(value.array, numbers(type.shape)), axes)
            self._weights[key] = self.stored(value.name or "weight", levels), levels, scales
        return self._weights[key]

    def spread(self, array: Array, shape: Any, name: str) -> Any:
        """Return numbers as a variable of this shape: a constant, or a buffer of what differs."""
        dtype = Dtype[array.dtype.name]
        if array.size == 1:
            return Constant(NdArrayType(shape, dtype), array.reshape(-1)[0].item())()
        new = tuple(k for k, size in enumerate(array.shape) if size == 1 and shape[k] != 1)
        return Broadcast(shape, new).apply(self.stored(name, np.squeeze(array, new)))[0]

    def stored(self, name: str, array: Array) -> Any:
        """Return a new buffer with these numbers; one whose name is taken gets a number."""
        count, free = self.names[name], name
        while free in self.names:
            free, count = f"{name}_{count}", count + 1
        self.names.update((name, free))
        array = np.ascontiguousarray(array)
        return Buffer(free, NdArrayType(array.shape, Dtype[array.dtype.name]), Stored(array))()


def _number(value: Value) -> Array:
    """Return the one element of known numbers."""
    assert isinstance(value, Known)
    return value.array.reshape(1)
