"""The split of a step's time: samples of functions, by what they do."""

from __future__ import annotations

import pytest

from benchmarks.cpu.split import COPIES, LOOPS, REST, TILES, shares

REPORT = """
# Overhead       Samples  Shared Object         Symbol
    50.00%            10  net.0123.so           [.] any_tiles_f32
    10.00%             2  net.0123.so           [.] panels_f32
     5.00%             1  libc.so.6             [.] __memmove_avx512_unaligned_erms
    20.00%             4  net.0123.so           [.] compute_loss.constprop.0
     5.00%             1  net.0123.so           [.] exp_f32
    10.00%             2  libpython3.11.so.1.0  [.] _PyEval_EvalFrameDefault
"""


def test_functions_are_counted_by_what_they_do():
    kinds, kernels = shares(REPORT, "net")
    assert kinds == pytest.approx({TILES: 0.5, COPIES: 0.15, LOOPS: 0.25, REST: 0.1})
    assert kernels == pytest.approx({"compute_loss": 0.2, "exp_f32": 0.05})
