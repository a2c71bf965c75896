"""Structure-preserving maps of terms: each says what happens to one operation, the rest follows."""

from catgrad.functors.expand import Expand
from catgrad.functors.parameters import factor_parameters, prefixed
from catgrad.functors.reverse import Reverse, reverse, reverse_derivative
from catgrad.functors.substitute import substitute

__all__ = [
    "Expand", "Reverse", "factor_parameters", "prefixed", "reverse", "reverse_derivative",
    "substitute",
]  # fmt: skip
