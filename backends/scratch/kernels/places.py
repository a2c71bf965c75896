"""Places of items, as variables that run along with loops.

A place that depends on loop variables as 20·i + j is a variable of that name. It is 1 before the loops,
grows by 1 in every turn of the inner one, and by what is missing in every turn of the outer one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from catgrad.loops.ir.index import Index, Modulo, Quotient, Read, Variable
from catgrad.loops.ir.scalar import Scalar

from .texts import Change, Expression, Line, Set, reporters

LETTERS = "ijklmnpq"
"""What loop variables are called, from the outermost inwards."""

OUTER_LETTERS = "tuvw"
"""What those are called that are around kernels, so that no variable of a kernel has the name of theirs."""

Form = tuple[tuple[Variable, int], ...]
"""How a place depends on loop variables."""


@dataclass
class _Open:
    variable: Variable
    letter: str
    backwards: bool
    moved: dict[Form, int] = field(default_factory=dict)

    def step(self, form: Form) -> int:
        """How far a form moves from turn to turn."""
        step = sum(c for v, c in form if v is self.variable)
        return -step if self.backwards else step

    def start(self, form: Form) -> int:
        """Where a form is in the first turn."""
        return -self.step(form) * (int(self.variable.extent) - 1) if self.backwards else 0


class Places:
    """The variables that run along with the loops of a kernel; `outer` are those of loops around it."""

    def __init__(self, macros: Mapping[str, Any], outer: Places | None = None) -> None:
        self.macros, self.outer = macros, outer
        self.loops: list[_Open] = []
        self.names: dict[Form, str] = {}
        self.starts: dict[Form, tuple[Index, int]] = {}
        self.text_of: Callable[[Scalar], str] = str

    def open(self, variable: Variable, backwards: bool = False) -> None:
        """Enter a loop."""
        letters, depth = LETTERS if self.outer else OUTER_LETTERS, len(self.loops)
        letter = letters[depth] if depth < len(letters) else f"{letters[0]}{depth}"
        self.loops.append(_Open(variable, letter, backwards))

    def close(self) -> tuple[list[Line], list[Line]]:
        """Leave the innermost loop: what comes before it, and at the end of each of its turns."""
        loop, before, after = self.loops.pop(), list[Line](), list[Line]()
        for form, moved in loop.moved.items():
            step = loop.step(form)
            if step != moved:
                after.append(Change(self.names[form], str(step - moved)))
            if any(each.step(form) for each in self.loops):
                self.loops[-1].moved[form] = step * int(loop.variable.extent)
            else:
                rest, start = self.starts.pop(form)
                first = self.outer.at(rest, start + 1) if self.outer and rest.terms else str(start + 1)
                before.append(Set(self.names.pop(form), first))
        return before, after

    def at(self, place: Index, base: int = 1) -> str:
        """A place as an expression, where the first item is number `base`."""
        form = tuple((atom, int(c)) for atom, c in place.terms if isinstance(atom, Variable))
        terms = [(self._atom(a), int(c)) for a, c in place.terms if not isinstance(a, Variable)]
        constant = int(place.constant) + base
        if form:
            terms.insert(0, (self.macros["variable"](self._variable(form)), 1))
            constant -= 1
        own = max(len(terms) - 1, 0) + sum(abs(c) != 1 for _, c in terms) + bool(terms and constant)
        return Expression(self.macros["place"](terms, constant), own + sum(reporters(t) for t, _ in terms))

    def _variable(self, form: Form) -> str:
        """The variable that runs along with a form."""
        inner = next((k for k in reversed(range(len(self.loops))) if self.loops[k].step(form)), None)
        if inner is None:
            assert self.outer is not None  # all variables are those of open loops
            return self.outer._variable(form)
        if form not in self.names:
            own = {each.variable for each in self.loops}
            rest = Index(tuple((v, c) for v, c in form if v not in own))
            self.starts[form] = rest, sum(each.start(form) for each in self.loops)
            self.names[form] = self._fresh(form)
            self.loops[inner].moved[form] = 0
        return self.names[form]

    def _fresh(self, form: Form) -> str:
        letters = self._letters()
        wish = self.macros["running"]([(letters[v], c) for v, c in form])
        taken = self._taken()
        return first_free(wish, taken)

    def _letters(self) -> dict[Variable, str]:
        outer = self.outer._letters() if self.outer else {}
        return {**outer, **{each.variable: each.letter for each in self.loops}}

    def _taken(self) -> set[str]:
        return {*self.names.values(), *(self.outer._taken() if self.outer else ())}

    def _atom(self, atom: Quotient | Modulo | Read) -> str:
        if isinstance(atom, Read):
            return self.text_of(atom.scalar)
        macro, own = ("quotient", 2) if isinstance(atom, Quotient) else ("modulo", 1)
        index = self.at(atom.index, 0)
        return Expression(self.macros[macro](index, int(atom.divisor)), own + reporters(index))


def first_free(wish: str, taken: Collection[str]) -> str:
    """The wish, with a number behind it if it is taken."""
    names = chain([wish], (f"{wish} {number}" for number in count(2)))
    return next(name for name in names if name not in taken)
