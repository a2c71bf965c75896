"""Products of bytes in emitted C beside those of floats and ONNX Runtime's: `python -m benchmarks.c.bytes`.

All compute in turns, in one process and one thread, for 40 rounds; figures are of the best round and of the
median. Convolutions have 3 × 3 elements.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import onnx
import onnxruntime
import typer
from catgrad.backends.c.machine import PACKING
from onnx import TensorProto, helper
from rich.console import Console

from benchmarks import records, tables
from benchmarks.c.kernels import library
from benchmarks.c.operands import operands, own, packed_before
from benchmarks.c.rounds import OURS, beside, rate, rounds_of, row_of
from benchmarks.harness import processor
from benchmarks.options import Flags, Keep, Only, is_chosen
from benchmarks.records import Row

COMMAND = "python -m benchmarks.c.bytes"
PRODUCTS = (
    "1×128×784 1×1024×1024 1×10×128 64×128×784 128×784×128 256×256×256 512×512×512 1024×1024×1024 16×512×128 "
    "8×1024×1024 128×10×128"
)
CONVOLUTIONS = "64×64×32 64×64×8 32×16×32 128×128×16"
"""Filters, channels and side of the image."""

PACKED, FLOATS, ORT = f"{OURS} packed before", f"{OURS}, float32", "ONNX Runtime"
Packed = Callable[..., tuple[Callable[[], object], np.ndarray]]
LEAST_MULTIPLICATIONS = 2e7


def peer(m: int, n: int, k: int) -> Callable[[], object]:
    """Return ONNX Runtime's product of unsigned and signed bytes, the second constant, as it packs that."""
    a, b = operands(np.uint8, (m, k))[0], operands(np.int8, (k, n))[0]
    weight = helper.make_tensor("b", TensorProto.INT8, b.shape, b.tobytes(), raw=True)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["c"])],
        "product",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape)],
        [helper.make_tensor_value_info("c", TensorProto.INT32, (m, n))],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return lambda: session.run(None, {"a": a})


def measured(
    what: str,
    multiplications: int,
    functions: Mapping[type[object], Callable[..., object]],
    shapes: list[tuple[int, ...]],
    *sizes: object,
    others: dict[str, Callable[[], object]],
    packed: Packed | None = None,
) -> Row:
    """Measure bytes, floats and others. Raises: AssertionError if sums of bytes and floats are not near"""
    times = max(1, int(LEAST_MULTIPLICATIONS / multiplications))
    bytes, floats = (own(f, dtype, shapes, times, *sizes) for dtype, f in functions.items())
    prepared = {PACKED: packed(shapes, times, *sizes)} if packed else {}

    def repeated(function: Callable[[], object]) -> Callable[[], object]:
        return lambda: [function() for _ in range(times)]

    every = {OURS: bytes[0], **{name: call for name, (call, _) in prepared.items()}, FLOATS: floats[0]}
    taken = rounds_of(every | {name: repeated(function) for name, function in others.items()})
    for _, result in prepared.values():
        np.testing.assert_array_equal(result, bytes[1])
    np.testing.assert_allclose(bytes[1], floats[1], rtol=1e-2, atol=2e3)
    taken = {name: [seconds / times for seconds in each] for name, each in taken.items()}
    return row_of(what, taken, multiplications=multiplications)


def product(code: ctypes.CDLL, layout: str, m: int, n: int, k: int) -> Row:
    """Measure a product, whose second matrix is row-major or column-major."""
    functions = {np.int8: code.products_i8, np.float32: code.products_f32}
    sizes = *map(ctypes.c_ssize_t, (m, n, k)), ctypes.c_bool(layout == "N")
    others = {ORT: peer(m, n, k)} if layout == "N" else {}
    what = f"{m} × {n} × {k} N{layout}"
    shapes = [(m, k), (k, n), (m, n)]
    return measured(
        what, m * n * k, functions, shapes, *sizes, others=others, packed=partial(packed_before, code)
    )


def convolution(code: ctypes.CDLL, m: int, channels: int, side: int) -> Row:
    """Measure a convolution of an image with a border."""
    functions = {np.int8: code.convolutions_i8, np.float32: code.convolutions_f32}
    shapes = [(m, 9 * channels), (channels, side + 2, side + 2), (m, side, side)]
    sizes, work = map(ctypes.c_ssize_t, (m, channels, side)), m * 9 * channels * side * side
    return measured(f"{m} × {channels} × {side} convolution", work, functions, shapes, *sizes, others={})


def speed(row: Row, seconds: float) -> float:
    """Return multiplications a nanosecond."""
    return float(1e-9 * row.facts["multiplications"] / seconds)


def beside_floats(row: Row) -> str:
    """Return the time of bytes over that of floats."""
    return f"{row.ours()[OURS] / row.ours()[FLOATS]:.2f}"


COLUMNS = {
    **tables.WHAT,
    **{name: rate(name, speed, ".0f") for name in (OURS, PACKED, FLOATS, ORT)},
    "beside float32": beside_floats,
    "beside ONNX Runtime": beside(lambda ratio: ratio <= 1),
}


def sizes_of(texts: str) -> list[tuple[int, ...]]:
    """Read sizes with crosses between them."""
    return [tuple(map(int, text.split("×"))) for text in texts.split()]


def main(only: Only = "", keep: Keep = False, flags: Flags = "") -> None:
    """Measure products, print a table, and keep its figures."""
    used = {"gemm_i8", "gemm_packed_i8", "gemm_f32", "gemm_nested_i8", "gemm_nested_f32"}
    code = library("bytes", *flags.split(), used=used, packing=PACKING)
    every: dict[str, Callable[[], Row]] = {
        f"{'x'.join(map(str, sizes))} N{layout}": partial(product, code, layout, *sizes)
        for sizes in sizes_of(PRODUCTS)
        for layout in "NT"
    } | {
        f"{'x'.join(map(str, sizes))} convolution": partial(convolution, code, *sizes)
        for sizes in sizes_of(CONVOLUTIONS)
    }
    rows = [measure() for name, measure in every.items() if is_chosen(name, only)]
    title = (
        f"Thousand millions of multiplications a second, best round and median, one thread of {processor()}"
    )
    Console(width=130).print(tables.table(rows, COLUMNS, title))
    if keep:
        versions = records.versions_of([f"onnxruntime=={onnxruntime.__version__}"])
        record = records.Record(f"{COMMAND} --keep", rows, versions=versions)
        record.keep(records.path_of("bytes", processor()))


if __name__ == "__main__":
    typer.run(main)
