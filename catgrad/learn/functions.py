"""Several functions of one model, which share parameters and persistent buffers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import nan
from typing import Any

from catgrad.errors import OptionError, TermError
from catgrad.functors import evaluation, factor_buffers, factor_parameters, factor_run_numbers
from catgrad.initialisers import Stored
from catgrad.naming import numbered, require_dotted
from catgrad.ops.literal import MAX_LITERAL_ELEMENTS, literal
from catgrad.ops.random import initial_value
from catgrad.programs.ports import Kind, Port, Role
from catgrad.programs.signatures import SIGNATURES
from catgrad.terms.block import any_operation
from catgrad.terms.build import build
from catgrad.terms.state import SEED, Slot, Update, slot
from catgrad.terms.structural import Constant, Label
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import NdArrayType

RESERVED = (*(kind for kind in SIGNATURES if kind is not Kind.PREDICT), "forget")
"""Names of the functions of a Task, and of the block that resets buffers."""


@dataclass(frozen=True)
class Functions:
    """Terms X → Y by name, which share the parameters P and buffers M that have the same names.

    Each is a function M ⊗ P ⊗ X → M ⊗ Y of the emitted program. It takes only the tables that it reads, and
    returns M only if it updates a buffer. Dropout and batch norm are in evaluation mode. X and Y are
    numbered, or have the `names` of the function.

    Raises: OptionError for a value that is no term, for a reserved name, for a number of names that is not
            that of X and Y, or for a term that updates buffers and has dropout or batch norm; TermError if
            two arrays have one name
    """

    terms: Mapping[str, Term]
    name: str = "model"
    names: Mapping[str, tuple[Sequence[str], Sequence[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_dotted(self.name)
        if not isinstance(self.terms, Mapping) or not self.terms:
            raise OptionError(
                "functions must be terms by name", f"they are {self.terms!r}", 'write {"predict": model}'
            )
        for name, term in self.terms.items():
            _check(name, term)
        for name, sides in self.names.items():
            _check_names(name, self.terms.get(name), *sides)
        _ = self.buffers, self.parameters

    @cached_property
    def opened(self) -> Mapping[str, Opened]:
        """The terms, with parameters, buffers and run numbers as arguments."""
        return {name: opened_term(term) for name, term in self.terms.items()}

    @cached_property
    def parameters(self) -> tuple[Slot, ...]:
        """P, in the order of the first use."""
        return united(each.parameters for each in self.opened.values())

    @cached_property
    def buffers(self) -> tuple[Slot, ...]:
        """M: run numbers, then buffers."""
        numbers = united(each.numbers for each in self.opened.values())
        return (*numbers, *united(each.buffers for each in self.opened.values()))

    def entry(self, name: str) -> tuple[Term, tuple[Port, ...], tuple[Port, ...]]:
        """Return one of the functions: its term, and the ports of its arguments and results."""
        opened = self.opened[name]
        tables = {Role.BUFFER: self.buffers, Role.PARAMETER: self.parameters}
        read = {Role.BUFFER: (*opened.numbers, *opened.buffers), Role.PARAMETER: opened.parameters}
        taken = [Port(role, s.name, s.type) for role in tables if read[role] for s in tables[role]]
        slots = [slot for role in tables if read[role] for slot in tables[role]]
        renewed = self.buffers if opened.changes else ()
        x_names, y_names = self.names.get(name) or (numbered("x", len(opened.inputs)), opened.outputs)

        def function(*arguments: Var) -> list[Var]:
            persistent = {s.name: a for s, a in zip(slots, arguments, strict=False)}
            values = opened.term.apply(
                *(persistent[s.name] for s in (*opened.numbers, *opened.buffers, *opened.parameters)),
                *arguments[len(slots) :],
            )
            new = dict(zip((s.name for s in opened.buffers), values, strict=False))
            new |= {s.name: persistent[s.name] + 1 for s in opened.counting}
            outputs = zip(y_names, values[len(opened.buffers) :], strict=True)
            return [
                *(new.get(s.name, persistent[s.name]) for s in renewed),
                *(Label(n)(y) for n, y in outputs),
            ]

        term = build(function, [*(s.type for s in slots), *opened.inputs])
        x = zip(x_names, opened.inputs, strict=True)
        y = zip(y_names, opened.term.target.table[len(opened.buffers) :], strict=True)
        inputs = (*taken, *(Port(Role.INPUT, n, type) for n, type in x))
        new = (Port(Role.BUFFER, s.name, s.type) for s in renewed)
        return term, inputs, (*new, *(Port(Role.OUTPUT, n, type) for n, type in y))


@dataclass(frozen=True)
class Opened:
    """A term from run numbers, buffers, parameters and X to new buffers and Y.

    Each call increments the numbers in `counting`; it `changes` buffers or such numbers.
    """

    term: Term
    numbers: tuple[Slot, ...]
    buffers: tuple[Slot, ...]
    parameters: tuple[Slot, ...]
    counting: tuple[Slot, ...]
    inputs: tuple[NdArrayType, ...]
    changes: bool

    @property
    def outputs(self) -> list[str]:
        """The names of Y."""
        return numbered("y_hat", len(self.term.target) - len(self.buffers))


def initial_term(slots: Sequence[Slot]) -> Term:
    """Build the term from a seed to the initial values of these slots; the seed is that of `seed`."""

    def initial(seed: Var) -> list[Var]:
        return [seed if s == slot(SEED) else _initial(s, seed) for s in slots]

    return build(initial, [SEED.array_type])


def _initial(slot: Slot, seed: Var) -> Var:
    """Compute the initial value of an array.

    A stored one that is too large for source text is NaN, so that no result before its file is read is wrong.
    """
    initial = slot.initial
    drawn = initial.drawn if isinstance(initial, Stored) else initial
    if drawn is not None:
        return initial_value(slot.name, slot.type, drawn, seed)
    assert isinstance(initial, Stored)
    if initial.array.size > MAX_LITERAL_ELEMENTS and slot.type.dtype.is_floating:
        return Constant(slot.type, nan)()
    return literal(initial.array, slot.type.dtype)


def opened_term(term: Term) -> Opened:
    """Turn the parameters, buffers and run numbers of a term in evaluation mode into arguments."""
    parameters, opened = factor_parameters(evaluation(term))
    buffers, opened = factor_buffers(opened)
    numbers, opened = factor_run_numbers(opened)
    counting = tuple(slot(number) for number in numbers if number.counts)
    changes = bool(counting) or any_operation(term, lambda op: isinstance(op, Update))
    slots = tuple(map(slot, numbers))
    return Opened(opened, slots, buffers, parameters, counting, tuple(term.source.table), changes)


def united(tables: Iterable[Iterable[Slot]]) -> tuple[Slot, ...]:
    """Unite tables of arrays by name, in the order of their first use.

    Raises: TermError if arrays of one name differ
    """
    found: dict[str, Slot] = {}
    for each in (s for table in tables for s in table):
        known = found.setdefault(each.name, each)
        if known != each:
            attribute = "initial" if known.type == each.type else "type"
            one, other = (getattr(slot, attribute) for slot in (known, each))
            raise TermError(
                "a parameter or buffer must be the same array in all functions",
                f"{each.name!r} is {one} in one and {other} in another",
                "rename one of them",
            )
    return tuple(found.values())


def _check(name: str, term: object) -> None:
    if not isinstance(term, Term):
        raise OptionError(
            "functions must be terms by name", f"{name!r} is {term!r}", "build it with build(...)"
        )
    if name in RESERVED or name.startswith("init"):
        raise OptionError(
            f"functions must have other names than {', '.join(RESERVED)}, and none that begins with init",
            f"one is {name!r}",
            "write for example 'predict'",
        )
    remembers = any_operation(term, lambda op: isinstance(op, Update))
    if remembers and any_operation(term, lambda op: op.evaluated is not None):
        raise OptionError(
            "a function that updates buffers must have neither dropout nor batch norm",
            f"{name!r} has one of them",
            "build it without",
        )


def _check_names(name: str, term: Any, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    expected = [len(term.source), len(term.target)] if term is not None else []
    if [len(inputs), len(outputs)] != expected:
        raise OptionError(
            "names must be those of all arguments and of all results of a function",
            f"{name!r} has {' and '.join(map(str, expected)) or 'no term'}, and names {len(inputs)} and "
            f"{len(outputs)}",
            "name each of them",
        )
