"""The model of steps on several devices has the thresholds that are published."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from benchmarks.compiler.scale import ACCELERATORS, row_of, tables, thresholds

SMALL = {"small": {"depth": 2, "width": 256, "heads": 4, "context": 32}}


def test_tokens_of_products_are_those_published():
    """For products alone, data parallelism needs as many tokens as FLOPs fit into the time of a byte."""
    for device, found in zip(ACCELERATORS, thresholds(SMALL), strict=True):
        assert 0.85 * device.intensity < found.data < device.intensity
        assert found.fsdp == pytest.approx(found.data, rel=1e-3)


def test_layers_are_shared_at_a_ratio_that_falls_with_the_width():
    """Sums of activations grow with the width, and products with its square."""
    wide = {"wide": {**SMALL["small"], "width": 512}}
    for narrow, other in zip(thresholds(SMALL), thresholds(wide), strict=True):
        assert other.tensor < narrow.tensor


def test_the_modelled_step_is_the_sum_of_its_parts():
    text = tables([row_of(2, 0.002, 0.001, 0.0045)], [*thresholds(SMALL)])[0]
    assert "| 2 | 2 ms | 1 ms | 3 ms | 4.5 ms | 1.50 |" in text
