"""Models with mistakes, for the command line to report."""

from __future__ import annotations

import sys

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


def exits() -> Task:
    sys.exit("bye\n\tnow")


def ends() -> Task:
    sys.exit(0)


def interrupts() -> Task:
    raise KeyboardInterrupt


def lines() -> Task:
    raise ValueError("first\nsecond \x1b[31m\u202e")


def mute() -> Task:
    raise Mute


class Mute(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def loss() -> Task:
    return Task(model(), sgd(0.1), lambda y_hat, y: y_hat["mean"])


def large() -> Task:
    return Task(layers.linear(NdArrayType(()), NdArrayType((2**32,)), NdArrayType((2**31,))), sgd(0.1), mse)
