"""Structure-preserving maps of terms: each says what happens to one operation, the rest follows."""

from catgrad.functors.expand import expand
from catgrad.functors.parameters import Slot, factor_parameters, prefixed
from catgrad.functors.reverse import reverse, reverse_derivative
from catgrad.functors.substitute import substitute

__all__ = [
    "Slot", "expand", "factor_parameters", "prefixed", "reverse", "reverse_derivative", "substitute",
]  # fmt: skip
