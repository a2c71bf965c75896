"""Functions of PyTorch with example inputs."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_inputs import TIMES, P, W, X, Y, real, truths, whole  # noqa: E402  # needs it

F, aten = torch.nn.functional, torch.ops.aten
attention = F.scaled_dot_product_attention

UNARY = {
    **dict.fromkeys(("abs", "ceil", "cos", "erf", "exp", "expm1", "floor", "neg", "round", "sign", "sin"), X),
    **dict.fromkeys(("log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sqrt"), P),
    **dict.fromkeys(("square", "tan", "trunc", "sinc"), X),
}

BINARY = {
    "add": (lambda x, y: x + y, X, real(4)),
    "add numbers": (lambda x: (2 + x + 0.5, aten.add.Scalar(x, 2, 3)), W),
    "add alpha": (lambda x, y: torch.add(x, y, alpha=3), X, Y),
    "add truths": (lambda a, b: a + b, X > 0, Y > 0),
    "sub": (lambda x, y: (x - y, aten.sub.Scalar(x, 2)), X, real(3, 1)),
    "sub alpha": (lambda x, y: torch.sub(x, y, alpha=2), X, Y),
    "rsub": (lambda x, y: (1 - x, torch.rsub(x, y, alpha=2)), X, Y),
    "mul": (lambda x, y: (x * y * 2, aten.mul.Scalar(x, 2)), real(3, 1), real(2, 1, 4)),
    "mul truths": (lambda a, b: a * b, X > 0, Y > 0),
    "mul mixed": (lambda x, y: x * y, W, X),
    "div": (lambda x, y: (x / y / 3, aten.div.Scalar(x, 2)), X, P),
    "div of whole": (lambda x, y: x / y, W, W + 1),
    "div down": (lambda x, y: torch.div(x, y, rounding_mode="floor"), X, P),
    "div towards 0": (lambda x: aten.div.Scalar_mode(x, 0.3, rounding_mode="trunc"), X),
    "div of whole down": (lambda x: x // 2, W),
    "fmod": (lambda x, y: (torch.fmod(x, y), torch.fmod(x, 2.0)), X, P),
    "fmod of whole": (lambda x: torch.fmod(x - 3, 2), W),
    "remainder": (lambda x, y: (x % y, x % 0.7), X, P),
    "remainder of whole": (lambda x: x % 3, W),
    "pow": (lambda x: (x**2, x**3, x**4, x**-2, x**1), X),
    "pow of positive": (lambda x: (x**0.5, x**-0.5, x**-1, x**1.7), P),
    "pow of arrays": (lambda x, y: (x**y, 2.0**y), P, X),
    "pow of whole": (lambda x: x**2, W),
    "maximum": (lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)), X, Y),
    "maximum of whole": (lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)), W, W.flip(0)),
    "clamp": (lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=0.2)), X),
    "clamp of whole": (lambda x: x.clamp(2, 3), W),
    "clamp by arrays": (lambda x, y: (x.clamp(y, y + 0.5), x.clamp(max=y)), X, Y),
}

TRUTHS = {
    "compare": (lambda x, y: (x > y, x >= y, x < y, x <= y, x == y, x != y), X.round(), Y.round()),
    "compare numbers": (lambda x: (x > 0, x >= 1, x < 0, x <= 1, x == 0, x != 0.5), X.round()),
    "logical": (lambda x, y: (torch.logical_and(x, y), torch.logical_or(x, y)), X.round(), Y > 0),
    "logical not": (lambda x, y: (torch.logical_xor(x, y), torch.logical_not(x)), X.round(), Y > 0),
    "bitwise": (lambda a, b: (a & b, a | b, a ^ b, ~a), X > 0, Y > 0),
    "bitwise numbers": (lambda a: (a & True, a | False, a ^ True), X > 0),
    "isnan": (lambda x: (torch.isnan(x / x), torch.isinf(1 / x)), X.round()),
    "where": (lambda c, x, y: torch.where(c, x, y), truths(3, 1), X, real(4)),
    "where number": (lambda c, x: torch.where(c, x, 0.0), X > 0, Y),
    "masked_fill": (lambda x, m: x.masked_fill(m, -1e9), X, truths(4)),
    "any": (lambda x: (x.any(), x.any(1), x.all(), x.all(-1, keepdim=True)), truths(3, 4)),
    "any of axes": (lambda x: (torch.any(x, (0, 1)), torch.all(x, (0, 2))), truths(*TIMES)),
}

REDUCTIONS = {
    "sum": (lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True)), real(*TIMES)),
    "sum of truths": (lambda x: (x > 0).sum(1), X),
    "mean": (lambda x: (x.mean(), x.mean(-1), x.mean((0, 2), keepdim=True)), real(*TIMES)),
    "var": (lambda x: (x.var(), x.var(-1, correction=0), x.std((0, 1), keepdim=True)), real(*TIMES)),
    "amax": (lambda x: (x.amax(1), x.amax((2, 0), keepdim=True), x.amin(-1)), real(*TIMES)),
    "max": (lambda x: (x.max(), x.min(), *x.max(1), *x.min(-1, keepdim=True)), real(*TIMES)),
    "max of equals": (lambda x: (x.amax((0, 1)), *x.max(1)), X.sign()),
    "argmax": (lambda x: (x.argmax(), x.argmax(1), x.argmin(-1, keepdim=True), x.argmin()), real(*TIMES)),
    "topk": (lambda x: (*x.topk(2), *x.topk(1, 0, largest=False)), X),
    "cumsum": (lambda x: (x.cumsum(1), (x > 0).cumsum(0)), X),
    "logsumexp": (lambda x: (x.logsumexp(1), x.logsumexp((0, 1))), X),
    "norm": (lambda x: (x.norm(dim=1), x.norm(), x.norm(1, dim=0)), X),
    "norm of 0": (lambda x: x.norm(dim=1), 0 * X),
    "softmax": (lambda x: (x.softmax(0), x.log_softmax(-1)), real(*TIMES)),
    "normalize": (lambda x: F.normalize(x), X),
    "cosine_similarity": (F.cosine_similarity, X, Y),
    "mse_loss": (F.mse_loss, X, Y),
    "cross_entropy": (F.cross_entropy, X, whole(4, 3)),
    "smooth_l1": (F.smooth_l1_loss, X, Y),
    "bce": (F.binary_cross_entropy_with_logits, X, P / 5),
}

PRODUCTS = {
    "mm": (lambda x, y: torch.mm(x, y.T), X, Y),
    "bmm": (torch.bmm, real(2, 3, 4), real(2, 4, 5)),
    "matmul": (lambda x, y: x @ y, real(2, 1, 3, 4), real(5, 4, 2)),
    "matmul of vectors": (lambda x, y: (x @ y, x @ x, y.mT @ x), real(4), real(2, 4, 3)),
    "matmul on one side": (lambda x, y: (x @ y, y.T @ x.mT), real(2, 3, 4), real(4, 5)),
    "dot": (lambda x, y: (torch.dot(x, x), torch.mv(y, x)), real(4), X),
    "outer": (torch.outer, real(3), real(4)),
    "addmm": (lambda b, x, y: torch.addmm(b, x, y.T, beta=0.5, alpha=2), real(3), X, Y),
    "baddbmm": (torch.baddbmm, real(1, 5), real(2, 3, 4), real(2, 4, 5)),
    "addmv": (torch.addmv, real(3), X, real(4)),
    "einsum": (lambda x, y: torch.einsum("bij,bkj->bik", x, y), real(2, 3, 4), real(2, 5, 4)),
    "einsum of one": (lambda x: (torch.einsum("ij->ji", x), torch.einsum("ij->", x)), X),
    "einsum of three": (lambda x, y: torch.einsum("ij,kj,kl->il", x, y, y), X, Y),
    "inverse": (torch.linalg.inv, real(3, 3)),
    "solution": (torch.linalg.solve, real(3, 3), real(3, 2)),
    "attention": (lambda q, k: attention(q, k, k), real(2, 2, 5, 4), real(2, 2, 3, 4)),
    "attention, causal": (
        lambda q, k: attention(q, k, k, is_causal=True, scale=0.3),
        real(2, 5, 4),
        real(2, 3, 4),
    ),
    "attention with masks": (
        lambda q, m: (attention(q, q, q, m > 0), attention(q, q, q, m)),
        X,
        real(3, 3).abs(),
    ),
    "attention that sees nothing": (lambda q, m: attention(q, q, q, m), X, torch.ones(3, 3).triu(1) > 0),
    "attention of groups": (
        lambda q, k: attention(q, k, k, enable_gqa=True),
        real(1, 4, 5, 4),
        real(1, 2, 3, 4),
    ),
}

SHAPES = {
    "view": (lambda x: (x.view(4, 3), x.reshape(-1), x.flatten(), x.T.reshape(2, -1)), X),
    "permute": (lambda x: (x.permute(2, 0, 1), x.transpose(0, -1), x.movedim(0, 1), x.mT), real(*TIMES)),
    "squeeze": (lambda x: (x.squeeze(), x.squeeze(0), x.squeeze(1), x.squeeze((0, 2))), real(1, 3, 1)),
    "expand": (
        lambda x: (x.expand(2, 3, 4), x.repeat(2, 1, 3), x.expand(-1, 4), x[None, :, None]),
        real(3, 1),
    ),
    "repeat_interleave": (lambda x: (x.repeat_interleave(2, 1), x.tile(2)), X),
    "cat": (lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y], -1), torch.hstack([x, y])), X, Y),
    "cat mixed": (lambda x, y: torch.cat([x, y]), W, X),
    "split": (lambda x: (*x.split(3, 1), *x.split([1, 2]), *x.chunk(2, 1), *x.unbind(1)), X),
    "slice": (lambda x: (x[1:], x[:, -2:], x[::2, 1::2], x[0], x[..., -1], x[:, None, 5:]), X),
    "index": (lambda x, i: (x[i], x[:, i], x[i, i], x[i[:, None], i]), real(4, 4, 4), whole(4, 3, low=-4)),
    "index apart": (lambda x, i: (x[i, :, i], x[:, i, i]), real(4, 4, 4), whole(4, 3)),
    "index of a list": (lambda x: x[[2, 0, -1]], X),
    "index_select": (lambda x, i: x.index_select(1, i), X, whole(4, 6)),
    "gather": (lambda x, i: x.gather(1, i), X, whole(4, 2, 3)),
    "embedding": (lambda w, i: F.embedding(i, w), X, whole(3, 5)),
    "pad": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=3.0), F.pad(x, (-1, 2, 1, -1))), X),
    "tril": (lambda x: (x.tril(), x.triu(1), torch.tril(torch.ones(3, 3)), x.tril(-1)), X),
    "flip": (lambda x: (x.flip(0), x.flip((0, 1)), x.roll(1, 0)), X),
    "meshgrid": (lambda x, y: torch.meshgrid(x, y, indexing="ij"), real(2), real(3)),
}


def assigned(x):
    y = torch.zeros_like(x)
    y[:, 1:] = x[:, :-1]
    y[0] = 1.0
    y[-1] = x[0]
    return y


CREATION = {
    "assignment": (assigned, X),
    "arange": (
        lambda x: (torch.arange(3) + x, torch.arange(1, 7, 2), torch.arange(0.0, 1.0, 0.3)),
        whole(5, 1),
    ),
    "linspace": (lambda x: torch.linspace(0, 1, 4) + x, X),
    "ones": (lambda x: (torch.ones(2), torch.zeros_like(x), torch.full((2,), 3), x.new_ones(2)), X),
    "empty": (lambda x: torch.empty_like(x).copy_(x) + torch.empty_like(x).fill_(2.0), X),
    "eye": (lambda x: (x @ torch.eye(4, dtype=x.dtype), torch.eye(2, 3)), X),
    "one_hot": (lambda i: F.one_hot(i, 5), whole(5, 3)),
    "constant": (lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]) * torch.tensor(2.5), X),
    "to": (lambda x: (x.float(), x.long(), x.bool(), x.int()), X),
    "type_as": (lambda x, y: y.type_as(x), X, W),
    "exp of whole": (torch.exp, W),
    "detach": (lambda x: x * x.detach(), X),
    "no_grad": (lambda x: (x * torch.no_grad()(torch.sin)(x), torch.no_grad()(torch.cos)(x)), X),
    "clone": (lambda x: aten.alias(x.clone().contiguous()), X),
    "in place": (lambda x: x.clone().add_(1).mul_(2).masked_fill_(x > 0, 3.0).relu_(), X),
}

FUNCTIONS = {
    **{name: (getattr(torch, name), x) for name, x in UNARY.items()},
    **BINARY,
    **TRUTHS,
    **REDUCTIONS,
    **PRODUCTS,
    **SHAPES,
    **CREATION,
}
