"""Functions of a program as custom blocks, and the lists and variables they use."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from catgrad.backend import Backend
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.hashing import Signature
from catgrad.loops.ir.nest import Kernel, may_fail
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import For as StepFor
from catgrad.loops.ir.steps import If as StepIf
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import Machine
from catgrad.loops.memory_plan import Plan
from catgrad.loops.passes.schedule.fuse import fused_steps
from catgrad.loops.passes.schedule.in_place import put_in_place
from catgrad.loops.passes.schedule.interchange import interchange_short_loops
from catgrad.loops.passes.schedule.reductions import schedule_reductions
from catgrad.loops.passes.schedule.unroll import unroll
from catgrad.loops.passes.simplify.contract_arrays import contract_arrays
from catgrad.loops.passes.simplify.dead_stores import eliminate_dead_stores
from catgrad.loops.passes.simplify.scalars import scalars_first, scalars_last
from catgrad.programs.ports import TABLES, Kind, Port, Role
from catgrad.programs.program import Function, Program
from catgrad.types import NdArrayType

from ..kernels.cuts import cut
from ..kernels.expressions import Expressions
from ..kernels.inductions import LETTERS, OUTER_LETTERS, Inductions, first_free
from ..kernels.schedule import BIND, SCHEDULES
from ..kernels.scripts import HOISTED, Script
from ..kernels.texts import Call, If, Line, Repeat, changed, cleared, written


@dataclass(frozen=True)
class Definition:
    """A custom block for a kernel."""

    name: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Value:
    """An argument or a result that is no table: its list or variable, its type and its role."""

    name: str
    place: str
    type: NdArrayType
    role: Role

    @property
    def is_number(self) -> bool:
        """Tell whether it is a variable rather than a list."""
        return not self.type.rank

    @property
    def size(self) -> int:
        """Number of items."""
        return int(self.type.size)


MAX_COPIES_PER_ITERATION = 4
"""Items that are copied in one iteration of a loop, if that leaves no rest."""


@dataclass(frozen=True)
class Renewal:
    """A new value of a table, and the list or variable that it is copied to if all new values are finite."""

    new: Value
    place: str

    @property
    def copies_per_iteration(self) -> int:
        """Count the items that one iteration of the loop copies."""
        return next(n for n in range(MAX_COPIES_PER_ITERATION, 0, -1) if self.new.size % n == 0)

    @property
    def is_scaled(self) -> bool:
        """Tell whether its list stores it multiplied by a power of two."""
        return self.new.type.dtype.is_floating and not self.new.is_number


@dataclass(frozen=True)
class Routine:
    """A function: its arguments and results that are no tables, and the calls that compute it.

    `forward` are the calls up to the loss, `rest` those up to the new values of tables. New values among
    `renewals` have lists of their own; all others are written in place.
    """

    function: Function
    takes: tuple[Value, ...]
    gives: tuple[Value, ...]
    forward: tuple[Line, ...]
    rest: tuple[Line, ...]
    renewals: tuple[Renewal, ...] = ()

    @property
    def outputs(self) -> list[Value]:
        """List the results that are outputs of the model."""
        return [value for value in self.gives if value.role is Role.OUTPUT]


@dataclass(frozen=True)
class Printed:
    """A printed kernel: the calls that run it, and its lists in the order of its arrays."""

    calls: tuple[Call, ...]
    lists: list[str]


@dataclass
class Sprite:
    """The custom blocks, lists and variables that the functions of one program share.

    `lists` are those of arguments, results and temporary arrays, with sizes; `literals` those of constants.
    """

    backend: Backend
    program: Program
    definitions: list[Definition] = field(default_factory=list)
    lists: dict[str, int] = field(default_factory=dict)
    literals: dict[str, tuple[str, ...]] = field(default_factory=dict)
    variables: dict[str, None] = field(default_factory=dict)
    numbers: set[str] = field(default_factory=set)
    printed: dict[Hashable, Printed] = field(default_factory=dict)

    @cached_property
    def persistent(self) -> Mapping[str, str]:
        """Map the names of slots to their lists and variables."""
        slot_name = self.backend.dialect.macros["slot_name"]
        slots = (slot for table in TABLES[::-1] for slot in self.program.tables.get(table, ()))
        return {slot.name: slot_name(slot.name, slot.type.rank) for slot in slots}

    @cached_property
    def local_names(self) -> frozenset[str]:
        """Names of loop variables, and of the list of loop invariants."""
        return frozenset(map(self.backend.dialect.macros["local"], [*LETTERS, *OUTER_LETTERS, HOISTED]))

    @property
    def zeros(self) -> dict[str, int]:
        """Count the zeros that each list begins with: none if scripts fill it before they read it."""
        lines = tuple(line for definition in self.definitions for line in definition.lines)
        filled = cleared(lines) - written(lines)
        return {name: 0 if name in filled else size for name, size in self.lists.items()}

    def entry(self, function: Function) -> Routine:
        """Print a function as calls of custom blocks; define those that no function before it has."""
        return _Function(self, function).entry()

    def list_for(self, preferred: str, array: Buffer) -> str:
        """Return the list of this name if it has the size of the array, else reserve a new one."""
        return (
            preferred
            if self.lists.get(preferred) == array.size and array.order
            else self.reserve(preferred, array)
        )

    def reserve(self, preferred: str, array: Buffer) -> str:
        """Reserve a list for an array, or a variable for a number; equal constants share one."""
        if array.space is Space.LITERAL:
            for name, elements in self.literals.items():
                if elements == tuple(map(as_item, array.elements)):
                    return name
        name = first_free(preferred, {*self.lists, *self.literals, *self.variables, *self.local_names})
        if array.space is Space.LITERAL:
            self.literals[name] = tuple(map(as_item, array.elements))
        elif array.order:
            self.lists[name] = int(array.size)
        else:
            self.variables[name] = None
            self.numbers.add(name)
        return name

    def is_taken(self, name: str) -> bool:
        """Tell whether it is the name of a list, or of a variable that outlives a script."""
        return name in self.lists or name in self.literals or name in self.numbers or name in self.local_names

    def define(self, stem: str, lines: tuple[Line, ...]) -> str:
        """Define a custom block of these lines; return its name."""
        taken = {definition.name for definition in self.definitions}
        name = first_free(stem, taken)
        self.definitions.append(Definition(name, lines))
        self.variables |= dict.fromkeys(v for v in changed(lines) if v not in self.persistent.values())
        return name


class _Function:
    def __init__(self, sprite: Sprite, function: Function) -> None:
        self.sprite, self.function = sprite, function
        self.dialect, self.program = sprite.backend.dialect, sprite.program
        self.macros = self.dialect.macros
        options = sprite.backend.options
        kinds = self.program.kinds.keys()
        predicts = (
            options.unroll == "auto" and Kind.STEP not in kinds and kinds & {Kind.PREDICT, Kind.TRAINED}
        )
        self.schedule = SCHEDULES["predict" if predicts else options.unroll]
        self.loss = tuple(port.name for port in function.outputs if port.role is Role.LOSS)
        self.machine = Machine(
            (
                interchange_short_loops,
                schedule_reductions,
                scalars_first,
                self._fuse,
                scalars_last,
                eliminate_dead_stores,
                put_in_place,
                contract_arrays,
            ),
            (unroll, self.schedule.apply, BIND),
        )
        self.lowered = compile_kernels(function, self.machine, self._in_place())
        self.renewals = self._renewals()
        self.scaled = frozenset(a for a, _ in self.renewals if a.order and a.type.dtype.is_floating)
        self.names: dict[Buffer, str] = {}
        self.inductions = Inductions(self.macros)
        self.expressions = Expressions(self.dialect, self.inductions, self._name)

    def _in_place(self) -> dict[int, int]:
        """Map results to arguments they overwrite: in training, only to those they are equal to."""
        renewed = self.function.renewed()
        if not self.loss:
            return renewed
        return {k: n for k, n in renewed.items() if self.function.results[k] == self.function.arguments[n]}

    def _renewals(self) -> list[tuple[Buffer, Port]]:
        """List the new values that are not computed in place, each with the port of the old one."""
        results, inputs = self.lowered.results, self.function.inputs
        renewed = self.function.renewed().items()
        return [(results[k], inputs[n]) for k, n in renewed if results[k].alias is None]

    def _fuse(self, lowered: Lowered, machine: Machine) -> Lowered:
        """Fuse kernels, but none across the last one of the outputs, nor across that of the loss.

        So predict and a step share kernels up to the outputs, and a step may stop before it changes anything.
        """
        wanted = [self._results_of(lowered, role) for role in (Role.OUTPUT, Role.LOSS)]

        def fused(steps: list[Step]) -> list[Step]:
            ends = [0]
            for buffers in wanted:
                last = [k + 1 for k, step in enumerate(steps) if any(b in buffers for b, _ in step.writes)]
                ends.append(max([ends[-1], *last]))
            parts = [*pairwise(ends), (ends[-1], len(steps))]
            return [s for start, end in parts for s in fused_steps(steps[start:end], self.schedule.fits)]

        return lowered.map(fused)

    def _results_of(self, lowered: Lowered, role: Role) -> set[Buffer]:
        """Return the results of one role."""
        ports = self.function.outputs
        return {buffer for buffer, port in zip(lowered.results, ports, strict=True) if port.role is role}

    def entry(self) -> Routine:
        """Print the function as calls."""
        takes = self._arguments()
        steps = self.lowered.steps
        cut = self._end_of_forward(steps)
        forward, rest = (tuple(self._lines(part)) for part in (steps[:cut], steps[cut:]))
        self.sprite.variables |= dict.fromkeys(changed((*forward, *rest)))
        persistent = self.sprite.persistent
        renewals = [
            Renewal(self._value(a.name, a, port.role), persistent[port.name]) for a, port in self.renewals
        ]
        return Routine(self.function, tuple(takes), tuple(self._results()), forward, rest, tuple(renewals))

    def _end_of_forward(self, steps: Sequence[Step]) -> int:
        """Count the steps up to the loss."""
        loss = self._results_of(self.lowered, Role.LOSS)
        last = [k for k, s in enumerate(steps) if any(a in loss for a, _ in s.writes)]
        return max(last, default=len(steps) - 1) + 1

    def _arguments(self) -> list[Value]:
        own = []
        for array, port in zip(self.lowered.arguments, self.function.inputs, strict=True):
            if port.role.is_table:
                self.names[array] = self.sprite.persistent[port.name]
            else:
                self.names[array] = self.sprite.list_for(self.macros["local"](array.name), array)
                own.append(self._value(array.name, array, port.role))
        return own

    def _results(self) -> list[Value]:
        renewed = self.function.renewed()
        results = enumerate(zip(self.lowered.results, self.function.outputs, strict=True))
        return [self._value(p.name or a.name, a, p.role) for k, (a, p) in results if k not in renewed]

    def _value(self, name: str, array: Buffer, role: Role) -> Value:
        return Value(name, self._name(array), array.type, role)

    def _name(self, array: Buffer) -> str:
        array = array.alias or array
        if array not in self.names:
            self.names[array] = self.sprite.reserve(self.macros["local"](array.name), array)
        return self.names[array]

    def _lines(self, steps: Sequence[Step]) -> list[Line]:
        lines: list[Line] = []
        for step in steps:
            if isinstance(step, StepFor):
                self.inductions.open(step.variable, step.backwards)
                inside = self._lines(step.body)
                before, after = self.inductions.close()
                lines += [*before, Repeat(str(step.variable.extent), (*inside, *after))]
            elif isinstance(step, StepIf):
                condition = self.expressions.text(step.condition)
                parts = (tuple(self._lines(part)) for part in step.parts)
                lines.append(If(condition, *parts))
            else:
                assert isinstance(step, Kernel)  # the machine has no products
                lines += self._calls(step)
        return lines

    def _calls(self, kernel: Kernel) -> list[Line]:
        signature = Signature(kernel, Plan())
        key = signature.kernel_key, tuple(array in self.scaled for array in signature.buffers)
        known = self.sprite.printed.get(key)
        if known is not None and self._may_share(signature.buffers, known.lists):
            self.names |= dict(zip(signature.buffers, known.lists, strict=True))
            return list(known.calls)
        script = Script(
            self.machine.finish(kernel),
            self.dialect,
            self._name,
            self.sprite.is_taken,
            self.inductions,
            self.scaled,
        )
        lines = script.lines()
        if not lines:
            return []
        written = next((a for a, _ in kernel.writes if not a.is_register), None)
        stem = self.macros["block_name"](written.name if written else "")
        parts = cut(lines, self.schedule.script_blocks, lambda part: self.sprite.define(stem, part))
        calls = tuple(Call(self.sprite.define(stem, part), may_fail(kernel.body)) for part in parts)
        lists = [self._name(a) if not a.is_register else "" for a in signature.buffers]
        self.sprite.printed[key] = Printed(calls, lists)
        return list(calls)

    def _may_share(self, arrays: Sequence[Buffer], lists: Sequence[str]) -> bool:
        """Tell whether these arrays can lie in the lists that a kernel was printed for."""
        taken = set(self.names.values())
        pairs = [(a, n) for a, n in zip(arrays, lists, strict=True) if n]
        return all(self.names[a] == n if a in self.names else n not in taken for a, n in pairs)


def as_item(element: str) -> str:
    """Convert a printed element to an item of a list; Scratch has no literal for a truth value."""
    words = {"True": "1", "False": "0", "-0.0": "0", "inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
    return words.get(element, element)
