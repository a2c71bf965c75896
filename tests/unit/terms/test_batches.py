"""Cases that share a program have the same results as alone, and one that fails does not affect others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from catgrad import NdArrayType
from catgrad.errors import OptionError
from catgrad.ops.transcendental import Exp
from catgrad.programs.program import operations
from catgrad.targets import get_backend
from catgrad.terms.term import singleton
from catgrad.testing import Batches, Case, operation_cases, run_on

NUMPY = get_backend("numpy")
X = np.array([0.5, 1.0], np.float32)


def refusing(condition):
    """A target that refuses programs that satisfy a predicate."""

    def prepare(backend, program):
        if condition(program):
            raise OptionError("a program must suit", "it does not", "emit another")
        return program

    return replace(NUMPY, prepare=prepare)


def has_exp(program):
    return any(isinstance(op, Exp) for f in program.functions for op in operations(f))


@pytest.fixture
def cases():
    chosen = {"Exp-0", "Tanh-0", "Sin-0"}
    return [case for case in operation_cases() if case.name in chosen]


def outcome(batches, backend, case):
    arrays = [np.ones(type.shape, type.dtype.numpy) for type in case.term.source.table]
    try:
        return batches.run_on(backend, case, *arrays), run_on(backend, case.term, *arrays)
    except OptionError:
        return "refused"


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_batched_case_has_the_results_of_the_case_alone(cases, size):
    batches = Batches(cases, {"numpy": size})
    for case in cases:
        for together, alone in zip(*outcome(batches, NUMPY, case), strict=True):
            np.testing.assert_array_equal(together, alone)


def test_only_the_failing_case_fails(cases):
    batches, backend = Batches(cases, {"numpy": 3}), refusing(has_exp)
    refused = [case.name for case in cases if outcome(batches, backend, case) == "refused"]
    assert refused == ["Exp-0"]


def test_all_cases_fail_if_only_the_batch_fails(cases):
    batches, backend = Batches(cases, {"numpy": 2}), refusing(lambda program: len(program.functions) > 1)
    refused = [outcome(batches, backend, case) == "refused" for case in cases]
    assert refused == [True, True, False]


def test_a_reverse_is_that_of_the_function():
    exp = singleton(Exp(), NdArrayType((2,)))
    value, gradient = run_on(NUMPY, Case("exp", exp, reversed=True).term, X, np.ones_like(X))
    np.testing.assert_allclose(value, np.exp(X), rtol=1e-6)
    np.testing.assert_allclose(gradient, np.exp(X), rtol=1e-6)
