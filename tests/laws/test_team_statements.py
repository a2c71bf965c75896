"""A statement of a team of threads is known by its class, its macro, and the schedule that makes it."""

from __future__ import annotations

from dataclasses import dataclass

from catgrad.backends.cuda.machine import MACHINE

from catgrad import Dtype, NdArrayType
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.hashing import Signature
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Accumulate, Combine, Kernel, Loop, Store
from catgrad.loops.ir.scalar import Buffer, Load, Space, number
from catgrad.loops.memory_plan import Plan
from catgrad.loops.passes.gpu.grids.barriers import with_barriers
from catgrad.loops.passes.gpu.grids.spaces import with_spaces
from catgrad.loops.printing.interface import Interface
from catgrad.loops.printing.kernels import KernelPrinter, none
from catgrad.loops.printing.lines import Simple
from catgrad.ops.arithmetic import Add, Maximum
from catgrad.targets import get_backend


@dataclass(eq=False)
class Rotate(Combine):
    """Another exchange between the threads of a team."""


def with_exchange(kind, op):
    """Sum rows in teams of threads, which exchange their sums by a statement of this kind."""
    x = Buffer("x", NdArrayType((64, 512)), Space.ARGUMENT)
    y = Buffer("y", NdArrayType((64,)), Space.RESULT)
    row, column = Variable(64, "row"), Variable(512, "column")
    total = Buffer("total", NdArrayType(()), Space.REGISTER)
    body = [
        Store(total, (), number(0, Dtype.float32)),
        Loop(column, [Accumulate(total, (), Add(), Load(x, (index(row), index(column))))], axis=Axis.THREAD),
        kind(total, (), op),
        Store(y, (index(row),), Load(total, ())),
    ]
    return Kernel([Loop(row, body, axis=Axis.BLOCK, threads=256)])


def test_threads_need_no_barrier_and_no_shared_memory_for_an_exchange():
    [team] = with_spaces(with_barriers(with_exchange(Rotate, Add())), MACHINE).body
    assert [type(item) for item in team.body] == [Store, Loop, Rotate, Loop]
    assert all(b.space is not Space.SHARED for b, _ in (*team.reads, *team.writes))


def test_kernels_are_equal_if_their_exchanges_are():
    cases = (Rotate, Add()), (Rotate, Add()), (Rotate, Maximum()), (Combine, Add())
    first, again, *others = (Signature(with_exchange(*case), Plan()).kernel_key for case in cases)
    assert first == again and first not in others


def test_an_exchange_is_printed_by_the_macro_of_its_name():
    kernel, plan = with_exchange(Rotate, Add()), Plan()
    plan.packed[kernel] = 0
    printer = KernelPrinter(Interface(kernel, plan), MACHINE, get_backend("cuda").dialect, {}, none, {})
    [team] = printer.print("kernel").lines
    [line] = [line for line in team.lines if isinstance(line, Simple)]
    assert (line.kind, line.target, line.op, line.threads) == ("RotateLine", "total", "Add", 256)
