"""Functions of PyTorch at points where a formula divides by 0, or subtracts or multiplies infinities."""

from __future__ import annotations

from functools import partial
from math import inf, pi

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

F, aten = torch.nn.functional, torch.ops.aten


def row(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def table(*rows):
    return torch.stack([row(*numbers) for numbers in rows])


def constant(*shape, number=0.0):
    return torch.full(shape, number, dtype=torch.float64)


ZERO, LEVEL = constant(2, 3), constant(2, 3, number=1.5)
ZEROS = table((0, 2, 3), (0, 0, 5), (1, 4, 2), (0, 0, 0))
"""Rows with no zeros, some, and nothing else."""
NOTHING = table([-inf] * 3, (1, -inf, 2), (0, 0, 0))
"""Rows of logits of which none, some and all are finite."""
FAR = row(0, -0.0, 1, -1, 1e-300, 1e300, -1e300, 40, -40, 800, -800)
ENDS = row(0, -0.0, 1, -1, inf, -inf)
TWINS = table((1, 2, 3), (1, 2, 3), (0, 0, 0))
ORDERS = (1, 1.5, 2, 3, inf)

NORMS = {
    **{f"norm {p}": (lambda x, p=p: x.norm(p, dim=1), ZEROS) for p in (0, 0.5, *ORDERS)},
    **{f"norm {p}": (lambda x, p=p: torch.linalg.vector_norm(x, p, dim=1), ZEROS) for p in (-1, -2, -inf)},
    "norm of all": (lambda x: (x.norm(), torch.linalg.matrix_norm(x)), ZERO),
    **{f"normalize {p}": (partial(F.normalize, p=p, dim=1), ZEROS) for p in ORDERS},
    **{f"renorm {p}": (lambda x, p=p: torch.renorm(x, p, 0, 1.0), ZEROS) for p in ORDERS},
    **{f"cdist {p}": (partial(torch.cdist, p=p), ZEROS[1:], ZEROS[:3]) for p in (0.0, 0.5, 1, 1.5, 2, 3)},
    **{f"pdist {p}": (partial(F.pdist, p=float(p)), TWINS) for p in ORDERS},
    **{f"distance {p}": (partial(F.pairwise_distance, p=p, eps=0.0), ZEROS, ZEROS + 0) for p in ORDERS},
    "cosine": (F.cosine_similarity, ZEROS, ZEROS.flip(0)),
    "cosine of zeros": (F.cosine_similarity, ZERO, ZERO + 0),
    "triplet": (partial(F.triplet_margin_loss, eps=0.0), ZEROS, ZEROS + 0, ZEROS + 0.0),
    "triplet with swap": (partial(F.triplet_margin_loss, swap=True), ZEROS, ZEROS + 0, ZEROS + 0.0),
    **{f"lp_pool {p}": (lambda x, p=p: F.lp_pool1d(x, p, 2), constant(1, 1, 4)) for p in (1, 2, 3)},
    "weight_norm": (lambda v, g: aten._weight_norm(v, g, 0), ZEROS[:3], constant(3, 1)),
}
STATISTICS = {
    "std": (lambda x: (x.std(1), x.std(), *torch.std_mean(x, 1)), LEVEL),
    "std of population": (lambda x: (x.std(1, correction=0), x.var(1, correction=0)), ZEROS),
    "layer_norm": (lambda x: F.layer_norm(x, (3,)), LEVEL),
    "layer_norm, affine": (lambda x, w, b: F.layer_norm(x, (3,), w, b), LEVEL, row(1, 2, 0), row(0, 1, 0)),
    "rms_norm": (lambda x: F.rms_norm(x, (3,)), ZERO),
    "group_norm": (lambda x: F.group_norm(x, 1), constant(2, 2, 3)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, None, None, True), LEVEL),
    "instance_norm": (F.instance_norm, constant(2, 2, 3, number=1.0)),
    "batch_norm of constants": (lambda x: F.batch_norm(x, row(0, 0, 0), row(0, 0, 0)), LEVEL),
    "local_response_norm": (lambda x: F.local_response_norm(x, 2), constant(1, 3, 4)),
}
SOFTMAX = {
    "_safe_softmax": (lambda x: aten._safe_softmax(x, -1), NOTHING),
    "_safe_softmax of rows": (lambda x: aten._safe_softmax(x, 0), NOTHING.mT.clone()),
    "softmax": (lambda x: (x.softmax(-1), x.log_softmax(-1)), NOTHING),
    "logsumexp": (lambda x: (x.logsumexp(-1), x.logsumexp((0, 1))), NOTHING[1:]),
    "logsumexp of nothing": (lambda x: x.logsumexp(-1).exp(), NOTHING[1:]),
    "logcumsumexp": (lambda x: x.logcumsumexp(-1), NOTHING[1:]),
    "logaddexp": (torch.logaddexp, row(-inf, inf, 0, -inf, 1e300), row(inf, -inf, 0, 0, 1e300)),
    "logaddexp2": (torch.logaddexp2, row(-inf, inf, 0, -inf), row(inf, -inf, 0, 0)),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, NOTHING[:2] > -inf),
        ZEROS[:2],
        ZEROS[:3],
        ZEROS[1:],
    ),
    "attention, added": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, NOTHING[:2]),
        ZEROS[:2],
        ZEROS[:3],
        ZEROS[1:],
    ),
    "masked softmax": (lambda x: x.masked_fill(NOTHING < -1e9, -inf).softmax(-1)[1:], ZEROS[:3]),
}
PRODUCTS = {
    "prod": (lambda x: (x.prod(1), x.prod(0), x.prod()), ZEROS),
    "cumprod": (lambda x: (x.cumprod(1), x.cumprod(0)), ZEROS),
    "pow": (torch.pow, row(0, 0, 0, 0, 0, -1, -2, 1, -0.0, 2, -8), row(0, 1, 2, 0.5, 3, 2, 3, inf, 1, 0, 0)),
    **{f"pow {p}": (lambda x, p=p: x**p, row(0, -0.0, 1, 2)) for p in (0, 1, 2, 3, 4, 0.5, 1.5, -1, -2)},
    **{f"pow {p} of negative": (lambda x, p=p: x**p, row(-1, -2)) for p in (0, 1, 2, 5, -1, -2, -3)},
    **{f"{p} to a power": (lambda x, p=p: p**x, row(0, 1, 2, -1, 1)) for p in (0.0, 1.0, 2.0)},
    "scatter_reduce": (
        lambda x, y: x.scatter_reduce(0, torch.tensor([0, 0, 1]), y, "prod"),
        row(0, 2),
        row(0, 3, 0),
    ),
    "quotient": (torch.div, row(0, 1, 0), row(1, 2, inf)),
}
ANGLES = {
    "atan2": (torch.atan2, row(0, 0, -0.0, -0.0, 1, 0, 0, 0), row(0, -0.0, 0, -0.0, 0, 1, inf, -inf)),
    "hypot": (torch.hypot, row(0, 0, 3, inf, 1e-200, 1e200), row(0, -0.0, 0, 1, 1e-200, 1e200)),
    "abs of complex": (lambda a, b: torch.complex(a, b).abs(), row(0, 3, -0.0), row(0, 4, 0)),
    "angle of complex": (lambda a, b: torch.complex(a, b).angle(), row(0, 3, -1), row(0, 4, 0)),
    "sgn of complex": (lambda a, b: torch.view_as_real(torch.complex(a, b).sgn()), row(0, 3), row(0, 4)),
    "sinc": (torch.sinc, row(0, -0.0, 1, 1e-9, 1e-160, 1e-320)),
    "tan": (torch.tan, row(0, -0.0, pi / 4)),
    **{name: (getattr(torch, name), ENDS[:4]) for name in ("asin", "acos", "atan", "asinh", "atanh")},
    "acosh": (torch.acosh, row(1, 2, 1e300)),
}
LOGARITHMS = {
    "log": (lambda x: (x.log(), x.log2(), x.log10(), x.sqrt(), x.reciprocal()), row(0, 1, inf)),
    "log1p": (torch.log1p, row(-1, 0, -0.0, inf)),
    "xlogy": (torch.xlogy, row(0, 0, 1, 2), row(2, 1, 0, 3)),
    "xlog1py": (torch.special.xlog1py, row(0, 0, 1), row(2, 0, -1)),
    "entr": (torch.special.entr, row(0, 1, 0.5, 2)),
    "logit": (lambda x: (torch.logit(x), torch.logit(x, 1e-6)), row(0, 1, 0.5)),
    "digamma": (torch.digamma, row(1, 1e-300, inf, -2.5)),
    "lgamma": (torch.lgamma, row(1, 2, 0, 1e-300, -2.5, inf)),
    "erfinv": (torch.erfinv, row(0, 1, -1)),
    "ndtri": (torch.special.ndtri, row(0, 1, 0.5)),
    "erfcx": (torch.special.erfcx, row(0, -0.0, inf, -inf, 40, -30)),
    "ndtr": (lambda x: (torch.special.ndtr(x), torch.special.log_ndtr(x)), row(0, 40, -40)),
    **{name: (getattr(torch.special, name), row(0, -0.0, 8, -8, 1e300)) for name in ("i0e", "i1e")},
}
ACTIVATIONS = {
    name: (getattr(F, name), FAR)
    for name in (
        "softplus", "logsigmoid", "sigmoid", "silu", "gelu", "mish", "selu", "elu", "celu", "tanh",
        "tanhshrink", "softsign", "hardswish", "hardtanh", "relu6", "softshrink", "relu",
        "leaky_relu", "hardshrink",
    )
}  # fmt: skip
ACTIVATIONS["hardswish at infinity"] = (F.hardswish, row(inf))
LOSSES = {
    "binary cross entropy": (
        lambda x: F.binary_cross_entropy(x, row(0, 1, 1, 0, 1, 0.5), reduction="none"),
        row(0, 1, 0, 1, 1e-20, 0),
    ),
    "binary cross entropy of logits": (
        lambda x: F.binary_cross_entropy_with_logits(x, row(0, 1, 0, 1), reduction="none"),
        row(800, -800, 0, 1e300),
    ),
    "cross entropy": (
        lambda x: F.cross_entropy(x, torch.tensor([1, 0])),
        table((-inf, 0, 0), (800, -800, -inf)),
    ),
    "huber": (F.huber_loss, row(0, 1, 2), row(0, 0, 0)),
    "smooth l1": (lambda x, y: (F.smooth_l1_loss(x, y), F.l1_loss(x, y)), row(0, 1, 2), row(0, 0, 0)),
    "smooth l1 of width 0": (partial(F.smooth_l1_loss, beta=0.0), row(0, 1), row(0, 0)),
    "poisson": (lambda x: F.poisson_nll_loss(x, row(0, 1, 3), full=True), row(0, 1, 2)),
    "kl_div": (lambda x: F.kl_div(x, row(0, 1, 0.5), reduction="sum"), row(-1, -2, 0)),
    "margin": (lambda x, y: F.margin_ranking_loss(x, y, row(1, -1)), row(0, 0), row(0, 0.0)),
    "multi-class margin": (
        lambda x: F.multi_margin_loss(x, torch.tensor([0, 1])),
        table((1, 0, 2), (0, 0, 0)),
    ),
    "embedding cosine": (lambda x, y: F.cosine_embedding_loss(x, y, row(1, -1)), ZERO, ZERO + 0),
    "ctc": (
        lambda x: F.ctc_loss(
            x.log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([2]), torch.tensor([2]), reduction="sum"
        ),
        constant(2, 1, 3),
    ),
}
EXTREMA = {
    "amax": (lambda x: (x.amax(1), x.amin(0), x.max(1)[0], x.median(1)[0], x.cummax(1)[0]), ZEROS),
    "maximum": (lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)), row(0, -0.0, inf), row(0, 0, inf)),
    "clamp": (lambda x: (x.clamp(0.0, 1.0), x.clamp(min=0.0), x.abs(), x.sign()), ENDS),
}

FAMILIES = {
    "norms": NORMS, "statistics": STATISTICS, "softmax": SOFTMAX, "products": PRODUCTS, "angles": ANGLES,
    "logarithms": LOGARITHMS, "activations": ACTIVATIONS, "losses": LOSSES, "extrema": EXTREMA,
}  # fmt: skip
