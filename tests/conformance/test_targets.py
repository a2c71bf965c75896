"""Every target agrees with `ref`: each operation forward and reverse, and the functions of small models."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from catgrad.backends.scratch.machine.projects import missing
from hypothesis import given, settings
from hypothesis.strategies import lists

from catgrad.errors import DtypeError
from catgrad.learn.task import TERMS
from catgrad.programs.program import evaluate
from catgrad.targets import backends, get_backend
from catgrad.testing import Batches, Case, check_conformance, operation_cases
from tests.conformance.test_printed_types import PRINTS_TYPES, traced
from tests.covering import some
from tests.models import TASKS, arguments
from tests.strategies import float_terms, integer_terms
from tests.targets import BOTH_WAYS, TOGETHER, emit, is_later, need, on

CASES = operation_cases()
NAMES = {case.name for case in CASES}
ONE_WAY = sorted((case for case in CASES if f"{case}-reverse" not in NAMES), key=is_later)
"""Functions in reverse, and those that have none; first examples come first."""

BATCHES = {both: Batches(CASES if both else ONE_WAY, TOGETHER) for both in (False, True)}
ON_TARGETS = [
    pytest.param(*target.values, case, id=f"{case}-{target.values[0]}", marks=marks)
    for target in on(*sorted(backends()), long=("ggml", "wasm", "webgpu")).args[1]
    for case in (CASES if target.values[0] in BOTH_WAYS else ONE_WAY)
    for marks in [[*target.marks, *[pytest.mark.long] * (target.values == ("jax",) and is_later(case))]]
]
"""Operations on targets; for JAX, which compiles each function that is called, later examples are long."""
MANY_BLOCKS = pytest.mark.filterwarnings("ignore:case has .* blocks")
"""A project of many cases, which no editor shows."""


@MANY_BLOCKS
@pytest.mark.parametrize(("target", "case"), ON_TARGETS)
def test_operations(target, case):
    """Agree with the reference; in Python, lines assign values of the types in their comments."""
    try:
        with traced() if target in PRINTS_TYPES else nullcontext() as trace:
            check_conformance(target, case, batches=BATCHES[target in BOTH_WAYS])
        assert not (trace and trace.wrong)
    except DtypeError as refusal:
        if "float64" not in get_backend(target).known_gaps:
            raise
        pytest.skip(str(refusal))


@MANY_BLOCKS
@pytest.mark.skipif(bool(missing("turbowarp")), reason=f"Scratch: {missing('turbowarp')}")
@pytest.mark.parametrize("case", some(ONE_WAY, [case for case in ONE_WAY if not is_later(case)]), ids=str)
def test_operations_in_turbowarp(case):
    """Run in the virtual machine that compiles scripts, with loops where Scratch's own has unrolled code."""
    check_conformance("scratch", case, batches=BATCHES[False], vm="turbowarp", unroll="compact")


@cache
def trained(name, runtime_learning_rate):
    return replace(TASKS[name](), runtime_learning_rate=runtime_learning_rate)


@cache
def compiled(target, name, **options):
    return emit(trained(name, get_backend(target).runtime_learning_rate), target, **options).load()()


@on(*sorted(backends()), long=("ggml", "webgpu"))
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("function", TERMS[1:])
@pytest.mark.parametrize("batch", [0, 1, 7])
def test_models(target, name, function, batch):
    backend = get_backend(target)
    task = trained(name, backend.runtime_learning_rate)
    given = arguments(task, function, {"batch": batch})
    sized = "symbolic sizes" in backend.known_gaps
    if not batch:
        need(target, "symbolic sizes")
    model = compiled(target, name, **(dict(batch=batch, predict_batch=batch) if sized else {}))
    if not hasattr(model, function):
        entries = backend.entries(backend.options, task)
        assert function not in entries
        pytest.skip(f"target {target} prints {', '.join(entries)} alone")
    results = getattr(model, function)(*given)
    tolerance = backend.tolerance["f32"]
    for found, wanted in zip(results, evaluate(task.term(function), *given), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
        assert np.asarray(found).dtype == wanted.dtype


@on(*sorted(backends()), long=("webgpu",))
def test_unsupported_lists_exactly_the_missing_operations(target):
    from catgrad.terms.op import OPS
    from catgrad.terms.state import Persistent, Update

    backend = get_backend(target)
    printed = backend.operations
    missing = {n for n, op in OPS.items() if op.body is None and not op.structural and n not in printed}
    hidden = {n for n, op in OPS.items() if issubclass(op, (Persistent, Update))}
    assert missing - hidden == set(backend.unsupported)


ALONE = on(*sorted(backends().keys() - {"cuda", "webgpu"}), long=("ggml", "wasm"))
"""Targets that compile programs one by one, but for those that take a second for each."""


@ALONE
@given(terms=lists(float_terms() | integer_terms(), min_size=5, max_size=5))
@settings(max_examples=10)
def test_random_terms(target, terms):
    """Compare values and reverse derivatives."""
    cases = [Case(f"random {k}", term, (-1.0, 1.0), reversed=True) for k, term in enumerate(terms)]
    batches = Batches(cases, TOGETHER)
    for case in cases:
        check_conformance(target, case, batches=batches)
