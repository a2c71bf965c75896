"""JAX: the whole step under jit, with donated buffers."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, nn

from benchmarks.peers.jax_nets import IMAGES, NETS, NORMED
from benchmarks.peers.jax_nets.dense import Arrays, Output
from benchmarks.peers.worker import LOOPED, Case, Makers, Timed, serve

Tables = tuple[Arrays, Arrays, Arrays]
"""Parameters, buffers and the optimiser's state."""


def channels_last(images: np.ndarray) -> Array:
    """Convert images to the layout of XLA."""
    return jnp.moveaxis(jnp.asarray(images), 1, -1)


def filters_last(array: np.ndarray) -> Array:
    """Convert filters, which alone have more than two axes, to the layout of XLA."""
    return jnp.asarray(array.transpose(*range(2, array.ndim), 1, 0) if array.ndim > 2 else array)


def sgd(p: Arrays, s: Arrays, g: Arrays, rate: float, momentum: float = 0) -> tuple[Arrays, Arrays]:
    """Gradient descent, with momentum if asked for."""
    if not momentum:
        return {k: p[k] - rate * g[k] for k in p}, s
    moved = {k: momentum * s.get(k, 0) + g[k] for k in p}
    return {k: p[k] - rate * moved[k] for k in p}, moved


def adamw(p: Arrays, s: Arrays, g: Arrays, rate: float, weight_decay: float = 0) -> tuple[Arrays, Arrays]:
    """AdamW, and Adam without decay, with the constants that PyTorch takes by default."""
    count = s["count"] + 1
    first, second = 1 - 0.9**count, 1 - 0.999**count
    m = {k: 0.9 * s["m"][k] + 0.1 * g[k] for k in p}
    v = {k: 0.999 * s["v"][k] + 0.001 * g[k] * g[k] for k in p}

    def moved(k: str) -> Array:
        return (1 - rate * weight_decay) * p[k] - rate * (m[k] / first) / (jnp.sqrt(v[k] / second) + 1e-8)

    return {k: moved(k) for k in p}, {"count": count, "m": m, "v": v}


class Model:
    """The functions of a case, and its first arrays."""

    def __init__(self, case: Case) -> None:
        self.spec, numbers = case.spec, dict(case.spec["optimiser"])
        self.kind = numbers.pop("kind", "sgd")
        self.update = partial({"sgd": sgd, "adam": adamw, "adamw": adamw}[self.kind], **numbers)
        x = case.arrays["x"]
        self.x = channels_last(x) if self.spec["net"] in IMAGES else jnp.asarray(x)
        self.y = jnp.asarray(case.arrays["y"])
        self.arrays = {k: filters_last(array) for k, array in case.parameters.items()}

    def scores(self, p: Arrays, m: Arrays, x: Array, training: bool) -> Output:
        """Return the output and the new buffers."""
        modes = {"training": training} if self.spec["net"] in NORMED else {}
        return NETS[self.spec["net"]](p, m, x, **self.spec["sizes"], **modes)

    def loss(self, p: Arrays, m: Arrays, x: Array, y: Array) -> Output:
        """Return the loss in training and the new buffers."""
        scores, m = self.scores(p, m, x, training=True)
        if self.spec["loss"] == "mse":
            return ((scores - y) ** 2).mean(), m
        return -jnp.take_along_axis(nn.log_softmax(scores), y[..., None], -1).mean(), m

    def step(self, tables: Tables, x: Array, y: Array) -> tuple[Tables, Array]:
        """New arrays, and the loss before."""
        p, m, s = tables
        (loss, m), g = jax.value_and_grad(self.loss, has_aux=True)(p, m, x, y)
        p, s = self.update(p, s, g)
        return (p, m, s), loss

    def tables(self) -> Tables:
        """First values of the parameters, the buffers and the optimiser's state."""
        p = {k: jnp.array(array) for k, array in self.arrays.items()}
        norms = [k.removesuffix(".norm.bias") for k in p if k.endswith(".norm.bias")]
        m = {f"{k}.mean": jnp.zeros_like(p[f"{k}.norm.bias"]) for k in norms}
        m |= {f"{k}.variance": jnp.ones_like(p[f"{k}.norm.bias"]) for k in norms}
        zeros = {k: jnp.zeros_like(array) for k, array in p.items()}
        if self.kind != "sgd":
            return p, m, {"count": jnp.zeros(()), "m": zeros, "v": jax.tree.map(jnp.copy, zeros)}
        return p, m, zeros if "momentum" in self.spec["optimiser"] else {}


def stepping(case: Case, steps: int = 1) -> Timed:
    """One step by one call, or many over as many batches."""
    model = Model(case)
    tables, x, y = model.tables(), model.x, model.y
    function = model.step
    if steps > 1:
        x, y = (jnp.stack([array] * steps) for array in (x, y))

        def function(tables: Tables, x: Array, y: Array) -> tuple[Tables, Array]:
            return jax.lax.scan(lambda tables, batch: model.step(tables, *batch), tables, (x, y))

    compiled = jax.jit(function, donate_argnums=0)

    def call() -> Array:
        nonlocal tables
        tables, loss = compiled(tables, x, y)
        return loss.block_until_ready()

    return Timed(call, steps)


def predicting(case: Case) -> Timed:
    """Return the output."""
    model = Model(case)
    p, m, _ = model.tables()
    compiled = jax.jit(lambda p, m, x: model.scores(p, m, x, training=False)[0])
    return Timed(lambda: compiled(p, m, model.x).block_until_ready())


def makers(case: Case) -> Makers:
    """The measures of JAX."""
    return {
        "step": lambda: stepping(case),
        "loop": lambda: stepping(case, LOOPED),
        "predict": lambda: predicting(case),
    }


if __name__ == "__main__":
    serve(makers)
