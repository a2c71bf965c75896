"""The functions that `benchmarks.cuda` measures as kernels, as terms and in PyTorch, by priority.

Arrays are larger than the cache of a GPU, but for products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from catgrad.backends.cuda.options import MATH
from torch.nn import functional as F

from catgrad import Dtype, NdArrayType, Term, build, discard, identity, losses, ops
from catgrad.functors import reverse, reverse_derivative
from catgrad.terms.var import Var

Tensors = Sequence[torch.Tensor]
Sizes = tuple[int, ...]
EPSILON = 1e-5
"""The ε of layer norm."""


@dataclass(frozen=True)
class KernelCase:
    """A function as a term and in PyTorch, at the sizes of GPT-2 or of ResNet, and at few for the simulator.

    `keep` appends to the arguments what autograd would have kept. What multiplies has a `precision`, and
    `operations` by its sizes, if these are counted; what a library computes anyway is not `compiled`.
    """

    part: str
    name: str
    term: Callable[..., Term]
    peer: Callable[..., torch.Tensor | Tensors]
    sizes: Sizes
    few: Sizes
    keep: Callable[[Tensors], Tensors] = tuple
    precision: str = ""
    operations: Callable[..., int] = lambda *sizes: 0
    compiled: bool = True

    @property
    def options(self) -> dict[str, str]:
        """The target's options for a product in a precision."""
        return {"math": self.precision} if MATH.get(self.precision) else {}


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


def layer_norm_gradient(*tensors: torch.Tensor) -> Tensors:
    """Compute the gradients of layer norm from what the forward pass has kept."""
    x, weight, shift, dy, mean, reciprocal = tensors
    backward = torch.ops.aten.native_layer_norm_backward
    return backward(dy, x, x.shape[-1:], mean, reciprocal, weight, shift, [True] * 3)


def loss_and_gradient(scores: torch.Tensor, labels: torch.Tensor, _: object) -> Tensors:
    """Compute cross entropy and its gradient."""
    return torch.func.grad_and_value(F.cross_entropy)(scores, labels)[::-1]


def element(precision: str) -> Dtype:
    """Return the dtype of arrays in a precision of products."""
    return Dtype.bfloat16 if precision == "bf16" else Dtype.float32


MAJORS: dict[str, tuple[str, Callable[..., Var], Callable[..., torch.Tensor]]] = {
    "x · W": ("mk kn", lambda x, w: x @ w, torch.matmul),
    "dy · Wᵀ": ("mn kn", lambda dy, w: dy @ ops.transpose(w), lambda dy, w: dy @ w.T),
    "xᵀ · dy": ("mk mn", lambda x, dy: ops.transpose(x) @ dy, lambda x, dy: x.T @ dy),
}
"""The products of a dense layer and of its reverse: the axes of their factors, and how they are computed."""


def product(rows: int, terms: int, columns: int, precision: str, major: str) -> KernelCase:
    """The product of a layer of GPT-2 in a precision."""
    axes, function, peer = MAJORS[major]

    def term(m: int, k: int, n: int) -> Term:
        sizes, dtype = {"m": m, "k": k, "n": n}, element(precision)
        return build(function, [NdArrayType(tuple(sizes[a] for a in x), dtype) for x in axes.split()])

    return KernelCase(
        "products",
        f"product {major}, {rows} × {terms} × {columns}, {precision}",
        term,
        peer,
        (rows, terms, columns),
        (32, 24, 40),
        precision=precision,
        operations=lambda m, k, n: 2 * m * k * n,
        compiled=False,
    )


LAYERS = ((32768, 768, 2304), (32768, 768, 768), (32768, 768, 3072), (32768, 3072, 768))
HEAD = (8192, 768, 50257)
PRODUCTS = (
    *(product(*sizes, "bf16", major) for sizes in (*LAYERS, HEAD) for major in MAJORS),
    *(product(*LAYERS[0], each, major) for each in ("tf32", "bf16x6", "float32") for major in MAJORS),
)


def with_gradients(function: Callable[..., torch.Tensor]) -> Callable[..., Tensors]:
    """Return a function of arguments and a cotangent: its result, and the cotangents of its arguments."""

    def both(*tensors: torch.Tensor) -> Tensors:
        *arguments, dy = tensors
        live = [x.detach().requires_grad_() for x in arguments]
        y = function(*live)
        return y.detach(), *torch.autograd.grad(y, live, dy)

    return both


