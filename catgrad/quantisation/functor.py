"""Quantisation: a functor from terms on float32 to terms on int8, given the extrema of each value.

A float32 array becomes an int8 one with a scale and a zero point. Products with known weights become sums in
int32, to which functions of each channel that follow are joined, until one rounding to int8. A function of
each element becomes a table of 256 levels. An operation with no such form stays as it is, between
`dequantise` and `quantise`; so does all that depends on a parameter which trains in float32.

Source: Jacob et al. 2018 (arXiv:1712.05877), section 2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from catgrad import ops
from catgrad.dims import Size, numbers
from catgrad.initialisers import Stored
from catgrad.ops.quantised import LEAST, MOST, narrowed
from catgrad.ops.reduce import Broadcast
from catgrad.programs.program import Apply
from catgrad.quantisation.affine import LEVELS, MAX_SUM_BITS, Affine, affine_of, fixed_point, symmetric
from catgrad.quantisation.backward import Backward
from catgrad.quantisation.calibrate import no_data
from catgrad.quantisation.code import Code
from catgrad.quantisation.grids import Grid, levels_on
from catgrad.quantisation.known import computed
from catgrad.quantisation.rules import RULES, moved
from catgrad.quantisation.totals import clamped, fenced, new_axes
from catgrad.quantisation.values import (
    Eight,
    Known,
    Map,
    Plain,
    Summand,
    Sums,
    Trained,
    Value,
    Weights,
    levels,
)
from catgrad.terms.op import Op
from catgrad.terms.state import Buffer
from catgrad.terms.structural import Barrier, Constant, Label
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

WEIGHT_GROWTH = 1.5
"""The ratio of the greatest weight of a channel that is not clamped in training to that before."""


class Quantiser:
    """The image of one function: a value for each of its values, computed while a term is built."""

    def __init__(
        self,
        code: Code,
        extrema: Mapping[int, tuple[float, float]],
        taken: Sequence[str],
        backward: Backward | None = None,
        grids: Mapping[int, Grid] | None = None,
    ) -> None:
        self.code, self.function, self.extrema = code, code.function, extrema
        self.backward, self.grids = backward or Backward(), grids or {}
        self.values: dict[int, Value] = {}
        self.result = -1  # the first output of the current operation
        self.names = Counter(taken)
        self._weights: dict[tuple[int, tuple[int, ...]], Weights] = {}
        self._rounded: dict[int | tuple[int, bytes], Eight] = {}
        self._padded: dict[tuple[int, tuple[int, ...]], Var] = {}

    def run(self, arguments: Sequence[Value]) -> list[int]:
        """Compute the image of each operation in turn; return the values of the results."""
        self.values |= zip(self.function.arguments, arguments, strict=True)
        for apply in self.code.body:
            self._apply(apply)
        return self.code.results

    def _apply(self, apply: Apply) -> None:
        images = self._images(apply)
        for wire, value in zip(apply.outputs, images, strict=True):
            self.values[wire] = value
            if isinstance(value, Sums) and (wire in self.backward.gradients or not value.is_finite):
                self.values[wire] = Plain(self.wide(wire, self.backward.gradients.get(wire, "sum")))
            # A value that is read repeatedly is rounded once.
            elif isinstance(value, Sums) and self.code.reads(wire) != 1:
                self.values[wire] = self.folded(wire)

    def _images(self, apply: Apply) -> Sequence[Value]:
        op, wires, outputs = apply
        self.result = outputs[0] if outputs else -1
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
            found = found or self._table(op, wires, types, outputs[0] in self.backward.masks)
            if found is not None:
                return found if isinstance(found, list) else [found]
        return self._float(op, wires)

    def _float(self, op: Op, wires: Sequence[int]) -> list[Value]:
        """Apply the operation to floats."""
        trains = any(isinstance(value, Plain) and value.trains for value in map(self.values.get, wires))
        return [Plain(y, trains) for y in op.apply(*map(self.real, wires))]

    def _table(self, op: Op, wires: Sequence[int], types: Sequence[NdArrayType], is_mask: bool) -> Map | None:
        """Compute a function of each element of one int8 array at all levels; a mask, at a bound's level."""
        if not op.elementwise or len(types) != 1:
            return None
        if not all(map(self._is_level_or_number, wires)):
            return None
        maps = {w: self._map(w) for w in wires if not isinstance(self.values[w], Known)}
        if len({id(each.source.q) for each in maps.values()}) != 1:
            return None
        source = next(iter(maps.values())).source
        numbers_of = [maps[w].values if w in maps else _number(self.values[w]) for w in wires]
        if is_mask:
            numbers_of[1] = source.affine.dequantise(source.affine.quantise(numbers_of[1])).astype(np.float32)
        with np.errstate(all="ignore"):
            values = np.asarray(op.compute(*numbers_of), types[0].dtype.numpy)
        return Map(source, np.broadcast_to(values, (LEVELS,)))

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
        """Return the dotted name of the layer that has a parameter."""
        value = self.values[wire]
        return value.name.rpartition(".")[0] if isinstance(value, (Known, Trained)) else ""

    def is_integral(self, wire: int) -> bool:
        """Tell whether a value is, or will be, an int8 array."""
        is_float = self.function.types[wire].dtype is Dtype.float32
        return is_float and isinstance(self.values[wire], (Eight, Map, Sums))

    def can_round(self, wire: int) -> bool:
        """Tell whether a value is an int8 array, or float32 with extrema."""
        return self.function.types[wire].dtype is Dtype.float32

    def eight(self, wire: int) -> Eight:
        """Return a value as an int8 array of one scale, which is computed once."""
        made = self.folded(wire)
        if made.divisor is None:
            return made
        return self._once(wire, lambda: self._requantised(self.sums(wire), wire, self.affine(wire)))

    def folded(self, wire: int) -> Eight:
        """Return a value as an int8 array of the scales that its first reader wants, computed once."""
        value = self.values[wire]
        return value if isinstance(value, Eight) else self.divided(wire, self.backward.wanted(self, wire))

    def divided(self, wire: int, divisor: Array | None) -> Eight:
        """Return a value as an int8 array that stands for s · q / d, which is computed once."""
        value = self.values[wire]
        if isinstance(value, Eight) and _equal(value.divisor, divisor):
            return value
        key = wire if divisor is None else (wire, divisor.tobytes())
        return self._once(key, lambda: self.rounded(wire, self.affine(wire, divisor), divisor))

    def padded(self, wire: int, padding: Sequence[int], is_kept: bool = False) -> Var:
        """Return an image with its zero point on both sides of each spatial axis, which is computed once.

        If it `is_kept` for the reverse, all later readers read the padded one, so that no other is.
        """
        image, key = self.eight(wire), (wire, tuple(padding))
        if key not in self._padded:
            margins = [(0, 0), (0, 0), *((p, p) for p in padding)]
            self._padded[key] = fenced(image.q, margins, image.affine.zero)
            if is_kept and any(padding):
                inner = ops.slice(self._padded[key], (0, 0, *padding), image.q.shape)
                self.values[wire] = replace(image, q=inner)
        return self._padded[key]

    def _once(self, key: tuple[int, bytes] | int, make: Callable[[], Eight]) -> Eight:
        if key not in self._rounded:
            made, wire = make(), key if isinstance(key, int) else key[0]
            self._rounded[key] = replace(made, q=Label(self.code.labels.get(wire, ".levels"))(made.q))
        return self._rounded[key]

    def affine(self, wire: int, divisor: Array | None = None) -> Affine:
        """Return the map of a value: a learned one, or that of its extrema; symmetric for a cotangent."""
        if wire in self.backward.wires:
            return self.backward.affine(wire, divisor)
        if wire in self.grids:
            return self.grids[wire].affine
        value = self.values.get(wire)
        if isinstance(value, Map) and self._is_on_learned_grid(value):
            return value.source.affine
        return affine_of(*self.interval(wire))

    def interval(self, wire: int) -> tuple[float, float]:
        """Return the extrema of a value. Raises: OptionError if there are none."""
        if wire not in self.extrema:
            raise no_data(self.code.labels.get(wire, ""))
        return self.extrema[wire]

    def _is_on_learned_grid(self, value: Map) -> bool:
        """Tell whether a function maps levels of a learned grid to such, as that of ReLU does."""
        affine = value.source.affine
        if all(affine != grid.affine for grid in self.grids.values()):
            return False
        nearest = affine.dequantise(affine.quantise(value.values))
        return bool(np.array_equal(nearest.astype(np.float32), value.values))

    def on_grid(self, wire: int, grid: Grid) -> Eight:
        """Return a value as levels of a learned grid, by one rounding."""
        value = self.values[wire]
        if isinstance(value, Sums):
            made = self._requantised(value.clamped(*grid.ends), wire, grid.affine)
        elif isinstance(value, Map):
            made = Eight(self._looked_up(value, grid.quantise(value.values)), grid.affine)
        else:
            made = self.rounded(wire, grid.affine)
            made = replace(made, q=clamped(made.q, grid.low, grid.high))
        return replace(made, q=Label(self.code.labels.get(wire, ".levels"))(made.q))

    def rounded(self, wire: int, affine: Affine, divisor: Array | None = None) -> Eight:
        """Return a value as an int8 array of this scale and zero point."""
        value, shape = self.values[wire], self.function.types[wire].shape
        if isinstance(value, Eight):
            same = value.affine == affine and _equal(value.divisor, divisor)
            return value if same else self._requantised(self._summed(value), wire, affine, divisor)
        if isinstance(value, Sums) and (divisor is None or not value.is_clamped):
            return self._requantised(value, wire, affine, divisor)
        if divisor is not None:
            even = self.rounded(wire, self.affine(wire))
            return self._requantised(self._summed(even), wire, affine, divisor)
        if isinstance(value, Map):
            return Eight(self._looked_up(value, affine.quantise(value.values)), affine)
        if isinstance(value, Known):
            return Eight(self.spread(affine.quantise(value.array), shape, value.name or "constant"), affine)
        return Eight(ops.quantise(self.real(wire), affine.scale, affine.zero), affine)

    def _looked_up(self, value: Map, table: Array) -> Var:
        """Read the results at all levels by the level of each element."""
        return ops.take(self.stored("table", table), ops.cast(value.source.q, Dtype.int32) - LEAST)

    def _requantised(self, sums: Sums, wire: int, affine: Affine, divisor: Array | None = None) -> Eight:
        """Round sums: (Σ t · m + b) / 2ˢ, where b has all zero points, offsets and the half of rounding."""
        shape, unit = self.function.types[wire].shape, affine.scale / (1.0 if divisor is None else divisor)
        factors = [summand.factor / unit for summand in sums.summands]
        offset = sums.offset / unit + affine.zero
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
        levels = narrowed(scaled, shift, int(low), int(high), MAX_SUM_BITS + 1)
        if sums.mask is not None:
            levels = ops.select(sums.mask, levels, Constant(levels.type, affine.zero)())
        return Eight(ops.cast(levels, Dtype.int8), affine, divisor)

    def sums(self, wire: int) -> Sums:
        """Return a value as a sum, to which affine functions of each channel can be joined."""
        value = self.values[wire]
        if isinstance(value, Sums) and not value.is_bounded:
            return value
        return self._summed(self.folded(wire))

    def _summed(self, eight: Eight) -> Sums:
        axes = (1,) * eight.q.type.rank
        numbers_of = (eight.scales * np.ones(axes), np.full(axes, eight.affine.zero, np.int64))
        summand = Summand(ops.cast(eight.q, Dtype.int32), *numbers_of, np.full(axes, -LEAST))
        return Sums((summand,), np.zeros(axes))

    def real(self, wire: int) -> Var:
        """Return a value as the variable that it was before."""
        value, shape = self.values[wire], self.function.types[wire].shape
        if isinstance(value, Plain):
            return value.var
        if isinstance(value, Known):
            return self.spread(value.array, shape, value.name or "constant")
        if isinstance(value, Trained):
            return ops.broadcast_to(self.trained(value), shape)
        if isinstance(value, Map) and self.function.types[wire].dtype is not Dtype.float32:
            return self._looked_up(value, value.values)
        eight = self.eight(wire)
        return ops.dequantise(eight.q, *eight.affine)

    def trained(self, value: Trained) -> Var:
        """Return the numbers of a parameter that trains, which may be stored as levels."""
        if value.scales is None:
            return value.var
        scales = self.spread(value.scales.astype(np.float32), value.var.shape, f"{value.name}_scale")
        return value.var * scales

    def wide(self, wire: int, name: str) -> Var:
        """Return sums in float32 without rounding them to int8."""
        value, shape = self.values.get(wire), self.function.types[wire].shape
        if not isinstance(value, Sums) or value.is_bounded:
            return self.real(wire)
        result = self.spread(value.offset.astype(np.float32), shape, f"{name}_offset")
        for summand in value.summands:
            total, factor = summand.total, summand.factor.astype(np.float32)
            if np.any(summand.centre):
                total = total - self.spread(summand.centre.astype(total.dtype.numpy), shape, f"{name}_centre")
            result = result + ops.cast(total, Dtype.float32) * self.spread(factor, shape, f"{name}_scale")
        return result

    def first_weights(self, wire: int) -> Weights | None:
        """Return the weights of the first product with them."""
        return next((each for (w, _), each in self._weights.items() if w == wire), None)

    def weights(self, wire: int, axes: Sequence[int]) -> Weights | None:
        """Return weights as an int8 variable, with scales that are equal along `axes`."""
        value, type = self.values[wire], self.function.types[wire]
        if not isinstance(value, (Known, Trained)) or type.dtype is not Dtype.float32:
            return None
        first, key, grid = self.first_weights(wire), (wire, tuple(axes)), getattr(value, "grid", None)
        if grid is not None and first is not None and first.scales.size == 1:
            return first
        if key not in self._weights:
            array = np.broadcast_to(value.array, numbers(type.shape))
            learned = None if grid is None else levels_on(grid, array, axes)
            levels, scales = symmetric(array, axes) if learned is None else learned
            if isinstance(value, Known):
                self._weights[key] = Weights(self.stored(value.name or "weight", levels), scales, levels)
            else:
                own = _equal_along(value.scales, axes)
                scales = WEIGHT_GROWTH * scales if own is None else own
                nearest = (
                    self.nearest(self.real(wire), scales, value.name, MOST) if own is None else value.var
                )
                self._weights[key] = Weights(Label(".levels")(ops.cast(nearest, Dtype.int8)), scales)
        return self._weights[key]

    def nearest(self, x: Var, scales: Array, name: str, most: int) -> Var:
        """Return the nearest levels of a parameter that trains, between bounds, as numbers of float32."""
        inverse = self.spread((1 / scales).astype(np.float32), x.shape, f"{name}_inverse_scale")
        return ops.clamp(ops.round(x * inverse), -float(most), float(most))

    def spread(self, array: Array, shape: tuple[Size, ...], name: str) -> Var:
        """Return numbers as a variable of this shape: a constant, or a buffer of what differs."""
        dtype = Dtype[array.dtype.name]
        if array.size == 1:
            return Constant(NdArrayType(shape, dtype), array.reshape(-1)[0].item())()
        new = new_axes(array.shape, shape)
        return Broadcast(shape, new)(self.stored(name, np.squeeze(array, new)))

    def stored(self, name: str, array: Array) -> Var:
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


def _equal_along(scales: Array | None, axes: Sequence[int]) -> Array | None:
    """Return scales with size 1 along the axes, if they are equal along these."""
    if scales is None:
        return None
    first = scales.astype(np.float64)
    for axis in axes:
        first = first.take([0], axis)
    return first if np.all(scales == first) else None


def _equal(divisor: Array | None, other: Array | None) -> bool:
    if divisor is None or other is None:
        return divisor is other
    return np.array_equal(divisor, other)
