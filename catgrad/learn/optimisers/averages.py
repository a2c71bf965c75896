"""Exponential moving averages of weights: models are trained at the weights, and evaluated at the average.

Source: Polyak and Juditsky 1992, Acceleration of stochastic approximation by averaging
"""

from __future__ import annotations

from dataclasses import replace

from catgrad import ops
from catgrad.learn.optimiser import Optimiser, Run, require_optimiser, scaled
from catgrad.learn.options import check_integer, fraction
from catgrad.learn.schedules import Momentum, Schedule
from catgrad.terms.structural import Constant, Label
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType


def ema(optimiser: Optimiser, decay: Momentum = 0.999, begin: int = 0) -> Optimiser:
    """The optimiser of weights w whose moving average is the parameter: p ← p + (1 − β) (w − p).

    Gradients are those at w = p + ℓ, which the optimiser updates; whatever else reads the parameter, such as
    `predict`, validation and files of weights, reads the average. Up to step `begin`, p ← w; with -1, never.
    β is `decay`, or a schedule of the step t: t / (t + 1) averages all weights equally (SWA), and
    1 − (1 + t)^(−2/3), up to a bound, forgets the first weights sooner.

    Units:  0 ≤ β < 1, begin ≥ -1
    State:  that of the optimiser, of w; `lead`, ℓ = w − p
    Raises: OptionError for a decay outside its range, or a begin that is no integer of at least -1
    Source: Izmailov et al. 2018 (arXiv:1803.05407), algorithm 1; Tarvainen and Valpola 2017
            (arXiv:1703.01780), equation 1
    """
    check_integer("the begin of ema", begin, -1)
    if require_optimiser(optimiser).is_constant:
        return optimiser
    beta = decay if isinstance(decay, Schedule) else fraction("decay", decay)

    def get(lead: Var, *state_p: Var) -> Var:
        *state, p = state_p
        return optimiser.get(*state, Label("trained")(p + lead))

    def put(run: Run, lead: Var, *state_p_dp: Var) -> tuple[Var, ...]:
        *state, p, dp = state_p_dp
        *state, w = optimiser.put(run, *state, Label("trained")(p + lead), dp)
        new = p + scaled(_share(run, beta, begin, p.dtype), w - p)
        return w - new, *state, new

    choose = optimiser.choose
    return replace(
        optimiser,
        name=f"averaged {optimiser.name}",
        put=put,
        get=get,
        state=("lead", *optimiser.state),
        choose=None if choose is None else lambda parameter: ema(choose(parameter), decay, begin),
        settings={**optimiser.settings, "decay": decay, "begin": begin},
    )


def _share(run: Run, beta: Momentum, begin: int, dtype: Dtype) -> Var:
    """Compute 1 − β, or 1 up to step `begin`."""

    def share() -> Var:
        one = Constant(NdArrayType((), Dtype.float64), 1)()
        later = one - run.setting("decay", beta, Dtype.float64)
        return later if begin < 0 else ops.select(run.count() <= begin + 1, one, later)

    return run.number("share", ("ema", beta, begin), dtype, share)
