"""Value numbering: equal scalars have equal numbers; what is known of a number is recorded by scope."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from catgrad.loops.ir.hashing import Structure
from catgrad.loops.ir.scalar import Buffer, Load, Scalar


class Numbering(Structure):
    """Number scalars; equal ones have equal numbers as long as no memory that they read is written."""

    def __init__(self, changing: Collection[Buffer] = ()) -> None:
        super().__init__()
        self.changing = {buffer.home for buffer in changing}
        self.versions: dict[Buffer, int] = {}
        self.known: list[dict[int, Any]] = [{}]
        self.epoch = 1
        self._keys: dict[tuple[int, int], int] = {}
        self._steady: dict[int, bool] = {}

    def written(self, buffer: Buffer) -> None:
        """Record a write: loads of the buffer from now on are not equal to earlier ones."""
        self.versions[buffer.home] = self.versions.get(buffer.home, 0) + 1
        self.epoch += 1

    def key(self, scalar: Scalar) -> int:
        """Number a scalar by the current contents of buffers."""
        at = scalar.number, 0 if self._is_steady(scalar) else self.epoch
        if at not in self._keys:
            self._keys[at] = self.number(self.node_key(scalar))
        return self._keys[at]

    def load_key(self, load: Load) -> Hashable:
        """Make a key of a buffer as its memory was last written, and the indices."""
        return load.buffer, self.versions.get(load.buffer.home, 0), tuple(map(self.index_key, load.indices))

    def _is_steady(self, scalar: Scalar) -> bool:
        """Tell whether nothing it reads is changed in the kernel."""
        if scalar.number not in self._steady:
            own = not (isinstance(scalar, Load) and scalar.buffer.home in self.changing)
            self._steady[scalar.number] = own and all(map(self._is_steady, scalar.operands))
        return self._steady[scalar.number]

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
