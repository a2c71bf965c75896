"""Integers beside floats between levels in ONNX Runtime: `python -m benchmarks.compiler.onnx_int8`.

A dense network, 64-32-10, with fake quantisation is printed as integers, and written by hand with
QuantizeLinear and DequantizeLinear of the same scales, which the runtime fuses. Prints how many levels of
1,000,000 results differ from those of float64, and the times of 1,000 rows on one thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

from catgrad import Dim, Dtype, NdArrayType, Task, build, emit, layers, mse, ops, sgd
from catgrad.initialisers import Filled
from catgrad.quantisation import quantise
from catgrad.terms.var import Var
from catgrad.types import Array

SIZES = (64, 32, 10)
GRIDS = ((0.031, 3), (0.047, -128), (0.083, 5))
"""The scale and the zero point of the inputs, and of the results of each layer."""
ROWS, TIMED, REPEATS = 100_000, 1000, 20

BATCH = Dim("batch")
Weights = tuple[Array, Array, Array]


def drawn() -> list[Weights]:
    """Return the levels, scales and biases of each layer."""
    rng = np.random.default_rng(0)
    return [
        (
            rng.integers(-127, 128, (n, m)).astype(np.int8),
            rng.uniform(0.001, 0.004, m).astype(np.float32),
            rng.normal(size=m).astype(np.float32),
        )
        for n, m in pairwise(SIZES)
    ]


def in_catgrad(weights: list[Weights]) -> Task:
    """Return the int8 model of the network with fake quantisation."""

    def forward(x: Var) -> Var:
        x = ops.fake_quantise(x, *GRIDS[0])
        for k, (levels, scales, biases) in enumerate(weights):
            w = layers.parameter(f"w{k}", NdArrayType(levels.shape), Filled(0.0))
            b = layers.parameter(f"b{k}", NdArrayType(biases.shape), Filled(0.0))
            x = x @ ops.fake_quantise(w, ops.array(scales), 0, 1) + ops.broadcast(b, (BATCH, SIZES[k + 1]))
            x = ops.fake_quantise(x if k else ops.relu(x), *GRIDS[k + 1])
        return x

    task = Task(build(forward, [NdArrayType((BATCH, SIZES[0]))]), sgd(0.1), mse)
    arrays = {f"w{k}": levels * scales for k, (levels, scales, _) in enumerate(weights)}
    arrays |= {f"b{k}": biases for k, (_, _, biases) in enumerate(weights)}
    return quantise(task, arrays, inputs=Dtype.int8, outputs=Dtype.int8)


def in_floats(weights: list[Weights]) -> ModelProto:
    """Return the network of ONNX with the same levels, and biases of int32 as its quantisers write them."""
    nodes, arrays = [], dict[str, Any]()

    def scaled(name: str, scale: Any, zero: Any) -> list[str]:
        arrays.update({f"{name}.scale": np.float32(scale), f"{name}.zero": zero})
        return [f"{name}.scale", f"{name}.zero"]

    def node(kind: str, inputs: list[str], output: str, **options: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **options))
        return output

    grids = [scaled(f"x{k}", scale, np.int8(zero)) for k, (scale, zero) in enumerate(GRIDS)]
    x = node("DequantizeLinear", ["x", *grids[0]], "x0")
    for k, (levels, scales, biases) in enumerate(weights):
        unit = np.float32(GRIDS[k][0]) * scales
        arrays |= {f"w{k}": levels, f"b{k}": np.rint(biases / unit).astype(np.int32)}
        named = {"w": (scales, np.zeros_like(levels[0])), "b": (unit, np.zeros(len(unit), np.int32))}
        w, b = (
            node(
                "DequantizeLinear", [f"{n}{k}", *scaled(f"{n}{k}", *pair)], f"{n}{k}.real", axis=int(n == "w")
            )
            for n, pair in named.items()
        )
        x = node("Gemm", [x, w, b], f"h{k}")
        x = node("QuantizeLinear", [x if k else node("Relu", [x], "relu"), *grids[k + 1]], f"q{k}")
        x = x if k else node("DequantizeLinear", [x, *grids[1]], "x1")
    ends = [helper.make_tensor_value_info(n, TensorProto.INT8, ["batch", s]) for n, s in (("x", 64), (x, 10))]
    initialisers = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "floats", ends[:1], ends[1:], initialisers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def exact(weights: list[Weights], x: Array) -> Array:
    """Return the levels of the network in float64, with ties up."""
    for k, (levels, scales, biases) in enumerate(weights):
        (before, zero), (after, offset) = ((float(np.float32(s)), z) for s, z in GRIDS[k : k + 2])
        h = (x.astype(float) - zero) @ levels.astype(float) * (before * scales.astype(float)) + biases
        x = np.clip(np.floor((h if k else np.maximum(h, 0)) / after + 0.5) + offset, -128, 127)
    return x


def seconds(session: Any, x: Array) -> float:
    """Return the least time of a prediction."""

    def times() -> Iterator[float]:
        for _ in range(REPEATS):
            begun = time.perf_counter()
            session.run(None, {"x": x})
            yield time.perf_counter() - begun

    return min(times())


def main() -> None:
    """Print what differs, and the times."""
    weights, options = drawn(), onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    printed = emit(in_catgrad(weights), "onnx", functions=("predict",)).files["predict.onnx"]
    models = {"integers": printed, "floats": in_floats(weights).SerializeToString()}
    sessions = {name: onnxruntime.InferenceSession(model, options) for name, model in models.items()}
    x = np.random.default_rng(1).integers(-128, 128, (ROWS, SIZES[0])).astype(np.int8)
    wanted = exact(weights, x)
    for name, session in sessions.items():
        [found] = session.run(None, {"x": x})
        count, size = np.count_nonzero(found != wanted), wanted.size
        print(
            f"{name}: {count:,} of {size:,} levels differ by up to {np.abs(found - wanted).max():.0f}, ",
            end="",
        )
        print(f"{1e3 * seconds(session, x[:TIMED]):.2f} ms for {TIMED:,} rows")


if __name__ == "__main__":
    main()
