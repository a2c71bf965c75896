"""Products of bytes in emitted C beside those of floats and ONNX Runtime's: `python -m benchmarks.c.bytes`.

All compute in turns, in one process and one thread, for 40 rounds; figures are the medians of processor time.
Convolutions have 3 × 3 elements.
"""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import onnx
import onnxruntime
import typer
from catgrad.backends.c.machine import PACKING
from onnx import TensorProto, helper
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import records
from benchmarks.c.kernels import library, pointer
from benchmarks.c.products import in_turns
from benchmarks.harness import processor, results_of

PRODUCTS = "64×128×784 128×784×128 256×256×256 512×512×512 1024×1024×1024 16×512×128 8×1024×1024 128×10×128"
CONVOLUTIONS = "64×64×32 64×64×8 32×16×32 128×128×16"
"""Filters, channels and side of the image."""

BYTES, FLOATS, ORT = "int8", "float32", "ONNX Runtime"
LEAST_MULTIPLICATIONS = 2e7
SCRATCH = 2 * 131072


@dataclass(frozen=True)
class Row:
    """Median seconds of a product or convolution by all."""

    what: str
    multiplications: int
    median: dict[str, float]

    def line(self) -> list[str]:
        """Format multiplications a second, and how much faster bytes are."""
        times = self.median
        rates = [f"{1e-9 * self.multiplications / times[name]:.0f}" for name in times]
        rates += ["–"] * (3 - len(rates))
        return [self.what, *rates, *(f"{times[name] / times[BYTES]:.2f}" for name in times if name != BYTES)]


def operands(dtype: type, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Return random bytes in another dtype."""
    rng = np.random.default_rng(0)
    return [rng.integers(-128, 128, shape).astype(dtype) for shape in shapes]


def peer(m: int, n: int, k: int) -> Callable[[], Any]:
    """Return ONNX Runtime's product of unsigned and signed bytes, the second constant, as it packs that."""
    a, b = operands(np.uint8, (m, k))[0], operands(np.int8, (k, n))[0]
    weight = helper.make_tensor("b", TensorProto.INT8, b.shape, b.tobytes(), raw=True)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["c"])], "product",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape)],
        [helper.make_tensor_value_info("c", TensorProto.INT32, (m, n))], [weight],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return lambda: session.run(None, {"a": a})


def own(
    function: Callable[..., Any], dtype: type, shapes: list[tuple[int, ...]], *sizes: Any
) -> tuple[Callable[[], Any], np.ndarray]:
    """Return a function of the runtime, and its result; sums of bytes have 32 bits."""
    a, b = operands(dtype, *shapes[:2])
    c = np.empty(shapes[2], np.int32 if dtype is np.int8 else dtype)
    room = np.empty(SCRATCH + 16, np.float32)
    packed = room[-room.ctypes.data % 64 // 4 :]
    arrays = [a, b, c, packed]  # kept alive by the function
    call = partial(function, *sizes, *map(pointer, arrays))
    call.__dict__["arrays"] = arrays
    return call, c


def measured(
    what: str,
    multiplications: int,
    functions: dict[type, Callable[..., Any]],
    shapes: list[tuple[int, ...]],
    *sizes: Any,
    others: dict[str, Callable[[], Any]],
) -> Row:
    """Measure bytes, floats and others. Raises: AssertionError if sums of bytes and floats are not near"""
    times = max(1, int(LEAST_MULTIPLICATIONS / multiplications))
    bytes, floats = (own(f, dtype, shapes, times, *sizes) for dtype, f in functions.items())

    def repeated(function: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: [function() for _ in range(times)]

    every = {BYTES: bytes[0], FLOATS: floats[0]} | {n: repeated(f) for n, f in others.items()}
    taken = in_turns(every)
    np.testing.assert_allclose(bytes[1], floats[1], rtol=1e-2, atol=2e3)
    return Row(what, multiplications, {n: statistics.median(t) / times for n, t in taken.items()})


def rows(code: ctypes.CDLL, only: str) -> list[Row]:
    """Measure all whose name has a text."""
    found = []
    products = {np.int8: code.products_i8, np.float32: code.products_f32}
    convolutions = {np.int8: code.convolutions_i8, np.float32: code.convolutions_f32}
    for text in PRODUCTS.split():
        for layout in "NT":
            if only in f"{text} N{layout}":
                m, n, k = map(int, text.split("×"))
                sizes = *map(ctypes.c_ssize_t, (m, n, k)), ctypes.c_bool(layout == "N")
                others = {ORT: peer(m, n, k)} if layout == "N" else {}
                shapes = [(m, k), (k, n), (m, n)]
                found.append(
                    measured(f"{text} N{layout}", m * n * k, products, shapes, *sizes, others=others)
                )
    for text in CONVOLUTIONS.split():
        if only in f"{text} convolution":
            m, channels, side = map(int, text.split("×"))
            shapes = [(m, 9 * channels), (channels, side + 2, side + 2), (m, side, side)]
            sizes = (*map(ctypes.c_ssize_t, (m, channels, side)),)
            work = m * 9 * channels * side * side
            found.append(measured(f"{text} convolution", work, convolutions, shapes, *sizes, others={}))
    return found


def main(
    only: Annotated[str, typer.Option(help="measure those whose name has this text")] = "",
    keep: Annotated[
        bool, typer.Option(help="write the file of the processor in benchmarks/results/bytes")
    ] = False,
    flags: Annotated[str, typer.Option(help="more flags of the compiler, as -mno-avx512f")] = "",
) -> None:
    """Measure products, print a table, and keep its figures."""
    used = {"gemm_i8", "gemm_f32", "gemm_nested_i8", "gemm_nested_f32"}
    found = rows(library("bytes", *flags.split(), used=used, packing=PACKING), only.replace("x", "×"))
    table = Table(
        "product", BYTES, FLOATS, ORT, "beside float32", "beside ONNX Runtime", box=box.SIMPLE_HEAD,
        title=f"Thousand millions of multiplications a second, one thread of {processor()}",
    )  # fmt: skip
    for row in found:
        table.add_row(*row.line())
    Console(width=130).print(table)
    if keep:
        described = {"command": "python -m benchmarks.c.bytes --keep", "processor": processor()}
        peers = [f"onnxruntime=={onnxruntime.__version__}"]
        figures = {**described, "peers": peers, "rows": [asdict(row) for row in found]}
        records.keep(results_of("bytes", processor()), figures)


if __name__ == "__main__":
    typer.run(main)
