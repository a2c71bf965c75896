"""Cotangents in 8 bits: symmetric scales, divided by those of the weights that are summed over."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from catgrad.ops.contract import Contract
from catgrad.ops.conv import ConvTranspose
from catgrad.ops.quantised import MOST
from catgrad.programs.program import Apply
from catgrad.quantisation.affine import Affine, rounded
from catgrad.types import Array

if TYPE_CHECKING:
    from catgrad.quantisation.functor import Quantiser

COTANGENT_GROWTH = 2.0
"""The ratio of the greatest cotangent that is not clamped to the greatest of the calibration."""

Greatest = tuple[Array, ...]


@dataclass(frozen=True)
class Magnitudes:
    """The observer of cotangents: the greatest absolute value at each index of each axis."""

    def of(self, array: Array) -> Greatest:
        """Return those of one batch; axes without a channel have one number."""
        sizes = np.where(np.isfinite(array), np.abs(array), 0).astype(np.float64)
        axes = range(array.ndim)
        return tuple(sizes.max(tuple(k for k in axes if k != axis), initial=0) for axis in axes)

    def joined(self, old: Greatest, new: Greatest) -> Greatest:
        """Return those of several batches, whose sizes may differ."""
        pairs = zip(old, new, strict=True)
        return tuple(np.maximum(*(p if p[0].shape == p[1].shape else map(np.max, p))) for p in pairs)


@dataclass(frozen=True)
class Backward:
    """The part of a function that computes a reverse derivative.

    `wires` are the cotangents, with their `greatest` absolute values. `gradients` are the values that become
    gradients of parameters, by name, and `masks` compare a value with a bound of it.
    """

    wires: Set[int] = frozenset()
    greatest: Mapping[int, Greatest] = field(default_factory=dict)
    gradients: Mapping[int, str] = field(default_factory=dict)
    masks: Set[int] = frozenset()

    def affine(self, wire: int, divisor: Array | None) -> Affine:
        """Return the symmetric scale of a cotangent times a divisor, which differs along one axis at most."""
        greatest = self.greatest[wire]
        most = max((float(np.max(each, initial=0)) for each in greatest), default=0.0)
        if divisor is not None:
            axis = int(np.argmax(divisor.shape))
            product = greatest[axis] * divisor.reshape(-1) if greatest else most * divisor
            most = float(np.max(product, initial=0))
        return Affine(rounded(COTANGENT_GROWTH * most / MOST), 0)

    def wanted(self, q: Quantiser, wire: int) -> Array | None:
        """Return the scales of the weights that the first reader sums products of a cotangent with."""
        if wire not in self.wires:
            return None
        found = (divisor(q, apply, wire) for apply in q.code.readers[wire])
        return next((each for each in found if each is not None), None)


def divisor(q: Quantiser, apply: Apply, wire: int) -> Array | None:
    """Return the scales of weights along the axis of a cotangent over which an operation sums, if it does."""
    op, inputs = apply.op, apply.inputs
    if isinstance(op, ConvTranspose) and inputs[0] == wire:
        weights = q.first_weights(inputs[1])
        return None if weights is None else weights.scales.reshape(1, -1, *(1,) * (op.rank - 2))
    if isinstance(op, Contract) and inputs[0] != inputs[1]:
        is_left = inputs[0] == wire
        weights = q.first_weights(inputs[1 if is_left else 0])
        own, other = (op.left, op.right) if is_left else (op.right, op.left)
        if weights is not None:
            differing = [axis for axis, size in enumerate(weights.scales.shape) if size > 1]
            if len(differing) == 1 and other[differing[0]] in own and other[differing[0]] not in op.out:
                shape = [1] * len(own)
                shape[own.index(other[differing[0]])] = -1
                return weights.scales.reshape(shape)
    return None
