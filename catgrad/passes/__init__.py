"""Passes: each has a `name` and `apply(function) -> function`, and keeps the function's meaning."""

from catgrad.passes import erase_barriers
from catgrad.passes.pipeline import PIPELINE, Pass, optimise

__all__ = ["PIPELINE", "Pass", "erase_barriers", "optimise"]
