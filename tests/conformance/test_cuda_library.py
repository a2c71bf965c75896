"""Matrix products by cuBLASLt on the target cuda: the numbers of the reference, and what it promises."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, emit, layers, mse, sgd
from tests.unit.cuda.build import NEEDS_CXX

pytestmark = NEEDS_CXX
BATCH = Dim("batch")
CALL = re.compile(r"TRY_PRODUCT\(multiply\(libraries, (\w+), ([^,]+),")


def wide(dtype=Dtype.float32):
    """Two dense layers, whose second product is large at batch sizes from 52 on."""
    n, i, h, o = (NdArrayType(shape, dtype) for shape in ((BATCH,), (24,), (160,), (128,)))
    model = layers.dense(n, i, h) >> layers.dense(n, h, o, activation=layers.tanh)
    return Task(model, sgd(0.1), mse, "wide")


@cache
def artifact(dtype=Dtype.float32, math="float32"):
    return emit(wide(dtype), "cuda", products="cublaslt", math=math)


@cache
def loaded(dtype=Dtype.float32, math="float32"):
    return artifact(dtype, math).load(simulate=True)


def batch(examples, dtype=Dtype.float32):
    rng = np.random.default_rng(examples)
    return [rng.normal(size=(examples, n)).astype(dtype.numpy) for n in (24, 128)]


def trained(compiled, examples, dtype=Dtype.float32):
    """Return the losses of two steps, and all parameters after them, in float64."""
    learner = compiled().learner(seed=0)
    found = [np.asarray(learner.step(*batch(examples, dtype))) for _ in range(2)]
    return [*found, *(learner.parameters[name] for name in learner.parameters)]


def close(result, expected, tolerance):
    pairs = [
        (np.asarray(r, np.float64), np.asarray(e, np.float64)) for r, e in zip(result, expected, strict=True)
    ]
    return all(np.linalg.norm(r - e) <= tolerance * (1 + np.linalg.norm(e)) for r, e in pairs)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(Dtype.float32, 1e-6), (Dtype.float64, 1e-14), (Dtype.float16, 4e-3), (Dtype.bfloat16, 3e-2)],
)
def test_it_trains_as_the_reference_does(dtype, tolerance):
    assert CALL.search(artifact(dtype).source)
    reference = emit(wide(dtype), "numpy").load()
    assert close(trained(loaded(dtype), 61, dtype), trained(reference, 61, dtype), tolerance)


@pytest.mark.parametrize("examples", [0, 1])
def test_it_takes_batches_of_any_size(examples):
    with np.errstate(all="ignore"):
        expected = trained(emit(wide(), "numpy").load(), examples)
    result = trained(loaded(), examples)
    assert all(np.allclose(r, e, 1e-5, 1e-6, equal_nan=True) for r, e in zip(result, expected, strict=True))
