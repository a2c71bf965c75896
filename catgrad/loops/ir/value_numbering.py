"""Value numbering: equal scalars have equal numbers; what is known of a number is recorded by scope."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from catgrad.loops.ir.index import Index, Read
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Masked, Number, Scalar


class Numbering:
    """Number scalars; equal ones have equal numbers as long as no buffer that they read is written."""

    def __init__(self, changing: Collection[Buffer] = ()) -> None:
        self.changing = changing
        self.versions: dict[Buffer, int] = {}
        self.known: list[dict[int, Any]] = [{}]
        self.epoch = 1
        self._keys: dict[tuple[int, int], int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._steady: dict[int, bool] = {}

    def written(self, array: Buffer) -> None:
        """Record a write: loads of the buffer from now on are not equal to earlier ones."""
        self.versions[array] = self.versions.get(array, 0) + 1
        self.epoch += 1

    def key(self, scalar: Scalar) -> int:
        """Number a scalar by the current contents of buffers."""
        at = scalar.number, 0 if self._is_steady(scalar) else self.epoch
        if at not in self._keys:
            self._keys[at] = self._number(self._new_key(scalar))
        return self._keys[at]

    def _is_steady(self, scalar: Scalar) -> bool:
        """Tell whether the kernel writes nothing that it reads."""
        if scalar.number not in self._steady:
            own = not (isinstance(scalar, Load) and scalar.buffer in self.changing)
            self._steady[scalar.number] = own and all(map(self._is_steady, scalar.operands))
        return self._steady[scalar.number]

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _new_key(self, scalar: Scalar) -> Hashable:
        if isinstance(scalar, Load):
            places = tuple(self._index_key(i) for i in scalar.indices)
            return "load", scalar.buffer, self.versions.get(scalar.buffer, 0), places
        operands = tuple(self.key(o) for o in scalar.operands)
        if isinstance(scalar, Compute):
            return scalar.op, scalar.dtype, operands
        if isinstance(scalar, Number):
            return scalar.constant
        if isinstance(scalar, IndexValue):
            return "place", self._index_key(scalar.index), scalar.dtype
        conditions = scalar.conditions if isinstance(scalar, Masked) else ()
        return (
            "guarded",
            tuple((self._index_key(c.index), c.size, c.below, c.above) for c in conditions),
            operands,
        )

    def _index_key(self, i: Index) -> int:
        atoms = ((self.key(a.scalar) if isinstance(a, Read) else a, c) for a, c in i.terms)
        return self._number((i.constant, *atoms))

    def value(self, scalar: Scalar) -> Any:
        """Look up what is known of a scalar; None if nothing is."""
        key = self.key(scalar)
        return next((known[key] for known in reversed(self.known) if key in known), None)

    def bind(self, scalar: Scalar, value: Any) -> None:
        """Record something about a scalar, to the end of the scope."""
        self.known[-1][self.key(scalar)] = value

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget bindings made within, at the end."""
        self.known.append({})
        yield
        self.known.pop()

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo writes made within, at the end."""
        versions, epoch = dict(self.versions), self.epoch
        yield
        self.versions, self.epoch = versions, epoch
