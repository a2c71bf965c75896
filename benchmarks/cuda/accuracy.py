"""Errors of float32 products by emitted CUDA, for each option `math`, against products in float64.

    python -m benchmarks.cuda.accuracy --simulate

The error of an element is relative to the sum of the absolute values of its terms; the greatest is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np
from catgrad.backends.cuda.options import MATH

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


def main() -> None:
    """Print a table of errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulate", action="store_const", const=True, help="run kernels in the simulator")
    simulate = parser.parse_args().simulate
    print("| `math` | " + " | ".join(f"{k:,} terms" for k in TERMS) + " |")
    print("|---|" + "---|" * len(TERMS))
    for name in MATH:
        print(f"| `{name}` | " + " | ".join(f"{e:.1e}" for e in errors(name, simulate).values()) + " |")
    print("| NumPy | " + " | ".join(f"{e:.1e}" for e in numpy_errors().values()) + " |")


if __name__ == "__main__":
    main()
