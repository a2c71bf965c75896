"""Playgrounds: one page for a model, with its diagram, its emitted sources and training in the browser."""

from catgrad.playground.page import TARGETS, page, write
from catgrad.playground.samples import Samples, View

__all__ = ["TARGETS", "Samples", "View", "page", "write"]
