"""Convolutions of 16 bits and of float32 and their reverses on tensor cores: windows, strides, groups.

Elements are small whole numbers, so that sums are exact, and results have the bits of NumPy's, rounded once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from catgrad.backends.cuda.tools import simulating

from benchmarks.cuda.workloads import GPU_WORKLOADS
from benchmarks.nets.images import resnet
from catgrad import Dtype, Functions, NdArrayType, Task, build, losses, mixed_precision, ops, sgd
from catgrad.functors import reverse
from catgrad.loops.machine import GpuCosts
from catgrad.ops.cast import cast
from catgrad.ops.conv import Conv, ConvTranspose, ConvWeight
from tests.gpu import costs
from tests.targets import cannot, emit
from tests.unit.cuda.nvcc import NEEDS_NVCC, NEEDS_NVDISASM, compiled, kernels, require_clean

MISSING = cannot("cuda")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"target cuda: {MISSING}")
LABELS = NdArrayType((4,), Dtype.int64)
ORDERS = ("forward", "backward", "random:1")
DTYPES = {"bf16": Dtype.bfloat16, "f16": Dtype.float16} | dict.fromkeys(
    ("float32", "tf32", "bf16x3", "bf16x6"), Dtype.float32
)
"""Dtypes of factors by the name of a form, which is the option `math` for float32."""
PRODUCTS = {"bf16": "16816.F32.BF16", "f16": "16816.F32", "tf32": "1688.F32.TF32", "bf16x6": "16816.F32.BF16"}
"""The instructions of tensor cores."""


@dataclass(frozen=True)
class Case:
    """A convolution of a batch of images, its padding along both axes, and its products with its reverse's.

    The reverse to the input of one with strides has a product for each class of pixels that offsets meet.
    """

    channels: int
    outputs: int
    side: int
    size: int = 3
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    batch: int = 3
    products: int = 3

    @property
    def padding(self) -> int:
        return self.dilation * (self.size // 2)

    @property
    def op(self) -> Conv:
        fields = self.stride, self.padding, self.dilation
        return Conv(*((n, n) for n in fields), self.groups)

    @property
    def types(self) -> list[NdArrayType]:
        x = NdArrayType((self.batch, self.channels, self.side, self.side))
        return [x, NdArrayType((self.outputs, self.channels // self.groups, self.size, self.size))]

    def term(self, dtype: Dtype):
        """Convolve in a dtype; with the reverse, y, dx and dw of x, w and dy."""
        return reverse(
            build(lambda x, w: cast(self.op(cast(x, dtype), cast(w, dtype)), Dtype.float32), self.types)
        )

    def arrays(self, draw) -> list[np.ndarray]:
        x, w = self.types
        return [draw(t.shape).astype(np.float32) for t in (x, w, self.op.type(x, w))]

    def wanted(self, x, w, dy, dtype: Dtype) -> list[np.ndarray]:
        x, w, dy = (a.astype(dtype.numpy).astype(np.float64) for a in (x, w, dy))
        op, image = self.op, np.array(x.shape[2:])
        fields = op.strides, op.padding, op.dilations, op.groups
        rest = tuple(map(int, image - op.shortest(dy.shape[2:], w.shape[2:])))
        dx, dw = ConvTranspose(*fields, rest).ref(dy, w), ConvWeight(*fields, w.shape[2:]).ref(x, dy)
        return [a.astype(dtype.numpy).astype(np.float32) for a in (op.ref(x, w), dx, dw)]


CASES = {
    "three": Case(16, 24, 12),
    "one": Case(32, 16, 8, size=1, batch=5),
    "strided": Case(16, 32, 9, stride=2, products=6),
    "strided_one": Case(16, 32, 16, size=1, stride=2),
    "strided_by_three": Case(32, 32, 13, size=5, stride=3, products=11),
    "strided_dilated": Case(16, 32, 11, stride=2, dilation=2),
    "strided_grouped": Case(32, 32, 9, stride=2, groups=2, products=6),
    "dilated": Case(24, 16, 11, dilation=2),
    "grouped": Case(32, 32, 10, groups=2),
    "few_channels": Case(3, 16, 20, size=7, stride=2, products=2),
    "odd_channels": Case(12, 20, 9),
    "parts": Case(16, 16, 8, batch=64),
}
DEPTHWISE = Case(16, 16, 12, groups=16)


def is_aligned(case, dtype):
    """Tell whether channels are whole copies of 16 bytes."""
    return all(n * dtype.itemsize % 16 == 0 for n in (case.channels, case.outputs))


def whole(shape):
    return np.random.default_rng(0).integers(-3, 4, shape)


@cache
def emitted(name):
    terms = {key: case.term(DTYPES[name]) for key, case in (CASES | {"depthwise": DEPTHWISE}).items()}
    return emit(Functions(terms, "convolutions"), "cuda", math=math(name))


def math(name):
    return name if DTYPES[name] is Dtype.float32 else "float32"


@cache
def loaded(name):
    return emitted(name).load()()


@pytest.mark.covering
@pytest.mark.parametrize(
    ("name", "order"),
    [*(("bf16", order) for order in ORDERS), *((name, ORDERS[-1]) for name in ("f16", "tf32", "float32"))],
)
def test_convolutions_and_their_reverses_are_exact_in_any_order_of_threads(name, order, monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
    for key, case in (CASES | {"depthwise": DEPTHWISE}).items():
        arrays = case.arrays(whole)
        results = getattr(loaded(name), key)(*arrays)
        for result, wanted in zip(results, case.wanted(*arrays, DTYPES[name]), strict=True):
            np.testing.assert_array_equal(result, wanted, key)


@pytest.mark.covering
@pytest.mark.parametrize("name", ["bf16", "bf16x6"])
@pytest.mark.parametrize("key", CASES)
def test_sums_of_convolutions_have_the_same_bits_on_repeat(key, name, monkeypatch):
    arrays = CASES[key].arrays(np.random.default_rng(0).standard_normal)
    found = []
    for order in ORDERS:
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        found.append(getattr(loaded(name), key)(*arrays))
    error = {"bf16": 2**-7, "bf16x6": 2**-20}[name]
    for wanted, *others in zip(*found, CASES[key].wanted(*arrays, DTYPES[name]), strict=True):
        *again, near = others
        assert all(other.tobytes() == wanted.tobytes() for other in again)
        np.testing.assert_allclose(wanted, near, rtol=error, atol=error * np.abs(near).max())


def bodies(key, name="bf16"):
    """Return the kernels of a function by their names."""
    artifact = emit(Functions({key: CASES[key].term(DTYPES[name])}, key), "cuda", math=math(name))
    text = str(artifact.files[f"{key}.cu"])
    parts = re.split(r"^static __global__ void (?:__launch_bounds__\(\d+, \d\) )?", text, flags=re.MULTILINE)
    return {part[: part.index("(")]: part.partition("\n}\n")[0] for part in parts[1:]}


@pytest.mark.parametrize("name", ["bf16", "tf32", "bf16x6"])
@pytest.mark.parametrize("key", CASES)
def test_all_products_of_a_convolution_and_its_reverse_are_on_tensor_cores(key, name):
    """Padded images are not stored; channels are copied 16 bytes at once. Sums of few rows have no tiles."""
    found, dtype = bodies(key, name), DTYPES[name]
    products = sum(len(re.findall(r"multiply_tiles_\w+<", text)) for text in found.values())
    assert products == CASES[key].products
    assert not any("add_products<" in text for text in found.values())
    assert not any("_pad(" in name for name in found)
    if is_aligned(CASES[key], dtype):
        assert not any("_next[" in text or "copy_async<4>" in text for text in found.values())


def test_products_of_all_classes_are_one_grid():
    types = [NdArrayType(shape, Dtype.bfloat16) for shape in ((64, 32, 16, 16), (32, 16, 3, 3))]
    term = build(lambda x, w: ops.conv_transpose(x, w, 2, 1, 1), types)
    text = str(emit(Functions({"upsampled": term}, "upsampled"), "cuda").files["upsampled.cu"])
    kernels = text.split("__global__")
    assert [n for n in (each.count("multiply_tiles_") for each in kernels) if n] == [4]


def test_a_gradient_of_weights_is_a_sum_of_parts_of_the_batch():
    assert any(
        name.endswith("_parts") and "const int part = " in text for name, text in bodies("parts").items()
    )


def between_threes(x, first, one, last):
    """Convolve by 1 x 1 between convolutions by 3 x 3."""
    y = ops.relu(ops.conv(ops.relu(ops.conv(x, first, padding=1)), one))
    return ops.conv(y, last, padding=1)


@pytest.mark.skipif(not simulating(), reason="only the simulator has several architectures")
@pytest.mark.covering(0)
@pytest.mark.parametrize("name", ["bf16", "tf32", "bf16x6"])
def test_warp_groups_convolve_images_that_lie_channels_last(name, monkeypatch):
    shapes = (2, 64, 8, 8), (64, 64, 3, 3), (128, 64, 1, 1), (64, 128, 3, 3)
    dtype = DTYPES[name]

    def between(*arrays):
        return cast(between_threes(*(cast(a, dtype) for a in arrays)), Dtype.float32)

    functions = Functions({"net": reverse(build(between, [NdArrayType(shape) for shape in shapes]))}, "nets")
    with costs(GpuCosts(multiprocessors=1, tensor_term_cycles=100)):
        artifact = emit(functions, "cuda", math=math(name))
    assert str(artifact.files["nets.cu"]).count(" multiply_fed_") == 9
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-1, 2, s).astype(np.float32) for s in (*shapes, (2, 64, 8, 8))]
    arrays[1:] = [a * (rng.random(a.shape) < 0.05) for a in arrays[1:]]  # so that sums are exact
    program, wanted = artifact.load()(), emit(functions, "numpy").load()().net(*arrays)
    for architecture in ("sm_80", "sm_90a"):
        monkeypatch.setenv("CUDA_SIMULATOR_ARCHITECTURE", architecture)
        for found, each in zip(program.net(*arrays), wanted, strict=True):
            np.testing.assert_array_equal(found, each)


@pytest.mark.covering(0)
@pytest.mark.parametrize("name", ["bf16", "tf32"])
def test_steps_of_a_residual_net_have_the_losses_of_numpy_and_equal_bits(name, monkeypatch):
    """Train blocks with strides, projections by 1 x 1, batch norm and sums of two paths."""
    model = resnet(4, side=16, stem=(8, 3, 1), blocks=((8, 1), (16, 2)))
    task = Task(model, sgd(0.1, momentum=0.9), losses.cross_entropy, "images", [LABELS])
    task = mixed_precision(task) if name == "bf16" else task
    source = emit(task, "cuda", math=math(name))
    assert "add_products<" not in str(source.files["images.cu"])
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((4, 3, 16, 16)).astype(np.float32), rng.integers(0, 10, 4)
    found = []
    for order in (None, *ORDERS):
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order or ORDERS[0])
        learner = (source if order else emit(task, "numpy")).load()().learner(seed=0)
        steps = [float(learner.step(x, y)) for _ in range(2)]
        weights = b"".join(np.asarray(learner.parameters[name]).tobytes() for name in learner.parameters)
        found.append((steps, weights))
    (wanted, _), *others = found
    np.testing.assert_allclose(others[0][0], wanted, rtol=2**-7)
    assert all(other == others[0] for other in others)


def require_tensor_cores(artifact, architecture, folder, least, form="bf16"):
    """Assert that ptxas spills nothing, and makes of tiled products instructions of tensor cores."""
    artifact.write(folder)
    source = f"{artifact.program.name}.cu"
    require_clean(compiled(source, folder, f"-arch={architecture}"), least)
    text = (folder / source).read_text()
    parts = re.split(r"^static __global__ void (?:[A-Z_a-z]+\(\d+, \d+\) )?", text, flags=re.M)[1:]
    bodies = {part[: part.index("(")]: part.partition("\n}\n")[0] for part in parts}
    products = [name for name, body in bodies.items() if "multiply_tiles_" in body]
    assert len(products) >= least and "add_products<" not in text
    code = kernels((folder / source).with_suffix(".cubin"))
    for name in products:
        [body] = [
            body for mangled, body in code.items() if re.search(rf"\d{name}(?:12operand_maps)?P", mangled)
        ]
        assert f"HMMA.{PRODUCTS[form]}" in body
        assert not re.search(r"\b(LDL|STL)\b", body)


@NEEDS_NVCC
@NEEDS_NVDISASM
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ["bf16", "tf32", "bf16x6"])
def test_products_are_instructions_of_tensor_cores_and_nothing_spills(name, architecture, tmp_path):
    require_tensor_cores(emitted(name), architecture, tmp_path, 2 * len(CASES), name)


@NEEDS_NVCC
@NEEDS_NVDISASM
@pytest.mark.parametrize(
    ("name", "products"), [("resnet-8", 30), pytest.param("resnet-18", 45, marks=pytest.mark.long)]
)
def test_residual_nets_multiply_on_tensor_cores_alone(name, products, tmp_path):
    """Compile their steps, as they are measured, in mixed precision."""
    workload = next(w for w in GPU_WORKLOADS if w.name == name)
    task = replace(workload, precision="bf16").precise_task
    require_tensor_cores(emit(task, "cuda"), "sm_80", tmp_path, products)