def attention(precision: str, with_reverse: bool) -> KernelCase:
    """Causal attention of GPT-2, alone or with its reverse."""

    def term(*shape: int) -> Term:
        q = NdArrayType(shape, element(precision))
        forward = build(lambda q, k, v: ops.attention(q, k, v, causal=True), [q] * 3)
        return reverse(forward) if with_reverse else forward

    def peer(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    name = "causal attention, with reverse" if with_reverse else "causal attention"
    factor = 7 if with_reverse else 2  # products of half the pairs of positions
    return KernelCase(
        "attention",
        f"{name}, 8 × 12 × 1024 × 64, {precision}",
        term,
        with_gradients(peer) if with_reverse else peer,
        (8, 12, 1024, 64),
        (1, 2, 48, 32),
        precision=precision,
        operations=lambda b, h, t, d: factor * b * h * t * t * d,
        compiled=False,
    )


def convolution(precision: str, with_reverse: bool) -> KernelCase:
    """The 3 × 3 convolution of the first blocks of ResNet-18, or its reverse alone."""

    def term(batch: int, channels: int, side: int) -> Term:
        x, w = array(batch, channels, side, side), array(channels, channels, 3, 3)
        forward = build(lambda x, w: ops.conv(x, w, padding=(1, 1)), [x, w])
        return reverse_derivative(forward) if with_reverse else forward

    def backward(x: torch.Tensor, w: torch.Tensor, dy: torch.Tensor) -> Tensors:
        sizes = [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False]
        return torch.ops.aten.convolution_backward(dy, x, w, None, *sizes)[:2]

    name = "convolution 3 × 3, reverse" if with_reverse else "convolution 3 × 3"
    factor = 2 if with_reverse else 1
    return KernelCase(
        "convolutions",
        f"{name}, 32 × 64 × 56 × 56, {precision}",
        term,
        backward if with_reverse else lambda x, w: F.conv2d(x, w, padding=1),
        (32, 64, 56),
        (2, 8, 12),
        precision=precision,
        operations=lambda b, c, side: factor * 18 * b * c * c * side * side,
        compiled=False,
    )


def summed(axis: int) -> KernelCase:
    """Sums of rows or of columns."""
    name = "sum of rows" if axis else "sum of columns"
    return KernelCase(
        "rows",
        name,
        lambda *s: build(lambda x: ops.sum(x, axis), [array(*s)]),
        lambda x: x.sum(axis),
        (32768, 3072),
        (24, 48),
    )


ROWS = (
    KernelCase(
        "rows", "cross entropy, with gradient", cross_entropy, loss_and_gradient, (8192, 50257), (6, 70),
    ),
    KernelCase(
        "rows", "layer norm, backward", lambda *s: reverse_derivative(layer_norm(*s)), layer_norm_gradient,
        (32768, 768), (6, 64), statistics,
    ),
    summed(0), summed(1),
    KernelCase(
        "rows", "transpose", lambda *s: build(ops.transpose, [array(*s)]), lambda x: x.T.contiguous(),
        (8192, 8192), (40, 72),
    ),
    KernelCase(
        "rows", "bias and GELU", bias_gelu, lambda x, b: F.gelu(x + b, approximate="tanh"), (32768, 3072),
        (8, 48),
    ),
    KernelCase(
        "rows", "softmax", lambda *s: build(ops.softmax, [array(*s)]), lambda x: F.softmax(x, -1),
        (32768, 1024), (4, 96),
    ),
    KernelCase(
        "rows", "layer norm", layer_norm, lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, EPSILON),
        (32768, 768), (6, 64),
    ),
)  # fmt: skip

CASES = (
    *PRODUCTS,
    *(attention(precision, both) for precision in ("bf16", "float32") for both in (False, True)),
    *(convolution(precision, both) for precision in ("tf32", "float32") for both in (False, True)),
    *ROWS,
)


def cases_of(part: str) -> tuple[KernelCase, ...]:
    """Return the cases of a part."""
    return tuple(case for case in CASES if case.part == part)


ADAMW = "AdamW"
"""The kernel of the part of rows that is no case, but the update of a task."""


def names_of(part: str) -> list[str]:
    """List the kernels of a part, in the order in which they are measured."""
    return [case.name for case in cases_of(part)] + ([ADAMW] if part == "rows" else [])
