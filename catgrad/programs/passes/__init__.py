"""Passes: each has a `name` and `apply(function) -> function`, and preserves the meaning of functions."""

from catgrad.programs.passes.erase_barriers import erase_barriers
from catgrad.programs.passes.pipeline import PIPELINE, optimise
from catgrad.programs.passes.rewrite import Pass

__all__ = ["PIPELINE", "Pass", "erase_barriers", "optimise"]
