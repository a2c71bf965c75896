"""Kernels of emitted CUDA and of PyTorch, and the ceilings of the card, for `benchmarks.cuda`.

Bytes count each array of the arguments and results once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch

from benchmarks.cuda.cases import KernelCase, Sizes, Tensors, cases_of
from benchmarks.cuda.clock import Call, side_by_side
from benchmarks.cuda.library import Emitted
from benchmarks.cuda.tables import COPY, cublas
from catgrad import NdArrayType, Task, layers, losses, optimisers
from catgrad.functors import Expand
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Function, Program, lower
from catgrad.targets import get_backend

LARGE = 8192
"""Rows, columns and terms of the products that are ceilings."""
COPIED_BYTES = 2**30
UPDATED = 4096, 8192
"""The shape of the parameter that AdamW updates."""


TOLERANCES = {"": 1e-4, "float32": 1e-4, "bf16x6": 1e-4, "tf32": 2e-3, "bf16": 1e-2}
"""The tolerance of results for each precision, relative to the greatest."""


class Bound(NamedTuple):
    """A function of catgrad and of PyTorch with their arguments, and the results of both."""

    ours: Call
    results: Tensors
    peer: Callable[..., torch.Tensor | Tensors]
    arguments: Tensors
    bytes: int
    operations: int = 0
    precision: str = ""
    compiled: bool = True


def programs(part: str, simulate: bool) -> Iterator[tuple[Program, dict[str, str], Sequence[KernelCase]]]:
    """Return the cases of a part as the functions of one program for each set of options."""
    expand = Expand(get_backend("cuda").has)
    for options in ({}, {"math": "tf32"}, {"math": "bf16x6"}):
        cases = [case for case in cases_of(part) if case.options == options]
        terms = [case.term(*(case.few if simulate else case.sizes)) for case in cases]
        functions = tuple(lower(expand(term), f"f{k}", doc="A kernel.") for k, term in enumerate(terms))
        if cases:
            yield Program("kernels", functions), options, cases


def bindings(part: str, simulate: bool) -> Iterator[tuple[KernelCase, Callable[[], Bound]]]:
    """Emit the cases of a part, and bind each to random arrays when it is asked for."""
    for program, options, cases in programs(part, simulate):
        emitted = Emitted(program, simulate, **options)
        for case, function in zip(cases, program.functions, strict=True):
            yield case, partial(bound, case, function, emitted)
            emitted.forget()


def bound(case: KernelCase, function: Function, emitted: Emitted) -> Bound:
    """Bind a case to random arrays."""
    random = torch.Generator(emitted.device).manual_seed(0)
    set_precision(case.precision)
    sizes = case.few if emitted.device == "cpu" else case.sizes
    inputs = [_drawn(port.type, sizes[-1], random) for port in function.inputs]
    outputs = [empty(port.type, emitted.device) for port in function.outputs]
    size = sum(tensor.numel() * tensor.element_size() for tensor in (*inputs, *outputs))
    ours = emitted.bound(function.name, {}, inputs, outputs)
    about = case.operations(*sizes), case.precision, case.compiled
    return Bound(ours, outputs, case.peer, case.keep(inputs), size, *about)


def empty(type: NdArrayType, device: str) -> torch.Tensor:
    """Allocate an array of a type."""
    return torch.empty(type.shape, dtype=getattr(torch, type.dtype.numpy.name), device=device)


def _drawn(type: NdArrayType, classes: int, random: torch.Generator) -> torch.Tensor:
    """Draw an array on the device of a generator."""
    if not type.dtype.is_floating:
        return torch.randint(classes, type.shape, generator=random, device=random.device)
    if not type.shape:
        return torch.ones((), device=random.device)  # the cotangent of a loss
    values = torch.randn(type.shape, generator=random, device=random.device)
    return values.to(getattr(torch, type.dtype.numpy.name))


def updated_task(shape: Sizes) -> Task:
    """Return a task with one parameter of this shape."""
    rows, columns = (NdArrayType((size,)) for size in shape)
    return Task(layers.linear(NdArrayType((1,)), rows, columns), optimisers.adamw(1e-3), losses.mse, "adamw")


def adamw(shape: Sizes, simulate: bool) -> Bound:
    """Bind one update of AdamW, in place, with one parameter of this shape, to random arrays."""
    emitted = Emitted.of_task(updated_task(shape), (Kind.UPDATE,), simulate)
    tables = {
        role: [empty(slot.type, emitted.device).fill_(getattr(slot.initial, "value", 0)) for slot in slots]
        for role, slots in emitted.program.tables.items()
    }
    [weight] = tables[Role.PARAMETER]
    weight.normal_()
    gradient = torch.randn_like(weight)
    theirs = weight.clone().requires_grad_()
    theirs.grad = gradient
    optimiser = torch.optim.AdamW([theirs], 1e-3, weight_decay=0.01, fused=True)
    tables[Role.GRADIENT] = [gradient]
    ours = emitted.bound(Kind.UPDATE, tables, [], [])

    def step() -> torch.Tensor:
        optimiser.step()
        return theirs.detach()

    return Bound(ours, [weight], step, (), 7 * weight.numel() * 4)


def set_precision(precision: str) -> None:
    """Choose how PyTorch multiplies matrices and convolves arrays of float32."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True


def multiplied(precision: str, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Multiply in a precision."""
    set_precision(precision)
    return x @ w


def ceilings() -> dict[str, float]:
    """Measure the bytes a second of a copy, and the operations a second of cuBLAS in each precision."""
    source = torch.randint(256, (COPIED_BYTES,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    wide = [torch.randn(LARGE, LARGE, device="cuda") for _ in range(2)]
    calls: dict[str, Call] = {COPY: lambda: target.copy_(source)}
    for precision in ("float32", "tf32", "bf16"):
        factors = [x.bfloat16() for x in wide] if precision == "bf16" else wide
        calls[cublas(precision)] = partial(multiplied, precision, *factors)
    amounts = [2 * COPIED_BYTES, *[2 * LARGE**3] * 3]
    seconds = side_by_side(list(calls.values()))
    return {name: n / s for name, n, s in zip(calls, amounts, seconds, strict=True)}


def measured(each: Bound) -> dict[str, float]:
    """Measure catgrad, PyTorch eager and torch.compile, after their results have been compared."""
    check(each)
    fast = torch.compile(each.peer) if each.arguments and each.compiled else None
    calls = {"catgrad": each.ours, "PyTorch eager": lambda: each.peer(*each.arguments)}
    if fast is not None:
        calls["torch.compile"] = lambda: fast(*each.arguments)
    return dict(zip(calls, side_by_side(list(calls.values())), strict=True))


def check(each: Bound) -> None:
    """Compare the results of catgrad and PyTorch. Raises: AssertionError if they differ."""
    each.ours()
    theirs = each.peer(*each.arguments)
    tolerance = TOLERANCES[each.precision]
    pairs = zip(each.results, theirs if isinstance(theirs, tuple | list) else [theirs], strict=True)
    for mine, other in pairs:
        least = tolerance * float(other.abs().max())
        torch.testing.assert_close(mine.reshape(other.shape), other, rtol=tolerance, atol=least)
