"""Vector accesses: neighbouring elements are loaded to registers, and stored from there, by one instruction.

    load_run(x_run, x + at)
    for each of the neighbours: y_run[near] = f(x_run[near])
    store_run(y + at, y_run)

Compilers see by themselves that accesses lie side by side, but only where indices have few terms, and no
branch or inline assembly is between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import Item, Let, Loop, Rewriter, Store, scalars
from catgrad.loops.ir.scalar import GLOBAL, Buffer, Compute, Load, Scalar, Space, converted
from catgrad.loops.passes.gpu.products.asynchronous import begins_at_multiple
from catgrad.ops.cast import Cast
from catgrad.types import Dtype, NdArrayType

MOVED = (Dtype.float32, Dtype.bfloat16, Dtype.float16)
"""Dtypes of elements that are loaded and stored several at once."""

Place = tuple[Buffer, Index]
"""Place of an element: the buffer in whose memory it is, and its offset."""


def with_moves(near: Variable, body: Sequence[Item]) -> list[Item]:
    """Run statements for all neighbours, and load and store at once what lies side by side."""
    stores = [item for item in body if isinstance(item, Store) and not isinstance(item, Let)]
    if len(stores) < len(body) or not _are_separate(stores):
        return [Loop(near, [*body], axis=Axis.UNROLLED)]
    known: dict[Place, Scalar] = {}
    begin, computed, end = list[Item](), list[Item](), list[Item]()
    for s in stores:
        for load in (load for scalar in scalars(s) for load in _always(scalar)):
            if _is_moved(load, near) and _place(load) not in known:
                known[_place(load)] = own = _own(load.buffer, load.dtype, near)
                begin.append(_move(near, Store(own.buffer, own.indices, load)))
        new = s.map(_Known(known))
        if _is_moved(s, near):
            dtype = s.buffer.type.dtype
            is_rounded = isinstance(new.scalar, Load) and new.scalar.dtype is dtype
            own = _own(s.buffer, dtype if is_rounded else Dtype.float32, near)
            known[_place(s)] = new.scalar
            end.append(_move(near, Store(s.buffer, s.indices, converted(own, dtype))))
            new = Store(own.buffer, own.indices, new.scalar if is_rounded else _unrounded(new.scalar))
        computed.append(new)
    return [*begin, Loop(near, computed, axis=Axis.UNROLLED), *end]


def _place(access: Load | Store) -> Place:
    return access.buffer.home, access.buffer.flat(access.indices)


def _always(scalar: Scalar) -> Iterator[Load]:
    """Yield the elements of arrays that are read whenever a scalar is computed."""
    if isinstance(scalar, Load) and scalar.buffer.space in GLOBAL:
        yield scalar
    for operand in scalar.always:
        yield from _always(operand)


def _are_separate(stores: Sequence[Store]) -> bool:
    """Tell whether no element is accessed but at the place at which its array is stored."""
    written = {s.buffer.home: _place(s) for s in stores}
    loads = (load for s in stores for scalar in scalars(s) for load in scalar.loads())
    accesses: list[Load | Store] = [*stores, *loads]
    return all(written.get(each.buffer.home, _place(each)) == _place(each) for each in accesses)


def _is_moved(access: Load | Store, near: Variable) -> bool:
    buffer = access.buffer
    is_moved = buffer.space in GLOBAL and buffer.is_aligned and buffer.type.dtype in MOVED
    return is_moved and begins_at_multiple(buffer.flat(access.indices), near)


def _own(buffer: Buffer, dtype: Dtype, near: Variable) -> Load:
    """Make registers for neighbouring elements of an array, and return the element at hand."""
    registers = Buffer(f"{buffer.name}_run", NdArrayType((near.extent,), dtype), Space.LOCAL)
    return Load(registers, (index(near),))


def _move(near: Variable, store: Store) -> Loop:
    return Loop(near, [store], axis=Axis.MOVE)


def _unrounded(scalar: Scalar) -> Scalar:
    """Return the float32 that is rounded to a scalar of 16 bits, or that it is."""
    if isinstance(scalar, Compute) and isinstance(scalar.op, Cast):
        [wide] = scalar.operands
        return wide if wide.dtype is Dtype.float32 else converted(scalar, Dtype.float32)
    return converted(scalar, Dtype.float32)


class _Known(Rewriter):
    """Read from registers what is in some."""

    def __init__(self, known: Mapping[Place, Scalar]) -> None:
        super().__init__()
        self.known = dict(known)

    def _changed(self, old: Scalar) -> Scalar:
        known = self.known.get(_place(old)) if isinstance(old, Load) else None
        return super()._changed(old) if known is None else known
