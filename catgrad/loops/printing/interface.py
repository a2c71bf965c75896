"""Interfaces of kernels: the arguments that they are given, and what they are named after."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from catgrad.loops.ir.hashing import Signature
from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import Kernel, bound_variables, size_hint
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.memory_plan import Plan, byte_size
from catgrad.loops.printing.calls import KernelText
from catgrad.loops.printing.expressions import Expressions


class Interface:
    """The arguments of a kernel: the buffers that it is `given`, and the variables of loops around it.

    Buffers that it only reads come before those that it changes. A parametric kernel, which is finished
    already, also has the `extents` of its loops as arguments. A kernel may be `is_part` of others.
    """

    def __init__(
        self, kernel: Kernel, plan: Plan, extents: Mapping[str, int] | None = None, is_part: bool = False
    ) -> None:
        self.kernel, self.plan, self.extents, self.is_part = kernel, plan, extents, is_part
        self.signature = Signature(kernel, plan)
        self.key: Hashable = self.signature.kernel_key, is_part
        touched = dict.fromkeys(buffer for buffer, _ in (*kernel.reads, *kernel.writes))
        self.buffers = [buffer for buffer in touched if self.signature.has(buffer)]
        self.changed = {buffer for buffer, _ in kernel.writes}
        passed = (b for b in self.buffers if not b.is_of_kernel and b.space is not Space.LITERAL)
        given = (b for b in passed if self.signature.twin(b) is b)
        self.given = sorted(given, key=self.changes)

    def changes(self, buffer: Buffer) -> bool:
        """Tell whether the kernel writes a buffer, or one that overwrites it."""
        return buffer in self.changed or any(result.alias is buffer for result in self.changed)

    @property
    def written(self) -> list[Buffer]:
        """The buffers that it changes for others to see."""
        return [buffer for buffer in self.buffers if buffer in self.changed and not buffer.is_of_kernel]

    @property
    def titled(self) -> tuple[str, list[Buffer]]:
        """A verb, and the arrays that it updates and computes for others, or else those that it checks."""
        replaced = [buffer.alias for buffer in self.written if buffer.alias]
        own = list(filter(self.has_state, replaced)) or replaced
        verb = "update" if replaced else "compute" if self.written else "check"
        return verb, [*own, *(b for b in self.written if not b.alias)] or self.given

    def has_state(self, buffer: Buffer) -> bool:
        """Tell whether it is a parameter that the kernel updates: the optimiser's state is named after it."""
        state = f".{buffer.home.name}"
        return any(result.alias and result.alias.name.endswith(state) for result in self.written)

    @property
    def shared_bytes(self) -> int:
        """The bytes of the arrays that threads of a block share."""
        return sum(size_hint(byte_size(b)) for b in self.buffers if b.space is Space.SHARED)

    @property
    def free(self) -> list[Variable]:
        """The variables of loops around the kernel."""
        bound = bound_variables(self.kernel.body)
        return [v for v in self.signature.variables if v not in bound]


def arguments_of(
    text: KernelText, interface: Interface, here: Expressions, variables: Mapping[Variable, str]
) -> tuple[str, ...]:
    """Print the arguments of a kernel where it is called: sizes, variables of loops, streams and arrays."""
    sizes = map(here.size, interface.extents.values()) if interface.extents else text.symbols
    around = (variables[v] for v in interface.free)
    streams = map(here.stream, interface.signature.streams)
    return (*sizes, *around, *streams, *map(here.name_of, interface.given))
