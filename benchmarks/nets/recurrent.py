"""Recurrent networks: layers of LSTM or GRU, and scores at every time."""

from __future__ import annotations

from catgrad import NdArrayType, Term, layers
from catgrad.dims import Size
from catgrad.terms.term import compose


def recurrent(
    batch: Size, kind: str, steps: int, features: int, width: int, depth: int, classes: int
) -> Term:
    """Layers of one kind, `lstm` or `gru`, and a linear map of their states."""
    places, state = NdArrayType((batch, steps)), NdArrayType((width,))
    sources = [NdArrayType((features,)), *(state,) * (depth - 1)]
    stack = [getattr(layers, kind)(places, x, state, f"layer_{k}") for k, x in enumerate(sources)]
    return compose(*stack, layers.dense(places, state, NdArrayType((classes,)), layers.identity, "scores"))
