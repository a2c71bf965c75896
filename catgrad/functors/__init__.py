"""Functors: structure-preserving maps of terms, defined by the image of each operation."""

from catgrad.functors.evaluation import evaluation
from catgrad.functors.expand import Expand
from catgrad.functors.factor import factor_buffers, factor_run_numbers
from catgrad.functors.mixed import MixedPrecision
from catgrad.functors.parameters import factor_parameters, prefixed
from catgrad.functors.reverse import Reverse, reverse, reverse_derivative
from catgrad.functors.roll import roll
from catgrad.functors.rows import DrawsByRow
from catgrad.terms.term import substitute

__all__ = [
    "DrawsByRow", "Expand", "MixedPrecision", "Reverse", "evaluation", "factor_buffers", "factor_parameters",
    "factor_run_numbers", "prefixed", "reverse", "reverse_derivative", "roll", "substitute",
]  # fmt: skip
