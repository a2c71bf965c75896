"""Passes: each has a `name` and `apply(function) -> function`, and keeps the function's meaning."""

from catgrad.programs.passes import erase_barriers
from catgrad.programs.passes.pipeline import PIPELINE, Pass, optimise

__all__ = ["PIPELINE", "Pass", "erase_barriers", "optimise"]
