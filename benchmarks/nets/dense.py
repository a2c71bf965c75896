"""Perceptrons, and a recommender: embedding tables before a perceptron."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad import Dtype, NdArrayType, Term, build, layers, ops
from catgrad.dims import Size
from catgrad.terms.term import compose
from catgrad.terms.var import Var


def perceptron(batch: Size, widths: Sequence[int], activation: str, last: str) -> Term:
    """Dense layers with an activation after each."""
    N, sizes = NdArrayType((batch,)), [NdArrayType((width,)) for width in widths]
    outer = [activation] * (len(widths) - 2) + [last]
    every = [
        layers.dense(N, a, b, getattr(layers, name), f"dense_{k}")
        for k, (a, b, name) in enumerate(zip(sizes[:-1], sizes[1:], outer, strict=True))
    ]
    return compose(*every)


def recommender(batch: Size, fields: int, vocabulary: int, width: int, widths: Sequence[int]) -> Term:
    """A table of rows for each field, and a perceptron of the rows that x selects."""
    features = NdArrayType((width,))
    tables = [
        layers.embedding(NdArrayType((batch, 1), Dtype.int64), vocabulary, features, f"table_{k}")
        for k in range(fields)
    ]

    def embedded(x: Var) -> Var:
        columns = ops.split(x, (1,) * fields, 1)
        rows = [table(column) for table, column in zip(tables, columns, strict=True)]
        return ops.reshape(ops.concat(rows, 1), batch, fields * width)

    scores = perceptron(batch, (fields * width, *widths), "relu", "identity")
    return build(embedded, [NdArrayType((batch, fields), Dtype.int64)]) >> scores
