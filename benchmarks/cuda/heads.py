"""Attention and its reverse by warp groups: near the definition in float32, the same bits in each call."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from catgrad import Functions, NdArrayType, build, emit, ops
from catgrad.artifact import Artifact
from catgrad.functors import reverse
from catgrad.terms.term import Term
from catgrad.types import Dtype, as_numpy, widened

HEADS, LENGTH = 4, 1000
"""The last tiles of queries and of keys are not whole."""
CASES = {
    f"{'causal' if causal else 'full'}_{width}": (width, causal)
    for width in (64, 128)
    for causal in (True, False)
}
ROWS = 50
"""Rows whose errors are compared at once, fewer than those of a tile."""
TOLERANCE = 2.0**-7
"""Bound of the norm of errors over that of the rows: weights, their cotangents and results are rounded."""


def heads(dtype: Dtype, length: int = LENGTH) -> Functions:
    """Build attention with its reverse, for both sizes of heads that warp groups compute."""

    def term(width: int, causal: bool) -> Term:
        type = NdArrayType((HEADS, length, width), dtype)
        return reverse(build(lambda q, k, v: ops.attention(q, k, v, causal=causal), [type] * 3))

    return Functions({name: term(*case) for name, case in CASES.items()}, "heads")


def heads_artifact(length: int = LENGTH) -> Artifact:
    """Emit them in bfloat16."""
    return emit(heads(Dtype.bfloat16, length), "cuda")


def wrong_heads(length: int = LENGTH, **options: bool) -> str:
    """Return which results are wrong; empty if none is."""
    return ", ".join(_wrong(length, **options))


def _wrong(length: int, **options: bool) -> Iterator[str]:
    ours = heads_artifact(length).load(**options)()
    exact = emit(heads(Dtype.float32, length), "numpy").load()()
    rng = np.random.default_rng(0)
    for name, (width, _) in CASES.items():
        wide = rng.normal(size=(4, HEADS, length, width)).astype(np.float32)
        arrays = [each.astype(Dtype.bfloat16.numpy) for each in wide]
        found, again = (map(as_numpy, getattr(ours, name)(*arrays)) for _ in range(2))
        wanted = getattr(exact, name)(*map(widened, arrays))
        for number, (x, repeated, y) in enumerate(zip(found, again, wanted, strict=True)):
            if x.tobytes() != repeated.tobytes():
                yield f"result {number} of {name} differs from call to call"
            error = float(np.max(_norms(widened(x) - y) / _norms(y)))
            if not error < TOLERANCE:
                yield f"result {number} of {name} has an error of {error:.2g}"


def _norms(x: np.ndarray) -> np.ndarray:
    """Compute the norm of each few rows of a head."""
    return np.linalg.norm(x.reshape(HEADS, -1, ROWS * x.shape[-1]), axis=-1)
