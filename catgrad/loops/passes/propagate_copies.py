"""Copy propagation: store at once what a register would hold only until the next statement stores it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from catgrad.loops.ir.nest import Item, Kernel, Loop, Store
from catgrad.loops.ir.scalar import Buffer, Load
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
        elif done and isinstance(before := done[-1], Store) and _copies(item, before, touched):
            done[-1] = replace(item, scalar=before.scalar)
        else:
            done.append(item)
    return done


def _copies(item: Item, before: Store, touched: Counter[Buffer]) -> bool:
    """Tell whether a store copies a register that the one before it writes, and nothing else touches."""
    register = before.buffer
    return (
        isinstance(item, Store)
        and register.is_register
        and touched[register] == 2
        and isinstance(item.scalar, Load)
        and item.scalar.buffer is register
        and item.buffer.type.dtype is register.type.dtype
    )
