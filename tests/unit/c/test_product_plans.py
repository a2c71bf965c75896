"""Product plans: the matrix products that convolutions become in emitted C."""

from __future__ import annotations

import re

import pytest

from catgrad import Functions, NdArrayType, build, ops
from tests.targets import emit


@pytest.mark.parametrize(
    ("size", "channels", "stride", "product"),
    [
        (8, 64, 1, (64, 16 * 8 * 8, 64 * 9)),
        (16, 32, 2, (64, 16 * 8 * 8, 32 * 9)),
        (16, 32, 1, (64, 16 * 16, 32 * 9)),
    ],
    ids=["8 x 8", "8 x 8 by stride 2", "16 x 16"],
)
def test_images_of_half_vectors_are_one_product(size, channels, stride, product):
    def convolved(x, filters):
        return ops.relu(ops.conv(ops.relu(x), filters, stride=stride, padding=1))

    types = [NdArrayType((16, channels, size, size)), NdArrayType((64, channels, 3, 3))]
    source = emit(Functions({"f": build(convolved, types)}, "images"), "c").files["images.c"]
    [sizes] = re.findall(r"gemm_nested_f32\((\d+), (\d+), (\d+),", source)
    assert tuple(map(int, sizes)) == product
