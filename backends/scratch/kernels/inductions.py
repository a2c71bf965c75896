"""Strength reduction of indices: an index that is linear in loop variables is an induction variable.

An index 20·i + j is a variable of that name. It is 1 before the loops, and grows by 1 in each iteration of
the inner one, and by the difference to 20 in each of the outer one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from catgrad.loops.ir.index import Atom, Index, Modulo, Quotient, Read, Variable
from catgrad.loops.ir.scalar import Scalar

from .texts import Change, Expression, Line, Set, reporters

LETTERS = "ijklmnpq"
"""Names of loop variables, from the outermost inwards."""

OUTER_LETTERS = "tuvw"
"""Names of the variables of loops around kernels; those inside kernels never have them."""

Form = tuple[tuple[Variable, int], ...]
"""The part of an index that is linear in loop variables: each with its coefficient."""


@dataclass
class _OpenLoop:
    """An enclosing loop; `moved` is the change of each induction variable by its body so far."""

    variable: Variable
    letter: str
    backwards: bool
    moved: dict[Form, int] = field(default_factory=dict)

    def step(self, form: Form) -> int:
        """Return the change of a form from one iteration to the next."""
        step = sum(c for v, c in form if v is self.variable)
        return -step if self.backwards else step

    def start(self, form: Form) -> int:
        """Return the value of a form in the first iteration."""
        return -self.step(form) * (int(self.variable.extent) - 1) if self.backwards else 0


class Inductions:
    """The induction variables of a kernel's loops; `outer` are those of loops around it."""

    def __init__(self, macros: Mapping[str, Any], outer: Inductions | None = None) -> None:
        self.macros, self.outer = macros, outer
        self.loops: list[_OpenLoop] = []
        self.names: dict[Form, str] = {}
        self.starts: dict[Form, tuple[Index, int]] = {}
        self.text_of: Callable[[Scalar], str] = str

    def open(self, variable: Variable, backwards: bool = False) -> None:
        """Enter a loop."""
        letters, depth = LETTERS if self.outer else OUTER_LETTERS, len(self.loops)
        letter = letters[depth] if depth < len(letters) else f"{letters[0]}{depth}"
        self.loops.append(_OpenLoop(variable, letter, backwards))

    def close(self) -> tuple[list[Line], list[Line]]:
        """Leave the innermost loop: return the lines before it, and at the end of each iteration."""
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

    def at(self, index: Index, base: int = 1) -> str:
        """Print an index as an expression, where the first item has the number `base`."""
        form = tuple((atom, int(c)) for atom, c in index.terms if isinstance(atom, Variable))
        terms = [(self._atom(a), int(c)) for a, c in index.terms if not isinstance(a, Variable)]
        constant = int(index.constant) + base
        if form:
            terms.insert(0, (self.macros["variable"](self._variable(form)), 1))
            constant -= 1
        own = max(len(terms) - 1, 0) + sum(abs(c) != 1 for _, c in terms) + bool(terms and constant)
        return Expression(self.macros["place"](terms, constant), own + sum(reporters(t) for t, _ in terms))

    def _variable(self, form: Form) -> str:
        """Return the induction variable of a form, a new one if there is none."""
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
        preferred = self.macros["running"]([(letters[v], c) for v, c in form])
        taken = self._taken()
        return first_free(preferred, taken)

    def _letters(self) -> dict[Variable, str]:
        outer = self.outer._letters() if self.outer else {}
        return {**outer, **{each.variable: each.letter for each in self.loops}}

    def _taken(self) -> set[str]:
        return {*self.names.values(), *(self.outer._taken() if self.outer else ())}

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Read):
            return self.text_of(atom.scalar)
        assert isinstance(atom, (Quotient, Modulo))  # there are no warp groups
        macro, own = ("quotient", 2) if isinstance(atom, Quotient) else ("modulo", 1)
        dividend = self.at(atom.index, 0)
        return Expression(self.macros[macro](dividend, int(atom.divisor)), own + reporters(dividend))


def first_free(preferred: str, taken: Collection[str]) -> str:
    """Return the preferred name, with the first free number if it is taken."""
    names = chain([preferred], (f"{preferred} {number}" for number in count(2)))
    return next(name for name in names if name not in taken)
