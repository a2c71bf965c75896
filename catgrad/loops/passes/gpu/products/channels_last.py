"""Channels-last layout (NHWC): images and weights that tensor cores convolve have channels side by side.

The elements of a window begin anywhere in a row of an image, but its channels at a multiple of 16 bytes, and
padding is there for all of them or for none. So one asynchronous copy brings eight channels of 16 bits,
or four of float32:

    y[o, n·h·w] = Σ over k·c      w[o, k, c] · x[n, h·w + k, c]
    dw[o, k·c]  = Σ over n·h·w    dy[n, h·w, o] · x[n, h·w + k, c]

Temporaries are stored so, and arrays of the caller are copied to such. Terms and columns of products are in
the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from catgrad.loops.ir.dependence import is_parallel
from catgrad.loops.ir.index import Index, Variable, index, nested_axes
from catgrad.loops.ir.nest import Kernel, Reduce, Replaced, Store, nested, perfect_nest, rewritten
from catgrad.loops.ir.scalar import Buffer, Load, Space
from catgrad.loops.ir.steps import For, Lowered, conditions, every_step, in_rows, kernels
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.products.roles import MatrixProduct, matrix_product, product_nest


def store_channels_last(lowered: Lowered, machine: Machine) -> Lowered:
    """Choose the order of axes of arrays that convolutions multiply; those of the caller are copied first."""
    rows = {row for s in every_step(lowered.steps) if isinstance(s, For) for row in s.rows}
    fixed = rows | in_rows(lowered.steps) | conditions(lowered.steps)
    factors, convolved = dict[Buffer, list[_Factor]](), set[Buffer]()
    for kernel in kernels(lowered.steps):
        own = _factors(kernel, machine)
        for factor in own:
            factors.setdefault(factor.buffer, []).append(factor)
        in_windows = any(factor.is_in_window for factor in own)
        convolved |= {f.buffer for f in own if in_windows or (f.is_temporary and not f.is_matrix(f.buffer))}
    orders = {b: _order(b, factors[b], machine.aligned_bytes) for b in factors if b in convolved - fixed}
    new = {b: replace(b, order=order) for b, order in orders.items() if order != b.order}
    given = {b: _as_temporary(new.pop(b)) for b in orders if b in new and b.space is Space.ARGUMENT}
    done, laid = lowered.replace_buffers(new), {*new.values(), *given.values()}
    done = _with_copies(done, given, machine) if given else done
    return done.map_kernels(lambda kernel: _reordered(kernel, laid)) if laid else lowered


def _as_temporary(buffer: Buffer) -> Buffer:
    return replace(buffer, name=f"{buffer.name}_channels_last", space=Space.WORKSPACE, is_aligned=True)


@dataclass(frozen=True)
class _Factor:
    """An element that a product multiplies on tensor cores."""

    load: Load
    product: MatrixProduct

    @property
    def buffer(self) -> Buffer:
        """The array that it lies in."""
        return self.load.buffer

    @property
    def is_temporary(self) -> bool:
        """Tell whether its array is not the caller's."""
        return self.buffer.space is Space.WORKSPACE

    @property
    def is_in_window(self) -> bool:
        """Tell whether it lies at a sum or a multiple of variables along some axis."""
        return any(place.terms and place.variable is None for place in self.load.indices)

    def is_matrix(self, buffer: Buffer) -> bool:
        """Tell whether its rows, columns or terms are each an axis of a matrix, as `buffer` is stored."""
        place, own = buffer.flat(self.load.indices), self.load.variables
        groups = (self.product.rows, self.product.columns, self.product.sums)
        return all(len(nested_axes(place, [v for v in group if v in own])) <= 1 for group in groups)


def _factors(kernel: Kernel, machine: Machine) -> list[_Factor]:
    """Return the elements of stored arrays that a kernel multiplies on tensor cores."""
    found = product_nest(kernel.body[0]) if len(kernel.body) == 1 else None
    if not found or not found.is_on_tensor_cores(machine):
        return []
    factors = (_Factor(load, found) for load in (*found.left.loads(), *found.right.loads()))
    return [f for f in factors if f.buffer.space in (Space.WORKSPACE, Space.ARGUMENT)]


def _with_copies(lowered: Lowered, copies: Mapping[Buffer, Buffer], machine: Machine) -> Lowered:
    """Copy arrays of the caller first, and let products on tensor cores read the copies."""
    change = Replaced(copies)
    done = lowered.map_kernels(lambda k: Kernel(rewritten(k.body, change)) if _factors(k, machine) else k)
    return replace(done, steps=[*(copied_array(*pair) for pair in copies.items()), *done.steps])


def copied_array(buffer: Buffer, copy: Buffer) -> Kernel:
    """Copy an array to one in another order."""
    variables = [*map(Variable, buffer.type.shape)]
    at = tuple(map(index, variables))
    store = Store(copy, at, Load(buffer, at))
    return Kernel(nested([variables[axis] for axis in copy.order], [store]))


def _order(buffer: Buffer, factors: Sequence[_Factor], bytes: int) -> tuple[int, ...]:
    """Put innermost an axis, but not the first one, along which all go by whole copies of these bytes.

    It is the last one with which all are matrices, as channels are without windows, or else the last.
    """
    width = bytes // buffer.type.dtype.itemsize
    axes = [a for a in buffer.order[1:] if all(_along(f.load.indices[a], width) for f in factors)]
    orders = [(*(a for a in buffer.order if a != axis), axis) for axis in reversed(axes)]
    matrices = (o for o in orders if all(f.is_matrix(replace(buffer, order=o)) for f in factors))
    return next(matrices, orders[0] if orders else buffer.order)


def _along(place: Index, width: int) -> Variable | None:
    """Return the variable that an index counts by, from a multiple of the width of copies on."""
    own = [atom for atom, c in place.terms if c == 1 and isinstance(atom, Variable) and atom.step == 1]
    sizes = [c for atom, c in place.terms if atom not in own] + [v.extent for v in own] + [place.constant]
    whole = all(isinstance(size, int) and size % width == 0 for size in sizes)
    return own[0] if len(own) == 1 and whole else None


def _reordered(kernel: Kernel, laid: Collection[Buffer]) -> Kernel:
    """Put innermost the loops of a product that count channels, among terms, rows and columns."""
    free, body = perfect_nest(kernel.body, lambda loop: is_parallel(loop) and not loop.conditions)
    match body:
        case [Reduce() as r, *rest] if found := matrix_product(free, r):
            near = {_last(load.buffer, load.indices) for load in r.scalar.loads() if load.buffer in laid}
            body = [replace(r, axes=_with_last(r.axes, near)), *rest]
            places = dict[Variable, Variable]()
            for group in (found.rows, found.columns):
                places |= zip(group, _with_last(group, near), strict=True)
            free = [places.get(v, v) for v in free]
            stored = {(b, at) for item in body for b, at in item.writes if not b.is_register}
            if all(buffer in laid for buffer, _ in stored):
                free = [*_with_last(free, {_last(buffer, at) for buffer, at in stored})]
            return Kernel(nested(free, body))
    return kernel


def _last(buffer: Buffer, at: Sequence[Index]) -> Variable | None:
    """Return the variable with which an access moves to the neighbour."""
    return next((v for v, c in at[buffer.order[-1]].terms if c == 1 and isinstance(v, Variable)), None)


def _with_last(variables: Sequence[Variable], near: Collection[Variable | None]) -> tuple[Variable, ...]:
    return tuple(sorted(variables, key=lambda v: v in near))
