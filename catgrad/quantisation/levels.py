"""Stochastic rounding: parameters that train are levels of int8, of fixed scales.

A parameter w is s · q for levels q, with one scale s for each output. A model reads q as numbers of float32,
so that its reverse derivative has a gradient for them: that of w. An optimiser updates w, and rounds w / s up
or down with a probability such that the mean is w / s: updates of less than a level are not lost. At the
ports of functions, levels are int8.

Source: Gupta et al. 2015, Deep learning with limited numerical precision (arXiv:1502.02551), section 3
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from catgrad import ops
from catgrad.initialisers import Stored
from catgrad.learn.optimiser import Optimiser, Run
from catgrad.ops.literal import literal
from catgrad.ops.quantised import MOST, along
from catgrad.ops.random import stream_of
from catgrad.programs.ports import Port, Role
from catgrad.quantisation.affine import symmetric
from catgrad.terms.build import build
from catgrad.terms.state import STEP, Slot
from catgrad.terms.structural import Constant, Label
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

KEY = 0
"""The seed of the random numbers of all roundings, whose counter is the number of the step."""


def levels_of(slot: Slot, array: Array, growth: float) -> tuple[Array, Array]:
    """Return levels and scales of a matrix or filters, whose numbers may grow by this factor."""
    outputs = 0 if slot.outputs_first or array.ndim > 2 else 1
    _, scales = symmetric(array, [axis for axis in range(array.ndim) if axis != outputs])
    scales = growth * scales
    return np.rint(array / scales).astype(np.int8), scales


def rounding(optimiser: Optimiser, scales: Mapping[str, Array]) -> Optimiser:
    """The optimiser of parameters of which some, those with scales, are levels: q ← ⌊w / s + u⌋.

    u is uniform in [0, 1), another number for each element in each step.
    """

    def of(slot: Slot) -> Optimiser:
        own = optimiser.of(slot)
        is_rounded = slot.name in scales and not own.is_constant
        return _rounding(own, slot.name, scales[slot.name]) if is_rounded else own

    return replace(optimiser, choose=of)


def _rounding(optimiser: Optimiser, name: str, scales: Array) -> Optimiser:
    """The optimiser of one parameter that is levels."""

    def real(q: Var) -> Var:
        return Label(name)(q * _along(scales, q, "scale"))

    def in_levels(w: Var) -> Var:
        return w * _along(1 / scales, w, "inverse_scale")

    def get(*state_q: Var) -> Var:
        *state, q = state_q
        return ops.round(in_levels(optimiser.get(*state, real(q))))

    def put(run: Run, *state_q_dp: Var) -> tuple[Var, ...]:
        *state, q, dp = state_q_dp
        *state, w = optimiser.put(run, *state, real(q), dp)
        step = run.once("step", STEP)
        bits = ops.random_bits(q.shape, stream_of(name), Constant(step.type, KEY)(), step)
        u = Label("noise")(ops.cast(bits >> 8, q.dtype) * 2.0**-24)
        return *state, ops.clamp(ops.floor(in_levels(w) + u), -float(MOST), float(MOST))

    return replace(optimiser, put=put, get=Optimiser.get if optimiser.get is Optimiser.get else get)


def _along(scales: Array, q: Var, name: str) -> Var:
    """Return a scale for each output in the shape of a parameter."""
    differing = [axis for axis, size in enumerate(scales.shape) if size > 1]
    if not differing:
        return along(q, scales.item(), None, Dtype.float32)
    return along(q, Label(name)(literal(scales.reshape(-1), Dtype.float32)), differing[0], Dtype.float32)


Entry = tuple[Term, tuple[Port, ...], tuple[Port, ...]]


def stored(entry: Entry, names: Collection[str]) -> Entry:
    """Return a function whose parameters of these names are int8 at its ports."""
    term, inputs, outputs = entry

    def function(*arguments: Var) -> list[Var]:
        wide = [
            ops.cast(a, port.type.dtype) if _is_stored(port, names) else a
            for a, port in zip(arguments, inputs, strict=True)
        ]
        return [
            ops.cast(y, Dtype.int8) if _is_stored(port, names) else y
            for y, port in zip(term.apply(*wide), outputs, strict=True)
        ]

    inner, outer = (tuple(_port(port, names) for port in ports) for ports in (inputs, outputs))
    return build(function, [port.type for port in inner]), inner, outer


def stored_slot(slot: Slot, names: Collection[str]) -> Slot:
    """Return the slot of a parameter as files and programs have it."""
    if slot.name not in names:
        return slot
    assert isinstance(slot.initial, Stored)
    initial = Stored(slot.initial.array.astype(np.int8))
    return replace(slot, type=_narrow(slot.type), initial=initial)


def _is_stored(port: Port, names: Collection[str]) -> bool:
    return port.role is Role.PARAMETER and port.name in names


def _port(port: Port, names: Collection[str]) -> Port:
    return replace(port, type=_narrow(port.type)) if _is_stored(port, names) else port


def _narrow(type: NdArrayType) -> NdArrayType:
    return NdArrayType(type.shape, Dtype.int8)
