"""Models with mistakes, for the command line to report."""

from __future__ import annotations

from catgrad import Dtype, NdArrayType, Task, Term, layers, mse, sgd

A, B, C = NdArrayType((5,)), NdArrayType((4,)), NdArrayType((3,))


def shapes() -> Task:
    return Task(layers.linear(A, B, C) >> layers.linear(A, B, C), sgd(0.1), mse)


def dtypes() -> Task:
    return Task(layers.linear(A, B, NdArrayType((3,), Dtype.float64)), sgd(0.1), mse)


def model() -> Term:
    return layers.linear(A, B, C)


def raises() -> Task:
    return 1 / 0
