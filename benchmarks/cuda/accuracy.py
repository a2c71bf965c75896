"""Errors of float32 products by emitted CUDA, for each option `math`, against products in float64.

    python -m benchmarks.cuda.accuracy --simulate

The error of an element is relative to the sum of the absolute values of its terms; the greatest is printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
import typer
from catgrad.backends.cuda.options import MATH

from benchmarks.tables import markdown
from catgrad import Functions, NdArrayType, build, emit, ops

TERMS = (256, 4096)
SIDE = 64
"""Rows and columns of the products."""


def errors(math: str, simulate: bool | None = None) -> Mapping[int, float]:
    """Measure the greatest error of a product for each number of terms."""
    functions = {
        f"terms_{k}": build(ops.matmul, [NdArrayType((SIDE, k)), NdArrayType((k, SIDE))]) for k in TERMS
    }
    library = emit(Functions(functions, "products"), "cuda", math=math).load(simulate=simulate)()
    return {k: _error(getattr(library, f"terms_{k}"), k) for k in TERMS}


def numpy_errors() -> Mapping[int, float]:
    """Measure the greatest error of NumPy's product in float32."""
    return {k: _error(np.matmul, k) for k in TERMS}


def _error(function: object, terms: int) -> float:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((SIDE, terms), (terms, SIDE)))
    assert callable(function)
    found, (wide_x, wide_w) = function(x, w), (a.astype(np.float64) for a in (x, w))
    found = found[0] if isinstance(found, (list, tuple)) else found
    return float((np.abs(np.asarray(found) - wide_x @ wide_w) / (np.abs(wide_x) @ np.abs(wide_w))).max())


def main(
    simulate: Annotated[bool, typer.Option("--simulate", help="Run kernels in the simulator.")] = False,
) -> None:
    """Print a table of errors."""
    every = {f"`{name}`": errors(name, simulate or None) for name in MATH} | {"NumPy": numpy_errors()}
    lines = [[name, *(f"{error:.1e}" for error in each.values())] for name, each in every.items()]
    print(markdown(["`math`", *(f"{k:,} terms" for k in TERMS)], lines))


if __name__ == "__main__":
    typer.run(main)
