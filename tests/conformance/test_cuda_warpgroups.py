"""Products of warp groups in emitted CUDA: all majors, tails and batches; faults; messages of ptxas; SASS.

Factors are small whole numbers, so that sums are exact, and results have the bits of NumPy's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from catgrad.backends.cuda.tools import simulating
from catgrad.examples import char_gpt

from catgrad import Dim, Dtype, Functions, NdArrayType, Task, build, losses, mixed_precision, ops
from catgrad.errors import ToolError
from catgrad.loops.machine import GpuCosts
from tests.compiled import compiled_once
from tests.conformance.c_models import classes
from tests.faults import planted
from tests.gpu import costs
from tests.targets import cannot, emit
from tests.unit.cuda.nvcc import NEEDS_NVCC, NEEDS_NVDISASM, NVCC, compiled, kernels, require_clean

MISSING = cannot("cuda")
NEEDS_DEVICE = pytest.mark.skipif(bool(MISSING), reason=f"target cuda: {MISSING}")
NEEDS_SIMULATOR = pytest.mark.skipif(not simulating(), reason="only the simulator has several architectures")
ARCHITECTURES = ("sm_80", "sm_90a")
ORDERS = ("forward", "backward", "random:1")
REPEATED = [(dtype, order) for dtype in (Dtype.float16, Dtype.float32) for order in ORDERS[:-1]]
"""Numbers that threads in an order compute by the functions of other dtypes in this order."""

ORDERED = [
    *((Dtype.bfloat16, order) for order in ORDERS),
    *((dtype, ORDERS[-1]) for dtype in (Dtype.float16, Dtype.float32)),
    *(pytest.param(*each, marks=pytest.mark.long) for each in REPEATED),
]
ROWS = 136
"""Rows and terms that are symbols."""


@dataclass(frozen=True)
class Case:
    """A function of arrays of small whole numbers, and the products of warp groups in it."""

    function: object
    shapes: tuple[tuple[int | Dim, ...], ...]
    products: int = 1

    def arrays(self, dtype):
        rng = np.random.default_rng(len(self.shapes[0]))
        shapes = (NdArrayType(shape, dtype).substitute({"n": ROWS}).shape for shape in self.shapes)
        return [rng.integers(-2, 3, shape).astype(dtype.numpy) for shape in shapes]


def transposed(x):
    return x.T if isinstance(x, np.ndarray) else ops.transpose(x)


def product(is_left_transposed, is_right_transposed):
    def function(x, w):
        return (transposed(x) if is_left_transposed else x) @ (transposed(w) if is_right_transposed else w)

    return function


def sized(m, k, n, left, right):
    return Case(product(left, right), ((k, m) if left else (m, k), (n, k) if right else (k, n)))


def drawn():
    """Draw sizes of all majors; rows in memory have multiples of 16 bytes."""
    rng = np.random.default_rng(0)
    for number in range(12):
        left, right = bool(number & 1), bool(number & 2)
        m, k, n = (int(size) for size in rng.integers(9, 40, 3) * 8)
        m, n = m + (0 if left else int(rng.integers(8))), n + (0 if not right else int(rng.integers(8)))
        yield f"drawn_{number}", sized(max(m, 72), k, max(n, 40), left, right)


def majors(x, w, dy):
    return x @ w, dy @ transposed(w), transposed(x) @ dy


def chain(x, w, v):
    return x @ w @ v


CASES = {
    **dict(drawn()),
    "batch": Case(lambda x, w: x @ w, ((3, 128, 72), (3, 72, 64))),
    "windows": Case(lambda x, w: x @ w, ((2, 136, 40), (40, 256))),
    "symbolic_rows": Case(lambda x, w: x @ w, ((Dim("n"), 2, 40), (40, 64))),
    "symbolic_terms": Case(product(True, False), ((Dim("n"), 128), (Dim("n"), 64))),
    "padded": Case(chain, ((128, 64), (64, 133), (133, 64)), 1),
    "long": sized(128, 64 * 9 - 8, 256, True, False),
    "majors": Case(majors, ((136, 72), (72, 264), (136, 264)), 3),
}
FLOATS = (*(f"drawn_{n}" for n in range(4)), "batch", "symbolic_terms", "long", "majors")
"""Products of float32, of all majors, which are rounded to TF32."""


def cases(dtype):
    return {name: CASES[name] for name in FLOATS} if dtype is Dtype.float32 else CASES


@cache
def emitted(dtype, *names):
    terms = {
        name: build(case.function, [NdArrayType(shape, dtype) for shape in case.shapes])
        for name, case in cases(dtype).items()
        if name in names or not names
    }
    with costs(GpuCosts(multiprocessors=1, tensor_term_cycles=100)):
        math = "tf32" if dtype is Dtype.float32 else "float32"
        return emit(Functions(terms, "products"), "cuda", math=math)


@cache
def loaded(dtype):
    return emitted(dtype).load()()


def results(program, name, arrays):
    found = getattr(program, name)(*arrays)
    return [np.asarray(x) for x in (found if isinstance(found, (list, tuple)) else [found])]


@NEEDS_SIMULATOR
@pytest.mark.parametrize(("dtype", "order"), ORDERED)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_products_are_exact_on_both_architectures(dtype, architecture, order, monkeypatch):
    """A block of warp groups computes one tile or, on few multiprocessors, several."""
    monkeypatch.setenv("CUDA_SIMULATOR_MULTIPROCESSORS", "1" if order in ORDERS[1:] else "132")
    monkeypatch.setenv("CUDA_SIMULATOR_ARCHITECTURE", architecture)
    monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
    for name, case in cases(dtype).items():
        arrays = case.arrays(dtype)
        wanted = case.function(*(x.astype(np.float64) for x in arrays))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for found, each in zip(results(loaded(dtype), name, arrays), wanted, strict=True):
            np.testing.assert_array_equal(found, each.astype(dtype.numpy), name)


def of_random_numbers(program, architecture, monkeypatch):
    """Compute products of all majors, of numbers that are not rounded differently if ties are."""
    monkeypatch.setenv("CUDA_SIMULATOR_ARCHITECTURE", architecture)
    rng = np.random.default_rng(0)
    drawn = (rng.standard_normal(shape).astype(np.float32) for shape in CASES["majors"].shapes)
    return results(program, "majors", [(x.view(np.uint32) | 1).view(np.float32) for x in drawn])


@NEEDS_SIMULATOR
def test_products_of_float32_have_equal_bits_on_both_architectures(monkeypatch):
    first, second = (of_random_numbers(loaded(Dtype.float32), each, monkeypatch) for each in ARCHITECTURES)
    for x, y in zip(first, second, strict=True):
        np.testing.assert_array_equal(x, y)


FLOAT_FAULTS = {
    "float32 that is not rounded": ("TYPE_TFLOAT32", "TYPE_FLOAT32"),
    "stores that are not published": ("        publish_stores();\n", ""),
    "no barrier after transposing": ("        meet_at<1, FED_CONSUMERS>();\n", ""),
    "loads behind stores of other threads": ("            __syncwarp();\n", ""),
    "no swizzle": ("(place / 4 ^ i % 8)", "place / 4"),
    "half of a block": ("half < 2; half++", "half < 1; half++"),
}
"""Changes of the functions that transpose tiles, and of the type of maps."""


@NEEDS_SIMULATOR
@pytest.mark.parametrize("fault", FLOAT_FAULTS)
def test_a_planted_fault_in_products_of_float32_is_an_error_or_gives_other_numbers(fault, monkeypatch):
    wrong = planted(emitted(Dtype.float32, "majors"), *FLOAT_FAULTS[fault], times=None).load()()
    wanted = of_random_numbers(loaded(Dtype.float32), "sm_90a", monkeypatch)
    is_wrong = False
    for order in ORDERS:
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        try:
            found = of_random_numbers(wrong, "sm_90a", monkeypatch)
        except ToolError:
            is_wrong = True
            break
        is_wrong |= any(not np.array_equal(x, y) for x, y in zip(found, wanted, strict=True))
    assert is_wrong


@NEEDS_DEVICE
def test_a_sum_of_no_terms_is_zero():
    x, w = np.zeros((0, 128), Dtype.bfloat16.numpy), np.zeros((0, 64), Dtype.bfloat16.numpy)
    [found] = results(loaded(Dtype.bfloat16), "symbolic_terms", [x, w])
    np.testing.assert_array_equal(found.astype(np.float32), np.zeros((128, 64), np.float32))


@NEEDS_DEVICE
def test_repeated_products_have_equal_bits():
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(Dtype.bfloat16.numpy) for s in CASES["majors"].shapes]
    first, second = (results(loaded(Dtype.bfloat16), "majors", arrays) for _ in range(2))
    for x, y in zip(first, second, strict=True):
        np.testing.assert_array_equal(x.view(np.uint16), y.view(np.uint16))


@NEEDS_SIMULATOR
def test_steps_of_a_gpt_in_mixed_precision_have_equal_losses_on_both_architectures(monkeypatch):
    model = char_gpt.gpt(64, 4, depth=2, width=64, heads=2, context=32)
    task = Task(model, char_gpt.optimiser(10), losses.cross_entropy, "text", classes(4, 32))
    with costs(GpuCosts(multiprocessors=1)):
        artifact = emit(mixed_precision(task), "cuda")
    assert str(artifact.files["text.cu"]).count(" multiply_fed_") > 8
    program, found = artifact.load()(), []
    x, y = np.random.default_rng(0).integers(0, 64, (2, 4, 32))
    for architecture in ARCHITECTURES:
        monkeypatch.setenv("CUDA_SIMULATOR_ARCHITECTURE", architecture)
        learner = program.learner(seed=0)
        found.append([float(learner.step(x, y)) for _ in range(3)])
    assert found[0] == found[1] and found[0][0] > found[0][-1]


def versions(dtype):
    """Count the products that have a version for warp groups."""
    return sum(case.products for case in cases(dtype).values())


@pytest.mark.parametrize("dtype", [Dtype.bfloat16, Dtype.float32])
def test_large_products_have_a_version_for_warp_groups(dtype):
    text = str(emitted(dtype).files["products.cu"])
    assert text.count(" multiply_fed_") == versions(dtype)


FULL = "fed.full() + stage, number / Tiles::stages % 2)"
EMPTY = "        wait_for_phase(empty() + stage, number / stages % 2 ^ 1);\n"
SECOND = "load_tile(stage.left + box * 128, &maps.left, stage.full, row_tile + box, begin, 0, 0)"
RELEASED = "slice > 0) {\n            arrive_at_barrier(fed.empty() + (number - 1)"
PUBLISHED = "        publish_stores();\n        __syncwarp();\n        if (lane == 0) {\n"
READ = "        if (lane == 0) {\n            wait_for_stores<0>();\n        }\n        __syncwarp();\n"
END = "    if (lane == 0) {\n        wait_for_stores<0>();\n    }\n"
FAULTS = {
    "the other parity": (FULL, FULL.replace("% 2", "% 2 ^ 1")),
    "no wait for a stage": (EMPTY, ""),
    "a stage released early": (
        RELEASED,
        RELEASED.replace("slice > 0", "true").replace("(number - 1)", "number"),
    ),
    "a stage of one consumer": ("init_barrier(Tiles::empty() + i, 2)", "init_barrier(Tiles::empty() + i, 1)"),
    "fewer bytes": ("expect_bytes(full() + stage, bytes)", "expect_bytes(full() + stage, 16384)"),
    "a producer of all lanes": (" && elect_thread()", ""),
    "no fence": ("        fence_products();\n", ""),
    "no last wait": ("    wait_for_products<0>();\n", ""),
    "too many registers": ("raise_registers<232>", "raise_registers<240>"),
    "slices that overlap": (SECOND, SECOND.replace("begin", "begin / 2")),
    "boxes at the same place": (SECOND, SECOND.replace("stage.left + box * 128", "stage.left")),
    "another offset": ("right_by_terms ? 16 : 8192", "right_by_terms ? 16 : 1024"),
    "tiles that begin in the first stage": ("return before * slices();", "return 0;"),
    "a last stage that is not released": ("if (is_first && fed.slices() > 0)", "if (false)"),
    "stores that are not published": (PUBLISHED, PUBLISHED.replace("        publish_stores();\n", "")),
    "stores before others have written": (PUBLISHED, PUBLISHED.replace("        __syncwarp();\n", "")),
    "a tile written while it is stored": (READ, ""),
    "stores that are not committed": ("            commit_stores();\n", ""),
    "stores that are not awaited": (END, ""),
    "a result that is not swizzled": ("(i ^ lane / 4) * 16", "i * 16"),
    "rows of the first warp": ("(int)threadIdx.x / 32 * 16", "0"),
    "rows of the other consumer": ("threadIdx.x / 128 * 8192", "(1 - threadIdx.x / 128) * 8192"),
}
"""Changes of a kernel that multiplies by warp groups, and of the functions of the runtime for it."""
ALONE = sized(256, 64 * 9 - 8, 256, True, False)
"""A product of two tiles."""


@cache
def right():
    """Emit it, and assert that it is right."""
    types = [NdArrayType(shape, Dtype.bfloat16) for shape in ALONE.shapes]
    terms = {"long": build(ALONE.function, types)}
    with costs(GpuCosts(multiprocessors=1, tensor_term_cycles=1000, warpgroup_term_cycles=100)):
        artifact = emit(Functions(terms, "products"), "cuda")
    assert is_right(artifact)
    return artifact


@NEEDS_SIMULATOR
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_an_error_or_gives_other_numbers(fault, monkeypatch):
    """A block computes both tiles."""
    monkeypatch.setenv("CUDA_SIMULATOR_MULTIPROCESSORS", "1")
    assert not is_right(planted(right(), *FAULTS[fault]))


def is_right(artifact):
    """Tell whether a library computes a product without an error."""
    arrays = ALONE.arrays(Dtype.bfloat16)
    x, w = (each.astype(np.float64) for each in arrays)
    try:
        [found] = results(artifact.load()(), "long", arrays)
    except ToolError:
        return False
    return np.array_equal(found, (x.T @ w).astype(found.dtype))


@NEEDS_SIMULATOR
def test_an_operand_that_cannot_be_mapped_is_an_error():
    encoded = "(cuuint64_t)x.strides[i] * element"
    program = planted(right(), encoded, encoded + " + 4").load()()
    with pytest.raises(ToolError, match="must"):
        program.long(*ALONE.arrays(Dtype.bfloat16))


# ---- nvcc


FORMS = {Dtype.bfloat16: "16.F32.BF16", Dtype.float32: "8.F32.TF32"}


@pytest.fixture(scope="module", params=FORMS, ids=lambda dtype: dtype.value)
def dtype(request):
    return request.param


@pytest.fixture(scope="module")
def folder(dtype, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"warpgroups_{dtype.value}")
    emitted(dtype).write(folder)
    return folder


@NEEDS_NVCC
@pytest.mark.covering
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_90a"])
@pytest.mark.parametrize("options", [(), ("-DNDEBUG",)], ids=["bounded waits", "unbounded"])
def test_ptxas_serialises_and_spills_nothing(architecture, options, folder, dtype):
    messages = compiled("products.cu", folder, f"-arch={architecture}", *options)
    require_clean(messages, len(cases(dtype)))


@NEEDS_NVCC
def test_one_library_has_code_for_several_gpus(folder):
    generated = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in ("80", "90a")]
    done = compiled_once(*NVCC, *generated, "-fatbin", "-o", "products.fatbin", "products.cu", cwd=folder)
    assert done.returncode == 0, done.stderr


@NEEDS_NVCC
@NEEDS_NVDISASM
def test_kernels_for_sm_90a_multiply_by_warp_groups_alone(folder, dtype):
    """Each has a loop of four products, of 64 rows and all columns, and the producer copies by TMA."""
    compiled("products.cu", folder, "-arch=sm_90a")
    code = {name: text for name, text in kernels(folder / "products.cubin").items() if "operand_maps" in name}
    assert len(code) == versions(dtype)
    source = (folder / "products.cu").read_text()
    assert sum("UTMASTG.4D" in text for text in code.values()) == source.count(" store_fed_") > 0
    for text in code.values():
        products = re.findall(rf"HGMMA\.64x(\d+)x{re.escape(FORMS[dtype])}", text)
        assert len(products) == 4 and len({*products}) == 1
        assert text.count("WARPGROUP.DEPBAR.LE gsb0") == 2
        is_alone = int(products[0]) * dtype.itemsize > 256
        assert text.count("USETMAXREG") == (2 if is_alone else 0)
        most = max(map(int, re.findall(r"\bR(\d+)\b", text)))
        assert most < (232 if is_alone else 112)
        assert "UTMALDG.4D" in text
        assert not re.search(r"\b(LDL|STL|HMMA|LDGSTS)\b", text)
