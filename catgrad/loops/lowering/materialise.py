"""Materialisation: store values that are costly and read repeatedly, and those at which loops must end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from catgrad.functors.reverse import Reversed
from catgrad.loops.ir.nest import size_hint
from catgrad.loops.lowering.index_maps import AFFINE_VIEWS, GENERATORS, VIEWS
from catgrad.loops.machine import Machine
from catgrad.ops.attention import Attention
from catgrad.ops.cast import Cast
from catgrad.ops.contract import Contract
from catgrad.ops.gather import Gather
from catgrad.ops.literal import ArrayLiteral
from catgrad.ops.random import Draw
from catgrad.ops.reduce import Broadcast
from catgrad.ops.shape import Permute, Reshape
from catgrad.ops.slices import Concat, Pad
from catgrad.ops.table import Stack
from catgrad.ops.take import TakeAlongAxis
from catgrad.ops.window import Fold, Window
from catgrad.programs.program import Apply, Function, Nested
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant
from catgrad.types import Dtype

RECOMPUTED_OPERATIONS = 6
"""Operations that may be recomputed where they are read again, rather than stored and loaded."""

RECOMPUTED_OF_16_BITS = 6 * RECOMPUTED_OPERATIONS
"""Operations that a GPU may recompute if it loads 16 bits instead of 32 for them, as those of a GELU."""

MAX_DEPTH = 64
"""Nested operations of one expression: passes recur over them, and so do the compilers of other languages."""

REPEATING = (Broadcast, Window, Gather, TakeAlongAxis)
"""Views that read elements more than once."""


def is_attention(op: Op) -> bool:
    """Tell whether an operation is attention or its reverse."""
    return isinstance(op.op if isinstance(op, Reversed) else op, Attention)


class Choice:
    """For each value of a function, whether it is stored, and in which order of its axes.

    Contractions that windows alone read are `folded`, if they have one term or the machine gathers: these are
    summed where windows are.
    """

    def __init__(self, function: Function, machine: Machine) -> None:
        self.function, self.gpu, self.gathers = function, machine.gpu, machine.gpu.gathers
        self.producer = {v: apply for apply in function.body for v in apply.outputs}
        self.orders: dict[int, tuple[int, ...]] = {}
        # Each result of the same numbers is filled with them, not one copied to the others.
        self._stored = {v for v in function.results if not isinstance(self._op(v), GENERATORS)}
        self._uses: Counter[int] = Counter()
        self._repeated: set[int] = set()
        self._readers: dict[int, list[Apply]] = {}
        for apply in reversed(function.body):
            self._read(apply)
        self.folded = {
            apply.outputs[0]
            for apply in function.body
            if isinstance(apply.op, Contract) and self._is_folded(apply)
        }
        self._cost: Counter[int] = Counter()
        self._depth: Counter[int] = Counter()
        self._leaves: dict[int, frozenset[int]] = {}
        for apply in function.body:
            self._decide(apply)

    def readers(self, value: int) -> Sequence[Apply]:
        """Return the operations that read a value, the last first."""
        return self._readers.get(value, ())

    def is_stored(self, value: int) -> bool:
        """Tell whether a value is materialised."""
        return value in self._stored

    def is_number(self, value: int) -> bool:
        """Tell whether an array is filled with a number."""
        while isinstance(self._op(value), Broadcast):
            (value,) = self.producer[value].inputs
        return isinstance(self._op(value), Constant)

    def _read(self, apply: Apply) -> None:
        """Count the reads of an operation's inputs, record the readers, materialise what it requires."""
        op, inputs, outputs = apply
        if isinstance(op, Contract) or is_attention(op):
            for value in outputs:
                self._order(value)
                self._store_rounded(value)
            for value in inputs:
                self._store_root(value)
        elif isinstance(op, Nested):
            self._stored.update(v for v in self._rows(inputs) if not isinstance(self._op(v), GENERATORS))
        through = isinstance(op, VIEWS)
        for position, value in enumerate(inputs):
            self._readers.setdefault(value, []).append(apply)
            self._uses[value] += sum(self._uses[o] for o in outputs) if through else 1
            repeated = through and any(o in self._repeated for o in outputs)
            if repeated or (position == 0 and isinstance(op, REPEATING)):
                self._repeated.add(value)

    def _rows(self, values: Sequence[int]) -> Iterator[int]:
        """Yield values, and the entries of stacks among them instead of these."""
        for value in values:
            yield from self.producer[value].inputs if isinstance(self._op(value), Stack) else (value,)

    def _is_folded(self, apply: Apply) -> bool:
        """Tell whether the only reader of a contraction folds it, perhaps in another shape.

        One of several terms would be summed again for each element, unless the machine gathers.
        """
        (value,) = apply.outputs
        if not self.gathers and not self._has_one_term(apply):
            return False
        while value not in self._stored and len(self._readers.get(value, ())) == 1:
            op, _, outputs = self._readers[value][0]
            if isinstance(op, Fold):
                # Where each element is in one window at most, nothing is summed.
                return not op.is_tiled and not self._is_read(op)
            if not isinstance(op, (Permute, Reshape)):
                return False
            value = outputs[0]
        return False

    def _has_one_term(self, apply: Apply) -> bool:
        """Tell whether a contraction multiplies elements, and adds up nothing."""
        op, types = apply.op, [self.function.types[value] for value in apply.inputs]
        assert isinstance(op, Contract)
        pairs = zip((*op.left, *op.right), (*types[0].shape, *types[1].shape), strict=True)
        return all(size == 1 for label, size in pairs if label not in op.out)

    def _order(self, value: int) -> None:
        """Choose the order of axes in which the only reader of a product traverses it."""
        readers = self._readers.get(value, [])
        if len(readers) != 1:
            return
        reader = readers[0].op
        if isinstance(reader, Permute):
            self.orders[value] = reader.order
        while isinstance(reader, Reshape) and len(self._readers.get(readers[0].outputs[0], ())) == 1:
            readers = self._readers[readers[0].outputs[0]]
            reader = readers[0].op
        if isinstance(reader, Fold):
            self._order_for_fold(value, reader)

    def _order_for_fold(self, value: int, op: Fold) -> None:
        """Make positions within windows contiguous: they are accumulated position by position."""
        axes = [axis for axis, size in enumerate(self.function.types[value].shape) if size != 1]
        shape = [(axis, size) for axis, size in enumerate(op.windowed) if size != 1]
        if [self.function.types[value].shape[axis] for axis in axes] != [size for _, size in shape]:
            return
        positions = [own for own, (axis, _) in zip(axes, shape, strict=True) if axis in op.axes]
        rest = [axis for axis in range(self.function.types[value].rank) if axis not in positions]
        self.orders[value] = (*rest, *positions)

    def _decide(self, apply: Apply) -> None:
        op, inputs, outputs = apply
        own = 0 if isinstance(op, (*VIEWS, *GENERATORS)) else 2 * RECOMPUTED_OPERATIONS if op.costly else 1
        for value in outputs:
            self._cost[value] = own + sum(self._cost[v] for v in inputs)
            self._leaves[value] = frozenset[int]().union(
                *(self._leaves.get(v, frozenset([v])) for v in inputs)
            )
            self._depth[value] = 1 + max((self._depth[v] for v in inputs), default=0)
            if value in self._stored or self._must_store(op, value) or self._depth[value] > MAX_DEPTH:
                self._stored.add(value)
                self._cost[value], self._leaves[value], self._depth[value] = 0, frozenset([value]), 0

    def _is_read(self, op: Op) -> bool:
        """Tell whether a fold is computed where it is read, as an element lies in one window at most."""
        return self.gathers and isinstance(op, Fold) and op.is_disjoint and not op.is_tiled

    def _must_store(self, op: Op, value: int) -> bool:
        if isinstance(op, (*VIEWS, *GENERATORS)) or value in self.folded:
            return False
        is_read = op.elementwise or isinstance(op, (Pad, Concat, Stack, Draw)) or self._is_read(op)
        if isinstance(op, ArrayLiteral) or not is_read:
            return True
        if self._accumulates(value):
            return not self.gathers
        is_number = not self._leaves[value] and not self.function.types[value].rank  # compilers fold it
        if is_number or (self._uses[value] <= 1 and value not in self._repeated):
            return False
        large = self._large_leaves(value)
        most = RECOMPUTED_OF_16_BITS if self._halves(value, large) else RECOMPUTED_OPERATIONS
        return self._cost[value] > most or len(large) > 1

    def _halves(self, value: int, large: Sequence[int]) -> bool:
        """Tell whether a GPU loads half as much if it computes a value again where elements are computed."""
        sizes = [self.function.types[v].dtype.itemsize for v in (value, *large)]
        readers = self._readers.get(value, [])
        return (
            self.gathers
            and len(sizes) == 2
            and 2 * sizes[1] == sizes[0]
            and all(apply.op.elementwise for apply in readers)
        )

    def _accumulates(self, value: int) -> bool:
        """Tell whether a scalar combines stored values: a sum of many, as a norm, becomes many of two."""
        made = (v for v in self._leaves[value] if v in self.producer)
        return not self.function.types[value].rank and sum(1 for _ in made) > 1

    def _large_leaves(self, value: int) -> list[int]:
        """List the stored values of which it reads about as many elements as it has."""
        size = size_hint(self.function.types[value].size)
        return [v for v in self._leaves[value] if 4 * size_hint(self.function.types[v].size) > size]

    def _store_root(self, value: int) -> None:
        """Materialise the operand of a matrix product; affine views of it, and bytes, are read in place."""
        root = self._tensor_root(value) if self.gathers else None
        if root is not None:
            self._stored.add(root)
            return
        while value in self.producer and value not in self._stored:
            op = self._op(value)
            if isinstance(op, AFFINE_VIEWS) or (isinstance(op, Cast) and op.widens_bytes):
                (value,) = self.producer[value].inputs
            else:
                self._stored.add(value)

    def _tensor_root(self, value: int) -> int | None:
        """Return the value that tensor cores read in place of a factor, which is padded, or cast from it.

        So they multiply the windows of a padded image too, which are not stored.
        """
        while isinstance(op := self._op(value), (*AFFINE_VIEWS, Pad, Cast)) and value not in self._stored:
            if isinstance(op, Cast) and not (op.widens and op.before.wide is op.after):
                break
            (value,) = self.producer[value].inputs
        dtype = self.function.types[value].dtype
        is_float = dtype is Dtype.float32 and self.gpu.tensor_floats > 0
        return value if is_float or dtype.wide is not dtype else None

    def _store_rounded(self, value: int) -> None:
        """Materialise a product as the 16-bit numbers to which its only reader rounds it."""
        readers = self._readers.get(value, [])
        if self.gathers and len(readers) == 1:
            op, _, outputs = readers[0]
            if isinstance(op, Cast) and op.after.wide is op.before is not op.after:
                self._stored.update(outputs)

    def _op(self, value: int) -> Op | None:
        return self.producer[value].op if value in self.producer else None
