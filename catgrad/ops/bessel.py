"""Modified Bessel functions of the first kind, of the orders 0 and 1, scaled so that they do not overflow."""

from __future__ import annotations

from typing import Any

from catgrad.ops.arithmetic import absolute, sign
from catgrad.ops.compare import select
from catgrad.ops.polynomial import chebyshev
from catgrad.ops.scalar import SpecialMap
from catgrad.ops.transcendental import exp, rsqrt
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Array

__all__ = ["bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e"]

I0_SMALL = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07,
    6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10,
    9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13,
    7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16,
    3.3307945188222384e-17, -4.4153416464793395e-18,
)  # fmt: skip
"""Chebyshev series of e⁻ˣ I₀(x) in x/4 - 1, for 0 ≤ x ≤ 8."""
I0_LARGE = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
    7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
    -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
    -2.8276239805165836e-16, 3.461222867697461e-17, 4.465621420296759e-17, -4.830504485944184e-18,
    -7.233180487874729e-18,
)  # fmt: skip
"""Chebyshev series of √x e⁻ˣ I₀(x) in 16/x - 1, for x ≥ 8."""
I1_SMALL = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499,
    0.024726449030626516, -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532,
    0.0005122859561685758, -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05,
    3.4702513081376785e-06, -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08,
    9.381537386495773e-09, -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11,
    1.1736186298890901e-11, -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14,
    7.600684294735408e-15, -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17,
    2.7779141127610464e-18,
)  # fmt: skip
"""Chebyshev series of e⁻ˣ I₁(x) / x in x/4 - 1, for 0 ≤ x ≤ 8."""
I1_LARGE = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16, -3.2095259219934244e-17, -4.650305368489358e-17, 4.41434832307171e-18,
    7.51729631084208e-18,
)  # fmt: skip
"""Chebyshev series of √x e⁻ˣ I₁(x) in 16/x - 1, for x ≥ 8."""


class BesselI0e(SpecialMap):
    """Scaled modified Bessel function of order 0: y = e^(-|x|) I₀(x), for floating T.

    Type:     (T) -> T, with 0 ≤ y ≤ 1
    Gradient: dx = dy · (e^(-|x|) I₁(x) - y · sign x)
    Source:   the intervals of Cephes, i0.c
    """

    domain = (-12.0, 12.0)

    def ref(self, x: Array) -> Any:
        from scipy.special import i0e  # takes longer to import than catgrad does

        return i0e(x)

    def body(self, x: Var) -> Var:
        a = absolute(x)
        large = chebyshev(_place(a), I0_LARGE) * rsqrt(a)
        return select(a <= 8, chebyshev(a * 0.25 - 1, I0_SMALL), large)

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * (BesselI1e()(x) - self(x) * sign(x))


class BesselI1e(SpecialMap):
    """Scaled modified Bessel function of order 1: y = e^(-|x|) I₁(x), for floating T.

    Type:     (T) -> T, with -1 ≤ y ≤ 1
    Gradient: dx = dy · (e^(-|x|) I₀(x) - y · (sign x + 1/x)), and dy / 2 at 0
    Source:   the intervals of Cephes, i1.c
    """

    domain = (-12.0, 12.0)

    def ref(self, x: Array) -> Any:
        from scipy.special import i1e

        return i1e(x)

    def body(self, x: Var) -> Var:
        a = absolute(x)
        large = sign(x) * (chebyshev(_place(a), I1_LARGE) * rsqrt(a))
        return select(a <= 8, x * chebyshev(a * 0.25 - 1, I1_SMALL), large)

    def rev(self, x: Var, dy: Var) -> Var:
        one = Constant(x.type, 1)()
        per_x = select(x == 0, 0.5 * one, self(x) / select(x == 0, one, x))
        return dy * (BesselI0e()(x) - self(x) * sign(x) - per_x)


def _place(x: Var) -> Var:
    """Return the place of x ≥ 8 in the interval of a Chebyshev series."""
    return 16 / x - 1


bessel_i0e, bessel_i1e = BesselI0e(), BesselI1e()


def bessel_i0(x: Var) -> Var:
    """Return I₀(x), the modified Bessel function of order 0."""
    return bessel_i0e(x) * exp(absolute(x))


def bessel_i1(x: Var) -> Var:
    """Return I₁(x), the modified Bessel function of order 1."""
    return bessel_i1e(x) * exp(absolute(x))
