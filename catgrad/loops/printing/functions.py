"""Print functions as calls of kernels; equal kernels of a program are printed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from catgrad.dims import Dim
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.index import ZERO, Index, Variable
from catgrad.loops.ir.nest import Item, Kernel, Loop
from catgrad.loops.ir.scalar import Buffer, Load, Space
from catgrad.loops.ir.steps import For, Group, If, Lowered, Product, Step, every_step, kernels
from catgrad.loops.machine import STATIC_SHARED_BYTES, Machine
from catgrad.loops.memory_plan import planned_for
from catgrad.loops.passes.parametric import parametric
from catgrad.loops.printing.calls import (
    AddressTable,
    Call,
    CallAdd,
    CallBranch,
    CallGroup,
    CallLine,
    CallLoop,
    CallProduct,
    KernelText,
    Literal,
    Pointer,
)
from catgrad.loops.printing.expressions import Expressions
from catgrad.loops.printing.groups import GroupText, common_arrays, group_text, row_count
from catgrad.loops.printing.interface import Interface, arguments_of
from catgrad.loops.printing.kernels import Companion, KernelPrinter, Part, none
from catgrad.naming import MAX_LISTED_CHARACTERS, Namer, common, summary
from catgrad.printing.dialect import Dialect, Text
from catgrad.programs.program import Function
from catgrad.types import Dtype, symbols

KERNELS = ("check_*", "compute_*", "update_*")
"""Names of kernels, as words and patterns that are reserved in the functions that call them."""


@dataclass
class KernelLibrary:
    """The kernels and literals that the functions of a program share, and the uses of each kernel.

    `stored` gives the digits of an element as it is stored. If there is an `arena`, temporary arrays are
    members of a table of this name, or one like it. `expressions` print what calls give to kernels.
    """

    dialect: Dialect
    machine: Machine
    namer: Namer
    companion: Companion = none
    stored: Callable[[str, Dtype], str] = lambda digits, dtype: digits
    arena: str = ""
    expressions: type[Expressions] = Expressions
    printed: dict[Hashable, KernelText] = field(default_factory=dict)
    uses: dict[Hashable, list[Interface]] = field(default_factory=dict)
    groups: dict[Hashable, GroupText] = field(default_factory=dict)
    literals: dict[Literal, str] = field(default_factory=dict)


class FunctionPrinter:
    """Print one function: `texts` are its kernels, of which none before it had the `new` ones.

    It is compiled unless it is `lowered` already. The caller defines the `names` of arguments and results.
    The name of a kernel fits all functions of which there is a printer when it is printed.
    """

    def __init__(self, library: KernelLibrary, function: Function, lowered: Lowered | None = None) -> None:
        self.library, self.function = library, function
        self.lowered = lowered or compile_kernels(function, library.machine, function.renewed())
        self.plan = planned_for(self.lowered, library.machine)
        self.expressions = library.expressions(library.dialect, self.name)
        reserved = (*library.dialect.reserved, *KERNELS, *symbols(function.argument_types))
        self.namer = Namer(reserved)
        self.names: dict[Buffer, str] = {}
        self.row_of: Callable[[Sequence[Buffer], str], str | None] = lambda arrays, number: None
        """Names the array of an iteration by its number, of tables that need no list of addresses."""
        self.temporaries: dict[Buffer, str] = {}
        self.arena = ""
        self.new: list[KernelText] = []
        self.new_literals: list[Literal] = []
        self._stacks: dict[Buffer, tuple[Buffer, Index]] = {}
        self._counters: dict[tuple[str, int], str] = {}
        self._known: dict[Kernel, tuple[KernelText, Interface]] = {}
        self._literals: dict[Buffer, str] = {}
        self._used: dict[Buffer, None] = {}
        self._interfaces: dict[Kernel | Item, list[Interface]] = {}
        self._tables: dict[Kernel, tuple[str, GroupText]] = {}
        groups = [step for step in every_step(self.lowered.steps) if isinstance(step, Group)]
        grouped = {kernel for group in groups for kernel in group.kernels}
        for kernel in kernels(self.lowered.steps):
            self._interfaces[kernel] = [*self._described(kernel, kernel in grouped)]
            self._interfaces |= {part: [*self._described(Kernel([part]), True)] for part in parts(kernel)}
        for interfaces in self._interfaces.values():
            for interface in interfaces:
                library.uses.setdefault(interface.key, []).append(interface)

    def name(self, buffer: Buffer) -> str:
        """The name of a buffer, or of the argument that it overwrites."""
        self._declare([buffer])
        if buffer in self._literals:
            return self._literals[buffer]
        self._used[buffer.home] = None
        return self.names[buffer.home]

    def fresh(self, buffer: Buffer, wish: str = "") -> str:
        """Give a buffer a name of its own."""
        self.names[buffer] = self.namer.fresh(wish or buffer.name)
        return self.names[buffer]

    def calls(self) -> tuple[CallLine, ...]:
        """The steps as calls of kernels; temporaries get names first."""
        macros, wish = self.library.dialect.macros, self.library.arena
        self.arena = self.namer.fresh(wish) if wish else ""
        for buffer in self.plan.offsets:
            name = self.temporaries[buffer] = self.fresh(buffer)
            self.names[buffer] = macros["member"](self.arena, name) if self.arena else name
        return tuple(self._calls(self.lowered.steps, {}))

    @property
    def mentioned(self) -> set[str]:
        """The names of the buffers that calls mention."""
        return {self.names[buffer] for buffer in self._used}

    @property
    def texts(self) -> list[KernelText]:
        """The kernels of the function, in order."""
        return [self._kernel(kernel)[0] for kernel in kernels(self.lowered.steps)]

    @property
    def pointers(self) -> list[Pointer]:
        """The temporaries that calls mention, in this order, with their offsets in the workspace."""
        return [self._pointer(buffer) for buffer in self._used if buffer in self.plan.offsets]

    def _pointer(self, buffer: Buffer) -> Pointer:
        e, offset, name = self.expressions, self.plan.offsets[buffer], self.temporaries[buffer]
        shape = e.shape(tuple(buffer.type.shape[axis] for axis in buffer.order))
        sizes = offset.symbols if isinstance(offset, Dim) else frozenset()
        return Pointer(buffer.type.dtype, name, e.size(offset), e.size(buffer.size), shape, sizes)

    def _described(self, kernel: Kernel, is_part: bool = False) -> Iterator[Interface]:
        """Describe the arguments of a kernel, also as one with the extents of its loops among them."""
        if parametric(kernel) and (found := parametric(self.library.machine.finish(kernel))):
            yield Interface(found[0], self.plan, found[1], is_part)
        yield Interface(kernel, self.plan, is_part=is_part)

    def _calls(self, steps: Sequence[Step], around: Mapping[Variable, str]) -> Iterable[CallLine]:
        for step in steps:
            if isinstance(step, For):
                name = self._counter(step.variable.name, len(around))
                extent = self.expressions.size(step.variable.extent)
                inside = {**around, step.variable: name}
                tables = tuple(self._rows(step, inside))
                body = tuple(self._calls(step.body, inside))
                touched = [b for s in every_step(step.body) for b, _ in (*s.reads, *s.writes)]
                sizes = symbols(tuple(buffer.type for buffer in touched))
                yield CallLoop(name, extent, step.backwards, body, tables, _touched(step), tuple(sizes))
            elif isinstance(step, If):
                self.expressions.variables |= around
                buffer, indices = step.condition.buffer, step.condition.indices
                if buffer in self._stacks:
                    buffer, place = self._stacks[buffer]
                    indices = (place, *indices)
                condition = self.expressions.element(buffer, indices)
                first, second = (tuple(self._calls(part, around)) for part in step.parts)
                yield CallBranch(condition, (first, second))
            elif isinstance(step, Product):
                self.expressions.variables |= around
                yield self._product(step)
            elif isinstance(step, Group):
                yield self._group(step, around)
            else:
                assert isinstance(step, Kernel)  # attention is in kernels
                yield self._call(step, around)

    def _counter(self, name: str, depth: int) -> str:
        """Name the variable of a loop; loops one after the other have the same."""
        if (name, depth) not in self._counters:
            self._counters[name, depth] = self.namer.fresh(name)
        return self._counters[name, depth]

    def _rows(self, loop: For, variables: Mapping[Variable, str]) -> Iterator[AddressTable]:
        """Name the rows of a loop in an iteration; yield the tables of arrays that it takes some from."""
        macros, number = self.library.dialect.macros, variables[loop.variable]
        touched = {b.home for s in every_step(loop.body) for b, _ in (*s.reads, *s.writes)}
        for row, arrays in loop.rows.items():
            if row not in touched:
                continue
            if arrays[0].type == row.type:
                own = self.row_of([array.home for array in arrays], number)
                if own is not None:
                    self._used |= dict.fromkeys(array.home for array in arrays)
                    self.names[row] = own
                    continue
                table = self.namer.fresh(row.name)
                self.names[row] = macros["entry"](table, number)
                yield AddressTable(row.type.dtype, table, tuple(map(self.name, arrays)))
            else:
                self.expressions.variables |= variables
                self._stacks[row] = arrays[0], loop.place(row)
                place = self.expressions.index(arrays[0].flat((loop.place(row), *[ZERO] * row.type.rank)))
                self.names[row] = macros["pointer"](self.name(arrays[0]), place, False)

    def _product(self, step: Product) -> CallProduct:
        """Print a matrix product that a library computes."""
        s, end = step.matmul, step.epilogue
        batch = step.batch[0] if step.batch else Variable(1)
        [m], [n], [k] = s.rows, s.columns, s.depth
        every = (batch, m, n, k)
        target, addend = Load(s.buffer, s.indices), end.addend
        return CallProduct(
            s.buffer.type.dtype,
            tuple(self.expressions.size(v.extent) for v in every),
            self._operand(s.left, every, batch, m, k),
            self._operand(s.right, every, batch, k, n),
            self._operand(target, every, batch, m, n),
            self._operand(addend, every, batch, m, n) if addend else (),
            self._operand(end.bias, every)[0] if end.bias else None,
            end.relu,
        )

    def _operand(self, load: Load, every: Sequence[Variable], *along: Variable) -> tuple[Text, ...]:
        """Print the first element of an array, and its strides along variables."""
        e, place = self.expressions, load.buffer.flat(load.indices)
        rest = Index(tuple(term for term in place.terms if term[0] not in every), place.constant)
        pointer = self.library.dialect.macros["pointer"]
        first = Text(pointer(self.name(load.buffer), e.index(rest), rest == Index()))
        return (first, *(e.size(place.coefficient(v)) for v in along))

    def _call(self, kernel: Kernel, around: Mapping[Variable, str]) -> Call:
        text, interface = self._kernel(kernel)
        arguments = arguments_of(text, interface, self.expressions, around)
        launch = text.launch
        if launch and interface.extents:
            launch = launch.at(interface.extents, self.expressions.size)
        if kernel in self._tables:
            table, group = self._tables[kernel]
            own = group.own(arguments)
            return CallAdd(table, own, text.checks, text.scratch, text.per_thread, launch)
        return Call(text.name, arguments, text.checks, text.scratch, text.per_thread, launch)

    def _group(self, step: Group, around: Mapping[Variable, str]) -> CallGroup:
        """Print the lines that fill a table, and the launch of a grouped kernel with it."""
        interfaces = self._alike(step.kernels)
        self._declare([buffer for interface in interfaces for buffer in interface.buffers])
        self._known |= {k: (self._text(i), i) for k, i in zip(step.kernels, interfaces, strict=True)}
        common, rows = common_arrays(step, interfaces), row_count(step)
        key = interfaces[0].key, common, rows
        library, part = self.library, self._text(interfaces[0])
        if key not in library.groups:
            name = library.namer.fresh("_each_".join(part.name.split("_", 1)))
            library.groups[key] = group_text(name, part, common, rows)
            self.new.append(library.groups[key].kernel)
        group, table = library.groups[key], self.namer.fresh("table")
        self._tables |= dict.fromkeys(step.kernels, (table, group))
        lines = tuple(self._calls(step.body, around))
        alike = (b for b, is_common in zip(interfaces[0].given, common, strict=True) if is_common)
        assert group.kernel.launch  # all have one
        arguments = tuple(map(self.expressions.name_of, alike))
        return CallGroup(group.kernel.name, arguments, table, rows, group.kernel.launch, lines)

    def _alike(self, each: Sequence[Kernel]) -> Sequence[Interface]:
        """Return interfaces by which kernels of a group are one function, if possible of others, too."""
        versions = [*zip(*(reversed(self._interfaces[kernel]) for kernel in each), strict=False)]
        same = [v for v in reversed(versions) if len({interface.key for interface in v}) == 1]
        return next((v for v in same if self._is_shared(v[0])), same[0])

    def _kernel(self, kernel: Kernel) -> tuple[KernelText, Interface]:
        """Return the kernel's text, which may be that of an equal one, and its interface."""
        if kernel not in self._known:
            interface = next(filter(self._is_shared, self._interfaces[kernel]))
            self._declare(interface.buffers)
            self._known[kernel] = self._text(interface), interface
        return self._known[kernel]

    def _is_shared(self, interface: Interface) -> bool:
        """Tell whether nests of several extents, or several parts of grids, are one function."""
        uses = self.library.uses[interface.key]
        if interface.extents:
            return len({tuple((use.extents or {}).values()) for use in uses}) > 1
        return len(uses) > 1 or not interface.is_part

    def _part(self, item: Item) -> Part | None:
        """Return the function that a part of a grid is, if others have it too."""
        interface = next(filter(self._is_shared, self._interfaces.get(item, ())), None)
        return (self._text(interface), interface) if interface else None

    def _text(self, interface: Interface) -> KernelText:
        library, key, kernel = self.library, interface.key, interface.kernel
        if key not in library.printed:
            uses = library.uses[key]
            buffers = zip(*(use.signature.buffers for use in uses), strict=True)
            names = (_shared(b.name for b in same) or _unnamed(uses[0], same[:1]) for same in buffers)
            hints = dict(zip(interface.signature.buffers, names, strict=True))
            # A kernel has the shared arrays that each function it calls declares; its own share memory.
            nests = [] if interface.is_part or interface.shared_bytes > STATIC_SHARED_BYTES else parts(kernel)
            shared = {nest: part for nest in nests if (part := self._part(nest))}
            printer = KernelPrinter(
                interface, library.machine, library.dialect, self._literals, library.companion, hints, shared
            )
            text = printer.print(library.namer.fresh(*_titles(uses)))
            if interface.extents:
                text = replace(text, reach=max(prod((use.extents or {}).values()) for use in uses))
            library.printed[key] = text
            self.new.append(library.printed[key])
        return library.printed[key]

    def _declare(self, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            if buffer.space is Space.LITERAL:
                length, dtype = self.expressions.size(buffer.type.size), buffer.type.dtype
                elements = tuple(self.library.stored(element, dtype) for element in buffer.elements)
                literal = Literal(dtype, "", length, elements)
                if literal not in self.library.literals:
                    self.library.literals[literal] = self.library.namer.fresh(buffer.name)
                    self.new_literals.append(replace(literal, name=self.library.literals[literal]))
                self._literals[buffer] = self.library.literals[literal]


def parts(kernel: Kernel) -> Sequence[Loop]:
    """List the nests of a grid that has several."""
    every = [x for x in kernel.body if isinstance(x, Loop) and x.axis.is_concurrent]
    return every if 1 < len(every) == len(kernel.body) else []


def _touched(loop: For) -> dict[Buffer, bool]:
    """Find the arrays around a loop that it touches, and whether it writes them."""
    written = {buffer.home for buffer, _ in loop.writes}
    return {b.home: b.home in written for b, _ in (*loop.reads, *loop.writes)}


def _titles(uses: Sequence[Interface]) -> list[str]:
    """Name a kernel by what its uses have in common, or by the arrays that it writes, if they are few."""
    verbs, arrays = zip(*(use.titled for use in uses), strict=True)
    names = [[buffer.name for buffer in buffers] for buffers in arrays]
    each = [*map(_shared, zip(*names, strict=False))]
    shared = summary(each) or _shared(map(summary, names)) or _unnamed(uses[0], arrays[0])
    listed = "_and_".join(dict.fromkeys(filter(None, each)))
    others = [listed] if 0 < len(listed) <= MAX_LISTED_CHARACTERS else []
    return [f"{verbs[0]}_{name}" for name in (shared, *others)]


def _shared(names: Iterable[str]) -> str:
    """Return what names have in common: of cotangents of values that have nothing, that they are such."""
    found = common(names)
    return "cotangent" if found == "d" else found


def _unnamed(use: Interface, buffers: Sequence[Buffer]) -> str:
    """Name arrays whose names in the uses of a kernel have nothing in common; sizes, if there are none."""
    if not buffers:
        return "sizes"
    if all(map(use.changes, use.given)):
        return "constant"
    return "parameter" if use.has_state(buffers[0]) else "operand"
