"""Kernels as text: which parts of expressions get names, where, and which loops run at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from catgrad.loops.ir.dependence import first_writes, vector_sums
from catgrad.loops.ir.hashing import Signature
from catgrad.loops.ir.index import Index, Variable, stride
from catgrad.loops.ir.nest import (
    Axis,
    Check,
    Item,
    Kernel,
    Loop,
    MatMul,
    Sort,
    Statement,
    Store,
    loops,
    may_fail,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Masked, Number, Scalar, Space, reads
from catgrad.loops.memory_plan import Plan, is_local
from catgrad.naming import Namer
from catgrad.ops.arithmetic import Maximum
from catgrad.ops.compare import Select
from catgrad.printing.dialect import Dialect
from catgrad.types import Dtype

from .machine import MACHINE
from .scalars import LONGEST, Expressions
from .texts import Assign, Copying, For, KernelText, Line, Local, Parameter, Product, Require, Room, Sorting

SIGNED = (Dtype.int32, Dtype.int64)
"""Whole numbers whose sums C leaves undefined where they are beyond the range, and which here wrap around."""

LETTERS = "ijklpqrs"
"""What loop variables are called, from the outermost inwards."""


class KernelPrinter:
    """Prints one kernel. It is `given` arrays, and the variables that are `free` in it."""

    def __init__(self, kernel: Kernel, dialect: Dialect, plan: Plan, literals: Mapping[Buffer, str]) -> None:
        self.kernel, self.plan, self.literals = kernel, plan, literals
        self.namer = Namer(dialect.reserved)
        self.names: dict[Buffer, str] = {}
        self.signature = Signature(kernel, plan)
        touched = dict.fromkeys(a for a, _ in (*kernel.reads, *kernel.writes))
        self.arrays = [array for array in touched if self.signature.has(array)]
        writes = [array for s in statements(kernel.body) for array, _ in s.writes]
        self.changed, self.count = set(writes), Counter(writes)
        self.expressions = Expressions(dialect, self._name, self.changed)
        self.declared: set[Buffer] = set()
        self.is_shared = self.per_thread = False
        self.given = [
            a
            for a in self.arrays
            if not (a.is_of_kernel or a.space is Space.LITERAL or (a.alias and self._twin(a)))
        ]
        self.free = self._free_variables()

    def print(self, name: str) -> KernelText:
        """The kernel as a function of this name."""
        self.kernel = MACHINE.finish(self.kernel)
        writes = [array for s in statements(self.kernel.body) for array, _ in s.writes]
        self.count = Counter(writes)
        self.first = first_writes(self.kernel.body)
        replaced = {a.alias for a in self.changed}
        parameters = tuple(
            Parameter(a.type.dtype, self._name(a), a in self.changed or a in replaced) for a in self.given
        )
        for variable in self.free:
            self.expressions.variables[variable] = self.namer.fresh(variable.name)
        lines = self._block(self.kernel.body, 0)
        parts = list(statements(self.kernel.body))
        scratch = any(isinstance(s, MatMul) for s in parts) or any(
            a in self.plan.scratch for a in self.arrays
        )
        sizes = (*sorted(self.expressions.symbols), *(self.expressions.variables[v] for v in self.free))
        return KernelText(
            name,
            self._comments(),
            sizes,
            parameters,
            tuple(lines),
            scratch,
            self.per_thread,
            may_fail(self.kernel.body),
            frozenset(self.expressions.helpers),
            self.expressions.reach,
        )

    def _comments(self) -> tuple[str, ...]:
        """What the kernel writes, with shapes, and the matrix products in it."""
        written = dict.fromkeys(a for a in self.arrays if a in self.changed and not a.is_of_kernel)
        products = [s for s in statements(self.kernel.body) if isinstance(s, MatMul)]
        return (*map(self._with_shape, written), *map(self._equation, products))

    def _with_shape(self, array: Buffer) -> str:
        shape = self.expressions.shape(tuple(array.type.shape[axis] for axis in array.order))
        return f"{self._name(array)} [{shape}]"

    def _equation(self, s: MatMul) -> str:
        """A product in words: sizes of rows, of the sum and of columns."""
        names = [self._name(array) for array in (s.buffer, s.left.buffer, s.right.buffer)]
        sizes = [self.expressions.size(v.extent) for v in (s.m, s.k, s.n)]
        return self.expressions.dialect.macros["equation"](names, sizes, s.add)

    def _twin(self, array: Buffer) -> bool:
        """Whether the array whose place another takes is given too."""
        return array.alias in self.arrays

    def _name(self, array: Buffer) -> str:
        if array.space is Space.LITERAL:
            return self.literals[array]
        twin = array.alias if array.alias is not None and self._twin(array) else array
        if twin not in self.names:
            self.names[twin] = self.namer.fresh(twin.name)
        return self.names[twin]

    def _free_variables(self) -> list[Variable]:
        """Variables of loops around the kernel."""
        bound = {loop.variable for loop in loops(self.kernel.body)}
        bound |= {v for s in statements(self.kernel.body) if isinstance(s, MatMul) for v in (s.m, s.n, s.k)}
        bound |= {s.along for s in statements(self.kernel.body) if isinstance(s, Sort)}
        found: dict[Variable, None] = {}
        for s in statements(self.kernel.body):
            for i in _indices_of(s):
                found |= dict.fromkeys(v for v in i.variables() if v not in bound)
            for scalar in _scalars_of(s):
                free = (v for v in scalar.variables if v not in bound)
                found |= dict.fromkeys(sorted(free, key=lambda v: v.number))
        return [variable for variable in found if self.signature.has(variable)]

    def _block(self, items: Sequence[Item], depth: int, variable: Variable | None = None) -> list[Line]:
        self.expressions.known.append({})
        lines: list[Line] = self._rooms(variable)
        run: list[Statement] = []
        for item in items:
            if isinstance(item, Loop):
                lines += self._straight(run)
                run = []
                lines += self._loop(item, depth)
            else:
                run.append(item)
        lines += self._straight(run)
        self.expressions.known.pop()
        return lines

    def _rooms(self, variable: Variable | None) -> list[Line]:
        """Arrays of the kernel's own that each turn of the loop over a variable has for itself."""
        rooms: list[Line] = []
        for array in self.arrays:
            if array.space is Space.LOCAL and self._innermost_owner(array) is variable:
                length = self.expressions.size(array.size)
                offset = "" if is_local(array) else self.expressions.size(self.plan.scratch[array])
                self.per_thread |= self.is_shared and bool(offset)
                rooms.append(Room(array.type.dtype, self._name(array), length, offset, self.is_shared))
        return rooms

    def _innermost_owner(self, array: Buffer) -> Variable | None:
        indices = next(i for a, i in (*self.kernel.writes, *self.kernel.reads) if a is array)
        dropped = {indices[axis].variable for axis in range(array.type.rank) if axis not in array.order}
        return next(
            (loop.variable for loop in reversed([*loops(self.kernel.body)]) if loop.variable in dropped), None
        )

    def _loop(self, loop: Loop, depth: int) -> list[Line]:
        copies = self._copied(loop)
        if copies is not None:
            return copies
        parts = list(statements([loop]))
        lines = self._hoisted(loop, parts)
        if depth == 0:
            self.is_shared = loop.axis is Axis.PARALLEL
        name = LETTERS[depth] if depth < len(LETTERS) else f"i{depth}"
        self.expressions.variables[loop.variable] = name
        extent = self.expressions.size(loop.variable.extent)
        for array in {array for s in parts for array, _ in s.writes}:
            self.expressions.written(array)
        inner = self._block(loop.body, depth + 1, loop.variable)
        for array in {array for s in parts for array, _ in s.writes}:
            self.expressions.written(array)
        line = For(name, extent, tuple(inner), shared=depth == 0 and self.is_shared)
        if not any(isinstance(item, Loop) for item in loop.body):
            line = self._at_once(loop, line)
        if depth == 0:
            self.is_shared = False
        return [*lines, line]

    def _copied(self, loop: Loop) -> list[Line] | None:
        """A loop that does nothing but copy elements that lie side by side."""
        copies: list[Line] = []
        length = self.expressions.size(loop.variable.extent)
        for s in loop.body:
            if not (isinstance(s, Store) and isinstance(s.scalar, Load) and not s.buffer.is_register):
                return None
            to, source = s.buffer.flat(s.indices), s.scalar.buffer.flat(s.scalar.indices)
            same = s.buffer in (s.scalar.buffer, s.scalar.buffer.alias) or s.buffer.alias is s.scalar.buffer
            if same or stride(to, loop.variable) != 1 or stride(source, loop.variable) != 1:
                return None
            copies.append(
                Copying(
                    s.buffer.type.dtype,
                    self._start(s.buffer, to, (loop.variable,)),
                    self._start(s.scalar.buffer, source, (loop.variable,)),
                    length,
                )
            )
            self.expressions.written(s.buffer)
        return copies

    def _start(self, array: Buffer, place: Index, own: Collection[Variable]) -> str:
        """Where elements begin that variables of a statement's own go through."""
        rest = Index(tuple(t for t in place.terms if t[0] not in own), place.constant)
        at = self.expressions.index(rest)
        return self.expressions.dialect.macros["pointer"](self._name(array), at, rest == Index())

    def _at_once(self, loop: Loop, line: For) -> For:
        """The loop with what its turns add up or find the greatest of, if they may be taken at once."""
        reductions = vector_sums(loop, self.first) if loop.axis is Axis.VECTOR else None
        if reductions is None:
            return line
        sums = [s.buffer for s in reductions if not isinstance(s.op, Maximum)]
        wrapping = self._beside([array for array in sums if array.type.dtype in SIGNED], "bits")
        peaks = [s.buffer for s in reductions if isinstance(s.op, Maximum)]
        greatest = self._beside([array for array in peaks if array.type.dtype.is_floating], "is_nan")
        bits, flags = ({name: other for name, other, _ in each} for each in (wrapping, greatest))
        lines = tuple(
            replace(each, flag=flags.get(each.target, ""), bits=bits.get(each.target, ""))
            if isinstance(each, Assign)
            else each
            for each in line.lines
        )
        added = tuple(bits.get(name, name) for name in map(self._name, sums))
        whole = [array for array in peaks if not array.type.dtype.is_floating]
        greatest += tuple((self._name(array), "", array.type.dtype) for array in whole)
        return replace(line, lines=lines, at_once=True, sums=added, wrapping=wrapping, greatest=greatest)

    def _beside(self, numbers: Sequence[Buffer], suffix: str) -> tuple[tuple[str, str, Dtype], ...]:
        """Numbers of the kernel, each with the name of another that a loop computes along with it."""
        names = [(self._name(array), array.type.dtype) for array in numbers]
        return tuple((name, self.namer.fresh(f"{name}_{suffix}"), dtype) for name, dtype in names)

    def _hoisted(self, loop: Loop, parts: Sequence[Statement]) -> list[Line]:
        """What every turn of a loop would compute alike gets a name before it."""
        inside = {v.variable for v in loops([loop])}
        written = {array for s in parts for array, _ in s.writes}
        lines: list[Line] = []
        for s in parts:
            for scalar in _scalars_of(s):
                for part in _largest(scalar, lambda node: self._stays(node, inside, written)):
                    if self.expressions.name(part) is None and not isinstance(part, (Number, IndexValue)):
                        if isinstance(part, Load) and part.buffer.is_register:
                            continue
                        lines += self._shared(part, Counter())
                        lines.append(self._named(part))
        return lines

    def _stays(self, node: Scalar, inside: set[Variable], written: set[Buffer]) -> bool:
        if not inside.isdisjoint(node.variables):
            return False
        return all(load.buffer not in written for load in node.loads())

    def _named(self, scalar: Scalar) -> Local:
        if isinstance(scalar, Compute):
            wish = scalar.op.result or scalar.op.macro.lower()
        elif isinstance(scalar, Load):
            wish = f"{self._name(scalar.buffer)}_value"
        else:
            wish = "value"
        name = self.namer.fresh(wish)
        text = self.expressions.text(scalar, fresh=True)
        self.expressions.give(scalar, name)
        return Local(scalar.dtype, name, text)

    def _straight(self, run: Sequence[Statement]) -> list[Line]:
        """Statements one after the other, with names for what they compute twice."""
        counts: Counter[object] = Counter()
        for s in run:
            for scalar in _scalars_of(s):
                _count(scalar, self.expressions, counts)
        lines: list[Line] = []
        for s in run:
            for scalar in _scalars_of(s):
                lines += self._shared(scalar, counts)
            lines += self._statement(s)
        return lines

    def _shared(self, scalar: Scalar, counts: Counter[object]) -> list[Line]:
        """Names for the parts of a scalar that occur more than once, the innermost first."""
        lines: list[Line] = []
        if self.expressions.name(scalar) is not None or isinstance(scalar, (Number, IndexValue)):
            return lines
        for operand in scalar.always:
            lines += self._shared(operand, counts)
        if isinstance(scalar, Compute) and isinstance(scalar.op, Select):
            lines += [self._named(load) for load in self._read_in_branches(scalar)]
        if counts[self.expressions.key(scalar)] > 1 and not (
            isinstance(scalar, Load) and scalar.buffer.is_register
        ):
            lines.append(self._named(scalar))
        elif isinstance(scalar, Compute) and len(self.expressions.text(scalar)) > LONGEST:
            longest = max(
                (o for o in scalar.always if isinstance(o, Compute) and self.expressions.name(o) is None),
                key=lambda o: len(self.expressions.text(o)), default=None,
            )  # fmt: skip
            if longest is not None:
                lines.append(self._named(longest))
        return lines

    def _read_in_branches(self, select: Compute) -> Iterator[Load]:
        """What a choice reads in its branches, to be read before it.

        GCC makes of it loads under masks, and before 12.4 it mixes these up (PR 114375).
        """
        stack, seen = list(select.operands[1:]), set[int]()
        while stack:
            node = stack.pop()
            key = self.expressions.key(node)
            if key in seen or self.expressions.name(node) is not None or isinstance(node, Masked):
                continue
            seen.add(key)
            if not isinstance(node, Load):
                stack += node.operands
            elif not node.buffer.is_register:
                yield node

    def _statement(self, s: Statement) -> list[Line]:
        if isinstance(s, MatMul):
            return [self._product(s)]
        if isinstance(s, Sort):
            return [self._sorting(s)]
        if isinstance(s, Check):
            return self._require(s)
        if isinstance(s, Store):
            return self._number(s) if s.buffer.is_register else self._element(s)
        text, in_memory = self.expressions.text(s.scalar), not s.buffer.is_register
        target = self.expressions.element(s.buffer, s.indices) if in_memory else self._name(s.buffer)
        self.expressions.written(s.buffer)
        return [Assign(s.buffer.type.dtype, target, text, s.op.macro, in_memory)]

    def _require(self, s: Check) -> list[Line]:
        """The check of an index, which has a name if it is computed: it is compared twice."""
        computed = isinstance(s.scalar, Compute) and self.expressions.name(s.scalar) is None
        lines: list[Line] = [self._named(s.scalar)] if computed else []
        return [*lines, Require(self.expressions.text(s.scalar), self.expressions.size(s.size))]

    def _number(self, s: Store) -> list[Line]:
        """The definition of a number of the kernel."""
        array, dtype = s.buffer, s.buffer.type.dtype
        if isinstance(s.scalar, Load) and s.scalar.buffer.is_register and self.count[array] == 1:
            self.names[array] = self._name(s.scalar.buffer)  # a copy of a number needs no name of its own
            return []
        text, name = self.expressions.text(s.scalar), self._name(array)
        self.expressions.written(array)
        if array in self.declared:
            return [Assign(dtype, name, text, is_element=False)]
        self.declared.add(array)
        return [Local(dtype, name, text, self.count[array] > 1)]

    def _element(self, s: Store) -> list[Line]:
        """The definition of an element, which has a name as well if it is read again."""
        lines: list[Line] = []
        again = self._is_read_again(s) and not isinstance(s.scalar, Number)
        if again and self.expressions.name(s.scalar) is None:
            lines.append(self._named(s.scalar))
        text, target = self.expressions.text(s.scalar), self.expressions.element(s.buffer, s.indices)
        self.expressions.written(s.buffer)
        if again:
            self.expressions.give(Load(s.buffer, s.indices), text)
        return [*lines, Assign(s.buffer.type.dtype, target, text)]

    def _is_read_again(self, s: Store) -> bool:
        return any(array is s.buffer and indices == s.indices for array, indices in self.kernel.reads)

    def _product(self, s: MatMul) -> Product:
        e, dtype = self.expressions, s.buffer.type.dtype
        left, right = s.left.buffer.flat(s.left.indices), s.right.buffer.flat(s.right.indices)
        place = s.buffer.flat(s.indices)
        own = (s.m, s.n, s.k)
        self.per_thread |= self.is_shared
        line = Product(
            dtype,
            (e.size(s.m.extent), e.size(s.n.extent), e.size(s.k.extent)),
            (
                self._start(s.left.buffer, left, own),
                e.size(left.coefficient(s.m)),
                e.size(left.coefficient(s.k)),
            ),
            (
                self._start(s.right.buffer, right, own),
                e.size(right.coefficient(s.k)),
                e.size(right.coefficient(s.n)),
            ),
            (self._start(s.buffer, place, own), e.size(place.coefficient(s.m))),
            s.add,
            self.is_shared,
        )
        self.expressions.written(s.buffer)
        return line

    def _sorting(self, s: Sort) -> Sorting:
        e, dtype = self.expressions, s.keys.dtype
        keys, places = s.keys.buffer.flat(s.keys.indices), s.buffer.flat(s.indices)

        line = Sorting(
            dtype,
            e.size(s.along.extent),
            (self._start(s.keys.buffer, keys, (s.along,)), e.size(keys.coefficient(s.along))),
            (self._start(s.buffer, places, (s.along,)), e.size(places.coefficient(s.along))),
            s.descending,
        )
        self.expressions.written(s.buffer)
        return line


def _indices_of(s: Statement) -> tuple[Index, ...]:
    if isinstance(s, MatMul):
        return (*s.indices, *s.left.indices, *s.right.indices)
    if isinstance(s, Sort):
        return (*s.indices, *s.keys.indices)
    return () if isinstance(s, Check) else s.indices


def _scalars_of(s: Statement) -> list[Scalar]:
    """The scalars a statement computes, those its indices read included."""
    if isinstance(s, (MatMul, Sort)):
        return []
    return [*(() if isinstance(s, Check) else reads(s.indices)), s.scalar]


def _largest(scalar: Scalar, holds: Callable[[Scalar], bool]) -> list[Scalar]:
    """The largest parts of which something holds."""
    if holds(scalar):
        return [scalar]
    return [part for operand in scalar.always for part in _largest(operand, holds)]


def _count(scalar: Scalar, expressions: Expressions, counts: Counter[object]) -> None:
    key = expressions.key(scalar)
    counts[key] += 1
    if counts[key] == 1:
        for operand in scalar.always:
            _count(operand, expressions, counts)
