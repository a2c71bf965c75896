"""Copy propagation: store at once what a register would hold only until the next statement stores it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from catgrad.loops.ir.nest import Item, Kernel, Loop, Store
from catgrad.loops.ir.scalar import Buffer, Load, Scalar
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import Machine


def propagate_copies(lowered: Lowered, machine: Machine) -> Lowered:
    """Leave out registers that are written once, and read once, by a store right after it."""
    return lowered.map_kernels(_propagated)


def _propagated(kernel: Kernel) -> Kernel:
    touched = Counter(buffer for buffer, _ in (*kernel.reads, *kernel.writes))
    return Kernel(_block(kernel.body, touched))


def _block(items: Sequence[Item], touched: Counter[Buffer]) -> list[Item]:
    done: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            done.append(replace(item, body=_block(item.body, touched)))
        elif done and isinstance(item, Store) and (scalar := _copied(item, done[-1], touched)):
            done[-1] = replace(item, scalar=scalar)
        else:
            done.append(item)
    return done


def _copied(s: Store, before: Item, touched: Counter[Buffer]) -> Scalar | None:
    """Return the value of the register that a store copies, if nothing but the store before it writes it."""
    if not (isinstance(before, Store) and isinstance(s.scalar, Load) and s.scalar.buffer is before.buffer):
        return None
    register = before.buffer
    is_kept = register.is_register and touched[register] == 2
    return before.scalar if is_kept and s.buffer.type.dtype is register.type.dtype else None
