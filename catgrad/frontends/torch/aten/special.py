"""Special functions: error functions, the gamma function's logarithm, Bessel functions."""

from __future__ import annotations

from math import log, pi

from catgrad import ops
from catgrad.frontends.torch.aten.operands import as_floating, of_floating
from catgrad.frontends.torch.registry import aten
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var

of_floating({
    "digamma": ops.digamma, "erfc": ops.erfc, "erfinv": ops.erfinv, "i0": ops.bessel_i0,
    "lgamma": ops.log_gamma,
    "special_erfcx": ops.erfcx, "special_i0e": ops.bessel_i0e, "special_i1": ops.bessel_i1,
    "special_i1e": ops.bessel_i1e, "special_modified_bessel_i0": ops.bessel_i0,
    "special_modified_bessel_i1": ops.bessel_i1, "special_ndtri": ops.normal_quantile,
    "special_ndtr": lambda x: 0.5 * ops.erfc(x * -(0.5**0.5)),
})  # fmt: skip


aten("polygamma.default")(lambda n, x: ops.polygamma(n, as_floating(x)))


@aten("mvlgamma.default")
def multivariate_log_gamma(x: Var, p: int) -> Var:
    """Multivariate log-gamma function: p (p - 1) / 4 · ln π + Σ ln Γ(x - j/2) over j < p."""
    x = as_floating(x)
    total = ops.log_gamma(x)
    for j in range(1, p):
        total = total + ops.log_gamma(x - j / 2)
    return total + p * (p - 1) / 4 * log(pi)


@aten("special_log_ndtr.default")
def log_of_normal(x: Var) -> Var:
    """Logarithm of the normal distribution function, exact in the lower tail."""
    x = as_floating(x)
    t = x * (0.5**0.5)
    # Each branch gets an argument in its domain, so that neither gradient is NaN.
    is_low, zero = t < -1, zeros_like(t)
    below, above = ops.select(is_low, t, zero), ops.select(is_low, zero, t)
    tail = ops.log(0.5 * ops.erfcx(-below)) - below * below
    return ops.select(is_low, tail, ops.log1p(-0.5 * ops.erfc(above)))
