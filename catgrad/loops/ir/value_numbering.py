"""Value numbering: which scalars of a kernel are equal where they stand, and which have a name already."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from catgrad.loops.ir.index import Index, Read
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Masked, Number, Scalar


class Numbering:
    """Numbers for scalars, equal for equal ones as long as no array they read is written."""

    def __init__(self, changing: Collection[Buffer] = ()) -> None:
        self.changing = changing
        self.versions: dict[Buffer, int] = {}
        self.known: list[dict[int, str]] = [{}]
        self.epoch = 1
        self._keys: dict[tuple[int, int], int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._steady: dict[int, bool] = {}

    def written(self, array: Buffer) -> None:
        """What was read from the array before is not what is there now."""
        self.versions[array] = self.versions.get(array, 0) + 1
        self.epoch += 1

    def key(self, scalar: Scalar) -> int:
        """Equal for scalars that are equal here."""
        at = scalar.number, 0 if self._is_steady(scalar) else self.epoch
        if at not in self._keys:
            self._keys[at] = self._number(self._new_key(scalar))
        return self._keys[at]

    def _is_steady(self, scalar: Scalar) -> bool:
        """Whether nothing it reads is changed in the kernel."""
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

    def name(self, scalar: Scalar) -> str | None:
        """The name of what is computed already."""
        key = self.key(scalar)
        return next((names[key] for names in reversed(self.known) if key in names), None)

    def give(self, scalar: Scalar, name: str) -> None:
        """From here to the end of the block, the scalar has this name."""
        self.known[-1][self.key(scalar)] = name
