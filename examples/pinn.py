"""Burgers' equation: a network that solves it, trained on nothing but the equation.

    python -m catgrad.examples.pinn --target c --plot burgers.png

Prints the emitted training step, trains on emitted code only, and prints the largest distance from the exact
solution. The loss is the square of u_t + u u_x - ν u_xx at random points, whose derivatives are operations of
the model, so that the training step has derivatives of the third order.
Source: Raissi, Perdikaris and Karniadakis 2019 (J. Comput. Phys. 378), section 2.3
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import typer

from catgrad import Dim, NdArrayType, Task, build, emit, fit, layers, ops, optimisers

from .options import BatchSize, Plot, Seed, Steps, Target, run
from .source import training_step

VISCOSITY = 0.05
BATCH = NdArrayType((Dim("batch"),))
POINT, HIDDEN, ONE = NdArrayType((2,)), NdArrayType((24,)), NdArrayType((1,))

Field = Callable[[Any, Any], Any]
"""A function of columns x and t."""


def network() -> Any:
    """Return a network of three hidden layers, from points (x, t)."""
    return layers.sequential(
        layers.dense(BATCH, POINT, HIDDEN, layers.tanh),
        layers.dense(BATCH, HIDDEN, HIDDEN, layers.tanh),
        layers.dense(BATCH, HIDDEN, HIDDEN, layers.tanh),
        layers.dense(BATCH, HIDDEN, ONE, layers.identity),
    )


def solution(net: Any) -> Field:
    """Return u(x, t), which is -sin(π x) at t = 0 and 0 at x = ±1, whatever the network computes."""

    def u(x: Any, t: Any) -> Any:
        return t * (1 - x * x) * net(ops.concat([x, t], 1)) - ops.sin(math.pi * x)

    return u


def residual(points: Any) -> Any:
    """Return u_t + u u_x - ν u_xx at points, which is 0 where u solves Burgers' equation."""
    x, t = ops.split(points, [1, 1], 1)
    u = solution(layers.shared(network()))

    def along(field: Field, axis: int) -> Field:
        return ops.grad(lambda x, t: ops.sum(field(x, t)), axis)  # points do not depend on one another

    u_x = along(u, 0)
    return along(u, 1)(x, t) + u(x, t) * u_x(x, t) - VISCOSITY * along(u_x, 0)(x, t)


def burgers() -> Task:
    """Return the residual as what is trained, and the solution as what is predicted."""
    points = [BATCH + POINT]
    predict = build(lambda p: solution(network())(*ops.split(p, [1, 1], 1)), points)
    return Task(
        build(residual, points),
        optimisers.adam(2e-3),
        lambda r: ops.mean(r * r),
        "burgers",
        labels=(),
        inference=predict,
    )


def points(count: int, size: int, seed: int) -> Iterator[tuple[np.ndarray]]:
    """Yield batches of random points (x, t), from x = -1 to 1 and t = 0 to 1."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield (rng.uniform([-1, 0], [1, 1], (size, 2)).astype(np.float32),)


def exact(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the exact solution, by the transform of Cole and Hopf and a quadrature of Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite.hermgauss(100)
    places = x[..., None] - np.sqrt(4 * VISCOSITY * t[..., None]) * nodes
    weights = weights * np.exp(-np.cos(np.pi * places) / (2 * np.pi * VISCOSITY))
    return -(np.sin(np.pi * places) * weights).sum(-1) / weights.sum(-1)


def main(
    target: Target = "numpy",
    steps: Steps = 5000,
    seed: Seed = 0,
    batch_size: BatchSize = 256,
    plot: Plot = None,
) -> None:
    """Solve Burgers' equation by a physics-informed network, on emitted source only."""
    artifact = emit(burgers(), target)
    typer.echo(training_step(artifact.source))
    learner = artifact.load()().learner(seed)
    history = fit(learner, points(steps, batch_size, seed), steps=steps)
    x, t = np.meshgrid(np.linspace(-1, 1, 201), np.linspace(0, 1, 101))
    grid = np.stack([x, t], -1).reshape(-1, 2).astype(np.float32)
    found, wanted = np.asarray(learner.predict(grid)).reshape(x.shape), exact(x, t)
    typer.echo(f"largest distance from the exact solution: {np.abs(found - wanted).max():.3f}")
    if plot is not None:
        from .plots import losses_and_profiles

        moments = {f"t = {t[k, 0]:.2f}": (found[k], wanted[k]) for k in (0, 50, 100)}
        losses_and_profiles(plot, history.losses, x[0], moments)
        typer.echo(f"plot: {plot}")


if __name__ == "__main__":
    run(main)
