"""Passes: each has a `name` and `apply(function) -> function`, and keeps the function's meaning."""

from catgrad.passes.pipeline import PIPELINE, Pass, optimise

__all__ = ["PIPELINE", "Pass", "optimise"]
