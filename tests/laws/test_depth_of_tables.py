"""Tables of equal layers: targets list the arrays of one, so that files do not grow with their number."""

import pytest

from tests.laws.test_lists_of_layers import composed
from tests.targets import emit

LINES = {
    "c": {"_files.c": 12, "_train.c": 0, "train.c": 0},
    "javascript": {".mjs": 24, ".d.mts": 0},
    "wasm": {".mjs": 24, ".d.mts": 0},
    "webgpu": {".mjs": 24, ".d.mts": 0},
    "cuda": {"README.md": 0, "_files.c": 12},
}
"""Lines that a file may have more for 12 layers than for 4: numbers of layers, and of random streams."""


@pytest.mark.parametrize("target", LINES)
def test_files_are_as_long_for_many_layers_as_for_few(target):
    few, many = (
        emit(composed(*((f"block_{k}", 12) for k in range(depth))), target).files for depth in (4, 12)
    )
    assert few.keys() == many.keys()
    for name, text in few.items():
        for end, more in LINES[target].items():
            if name.endswith(end):
                assert len(str(many[name]).splitlines()) - len(str(text).splitlines()) <= more, name
