"""Library calls: a library computes large matrix products, and the nests that finish them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from catgrad.loops.ir.nest import Kernel
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import Attend, Lowered, Product, Step, every_step
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.products.epilogues import tail
from catgrad.loops.passes.gpu.products.library_products import library_product
from catgrad.loops.passes.gpu.products.roles import MatrixProduct, product_nest


def call_library(lowered: Lowered, machine: Machine) -> Lowered:
    """Replace kernels of matrix products by steps, where a library can compute them."""
    readers = Counter(
        buffer
        for step in every_step(lowered.steps)
        if isinstance(step, Kernel | Product | Attend)
        for buffer in {buffer for buffer, _ in step.reads}
    )
    return lowered.map(lambda steps: _called(steps, readers))


def _called(steps: Sequence[Step], readers: Mapping[Buffer, int]) -> list[Step]:
    done: list[Step] = []
    products: dict[Buffer, tuple[MatrixProduct, Step]] = {}
    for step in steps:
        found = product_nest(step.body[0]) if isinstance(step, Kernel) and len(step.body) == 1 else None
        call = library_product(found) if found else None
        if found and call:
            buffer = found.reduce.buffer
            if buffer.space is Space.WORKSPACE and readers[buffer] == 1:
                products[buffer] = found, call
            done.append(call)
        elif not isinstance(step, Kernel) or not _finished(step, products, done):
            done.append(step)
    return done


def _finished(
    kernel: Kernel, products: Mapping[Buffer, tuple[MatrixProduct, Step]], done: list[Step]
) -> bool:
    """Put a product that a kernel finishes in the place of the kernel; false if there is none."""
    for buffer in dict.fromkeys(buffer for buffer, _ in kernel.reads if buffer in products):
        found, call = products[buffer]
        end = tail(kernel, found)
        whole = library_product(found, end) if end else None
        if whole and _may_wait(call, whole, done[done.index(call) + 1 :]):
            done.remove(call)
            done.append(whole)
            return True
    return False


def _may_wait(call: Step, whole: Step, between: Sequence[Step]) -> bool:
    """Tell whether steps leave the factors of a product alone, as does the product itself."""
    factors = {buffer.home for buffer, _ in call.reads}
    written = {buffer.home for step in (*between, whole) for buffer, _ in step.writes}
    added = {buffer.home for buffer, _ in whole.reads} - factors
    return factors.isdisjoint(written) and added.isdisjoint(buffer.home for buffer, _ in whole.writes)
