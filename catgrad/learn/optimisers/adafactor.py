"""Adafactor: the mean squares of a matrix's gradients as a product of those of its rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, prod

from catgrad import ops
from catgrad.errors import OptionError
from catgrad.learn.optimiser import Optimiser, Run, StateArray, scaled, sum_of_squares
from catgrad.learn.optimisers.updates import at_least, at_most, check_ranges, optimiser, shrunk, with_settings
from catgrad.learn.options import number
from catgrad.learn.schedules import Rate
from catgrad.ops.shape import Shape
from catgrad.terms.var import Var
from catgrad.types import Dtype


@with_settings
def adafactor(
    learning_rate: Rate = 1e-2,
    beta2_decay: float = -0.8,
    epsilon1: float | None = None,
    epsilon2: float = 1e-3,
    d: float = 1.0,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> Optimiser:
    """Adafactor: p ← (1 − η λ) p − α u / max(1, rms(u) / d), with u = g / √max(v, ε₁²) and g = dp.

    α = min(η, 1/√t) max(ε₂, rms(p)). v ← (1−w) v + w g² with w = t^`beta2_decay`, for vectors; for arrays
    of more axes, v = R C / max(mean(R), ε₁), with such averages R and C of the means of g² over the
    last axis and over the one before. ε₁ is by default the machine epsilon of the dtype. With `maximize`,
    g = −dp.

    Units:  η ≥ 0; `beta2_decay` ≤ 0; ε ≥ 0; d ≥ 1; λ ≥ 0
    State:  `step` t; `row_var` R and `col_var` C, or `variance` v, as in torch.optim.Adafactor
    Raises: OptionError for values outside their range
    Source: Shazeer and Stern 2018 (arXiv:1804.04235), algorithms 4 and 5
    """
    check_ranges(learning_rate, weight_decay, epsilon2)
    number("the bound d of adafactor", d, 1.0)
    if epsilon1 is not None:
        number("epsilon1", epsilon1)
    if not (isinstance(beta2_decay, (int, float)) and -inf < beta2_decay <= 0):
        raise OptionError("beta2_decay must be a number of at most 0", f"it is {beta2_decay!r}", "try -0.8")

    def put(run: Run, *state_p_dp: Var) -> tuple[Var, ...]:
        *state, p, dp = state_p_dp
        least = float(p.dtype.limits.eps) if epsilon1 is None else float(epsilon1)
        weight = run.number("weight", beta2_decay, p.dtype, lambda: run.count() ** beta2_decay)
        means = means_of(ops.square(dp))
        state = [old + scaled(weight, new - old) for old, new in zip(state, means, strict=True)]
        update = dp / ops.sqrt(at_least(estimate(state, p.shape, least), least * least))
        scale = at_least(rms(p), epsilon2) / at_least(rms(update) / d, 1.0)
        step_size = run.number("step_size", ("adafactor", learning_rate), scale.dtype, lambda: rate(run))
        alpha = ops.cast(step_size * scale, p.dtype)
        return *state, shrunk(run, p, learning_rate, weight_decay) - scaled(alpha, update)

    def rate(run: Run) -> Var:
        return at_most(1 / ops.sqrt(run.count()), run.rate(learning_rate, Dtype.float64))

    return factored(optimiser("adafactor", put, ("variance",), maximize), "row_var", "col_var")


def factored(vectors: Optimiser, rows: str, columns: str) -> Optimiser:
    """Return an optimiser that keeps, of parameters with more than one axis, means over the last two."""
    column = StateArray(rows, type=lambda p: p.with_shape((*p.shape[:-1], 1)))
    row = StateArray(columns, type=lambda p: p.with_shape((*p.shape[:-2], 1, p.shape[-1])))
    matrices = replace(vectors, state=(column, row))
    return replace(vectors, choose=lambda parameter: matrices if parameter.type.rank > 1 else vectors)


def means_of(squares: Var) -> tuple[Var, ...]:
    """Compute the means over the last axis, and over the one before; of a vector return its elements."""
    if squares.type.rank < 2:
        return (squares,)
    return ops.expand_dims(ops.mean(squares, -1), -1), ops.expand_dims(ops.mean(squares, -2), -2)


def estimate(state: Sequence[Var], shape: Shape, epsilon: float) -> Var:
    """Compute v: R C / max(mean(R), ε), or the average of a vector as it is."""
    if len(state) == 1:
        return state[0]
    last = len(shape) - 1
    rows, columns = ops.squeeze(state[0], -1), ops.squeeze(state[1], -2)
    mean = at_least(ops.mean(rows, -1), epsilon)
    by_row, by_column = ops.broadcast(rows, shape, (last,)), ops.broadcast(columns, shape, (last - 1,))
    return by_row * by_column / ops.broadcast(mean, shape, (last - 1, last))


def rms(x: Var) -> Var:
    """Compute the root of the mean of squares."""
    return ops.sqrt(sum_of_squares(x) / prod(x.shape))
