"""Maximal munch: operations grouped into cones, each with one result that others read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from catgrad.programs.program import Apply, Function

Condition = Callable[[Apply], bool]
OUTSIDE = -1


@dataclass(frozen=True)
class Cone:
    """Operations with one result, and the values that they read from outside."""

    body: tuple[Apply, ...]
    inputs: tuple[int, ...]
    result: int


class Cones:
    """The cones of a function, of at most so many inputs each; a larger one falls apart into its operations.

    Operations that `joins` holds for belong to one. Those that are `free` are computed again by each cone
    that reads them.
    """

    def __init__(self, function: Function, joins: Condition, free: Condition, most_inputs: int) -> None:
        self.function, self.joins, self.free = function, joins, free
        self.place = {value: k for k, apply in enumerate(function.body) for value in apply.outputs}
        self.roots = self._roots()
        cones = {root: self.at(root, function.body[root].outputs[0]) for root in {*self.roots.values()}}
        wide = {root for root, cone in cones.items() if len(cone.inputs) > most_inputs}
        self.roots = {place: place if root in wide else root for place, root in self.roots.items()}

    def at(self, root: int, result: int) -> Cone:
        """Return the cone that ends with the operation at this place, for one of its results.

        Its order is that of a depth-first search, so that equal cones are equal wherever they are.
        """
        body, inputs, visited = self.function.body, dict[int, None](), dict[int, None]()
        pending = [result]
        while pending:
            value = pending[-1]
            place = self.place.get(value, OUTSIDE)
            if not self._belongs(place, root):
                inputs[value] = None
                pending.pop()
                continue
            missing = [v for v in body[place].inputs if v not in inputs and self.place.get(v) not in visited]
            if place not in visited and missing:
                pending += missing[::-1]
            else:
                visited[place] = None
                pending.pop()
        return Cone(tuple(body[place] for place in visited), tuple(inputs), result)

    def _belongs(self, place: int, root: int) -> bool:
        """Tell whether the operation at a place is one of a cone, or free for all of them."""
        if place in self.roots:
            return self.roots[place] == root
        return place != OUTSIDE and self.free(self.function.body[place])

    def _roots(self) -> dict[int, int]:
        """Map the place of each operation of a cone to that of the last."""
        readers: dict[int, set[int]] = {value: {OUTSIDE} for value in self.function.results}
        roots: dict[int, int] = {}
        for place, apply in reversed([*enumerate(self.function.body)]):
            ends = set[int]().union(*(readers.get(value, set()) for value in apply.outputs))
            if self.free(apply) and (OUTSIDE not in ends or not self.joins(apply)):
                mine = ends
            elif self.joins(apply):
                roots[place] = next(iter(ends)) if len(ends) == 1 and OUTSIDE not in ends else place
                mine = {roots[place]}
            else:
                mine = {OUTSIDE}
            for value in apply.inputs:
                readers.setdefault(value, set()).update(mine)
        return roots
