"""The runtime of emitted C and CUDA: a header, or, with `single_file`, a part of the model's file."""

from __future__ import annotations

import re

import numpy as np
import pytest

from catgrad import Dim, Functions, NdArrayType, Task, build, layers, mse, ops, optimisers
from tests.targets import emit
from tests.unit.c.build import NEEDS_C, SANE, STRICT, built, run

ENDINGS = {"c": "_runtime.h", "cuda": "_runtime.cuh"}
ROWS, WIDE = NdArrayType((Dim("batch"),)), NdArrayType((64,))


def net(name="net"):
    """Two layers with products, and an optimiser with temporary arrays."""
    model = layers.dense(ROWS, WIDE, WIDE, name="first") >> layers.dense(ROWS, WIDE, WIDE, name="second")
    return Task(model, optimisers.adamw(0.1), mse, name)


def lines(text):
    return [line for line in text.splitlines() if line]


@pytest.mark.parametrize("target", ENDINGS)
def test_one_file_has_what_two_have(target):
    two, one = emit(net(), target), emit(net(), target, single_file=True)
    header = f"net{ENDINGS[target]}"
    assert set(two.files) - set(one.files) == {header}
    before, after = map(lines, two.source.split(f'#include "{header}"\n'))
    found, runtime = lines(one.source), lines(two.text(header))
    own = found[len(before) : -len(after)]
    assert [*before, *own, *after] == found
    assert own == runtime[-1 - len(own) : -1]
    assert all(line.startswith(("/*", "#")) for line in (*runtime[: -1 - len(own)], runtime[-1]))


@pytest.mark.parametrize("target", ENDINGS)
def test_the_model_begins_with_its_arrays_and_has_no_helpers(target):
    source = re.sub(r"/\*.*?\*/|^#.*?$", "", emit(net(), target).source, flags=re.DOTALL | re.MULTILINE)
    assert source.split()[:3] == ["typedef", "struct", "{"]
    assert not re.findall(r"^static (?:inline|__device__ \w+ \w+\()", source, re.MULTILINE)


def test_functions_with_equal_arrays_share_a_struct():
    source = emit(net(), "c").source
    assert "/* Temporary arrays of predict, predict_prepared" in source
    assert len(re.findall(r"^\} net_\w+_arrays;", source, re.MULTILINE)) < source.count(
        "_arrays arrays, *const a"
    )


PROGRAM = """#include <stdio.h>
#include "one.h"
#include "two.h"

int main(void)
{
    printf("%s\\n", one_error_string(ONE_NULL) == two_error_string(TWO_OK) ? "" : "both");
    return one_predict(NULL, 1, NULL, NULL, NULL) == ONE_NULL ? 0 : 1;
}
"""


@NEEDS_C
def test_two_models_link_into_one_program(tmp_path):
    for name in ("one", "two"):
        emit(net(name), "c").write(tmp_path)
    (tmp_path / "main.c").write_text(PROGRAM)
    sources = [f"{name}{end}.c" for name in ("one", "two") for end in ("", "_files")]
    built("cc", "-std=c11", *STRICT, *SANE, "main.c", *sources, "-o", "main", "-lm", cwd=tmp_path)
    done = run(tmp_path / "main")
    assert (done.returncode, done.stdout) == (0, "both\n")


@NEEDS_C
def test_a_size_may_be_called_like_the_pointer_to_arrays():
    shapes = [NdArrayType((Dim("a"), 70)), NdArrayType((70, 80)), NdArrayType((80, 60))]
    artifact = emit(Functions({"f": build(lambda x, y, z: ops.tanh(x @ y) @ z, shapes)}, "sized"), "c")
    assert "ptrdiff_t a, " in artifact.text("sized.h") and "*const a_1 = &arrays;" in artifact.source
    x, y, z = (np.ones(shape, np.float32) / 70 for shape in [(9, 70), (70, 80), (80, 60)])
    [found] = artifact.load()().f(x, y, z)
    np.testing.assert_allclose(found, np.tanh(x @ y) @ z, rtol=1e-5)
