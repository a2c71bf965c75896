"""Muon: momentum with its singular values brought near 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite, sqrt
from typing import Any

from catgrad import ops
from catgrad.errors import OptionError, require_one_of
from catgrad.learn.optimiser import Optimiser, Run, grouped, require_optimiser, scaled
from catgrad.learn.optimisers.adam import adamw
from catgrad.learn.optimisers.updates import averaged, check_ranges, shrunk
from catgrad.learn.options import check_integer
from catgrad.learn.schedules import Momentum, Rate
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import NdArrayType

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""The coefficients of Muon's Newton-Schulz iteration, chosen for the greatest slope at 0."""


ADJUSTMENTS: dict[str, Callable[[int, int], float]] = {
    "original": lambda outputs, inputs: sqrt(max(1.0, outputs / inputs)),
    "match_rms_adamw": lambda outputs, inputs: 0.2 * sqrt(max(outputs, inputs)),
}
"""Factors of the learning rate of a matrix, given its numbers of outputs and inputs."""


def muon(
    learning_rate: Rate = 1e-3,
    momentum: Momentum = 0.95,
    weight_decay: float = 0.1,
    others: Optimiser | None = None,
    iterations: int = 5,
    nesterov: bool = True,
    ns_coefficients: tuple[float, float, float] = NEWTON_SCHULZ,
    epsilon: float = 1e-7,
    adjust_lr_fn: str = "original",
) -> Optimiser:
    """Muon, for matrices: v ← μ v + (1−μ) dp, p ← (1 − η λ) p − η s O.

    O is (1−μ) dp + μ v, or v without `nesterov`, with its singular values brought near 1: divided by its
    norm, of at least ε, and by Newton-Schulz iterations X ← a X + (b XXᵀ + c (XXᵀ)²) X. For m inputs and n
    outputs, which `outputs_first` of a parameter distinguishes, s = √max(1, n/m), or with `adjust_lr_fn`
    "match_rms_adamw" 0.2 √max(n, m). Parameters that are not matrices are updated by `others`, by default
    AdamW of the same rate.

    Units:  η ≥ 0; 0 ≤ μ < 1; λ ≥ 0
    State:  `momentum_buffer` v, as in torch.optim.Muon, which iterates in bfloat16 however
    Raises: OptionError for values outside their range
    Source: Jordan et al. 2024, Muon: an optimizer for hidden layers; Liu et al. 2025 (arXiv:2502.16982)
    """
    check_ranges(learning_rate, weight_decay, epsilon, momentum=momentum)
    check_integer("the iterations of muon", iterations, 1)
    _check_choices(ns_coefficients, adjust_lr_fn)
    rest = adamw(learning_rate, weight_decay=weight_decay) if others is None else require_optimiser(others)

    def matrices(outputs_first: bool) -> Optimiser:
        def put(run: Run, v: Var, p: Any, dp: Var) -> tuple[Var, Var]:
            v = averaged(run, momentum, v, dp, "momentum")
            direction = averaged(run, momentum, v, dp, "momentum") if nesterov else v
            orthogonal = _orthogonal(direction, iterations, ns_coefficients, epsilon)
            scale = ADJUSTMENTS[adjust_lr_fn](*(p.shape if outputs_first else p.shape[::-1]))
            change = scaled(run.rate(learning_rate, p.dtype), orthogonal) * scale
            return v, shrunk(run, p, learning_rate, weight_decay) - change

        return Optimiser("muon", put, ("momentum_buffer",))

    return grouped(lambda parameter: matrices(parameter.outputs_first) if parameter.type.rank == 2 else rest)


def _check_choices(coefficients: Any, adjustment: Any) -> None:
    is_triple = isinstance(coefficients, (tuple, list)) and len(coefficients) == 3
    if not is_triple or not all(isinstance(c, (int, float)) and isfinite(c) for c in coefficients):
        raise OptionError(
            "ns_coefficients must be three numbers", f"it is {coefficients!r}", f"try {NEWTON_SCHULZ}"
        )
    require_one_of("adjust_lr_fn", adjustment, ADJUSTMENTS, "leave it out")


def _orthogonal(g: Var, iterations: int, coefficients: Sequence[float], epsilon: float) -> Var:
    """Orthogonalise g: singular values near 1."""
    a, b, c = coefficients
    rows, columns = g.shape
    norm = ops.sqrt(ops.sum(ops.square(g)))
    floor = Constant(NdArrayType((), g.dtype), epsilon)()
    x = g / ops.broadcast(ops.maximum(norm, floor), g.shape)
    x = ops.transpose(x) if rows > columns else x
    for _ in range(iterations):
        gram = x @ ops.transpose(x)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return ops.transpose(x) if rows > columns else x
