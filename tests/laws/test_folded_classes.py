"""On GPUs, elements of a strided transposed convolution sum up only the offsets of windows that meet them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import pytest
from catgrad.backends.webgpu import machine as webgpu

from catgrad import NdArrayType, build, ops
from catgrad.loops.compile import canonical, compile_kernels
from catgrad.loops.ir.nest import Reduce, perfect_nest
from catgrad.loops.ir.steps import kernels
from catgrad.loops.lowering import folds
from catgrad.programs.program import evaluate
from tests.gpu import MACHINES, run_in_teams
from tests.laws.test_gpu_schedules import function_of, scheduled


@dataclass(frozen=True)
class Case:
    """A transposed convolution: its positions and offsets along both axes, and its attributes."""

    places: tuple[int, int]
    sizes: tuple[int, int]
    strides: tuple[int, int] = (2, 2)
    padding: tuple[int, int] = (1, 1)
    rest: tuple[int, int] = (0, 0)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1
    outputs: int = 2
    channels: int = 4
    batch: int = 1

    @property
    def types(self) -> list[NdArrayType]:
        weights = self.outputs, self.channels // self.groups, *self.sizes
        return [NdArrayType((self.batch, self.outputs, *self.places)), NdArrayType(weights)]

    @property
    def term(self):
        fields = self.strides, self.padding, self.rest, self.groups, self.dilations
        return build(lambda x, w: ops.conv_transpose(x, w, *fields), self.types)

    @property
    def image(self) -> tuple[int, ...]:
        [y] = self.term.target
        return y.shape[2:]

    @property
    def meetings(self) -> int:
        """Count the products of elements and weights with i = o · stride + k · dilation for some o."""
        each = zip(self.image, self.sizes, self.strides, self.padding, self.dilations, strict=True)
        axes = (sum((i + p - k * d) % s == 0 for i in range(n) for k in range(m)) for n, m, s, p, d in each)
        return prod(axes) * self.batch * self.channels * self.outputs // self.groups


CASES = {
    "three": Case((5, 4), (3, 3), rest=(1, 1)),
    "odd": Case((5, 4), (3, 3)),
    "even": Case((4, 5), (4, 4)),
    "stride 3": Case((3, 4), (5, 4), strides=(3, 3), rest=(2, 1)),
    "two strides": Case((4, 3), (3, 4), strides=(2, 3), padding=(0, 2)),
    "one axis": Case((6, 4), (3, 3), strides=(1, 2)),
    "dilated": Case((5, 4), (3, 3), padding=(2, 2), dilations=(2, 3), rest=(1, 0)),
    "grouped": Case((4, 5), (3, 3), groups=2, outputs=4, rest=(0, 1)),
    "no padding": Case((4, 4), (3, 2), padding=(0, 0), rest=(1, 1)),
    "much padding": Case((6, 6), (5, 3), padding=(4, 1)),
}
"""Cases with windows that overlap, whose products are summed where windows are."""

DISJOINT = {
    "one": Case((5, 4), (1, 1), padding=(0, 0), rest=(1, 0)),
    "one of three": Case((4, 4), (1, 2), strides=(3, 3), padding=(0, 0), rest=(2, 1)),
    "padded": Case((4, 4), (2, 1), strides=(3, 2), padding=(1, 1), rest=(1, 1)),
}
"""Cases with windows that do not overlap."""


def arrays(case):
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, type.shape).astype(np.float32) for type in case.types]


def multiplications(case) -> int:
    """Count the terms of all sums of products."""
    lowered = canonical(function_of(case.term), MACHINES["default"])
    total = 0
    for kernel in kernels(lowered.steps):
        free, body = perfect_nest(kernel.body)
        total += sum(prod(v.extent for v in (*free, *s.axes)) for s in body if isinstance(s, Reduce))
    return total


COMPILED = {
    "default": lambda term: scheduled(term, "default"),
    "small": lambda term: scheduled(term, "small"),
    "webgpu": lambda term: compile_kernels(function_of(term), webgpu.MACHINE),
}


@pytest.mark.parametrize("machine", COMPILED)
@pytest.mark.parametrize("name", CASES | DISJOINT)
def test_results_are_those_of_the_definition(name, machine):
    case = (CASES | DISJOINT)[name]
    [found] = run_in_teams(COMPILED[machine](case.term), *arrays(case))
    np.testing.assert_array_equal(found, evaluate(case.term, *arrays(case))[0])


@pytest.mark.parametrize("name", CASES)
def test_an_element_sums_the_offsets_that_meet_it_and_no_others(name):
    assert multiplications(CASES[name]) == CASES[name].meetings


@pytest.mark.parametrize("name", DISJOINT)
def test_windows_that_do_not_overlap_are_products_that_are_read_where_they_lie(name):
    case = DISJOINT[name]
    [x, w] = (type.size for type in case.types)
    assert multiplications(case) == x * w // case.outputs


def test_elements_of_many_classes_are_one_nest_which_masks_offsets(monkeypatch):
    case = CASES["three"]
    monkeypatch.setattr(folds, "MAX_CLASSES", 3)
    assert multiplications(case) == 9 * prod(case.image) * case.batch * case.channels * case.outputs
    [found] = run_in_teams(scheduled(case.term, "default"), *arrays(case))
    np.testing.assert_array_equal(found, evaluate(case.term, *arrays(case))[0])
