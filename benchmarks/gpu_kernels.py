"""Kernels of emitted CUDA and of PyTorch, and the ceilings of the card, for `benchmarks.cuda`.

Arrays are larger than the cache of a GPU, but for products. Bytes count each array of the arguments and
results once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.gpu_clock import Call, side_by_side
from benchmarks.gpu_library import Emitted
from benchmarks.gpu_tables import COPY, cublas
from catgrad import Dtype, NdArrayType, Task, Term, build, discard, identity, layers, losses, ops, optimisers
from catgrad.backend import get_backend
from catgrad.functors import Expand, reverse, reverse_derivative
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Function, Program, lower

Tensors = Sequence[torch.Tensor]
Sizes = tuple[int, ...]
LARGE = 8192
"""Rows, columns and terms of the products that are ceilings."""
COPIED_BYTES = 2**30
UPDATED = 4096, 8192
"""The shape of the parameter that AdamW updates."""
EPSILON = 1e-5
"""The ε of layer norm."""


@dataclass(frozen=True)
class KernelCase:
    """A function as a term and in PyTorch, at the sizes of GPT-2 and at few for the simulator.

    `keep` appends to the arguments what autograd would have kept. Products have a `precision`.
    """

    name: str
    term: Callable[..., Term]
    peer: Callable[..., Any]
    sizes: Sizes
    few: Sizes
    keep: Callable[[Tensors], Tensors] = tuple
    precision: str = ""

    @property
    def options(self) -> dict[str, str]:
        """The target's options for a product in a precision."""
        return {"math": "tf32"} if self.precision == "tf32" else {}


def array(*shape: int) -> NdArrayType:
    """Return the type of an array of float32."""
    return NdArrayType(shape)


def bias_gelu(rows: int, columns: int) -> Term:
    """Add a bias to each row, then GELU."""
    x, bias = array(rows, columns), array(columns)
    return build(lambda x, b: ops.gelu_tanh(x + ops.broadcast(b, x.shape)), [x, bias])


def layer_norm(rows: int, columns: int) -> Term:
    """Normalise rows, with a weight and a shift."""
    return build(ops.affine_layer_norm, [array(rows, columns), array(columns), array(columns)])


def cross_entropy(rows: int, classes: int) -> Term:
    """Compute the loss and its gradient."""
    scores, labels = array(rows, classes), NdArrayType((rows,), Dtype.int64)
    both = reverse(build(losses.cross_entropy, [scores, labels]))
    return both >> identity(array(), scores) @ discard(labels)


def statistics(tensors: Tensors) -> Tensors:
    """Append the mean and the reciprocal deviation of each row, which autograd keeps."""
    x, weight, shift, _ = tensors
    return *tensors, *torch.native_layer_norm(x, x.shape[-1:], weight, shift, EPSILON)[1:]


def layer_norm_gradient(x: Any, weight: Any, shift: Any, dy: Any, mean: Any, reciprocal: Any) -> Any:
    """Compute the gradients of layer norm from what the forward pass has kept."""
    backward = torch.ops.aten.native_layer_norm_backward
    return backward(dy, x, x.shape[-1:], mean, reciprocal, weight, shift, [True] * 3)


def loss_and_gradient(scores: Any, labels: Any, _: Any) -> Any:
    """Compute cross entropy and its gradient."""
    return torch.func.grad_and_value(F.cross_entropy)(scores, labels)[::-1]


def product(rows: int, terms: int, columns: int, precision: str) -> KernelCase:
    """The product of a layer of GPT-2 in a precision."""
    dtype = Dtype.bfloat16 if precision == "bf16" else Dtype.float32

    def term(m: int, k: int, n: int) -> Term:
        return build(lambda x, w: x @ w, [NdArrayType((m, k), dtype), NdArrayType((k, n), dtype)])

    name = f"product {rows} × {terms} × {columns}, {precision}"
    return KernelCase(name, term, torch.matmul, (rows, terms, columns), (32, 24, 40), precision=precision)


