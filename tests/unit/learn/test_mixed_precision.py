"""Mixed precision of terms, tasks and functions, by the library and the command line, and refusals."""

from __future__ import annotations

import re

import pytest

from catgrad import Dim, Dtype, Functions, NdArrayType, Task, build, emit, layers, mse, ops, sgd, verify
from catgrad.cli import main
from catgrad.errors import DtypeError, OptionError
from catgrad.learn.precision import mixed_precision
from catgrad.terms.block import any_operation
from catgrad.testing import isomorphic
from tests.models import mlp
from tests.targets import emit as emit_all
from tests.targets import on

BF16 = Dtype.bfloat16
X = NdArrayType((2, 3))


def recurrent(x):
    """A loop whose product is the only contraction."""
    u = layers.parameter("weight", NdArrayType((3, 3)))
    _, rows = ops.scan(lambda h, row: (ops.reshape(ops.reshape(row + h, 1, 3) @ u, 3),) * 2, ops.sum(x, 0), x)
    return rows


def test_a_task_and_functions_are_those_of_their_terms_in_mixed_precision():
    task = mlp()
    changed = mixed_precision(task)
    assert isomorphic(changed.model, mixed_precision(task.model))
    assert (changed.optimiser, changed.loss, changed.name) == (task.optimiser, task.loss, task.name)
    assert changed.parameters == task.parameters
    functions = mixed_precision(Functions({"predict": task.model}, "net"))
    assert functions.name == "net"
    assert isomorphic(functions.terms["predict"], changed.model)


def test_a_product_in_the_loss_stays_in_float32():
    def alike(y_hat, y):
        return ops.mean(ops.square(y_hat @ ops.transpose(y_hat) - y @ ops.transpose(y)))

    rows = NdArrayType((2,))
    model = layers.linear(rows, NdArrayType((3,)), NdArrayType((3,)))
    criterion = mixed_precision(Task(model, sgd(0.1), alike)).term("criterion")
    assert {type.dtype for type in criterion.H.w.table} == {Dtype.float32}


@pytest.mark.parametrize(
    ("target", "file", "named"),
    [
        ("torch", "mlp.py", {"x_bfloat16", "dense_0_weight_bfloat16"}),
        ("c", "mlp.c", {"x_bfloat16", "dense_0_weight_bfloat16"}),
    ],
)
def test_rounded_arrays_are_named_after_their_operands(target, file, named):
    source = emit_all(mixed_precision(mlp()), target).text(file)
    assert named <= set(re.findall(r"\w+", source))


@pytest.mark.parametrize("dtype", [Dtype.float16, Dtype.float32, "bf16"])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(OptionError, match=r"must be in bfloat16.*; write Dtype.bfloat16"):
        mixed_precision(mlp(), dtype)


def test_a_function_is_refused():
    with pytest.raises(OptionError, match="must be that of a term, a Task or Functions, but .* function"):
        mixed_precision(recurrent)


@pytest.mark.parametrize("model", [mlp().model, build(recurrent, [X])], ids=["dense", "loop"])
def test_targets_without_16_bits_refuse_it(model):
    task = mixed_precision(Task(model, sgd(0.1), mse, "net"))
    with pytest.raises(DtypeError, match="for scratch must have .* 32 bits, .* net has some of bfloat16"):
        emit(task, "scratch")


@on("numpy", "torch", "torch-module", "jax", "c", needed=("16 bits",), long=("jax",))
def test_a_program_is_verified_with_the_tolerance_of_bfloat16(target):
    verification = verify(emit(mixed_precision(mlp()), target))
    verification.check()
    allowed = {each.function: each.tolerance for each in verification.comparisons}
    assert (allowed["init"], allowed["predict"]) == (1e-5, 1.6e-2)


def test_the_tolerance_is_that_of_bfloat16_where_only_a_loop_has_it():
    model = mixed_precision(build(recurrent, [X]))
    assert any_operation(model, lambda op: op.contracts)
    verification = verify(emit(Functions({"f": model}, "net"), "numpy"))
    assert {each.tolerance for each in verification.comparisons if each.function == "f"} == {1.6e-2}


def test_numbers_that_do_not_depend_on_16_bits_are_exact():
    n = NdArrayType((Dim("n"),))
    count = build(lambda x: [ops.cast(x, BF16), ops.argmax(x)], [n])
    allowed = [each.tolerance for each in verify(emit(Functions({"f": count}, "net"))).comparisons]
    assert allowed == [1.6e-2, 0.0]


def test_the_command_line_emits_and_verifies_it(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["emit", "tests.models:mlp", "--precision", "bf16", "-o", str(tmp_path)])
    assert (tmp_path / "mlp.py").read_text(encoding="utf-8") == emit(mixed_precision(mlp())).source
    with pytest.raises(SystemExit) as ended:
        main(["verify", "tests.models:mlp", "--precision", "bf16"])
    assert ended.value.code == 0
    assert re.search(r"step +\d+ +\S+ +0\.016 +yes", capsys.readouterr().out)
