"""Learner whose arrays are the lists of a sprite, which its own blocks update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from catgrad.errors import UnsupportedOp, not_emitted
from catgrad.files import write_atomically
from catgrad.learn.task import LEARNER
from catgrad.paths import writable
from catgrad.programs.ports import INITIAL, TABLES, Kind, Role
from catgrad.terms.state import Slot
from catgrad.types import Array

from ...host.checks import Expected
from ...host.tables import Owner, Table
from ..formats.projects import read_arrays
from .harness import Block, Initial, type_of


class Listed(Table):
    """A table as the lists and variables of a sprite, each read on access."""

    def __init__(self, table: str, slots: Sequence[Slot], block: Block) -> None:
        super().__init__(table, slots)
        self._block = block

    def _get(self, name: str) -> Array:
        return self._block.get(self._block.tables[name], self._types[name])

    def _put(self, name: str, array: Array) -> None:
        self._block.put(self._block.tables[name], array)


class BoundFunction:
    """A custom block with its own arguments; the tables are those in the sprite."""

    def __init__(self, block: Block) -> None:
        self.block, count = block, len(block.slots)
        self.expected = Expected(block.__name__, block.expected.names[count:], block.expected.types[count:])

    def __call__(self, *values: ArrayLike) -> list[Array]:
        """Run the block; returns its own results."""
        for place, value in zip(self.block.how["takes"], self.expected.checked(values), strict=True):
            self.block.put(place, value)
        self.block.run()
        return [self.block.get(place, type_of(place)) for place in self.block.how["gives"]]

    def batches(self, inputs: Sequence[Any]) -> list[Sequence[Any]]:
        """Split inputs of more examples than a batch; return others as they are."""
        sizes = {int(type.shape[0]) if type.rank else 0 for type in self.expected.types}
        rows = {len(x) if np.ndim(x) else 0 for x in inputs}
        if len(sizes) > 1 or len(rows) > 1 or not (size := sizes.pop()) or (count := rows.pop()) % size:
            return [inputs]
        return [[x[n : n + size] for x in inputs] for n in range(0, count, size)] or [inputs]


class Learner(Owner):
    """Parameters, buffers and optimiser state by name, and the blocks that read and update them.

    `machine` runs its project, which `opened` loads. Without a seed, weights begin as the project has them.
    """

    def __init__(
        self,
        opened: Callable[[], Mapping[str, Block]],
        initial: Mapping[str, Initial],
        seed: int | None = None,
    ) -> None:
        self._opened, self._initial, blocks = opened, initial, opened()
        block = next(iter(blocks.values()))
        self.program, self.machine = block.program, block.machine
        kinds = self.program.kinds
        self._functions = {
            kind: BoundFunction(blocks[f.name]) for kind, f in kinds.items() if f.name in blocks
        }
        self._own({table: Listed(table, self.program.tables.get(table, ()), block) for table in TABLES})
        for table in self.program.tables if seed is not None else ():
            values = initial[kinds[INITIAL[table]].name](seed)
            self._tables[table].set(dict(zip(self._tables[table], values, strict=True)))

    def another(self) -> Self:
        """Return another learner of the same sprite, in a project of its own."""
        return type(self)(self._opened, self._initial)

    @property
    def lacks(self) -> frozenset[str]:
        """The functions that the sprite does not have."""
        return frozenset(map(str, LEARNER)) - frozenset(self._functions)

    def predict(self, *inputs: ArrayLike) -> Any:
        """Compute the model's output, of any number of examples; a list if there are several outputs."""
        if Kind.PREDICT not in self._functions:
            raise not_emitted(Kind.PREDICT, self._functions)
        predict = self._functions[Kind.PREDICT]
        with self.lock:
            parts = [predict(*batch) for batch in predict.batches(inputs)]
        outputs = [np.concatenate(y) if len(y) > 1 else y[0] for y in zip(*parts, strict=True)]
        return outputs[0] if len(outputs) == 1 else outputs

    def step(self, *inputs_and_targets: ArrayLike) -> Any:
        """Train on one batch; returns the loss before the step."""
        with self.lock:
            return self._functions[Kind.STEP](*inputs_and_targets)[0][()]

    def loss(self, *inputs_and_targets: ArrayLike) -> Any:
        """Raise UnsupportedOp: a sprite computes the loss only of the batch that it trains on."""
        raise UnsupportedOp(
            "a model in Scratch must be evaluated by its predictions",
            "it has no block for the loss without a step",
            "leave validation out, and compare predict with the targets",
        )

    def save(self, file: str | Path) -> None:
        """Write the project as it is now, an .sb3 file for Scratch. Raises: ArtifactError if that fails."""
        with writable("the file of a project", file):
            write_atomically(Path(file), [self.machine.save()])

    def load(self, file: str | Path) -> None:
        """Continue with a project of this model that was saved here or in Scratch.

        Raises: ArtifactError if it is none
        """
        slots = [slot for slot in self.program.tables[Role.PARAMETER] if slot.type.rank]
        read_arrays(file, slots)
        self.machine.load(Path(file))