CASES = (
    KernelCase(
        "bias and GELU", bias_gelu, lambda x, b: F.gelu(x + b, approximate="tanh"), (32768, 3072), (8, 48)
    ),
    KernelCase(
        "softmax", lambda *s: build(ops.softmax, [array(*s)]), lambda x: F.softmax(x, -1),
        (32768, 1024), (4, 96),
    ),
    KernelCase(
        "layer norm", layer_norm, lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, EPSILON),
        (32768, 768), (6, 64),
    ),
    KernelCase(
        "layer norm, backward", lambda *s: reverse_derivative(layer_norm(*s)), layer_norm_gradient,
        (32768, 768), (6, 64), statistics,
    ),
    KernelCase("cross entropy, with gradient", cross_entropy, loss_and_gradient, (8192, 50257), (6, 70)),
    *(product(*sizes, precision) for precision in ("float32", "tf32", "bf16") for sizes in (
        (32768, 768, 2304), (32768, 768, 768), (32768, 768, 3072), (32768, 3072, 768), (8192, 768, 50257),
    )),
)  # fmt: skip

TOLERANCES = {"": 1e-4, "float32": 1e-4, "tf32": 2e-3, "bf16": 1e-2}
"""The tolerance of results for each precision, relative to the greatest."""


class Bound(NamedTuple):
    """A function of catgrad and of PyTorch with their arguments, and the results of both."""

    ours: Call
    results: Tensors
    peer: Callable[..., Any]
    arguments: Tensors
    bytes: int
    operations: int = 0
    precision: str = ""


def bindings(rng: np.random.Generator, simulate: bool) -> Iterator[tuple[KernelCase, Bound]]:
    """Emit all cases as one library for each set of options, and bind each to random arrays in turn."""
    expand = Expand(get_backend("cuda").has)
    for options in ({}, {"math": "tf32"}):
        cases = [case for case in CASES if case.options == options]
        terms = [case.term(*(case.few if simulate else case.sizes)) for case in cases]
        functions = tuple(lower(expand(term), f"f{k}", doc="A kernel.") for k, term in enumerate(terms))
        emitted = Emitted(Program("kernels", functions), simulate, **options)
        for case, function in zip(cases, functions, strict=True):
            yield case, bound(case, function, emitted, rng)
            emitted.forget()


def bound(case: KernelCase, function: Function, emitted: Emitted, rng: np.random.Generator) -> Bound:
    """Bind a case to random arrays."""
    set_precision(case.precision)
    sizes = case.few if emitted.device == "cpu" else case.sizes
    inputs = [_random(port.type, sizes[-1], rng, emitted.device) for port in function.inputs]
    outputs = [empty(port.type, emitted.device) for port in function.outputs]
    size = sum(tensor.numel() * tensor.element_size() for tensor in (*inputs, *outputs))
    operations = 2 * prod(sizes) if case.precision else 0
    ours = emitted.bound(function.name, {}, inputs, outputs)
    return Bound(ours, outputs, case.peer, case.keep(inputs), size, operations, case.precision)


def empty(type: NdArrayType, device: str) -> torch.Tensor:
    """Allocate an array of a type."""
    return torch.empty(type.shape, dtype=getattr(torch, type.dtype.numpy.name), device=device)


def _random(type: NdArrayType, classes: int, rng: np.random.Generator, device: str) -> torch.Tensor:
    if not type.dtype.is_floating:
        return torch.tensor(rng.integers(0, classes, type.shape), device=device)
    # The cotangent of a loss is 1.
    values = rng.standard_normal(type.shape, np.float32) if type.shape else np.float32(1)
    return torch.tensor(values, device=device).to(getattr(torch, type.dtype.numpy.name))


def adamw(shape: Sizes, simulate: bool) -> Bound:
    """Bind one update of AdamW, in place, with one parameter of this shape, to random arrays."""
    rows, columns = (NdArrayType((size,)) for size in shape)
    task = Task(layers.linear(NdArrayType((1,)), rows, columns), optimisers.adamw(1e-3), losses.mse, "adamw")
    emitted = Emitted.of_task(task, (Kind.UPDATE,), simulate)
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
    """Choose how PyTorch multiplies matrices of float32."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"


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
    fast = torch.compile(each.peer) if each.arguments else None
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
