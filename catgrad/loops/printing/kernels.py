"""Print kernels: names for buffers and loop variables, and a line for each statement of a bound kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from catgrad.dims import product
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dense_stores import initialised
from catgrad.loops.ir.dependence import exchanged, first_writes, vector_sums
from catgrad.loops.ir.index import Index, Variable, quotient, stride
from catgrad.loops.ir.nest import (
    Accumulate,
    Await,
    Barrier,
    Check,
    Item,
    Kernel,
    Let,
    Loop,
    MatMul,
    Sort,
    Statement,
    Store,
    Write,
    loops,
    may_fail,
    perfect_nest,
    size_hint,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Compute, Load, Space
from catgrad.loops.machine import BLOCK, STATIC_SHARED_BYTES, Machine
from catgrad.loops.memory_plan import byte_size, is_local, shared_places
from catgrad.loops.printing.attention import Attention
from catgrad.loops.printing.calls import KernelText, Launch, Parameter
from catgrad.loops.printing.expressions import Expressions
from catgrad.loops.printing.fed_lines import AwaitedProduct
from catgrad.loops.printing.interface import Interface, arguments_of
from catgrad.loops.printing.lines import (
    Assign,
    CallPart,
    Digit,
    Either,
    For,
    Greatest,
    Line,
    Local,
    LocalArray,
    Numbered,
    Reduction,
    Selected,
    Simple,
    Threads,
    Versions,
    When,
)
from catgrad.loops.printing.products import copied, equation, matrix_product, sorting
from catgrad.loops.printing.scopes import own_arrays
from catgrad.loops.printing.teams import LANE, Numbering, are_lanes, chain, numberings
from catgrad.loops.printing.tiles import WHOLE, fed_lines, fed_product, feed, feeding, has_large_patches
from catgrad.loops.printing.versions import Version, near
from catgrad.naming import Namer
from catgrad.ops.arithmetic import Add
from catgrad.printing.dialect import Dialect, Text
from catgrad.types import Dtype, symbols

LETTERS = "ijklpqrs"
"""Names of loop variables, from the outermost inwards."""

NUMBERS = {Axis.BLOCK: "block", Axis.WARP: "warp"}
"""Names of the number of an iteration of several loops, by the axis of these; "index" for others."""

Part = tuple[KernelText, "Interface"]
"""A function that several grids have as a part, and its arguments in one of them."""

Companion = Callable[[Dtype, bool], str]
"""Gives the suffix of the register that a vectorised loop keeps beside a sum or the greatest; or none."""


def none(dtype: Dtype, is_sum: bool) -> str:
    """Return no suffix: no register is companion to another."""
    return ""


@dataclass(frozen=True)
class Around:
    """The surroundings of a line: loops, the threads that run it, and the scope of its registers."""

    loop: Loop | None = None
    """The innermost loop, unless it has no arrays of its own there."""

    depth: int = 0
    in_parallel: bool = False
    team: Axis = Axis.SERIAL
    threads: int = 1
    on_grid: bool = False
    reductions: Mapping[Buffer, Reduction] = field(default_factory=dict)
    declared: set[Buffer] = field(default_factory=set)
    """Registers that a line has declared; a scope of its own has a copy."""

    def inside(self, loop: Loop | None, loops: int = 1, **changed: Any) -> Around:
        """Return the surroundings of the body of a loop, the last of so many."""
        return replace(self, loop=loop, depth=self.depth + loops, **changed)

    @property
    def scope(self) -> Around:
        """The surroundings of lines whose registers end with them."""
        return replace(self, declared={*self.declared})


class KernelPrinter:
    """Print one kernel as the machine finishes it."""

    def __init__(
        self,
        interface: Interface,
        machine: Machine,
        dialect: Dialect,
        literals: Mapping[Buffer, str],
        companion: Companion,
        hints: dict[Buffer, str],
        parts: Mapping[Loop, Part] | None = None,
    ) -> None:
        self.interface, self.plan, self.literals, self.hints = interface, interface.plan, literals, hints
        self.companion, self.near, self.locals_once = companion, machine.vectors.near, machine.locals_once
        self.parts, self.numberings = parts or {}, set[Numbering]()
        self.kernel = interface.kernel if interface.extents else self._finished(machine)
        known = {literals[b] for b in interface.buffers if b.space is Space.LITERAL}
        sizes = {*symbols(tuple(buffer.type for buffer in interface.buffers)), *(interface.extents or ())}
        self.namer = Namer({*dialect.reserved, *known, *sizes})  # a parameter must not hide a literal
        self.names: dict[Buffer, str] = {}
        self.expressions = Expressions(dialect, self._name, machine.gpu.factors_indices)
        self.first = first_writes(self.kernel.body)
        self.count = Counter(buffer for buffer, _ in self.kernel.writes)
        self.per_thread, self.stays = False, False
        self.launch: Launch | None = None
        self.attention: Attention | None = None

    def _finished(self, machine: Machine) -> Kernel:
        """Finish a kernel, but for the nests that are functions of their own."""
        own = self.interface.kernel
        if not self.parts:
            return machine.finish(own)
        each = ([x] if x in self.parts else machine.finish(Kernel([x])).body for x in own.body)
        return Kernel([item for items in each for item in items])

    def print(self, name: str) -> KernelText:
        """The kernel as a function of this name."""
        interface, shared = self.interface, exchanged(self.kernel.body)
        parameters = tuple(
            Parameter(
                b.type.dtype,
                self._name(b),
                interface.changes(b),
                b.is_aligned and b.type.size != 1,
                b.home in shared,
            )
            for b in interface.given
        )
        for variable in interface.free:
            self.expressions.variables[variable] = self.namer.fresh(variable.name)
        self.expressions.streams = {s: self.namer.fresh("stream") for s in interface.signature.streams}
        lines = self._block(self.kernel.body, Around())
        variables = tuple(self.expressions.variables[v] for v in interface.free)
        multiplies = any(isinstance(s, MatMul) for s in statements(self.kernel.body))
        return KernelText(
            name,
            self._comments(),
            tuple(interface.extents or sorted(self.expressions.symbols)),
            variables,
            tuple(self.expressions.streams.values()),
            parameters,
            tuple(lines),
            multiplies or any(buffer in self.plan.scratch for buffer in interface.buffers),
            self.per_thread,
            may_fail(self.kernel.body),
            frozenset(self.expressions.helpers).union(*(text.helpers for text, _ in self.parts.values())),
            self.expressions.reach,
            self.launch,
            interface.is_part,
        )

    def _comments(self) -> tuple[str, ...]:
        """List the arrays that the kernel writes, with shapes, and its matrix products, in order."""
        written, order = self.interface.written, dict[Buffer | MatMul, str]()
        for s in statements(self.kernel.body):
            order |= {b: self._with_shape(b) for b in written if any(b is w for w, _ in s.writes)}
            if isinstance(s, MatMul):
                order[s] = equation(self.expressions, s)
        return tuple(order.values())

    def _with_shape(self, buffer: Buffer) -> str:
        sizes = (buffer.type.shape[axis] for axis in buffer.order)
        shape = self.expressions.shape((*(self.interface.extents or sizes),))
        return f"{self._name(buffer)} [{shape}]"

    def _name(self, buffer: Buffer) -> str:
        if buffer.space is Space.LITERAL:
            return self.literals[buffer]
        twin = self.interface.signature.twin(buffer)
        if twin not in self.names:
            self.names[twin] = self.namer.fresh(self.hints.get(twin, twin.name))
        return self.names[twin]

    def _block(self, items: Sequence[Item], around: Around) -> list[Line]:
        owned = self._owned.get(around.loop, ())
        zeros = initialised((b for b in owned if is_local(b) and b not in self.plan.scratch), items)
        lines: list[Line] = [self._local_array(buffer, buffer in zeros, around) for buffer in owned]
        initial = {id(item) for first in zeros.values() for item in first}
        for number, item in enumerate(items, 1):
            if id(item) not in initial:
                later = items[number:]
                lines += (
                    self._loop(item, around)
                    if isinstance(item, Loop)
                    else self._statement(item, later, around)
                )
        return lines

    @cached_property
    def _owned(self) -> dict[Loop | None, list[Buffer]]:
        """The arrays private to iterations of each loop; those of the kernel under None."""
        return own_arrays(self.kernel, self.interface.buffers, self.locals_once)

    def _local_array(self, buffer: Buffer, is_zero: bool, around: Around) -> LocalArray:
        length, name = self.expressions.size(buffer.size), self._name(buffer)
        if buffer.space is Space.SHARED:
            teams = BLOCK // around.threads if around.team is Axis.WARP else 1
            at = self.expressions.size(self._shared[buffer]) if buffer in self._shared else ""
            return LocalArray(buffer.type.dtype, name, length, at, is_shared=True, teams=teams)
        scratch = self.plan.scratch
        offset = self.expressions.size(scratch[buffer]) if buffer in scratch else ""
        self.per_thread |= around.in_parallel and bool(offset)
        return LocalArray(buffer.type.dtype, name, length, offset, around.in_parallel, is_zero)

    @cached_property
    def _shared(self) -> dict[Buffer, int]:
        """Offsets of shared arrays in the memory that a launch provides, if a kernel cannot declare all."""
        is_large = self.interface.shared_bytes > STATIC_SHARED_BYTES
        return shared_places(self.kernel, self.interface.buffers) if is_large else {}

    def _loop(self, loop: Loop, around: Around) -> Sequence[Line]:
        if loop in self.parts:
            return [self._call(loop)]
        if loop.axis.is_concurrent:
            return self._threads(loop, around)
        if loop.axis is Axis.EITHER:
            *others, own = loop.body
            assert isinstance(own, Loop)
            fed = self._fed(own, around)
            return [Either(fed, tuple(self._block(others, replace(around, loop=loop))))]
        if loop.axis is Axis.WARPGROUP:
            assert self.attention
            return [self.attention.line(self.expressions, loop)]
        if loop.axis.is_whole:
            return [WHOLE[loop.axis](self.expressions, loop)]
        if loop.conditions and loop.variable.extent == 1:
            return self._guarded(loop, around.inside(loop))
        if loop.axis is Axis.SELECTED:
            return [self._selected(loop, around)]
        copies = None if around.on_grid else copied(self.expressions, loop)
        if copies is not None:
            return copies
        version = near(loop, self.near) if loop.axis is Axis.PARALLEL or loop.axis.is_vector else None
        return [self._versions(loop, version, around) if version else self._for(loop, around)]

    def _fed(self, loop: Loop, around: Around) -> tuple[Line, ...]:
        """Print what warp groups do: a product, or the attention of a block."""
        if loop.axis is not Axis.BLOCK:
            return fed_lines(self.expressions, loop, self.stays)
        inside, outer = around.inside(loop, threads=loop.threads), self.namer
        self.namer = outer.scope()
        self.attention = Attention(loop)
        lines = (*self._numbered(loop, inside), *self._block(loop.body, inside))
        fed = self.attention.fed(self.expressions, lines)
        self.namer = outer
        return (fed,)

    def _versions(self, loop: Loop, version: Version, around: Around) -> Versions:
        """Print a loop twice, and the check that decides; each part declares registers of its own."""
        farthest, checked = self.namer.fresh("farthest"), around.scope
        self._counted(loop.variable, around)
        check = [line for let in version.lets for line in self._statement(let, (), checked)]
        for argument in version.arguments:
            text = self.expressions.text(argument)
            check.append(Greatest(self.namer.fresh("magnitude"), text, farthest))
        fast = self._for(version.loop, around.scope)
        return Versions(farthest, tuple(check), self._for(loop, around), fast)

    def _for(self, loop: Loop, around: Around) -> For:
        name, extent = self._counted(loop.variable, around), self.expressions.size(loop.variable.extent)
        found = vector_sums(loop, self.first) if loop.axis.is_vector else None
        sums = {s.buffer: self._reduction(s) for s in found or ()}
        in_parallel = around.in_parallel or loop.axis is Axis.PARALLEL
        lines = self._guarded(loop, around.inside(loop, in_parallel=in_parallel, reductions=sums))
        return For(name, extent, lines, loop.axis, tuple(sums.values()), loop.variable.step)

    def _selected(self, loop: Loop, around: Around) -> Selected:
        """Print a loop whose iterations a team selects."""
        name, extent = self._counted(loop.variable, around), self.expressions.size(loop.variable.extent)
        conditions = tuple(map(self.expressions.condition, loop.conditions))
        own = [self.namer.fresh(stem) for stem in ("first", "selected", "count", "place")]
        lines = tuple(self._block(loop.body, around.inside(loop)))
        return Selected(name, extent, conditions, lines, around.threads, *own)

    def _counted(self, variable: Variable, around: Around, further: int = 0) -> str:
        """Name a loop variable: by its own name on a grid, or else by its depth."""
        if around.on_grid and variable.name != "i":
            return self.expressions.variables.setdefault(variable, self.namer.fresh(variable.name))
        depth = around.depth + further
        name = LETTERS[depth] if depth < len(LETTERS) else f"i{depth}"
        self.expressions.variables[variable] = name
        return name

    def _guarded(self, loop: Loop, around: Around) -> tuple[Line, ...]:
        """Print the body of a loop, and the conditions under which it runs."""
        conditions = tuple(map(self.expressions.condition, loop.conditions))
        lines = tuple(self._block(loop.body, around))
        return (When(conditions, lines),) if conditions else lines

    def _threads(self, loop: Loop, around: Around) -> Sequence[Line]:
        """Print a perfect nest of loops that threads share; registers between the loops follow it."""
        if loop.axis is not Axis.THREAD:
            around = replace(around, team=loop.axis, threads=loop.threads, on_grid=True)
        variables, lets, inner = chain(loop, self._owned)
        if loop.axis is Axis.THREAD and are_lanes(variables, around.team, around.threads):
            self.expressions.variables[variables[0]] = LANE
        elif variables not in self.numberings:
            return [self._distributed(loop, variables, lets, inner, around)]
        return self._iteration(variables, lets, inner, around)

    def _iteration(
        self, variables: Numbering, lets: Sequence[Item], inner: Loop, around: Around
    ) -> tuple[Line, ...]:
        """Print what a thread computes for one value of each variable: registers, then the inner loop."""
        inside = around.inside(inner, len(variables))
        return (
            *(self._block(lets, replace(inside, loop=None)) if lets else ()),
            *self._guarded(inner, inside),
        )

    def _distributed(
        self, loop: Loop, variables: Numbering, lets: Sequence[Item], inner: Loop, around: Around
    ) -> Threads:
        """Print a perfect nest of loops as one of which each thread has some iterations."""
        axis = loop.axis
        for k, variable in enumerate(variables):
            self._counted(variable, around, k)
        counts = [self._count(v) for v in variables]
        number, digits = self._digits(Text(NUMBERS.get(axis, "index")), variables, counts)
        count = self.expressions.product(counts)
        first, end = self._part(loop, variables, count)
        product = fed_product([inner]) if axis is Axis.BLOCK else None
        if axis is Axis.BLOCK:
            self.stays = product is not None and count.number != 1
        lines = self._numbered(inner, around) if axis.has_team else []
        lines += self._iteration(variables, lets, inner, around)
        fed = feeding(self.expressions, self.namer.fresh, inner, product, self.stays) if product else None
        team, own = (around.team, around.threads), self.interface.is_part
        return Threads(axis, number, count, digits, tuple(lines), *team, first, end, own, fed)

    def _numbered(self, team: Loop, around: Around) -> list[Line]:
        """Print the variables by which nests number the threads of a team, each once."""
        digits: list[Digit] = []
        for variables in dict.fromkeys(numberings(team.body, around.threads, self._owned)):
            self.numberings.add(variables)
            for variable in variables:
                stem = "digit" if variable.name == "i" else variable.name
                self.expressions.variables[variable] = self.namer.fresh(stem)
            digits += self._digits(Text("thread"), variables, [self._count(v) for v in variables])[1]
        return [Numbered(tuple(digits), around.team)] if digits else []

    def _call(self, loop: Loop) -> CallPart:
        """Print a nest of a grid as a call of the function that it is."""
        text, interface = self.parts[loop]
        variables, _ = perfect_nest([loop], lambda inner: inner.axis is loop.axis)
        count = self.expressions.product([*map(self._count, variables)])
        first, end = self._part(loop, variables, count)
        self.expressions.symbols |= set() if interface.extents else {*text.symbols}
        arguments = arguments_of(text, interface, self.expressions, self.expressions.variables)
        return CallPart(text.name, text.takes_block, first, end, arguments)

    def _digits(
        self, number: Text, variables: Sequence[Variable], counts: Sequence[Text]
    ) -> tuple[str, tuple[Digit, ...]]:
        """Compute the variables of a nest, which are digits of a number, or one that is the number."""
        names = [self.expressions.variables[v] for v in variables]
        if len(variables) == 1 and variables[0].step == 1:
            return names[0], ()
        digits = list[Digit]()
        for k, (v, name) in enumerate(zip(variables, names, strict=True)):
            if counts[k].number != 1 or v.step > 1:
                weight, bound = self.expressions.product(counts[k + 1 :]), counts[k] if k else None
                digits.append(Digit(name, self.expressions.digit(number, weight, bound, v.step)))
        return number, tuple(digits)

    def _part(self, loop: Loop, variables: Sequence[Variable], count: Text) -> tuple[int, int | None]:
        """Extend the grid by the blocks of a nest; returns the first, and their end if others follow."""
        if loop.axis is Axis.THREAD:
            return 0, None
        per_block = {Axis.GRID: loop.threads, Axis.WARP: BLOCK // loop.threads}.get(loop.axis, 1)
        threads = BLOCK if loop.axis is Axis.WARP else loop.threads
        own = None if count.number is None else -(-count.number // per_block)
        first = (self.launch.blocks or 0) if self.launch else 0
        blocks = None if own is None else first + own
        ends = (offset + size_hint(byte_size(buffer)) for buffer, offset in self._shared.items())
        shared = max(ends, default=0)
        size = product(tuple(v.extent for v in variables))
        fed, patches = feed(self.expressions, self.kernel.body), has_large_patches(self.kernel.body)
        self.launch = Launch(count, per_block, threads, blocks, self._is_wide, shared, size, fed, patches)
        is_last = loop is [item for item in self.kernel.body if isinstance(item, Loop)][-1]
        return first, None if is_last else self.launch.blocks

    @cached_property
    def _is_wide(self) -> bool:
        """Tell whether a thread accesses elements side by side in iterations that are written out."""
        unrolled = [each for each in loops(self.kernel.body) if each.axis is Axis.UNROLLED]
        return any(
            stride(buffer.flat(indices), loop.variable) == 1
            for loop in unrolled
            for buffer, indices in (*loop.reads, *loop.writes)
            if not buffer.is_of_kernel
        )

    def _count(self, variable: Variable) -> Text:
        """Count the values of a variable: ⌈extent / step⌉."""
        if isinstance(variable.extent, int):
            return self.expressions.size(-(-variable.extent // variable.step))
        rounded = Index((), variable.extent + (variable.step - 1))
        return self.expressions.index(quotient(rounded, variable.step) if variable.step > 1 else rounded)

    def _reduction(self, s: Accumulate) -> Reduction:
        name, dtype, is_sum = self._name(s.buffer), s.buffer.type.dtype, isinstance(s.op, Add)
        suffix = self.companion(dtype, is_sum)
        return Reduction(name, dtype, is_sum, self.namer.fresh(f"{name}_{suffix}") if suffix else "")

    def _statement(self, s: Statement, later: Sequence[Item], around: Around) -> Sequence[Line]:
        if isinstance(s, MatMul):
            self.per_thread |= around.in_parallel
            packed = self.plan.packed[self.interface.kernel]
            return [matrix_product(self.expressions, s, packed, around.in_parallel)]
        if isinstance(s, Sort):
            return [sorting(self.expressions, s)]
        if isinstance(s, Await):
            return [AwaitedProduct(s.pending, s.done)]
        if not isinstance(s, (Store, Accumulate)):
            return [self._simple(s, around)]
        if isinstance(s, Let) and isinstance(s.scalar, Load):
            source = s.scalar.buffer
            if not source.is_register and s.buffer.name.startswith(source.name):
                suffix = s.buffer.name.removeprefix(source.name) or "_value"
                self.hints[s.buffer] = self._name(source) + suffix
            elif source.is_register and not any(
                buffer is source for item in later for buffer, _ in item.writes
            ):
                self.names[s.buffer] = self._name(source)  # a copy of what does not change needs no name
                return []
        dtype = s.buffer.type.dtype
        if isinstance(s, Store) and not s.buffer.is_register:
            element = self.expressions.element(s.buffer, s.indices)
            text, is_stored = self.expressions.stored(s.scalar)
            return [Assign(dtype, element, text, is_stored=is_stored)]
        text = self.expressions.text(s.scalar)
        if isinstance(s, Accumulate):
            return [self._accumulated(s, text, around)]
        if s.buffer in around.declared:
            return [Assign(dtype, self._name(s.buffer), text, is_element=False)]
        around.declared.add(s.buffer)
        return [Local(dtype, self._name(s.buffer), text, self.count[s.buffer] > 1)]

    def _simple(self, s: Any, around: Around) -> Simple:
        """Print a statement that changes nothing but what it writes."""
        written: Any = s if isinstance(s, Write) else None
        return Simple(
            type(s).__name__,
            written.buffer.type.dtype if written else None,
            self.expressions.target(written.buffer, written.indices) if written else "",
            tuple(map(self.expressions.text, s.operands)),
            written.op.macro if written else "",
            self.expressions.size(s.size) if isinstance(s, Check) else None,
            s.pending if isinstance(s, Barrier) else None,
            around.team,
            around.threads,
        )

    def _accumulated(self, s: Accumulate, text: str, around: Around) -> Assign:
        target = self.expressions.target(s.buffer, s.indices)
        reduction = around.reductions.get(s.buffer)
        dtype, old = s.buffer.type.dtype, Load(s.buffer, s.indices)
        combined = "" if reduction else self.expressions.text(Compute(s.op, dtype, (old, s.scalar)))
        return Assign(dtype, target, text, s.op.macro, not s.buffer.is_register, reduction, combined)
