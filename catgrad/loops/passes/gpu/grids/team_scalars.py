"""Store forwarding in teams: what a team stores and reads again, each of its threads has in a register."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catgrad.loops.ir.index import Index
from catgrad.loops.ir.nest import Item, Kernel, Loop, Rewriter, Store, rewritten
from catgrad.loops.ir.scalar import Buffer, Load, Scalar, Space
from catgrad.types import NdArrayType


def with_team_scalars(kernel: Kernel) -> Kernel:
    """Let threads read what their team has stored from registers: they need not wait for each other."""
    return Kernel(
        [_of_team(item) if isinstance(item, Loop) and item.axis.has_team else item for item in kernel.body]
    )


def _of_team(loop: Loop) -> Loop:
    done, rest = list[Item](), list(loop.body)
    while rest:
        item, *rest = rest
        if isinstance(item, Loop) and item.axis is loop.axis:
            item = _of_team(item)
        elif isinstance(item, Store) and _is_read_again(item, rest):
            register = Buffer(
                f"{item.buffer.name}_value", NdArrayType((), item.buffer.type.dtype), Space.REGISTER
            )
            done.append(Store(register, (), item.scalar))
            rest = rewritten(
                rest, _InRegister(item.buffer, item.buffer.flat(item.indices), Load(register, ()))
            )
            item = replace(item, scalar=Load(register, ()))
        done.append(item)
    return replace(loop, body=done)


def _is_read_again(s: Store, later: Sequence[Item]) -> bool:
    """Tell whether a stored element, which memory does not round, is read later, and not written again."""
    place, dtype = s.buffer.flat(s.indices), s.buffer.type.dtype
    if s.buffer.is_register or dtype.wide is not dtype:
        return False
    if any(buffer.home is s.buffer.home for item in later for buffer, _ in item.writes):
        return False
    return any(b is s.buffer and b.flat(indices) == place for item in later for b, indices in item.reads)


class _InRegister(Rewriter):
    """Replace an element by a register."""

    def __init__(self, buffer: Buffer, place: Index, register: Load) -> None:
        super().__init__()
        self.own, self.place, self.register = buffer, place, register

    def _changed(self, old: Scalar) -> Scalar:
        if isinstance(old, Load) and old.buffer is self.own and old.buffer.flat(old.indices) == self.place:
            return self.register
        return super()._changed(old)
