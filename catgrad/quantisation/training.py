"""Training in 8 bits: the functor applied to the reverse derivative R[f] of the model, Q(R[f]).

R[f] is a function of float32 arrays like f, so that it has an image on int8. The loss and its derivative dy
are float32. R[f] is linear in dy, which is divided by its greatest magnitude, so that the scales of all
cotangents, found once, remain as gradients shrink; gradients of parameters are multiplied by it. A parameter
that trains is float32, and rounded in each step to levels of the scales that it had at first.

Source: Courbariaux et al. 2014, Training deep neural networks with low precision multiplications
(arXiv:1412.7024), section 5; Lin et al. 2022, On-device training under 256KB memory (arXiv:2206.15472), whose
quantisation-aware scaling is the update of what levels stand for
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import reduce

import numpy as np

from catgrad import ops
from catgrad.errors import OptionError
from catgrad.functors.reverse import reverse
from catgrad.initialisers import Stored
from catgrad.learn.functions import Opened, opened_term
from catgrad.learn.task import Task
from catgrad.ops.derivatives import DeclaredReverse
from catgrad.ops.quantised import MOST
from catgrad.programs.program import evaluate
from catgrad.quantisation.affine import Affine, affine_of
from catgrad.quantisation.backward import Backward, Magnitudes
from catgrad.quantisation.calibrate import Extrema, calibrate, no_data, no_numbers
from catgrad.quantisation.code import Code, reverse_code
from catgrad.quantisation.functor import WEIGHT_GROWTH, Quantiser
from catgrad.quantisation.levels import levels_of
from catgrad.quantisation.values import Eight, Known, Plain, Trained, Value
from catgrad.terms.block import Block
from catgrad.terms.build import build
from catgrad.terms.dead_code import eliminate_dead_code, selected
from catgrad.terms.state import Buffer, Parameter, Slot
from catgrad.terms.structural import Constant, is_differentiable
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType, as_numpy


class Training:
    """The model whose evaluation and reverse derivative compute in int8, by the arrays and data of a task."""

    def __init__(
        self,
        task: Task,
        code: Code,
        slots: Sequence[Slot],
        named: Mapping[str, Array],
        trained: Set[str],
        is_stored: bool,
    ) -> None:
        self.task, self.slots, self.named, self.trained = task, slots, named, trained
        weights = [slot for slot in slots if is_stored and slot.name in trained and slot.type.rank > 1]
        self.levels = {slot.name: levels_of(slot, named[slot.name], WEIGHT_GROWTH) for slot in weights}
        self.forward = code
        self.code = reverse_code(code, [k for k, slot in enumerate(slots) if slot.name in trained])
        outputs = len(code.function.results)
        arguments = self.code.function.arguments
        self.inputs = arguments[len(slots) : len(code.function.arguments)]
        self.cotangents = arguments[len(code.function.arguments) :]
        wires = self.code.dependents(self.cotangents)
        # A gradient frees the values of its layer, so the last layer is the first.
        values, gradients = self.code.results[:outputs], self.code.results[outputs:]
        self.code.schedule([*values, *reversed(gradients)])
        names = (slot.name for slot in slots if slot.name in trained)
        pairs = zip(names, gradients, strict=True)
        named_wires = {wire: name for name, result in pairs for wire in self.code.added_to(result)}
        self.backward = Backward(wires, {}, named_wires, self.code.mask_by_outputs())

    def calibrated(self, data: Iterable[object], observer: Extrema) -> Mapping[int, tuple[float, float]]:
        """Return the extrema of values over batches of inputs and targets; keep magnitudes of cotangents."""
        magnitudes, wires = Magnitudes(), self.backward.wires
        tables = [self.named[slot.name] for slot in self.slots]
        found = calibrate(
            self.code.function,
            tables,
            self._with_cotangents(tables, data),
            lambda wire: magnitudes if self.code.root(wire) in wires else observer,
        )
        if not found:
            raise no_data("")
        self.backward = Backward(
            wires, {w: found[w] for w in wires & found.keys()}, self.backward.gradients, self.backward.masks
        )
        return {wire: pair for wire, pair in found.items() if self.code.root(wire) not in wires}

    def _with_cotangents(self, tables: Sequence[Array], data: Iterable[object]) -> Iterator[list[Array]]:
        """Return inputs with the derivative of the loss, divided by its greatest magnitude."""
        criterion = self.task.criterion_term
        derivative, given = reverse(criterion), len(self.task.inputs)
        seed = np.ones((), criterion.target.table[0].dtype.numpy)
        for batch in data:
            arrays = [as_numpy(each) for each in batch] if isinstance(batch, (tuple, list)) else []
            if len(arrays) != given + len(self.task.targets):
                raise OptionError(
                    f"data must be batches of {given} inputs and {len(self.task.targets)} targets",
                    f"one has {len(arrays) or 1} arrays",
                    "pass [(x, y), …]",
                )
            x, y = arrays[:given], arrays[given:]
            outputs = evaluate(self.forward.function, *tables, *x)
            dy = evaluate(derivative, *outputs, *y, seed)[1 : 1 + len(self.cotangents)]
            greatest = float(np.max([np.max(np.abs(each), initial=0) for each in dy])) or 1.0
            if not np.isfinite(greatest):
                raise no_numbers("the derivative of the loss", "one that is not finite")
            yield [*x, *((each / greatest).astype(np.float32) for each in dy)]

    def model(
        self, extrema: Mapping[int, tuple[float, float]], narrow: bool
    ) -> tuple[Term, list[Affine | None]]:
        """Return the model, and the scales of inputs that are int8."""
        function = self.code.function
        first = [
            affine_of(*extrema[w]) if narrow and function.types[w].dtype is Dtype.float32 else None
            for w in self.inputs
        ]

        def run(*arguments: Var) -> list[Var]:
            x, dy = arguments[: len(first)], arguments[len(first) :]
            quantiser = Quantiser(self.code, extrema, sorted(self.trained), self.backward)
            greatest, levels = _normalised(dy)
            given = [Plain(v) if a is None else Eight(v, a) for v, a in zip(x, first, strict=True)]
            results = quantiser.run([*map(self._value, self.slots), *given, *levels])
            values = [quantiser.wide(wire, "y_hat") for wire in results]
            outputs, gradients = values[: len(dy)], values[len(dy) :]
            return [*outputs, *(g * ops.broadcast(greatest, g.shape) for g in gradients)]

        inner = [
            NdArrayType(function.types[w].shape, Dtype.int8) if a else function.types[w]
            for w, a in zip(self.inputs, first, strict=True)
        ]
        cotangents = [function.types[wire] for wire in self.cotangents]
        return _declared(opened_term(build(run, [*inner, *cotangents])), inner), first

    def _value(self, slot: Slot) -> Value:
        array = self.named[slot.name]
        if slot.name not in self.trained:
            return Known(array, slot.name)
        levels, scales = self.levels.get(slot.name, (array, None))
        initial = Stored(levels.astype(np.float32))
        parameter = Parameter(slot.name, slot.type, initial, slot.outputs_first)
        scales = None if scales is None else np.broadcast_to(scales, array.shape)
        return Trained(parameter(), array, slot.name, scales)


def _normalised(cotangents: Sequence[Var]) -> tuple[Var, list[Value]]:
    """Return the greatest magnitude of cotangents, and these divided by it, in int8."""
    each = (ops.max(ops.absolute(ops.reshape(dy, dy.type.size))) for dy in cotangents)
    greatest = reduce(ops.maximum, each)
    unit = ops.select(greatest > 0, greatest, Constant(greatest.type, 1)())
    affine = Affine(float(np.float32(1 / MOST)), 0)
    divided = (dy / ops.broadcast(unit, dy.shape) for dy in cotangents)
    return greatest, [Eight(ops.quantise(dy, *affine), affine) for dy in divided]


def _declared(opened: Opened, inputs: Sequence[NdArrayType]) -> Term:
    """Return X → Y from B ⊗ P ⊗ X ⊗ Y′ → B ⊗ Y ⊗ P′, which reads buffers B: its reverse maps to P′."""
    slots = (*opened.buffers, *opened.parameters)
    types = [*(slot.type for slot in slots), *inputs]
    first, count = len(opened.buffers), len(opened.inputs) - len(inputs)
    joint = selected(opened.term, slice(first, None))

    def forward(*arguments: Var) -> tuple[Var, ...]:
        zeros = [Constant(type, 0)() for type in opened.inputs[len(inputs) :]]
        return joint.apply(*arguments, *zeros)[:count]

    def backward(*arguments: Var) -> list[Var]:
        gradients = joint.apply(*arguments)[count:]
        named = dict(zip((p.name for p in opened.parameters), gradients, strict=True))
        zeros = [Constant(type, 0)() if is_differentiable(type) else None for type in types]
        every = [named.get(s.name, zero) for s, zero in zip(slots, zeros, strict=False)]
        return [each for each in (*every, *zeros[len(slots) :]) if each is not None]

    blocks = (
        Block(eliminate_dead_code(build(forward, types))),
        Block(eliminate_dead_code(build(backward, [*types, *opened.inputs[len(inputs) :]]))),
    )

    def model(*x: Var) -> list[Var]:
        buffers = (Buffer(s.name, s.type, s.initial)() for s in opened.buffers)
        parameters = (Parameter(s.name, s.type, s.initial, s.outputs_first)() for s in opened.parameters)
        return list(DeclaredReverse(*blocks).apply(*buffers, *parameters, *x))

    return build(model, inputs)
