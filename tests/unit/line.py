"""A linear model with a buffer and momentum, emitted as C."""

from __future__ import annotations

from typing import Any

from catgrad import Dim, Dtype, NdArrayType, Task, build, emit, mse, ops, sgd
from catgrad.backend import Artifact
from catgrad.initialisers import Uniform
from catgrad.learn.layers.parts import buffer, parameter, update
from catgrad.terms.op import scope

W, B, COUNT = NdArrayType((4, 3)), NdArrayType((3,)), NdArrayType((), Dtype.int64)


def line(batch: Any = Dim("batch"), name: str = "line") -> Task:
    def forward(x):
        weight, shift = parameter("weight", W, Uniform(-0.5, 0.5)), parameter("bias", B)
        update("seen", buffer("seen", COUNT) + 1)
        return x @ weight + ops.broadcast(shift, (batch, 3))

    with scope("dense"):
        model = build(forward, [NdArrayType((batch, 4))])
    return Task(model, sgd(0.1, momentum=0.9), mse, name)


def emitted(task: Task | None = None, **options: Any) -> Artifact:
    return emit(task or line(), "c", **options)
