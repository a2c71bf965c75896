"""Public interface of a sprite: shared lists and variables, and the initialisation of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count

from catgrad.backend import Backend
from catgrad.errors import OptionError, UnsupportedOp
from catgrad.initialisers import Initialiser, Normal, Stored, Uniform
from catgrad.naming import numbered
from catgrad.programs.ports import TABLES, Kind, Role
from catgrad.terms.state import Slot
from catgrad.types import Dtype, NdArrayType

from ..kernels.texts import Append, Change, Clear, Expression, Line, Repeat, Set
from ..language.spell import literal
from .entries import Routine, Sprite, Value
from .sizes import untouched

MAX_STRAIGHT_COPIES = 4
"""Items that are copied by straight-line code rather than in a loop."""

SHARED = ("loss", "error", "steps", "guess", "classes", "accuracy")
"""Shared lists and variables beside inputs, targets and outputs."""


@dataclass(frozen=True)
class Reading:
    """A custom block that copies a shared list into a private one, after validating it.

    Items of an integer type must be integers, and below `below` unless that is 0. They are copied one by
    one or in a loop, which takes fewer blocks and more time.
    """

    block: str
    shared: str
    value: Value
    below: int
    one_by_one: bool

    def reads_as(self, other: Reading) -> bool:
        """Tell whether another reads and validates the same list in the same way."""
        mine, others = ((r.value.place, r.value.size, r.is_whole, r.below) for r in (self, other))
        return mine == others

    @property
    def is_whole(self) -> bool:
        """Tell whether items must be integers."""
        return not self.value.type.dtype.is_floating


@dataclass(frozen=True)
class PublicFunction:
    """A public function: the shared lists, the inputs it reads first, and the results it shows at the end."""

    block: str
    entry: Routine
    inputs: tuple[tuple[str, Value], ...]
    outputs: tuple[tuple[str, Value], ...]
    readings: tuple[Reading, ...]
    shows: tuple[Line, ...]


@dataclass(frozen=True)
class Reset:
    """Initialisation of a list of `count` items, or of a variable, which has no count."""

    place: str
    count: int | None
    value: str


class Interface:
    """The public functions of a program: a training step, and all others, `by_block`.

    Raises: OptionError for a parameter that has the name of a list or variable that is shared
    """

    def __init__(self, backend: Backend, sprite: Sprite, entries: Mapping[str, Routine]) -> None:
        self.macros, self.sprite, self.program = backend.dialect.macros, sprite, sprite.program
        sprite.variables[self.macros["local"]("i")] = None
        # Blocks are left for it where there are none to train.
        steps = [entry for entry in entries.values() if entry.function.kind is Kind.STEP]
        self.quick = not steps
        self.readings: dict[str, Reading] = {}
        others = [self._public(entry) for entry in entries.values() if entry not in steps]
        self.by_block = {function.block: function for function in others}
        self.step = next(map(self._public, steps), None)
        self._check_names(tables(sprite))

    @property
    def functions(self) -> list[PublicFunction]:
        """The public functions, in order."""
        return [*self.by_block.values(), *([self.step] if self.step else [])]

    @property
    def first(self) -> PublicFunction:
        """The function that the stage shows: predict, if there is one."""
        return next(iter(self.by_block.values()))

    @property
    def shared(self) -> list[str]:
        """The lists that are global to all sprites."""
        inputs = [name for function in self.by_block.values() for name, _ in function.inputs]
        outputs = [name for function in self.by_block.values() for name, _ in function.outputs]
        targets = [name for name, value in self.step.inputs if value.role is Role.TARGET] if self.step else []
        return [*dict.fromkeys([*inputs, *targets, *outputs])]

    def _check_names(self, persistent: Sequence[tuple[str, Slot, bool]]) -> None:
        shared = {*SHARED, *self.shared}
        for name, slot, _ in persistent:
            if name in shared:
                raise OptionError(
                    "a parameter must not have the name of a shared variable or list",
                    f"one is called {slot.name}",
                    "give it another name",
                )

    def _public(self, entry: Routine) -> PublicFunction:
        x, y = ([v for v in entry.takes if v.role is role] for role in (Role.INPUT, Role.TARGET))
        names = [*numbered_list("input", len(x)), *numbered_list("target", len(y))]
        inputs, outputs = tuple(zip(names, [*x, *y], strict=True)), entry.outputs
        named = (*zip(numbered_list("output", len(outputs)), outputs, strict=True),)
        readings = tuple(self._reading(shared, value, outputs) for shared, value in inputs)
        shows = tuple(line for shared, value in named for line in self._copied(value, shared))
        trains = entry.function.kind is Kind.STEP
        block = "train step" if trains else entry.function.name.replace("_", " ")
        return PublicFunction(block, entry, inputs, named, readings, shows)

    def _reading(self, shared: str, value: Value, outputs: Sequence[Value]) -> Reading:
        below = 2 if value.type.dtype is Dtype.bool else 0
        if value.role is Role.TARGET and value.type.dtype in (Dtype.int32, Dtype.int64):
            below = _count_classes(value, outputs)
        one_by_one = self.quick and value.size <= MAX_STRAIGHT_COPIES and not below
        preferred = f"~read {shared}"
        for block in chain(
            (preferred, f"{preferred} ({value.size})"), (f"{preferred} {k}" for k in count(2))
        ):
            reading = Reading(block, shared, value, below, one_by_one)
            if self.readings.setdefault(block, reading).reads_as(reading):
                break
        return self.readings[block]

    def _copied(self, value: Value, shared: str) -> list[Line]:
        """Copy a list of the sprite into a shared one."""

        def item(list: str, index: str) -> str:
            return Expression(self.macros["item"](list, index), 1)

        if value.is_number:
            return [Clear(shared), Append(shared, self.macros["variable"](value.place))]
        if value.size <= MAX_STRAIGHT_COPIES:
            return [
                Clear(shared),
                *(Append(shared, item(value.place, str(k + 1))) for k in range(value.size)),
            ]
        i = self.macros["local"]("i")
        iteration = (Append(shared, item(value.place, i)), Change(i, "1"))
        return [Clear(shared), Set(i, "1"), Repeat(str(value.size), iteration)]

    @property
    def resets(self) -> list[Reset]:
        """The initialisations of tables that a step changes."""
        return self._resets(TABLES[::-1], [self.step] if self.step else [])

    @property
    def forgets(self) -> list[Reset]:
        """The initialisations of state that functions carry from call to call."""
        remembering = [t for t in self.by_block.values() if Role.BUFFER in t.entry.function.changes]
        return self._resets((Role.BUFFER,), remembering)

    def _resets(self, tables: Sequence[Role], changed_by: Sequence[PublicFunction]) -> list[Reset]:
        slots = (slot for table in tables for slot in self.program.tables.get(table, ()))
        constant = [untouched(public.entry.function) for public in changed_by]
        return [self._reset(slot) for slot in slots if any(slot.name not in each for each in constant)]

    def _reset(self, slot: Slot) -> Reset:
        place = self.sprite.persistent[slot.name]
        return Reset(place, int(slot.type.size) if slot.type.rank else None, self._drawn(slot.initial))

    def _drawn(self, initial: Initialiser) -> str:
        if isinstance(initial, Uniform):
            return self.macros["uniform"](*(_with_point(bound) for bound in (initial.low, initial.high)))
        if isinstance(initial, Normal):
            return self.macros["normal"](literal(initial.mean), literal(initial.deviation))
        if isinstance(initial, Stored):
            if initial.drawn is None:
                raise UnsupportedOp(
                    "an array that a sprite trains anew must begin with numbers that it can draw",
                    "one begins with an array of the imported module",
                    "import the module in evaluation mode, with train=False",
                )
            return self._drawn(initial.drawn)
        return literal(initial.value)


def _count_classes(target: Value, outputs: Sequence[Value]) -> int:
    """Count the scores that the only output has for each label; 0 if they are not scores of classes."""
    if len(outputs) != 1 or not target.size or outputs[0].size % target.size:
        return 0
    count = outputs[0].size // target.size
    return count if count > 1 else 0


def numbered_list(name: str, count: int) -> list[str]:
    """Return the name for the first item, and numbered names for others."""
    return [name, *numbered(name, count)[1:]] if count > 1 else numbered(name, count)


def _with_point(bound: float) -> str:
    """Format a bound with a point, for Scratch draws fractions only then."""
    return literal(f"{bound:.1f}") if float(bound).is_integer() else literal(bound)


def extent(type: NdArrayType) -> str:
    """Describe the size of an array for a comment, with its shape where that tells more."""
    axes = [size for size in type.shape if size != 1]
    shape = f", {' x '.join(map(str, axes))}" if len(axes) > 1 else ""
    return f"{type.size} number{'s' if type.size != 1 else ''}{shape}"


def tables(sprite: Sprite) -> list[tuple[str, Slot, bool]]:
    """List the lists and variables that training changes: name, slot, and whether it is a list."""
    slots = [slot for table in TABLES[::-1] for slot in sprite.program.tables.get(table, ())]
    return [(sprite.persistent[slot.name], slot, bool(slot.type.rank)) for slot in slots]
