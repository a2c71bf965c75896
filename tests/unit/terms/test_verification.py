"""Verification of emitted programs: correct ones agree on every target, wrong ones are detected."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, losses, ops, sgd, verify
from catgrad.cli import main
from catgrad.errors import OptionError, ToolError, VerificationError
from catgrad.programs.program import Program, lower
from catgrad.targets import get_backend
from catgrad.verification import difference
from tests.models import BATCH, INPUT, mlp
from tests.targets import emit, need, on

TARGETS = ("numpy", "torch", "torch-module", "jax", "c", "scratch")

WRONG = {
    "numpy": ("np.tanh(", "np.sin("),
    "torch": ("torch.tanh(", "torch.sin("),
    "torch-module": ("torch.tanh(", "torch.sin("),
    "jax": ("jnp.tanh(", "jnp.sin("),
    "c": ("= tanh_f32(", "= 0.9f * tanh_f32("),
    "scratch": ("(1 + exp(2 * (", "(1 + exp(3 * ("),
}
"""Changes to emitted code: old and new text."""


def broken(target, old, new):
    """A target that emits wrong code."""
    backend = get_backend(target)

    def postprocess(context, files):
        assert any(old in text for text in files.values())
        return backend.postprocess(context, {name: text.replace(old, new) for name, text in files.items()})

    return replace(backend, name="broken", postprocess=postprocess)


@on(*TARGETS)
def test_every_result_of_every_function_is_compared(target):
    artifact = emit(mlp(), target)
    verification = verify(artifact)
    verification.check()
    assert verification.agrees
    compared = [each.function for each in verification.comparisons]
    assert compared == [f.name for f in artifact.reference.functions for _ in f.results]
    assert {"d_dense.weight", "y_hat"} & {each.result for each in verification.comparisons}


@on(*TARGETS)
def test_a_wrong_program_is_detected(target):
    verification = verify(emit(mlp(), broken(target, *WRONG[target])))
    assert not verification.agrees
    with pytest.raises(VerificationError, match="emitted for broken must agree with the reference, but"):
        verification.check()


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("return [y_hat]", "return []", "predict, it returns 0 arrays, not 1"),
        ("return [y_hat]", "return [y_hat[0]]", r"predict, y_hat is float32\[3\], not float32\[3, 3\]"),
        ("return [y_hat]", "return [y_hat.astype(float)]", "predict, y_hat is float64"),
        ("return [y_hat]", "return [y_hat / 0]", "predict, y_hat is inf off"),
        ("return [y_hat]", "raise KeyError('gone')", "predict, it raises KeyError: 'gone'"),
        ("def predict(", "def foretell(", "for broken must load, but it raises NameError: name 'predict'"),
    ],
)
def test_differences_are_reported(old, new, found):
    with pytest.raises(VerificationError, match=found), np.errstate(divide="ignore"):
        verify(emit(mlp(), broken("numpy", old, new))).check()


def test_the_command_ends_with_1_for_a_wrong_program(monkeypatch, capsys):
    monkeypatch.setattr(
        "catgrad.targets.backends", lambda: {"broken": lambda: broken("numpy", *WRONG["numpy"])}
    )
    with pytest.raises(SystemExit) as ended:
        main(["verify", "tests.models:mlp", "--target", "broken"])
    said = capsys.readouterr()
    assert ended.value.code == 1
    assert re.search(r"predict +1 +0\.\d+ +1e-05 +no", said.out)
    assert re.fullmatch(r"catgrad: the program emitted for broken must .* off; report it .*\n", said.err)


def test_the_command_ends_with_0_for_a_right_one(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["verify", "tests.models:mlp"])
    said = capsys.readouterr()
    assert (ended.value.code, said.err) == (0, "")
    rows = re.findall(r"^ +(\w+) +\d+ +0 +1e-05 +yes *$", said.out, re.MULTILINE)
    assert rows == [f.name for f in emit(mlp()).reference.functions]


def test_a_missing_tool_is_one_sentence(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match="must have Node.js, but there is no program `node`; install"):
        verify(emit(mlp(), "scratch"))


def test_labels_and_sizes_are_drawn_such_that_functions_accept_them():
    two = NdArrayType((2,))
    model = layers.dense(BATCH, INPUT, two)
    verify(
        emit(Task(model, sgd(0.1), losses.cross_entropy, "two", (NdArrayType(BATCH.shape, Dtype.int64),)))
    ).check()


@on("numpy", "scratch")
def test_functions_of_any_program_are_verified(target):
    """Sizes grow until all operations accept them."""
    need(target)
    n = Dim("n") if target == "numpy" else 20
    long, short = NdArrayType((n,)), NdArrayType((n - 12,))
    first = lower(build(lambda x, y: (ops.exp(x), ops.exp(y)), [long, short]), "exponentials")
    second = lower(build(lambda x, k: ops.sum(x, 0) * k, [long, NdArrayType(())]), "scale")
    verification = verify(get_backend(target).emit(Program("two", (first, second))))
    verification.check()
    assert [each.function for each in verification.comparisons] == ["exponentials"] * 2 + ["scale"]


numbers = st.floats(-1e6, 1e6)


@given(numbers, numbers)
def test_differences_are_relative_to_the_largest_element(y, r):
    found = difference(np.array([y, 1.0]), np.array([r, 1.0]))
    assert found == pytest.approx(abs(y - r) / (1 + abs(r)))


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_integers_differ_absolutely(y, r):
    found = difference(np.array([y]), np.array([r]))
    assert found == float(abs(y - r))


SPECIAL = [np.nan, np.inf, -np.inf, 1.0]


@pytest.mark.parametrize("y", SPECIAL)
@pytest.mark.parametrize("r", SPECIAL)
def test_nan_equals_nan_only(y, r):
    same = y == r or (np.isnan(y) and np.isnan(r))
    assert difference(np.array([y]), np.array([r])) == (0 if same else np.inf)


def test_a_function_without_valid_arguments_is_refused():
    n = Dim("n")
    types = [NdArrayType((n,)), NdArrayType((n - 5000,))]
    never = lower(build(lambda x, y: (x, y), types), "never")
    with pytest.raises(OptionError, match="must be an integer of at least 0"):
        verify(get_backend("numpy").emit(Program("never", (never,))))
