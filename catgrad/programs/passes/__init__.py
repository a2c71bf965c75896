"""Passes: each has a `name` and `apply(function) -> function`, and preserves the meaning of functions."""

from catgrad.programs.passes import erase_barriers
from catgrad.programs.passes.pipeline import PIPELINE, Pass, optimise

__all__ = ["PIPELINE", "Pass", "erase_barriers", "optimise"]
