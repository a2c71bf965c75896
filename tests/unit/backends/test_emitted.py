"""Emitted NumPy: its text, its independence of catgrad, and its checks of arguments."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, compile_model, layers, mse, ops, sgd
from catgrad.errors import OptionError, UnknownName
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.models import TASKS, mlp
from tests.pythons import interpreter
from tests.targets import emit, on


@pytest.mark.parametrize("name", TASKS)
def test_golden(check_golden, name):
    """Classes are those of the first file."""
    functions, classes = emit(TASKS[name]()).source.split("\n\n\ndef converted", 1)
    check_golden(f"numpy/{name}.py", functions + (f"\n\n\ndef converted{classes}" if name == "mlp" else "\n"))


@pytest.mark.parametrize("target", ["torch", "jax"])
def test_golden_of_other_targets(check_golden, target):
    check_golden(f"{target}/mlp.py", emit(TASKS["mlp"](), target).source)


@pytest.mark.parametrize(
    ("target", "libraries"),
    [("numpy", ["numpy"]), ("torch", ["torch"]), ("jax", ["jax", "jax.numpy", "numpy"])],
)
def test_emitted_code_imports_its_library_only(target, libraries):
    tree = ast.parse(emit(mlp(), target).source)
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert [alias.name for node in imports for alias in node.names] == [
        "math",
        "Mapping",
        "MutableMapping",
        "get_close_matches",
        "RLock",
        *libraries,
    ]


def test_a_linear_step_by_numbers():
    """The step of Python catgrad's README with a fixed batch size is readable."""
    B, I, O = NdArrayType((150,)), NdArrayType((4,)), NdArrayType((3,))
    source = compile_model(layers.linear(B, I, O), layers.sgd(0.0001), layers.mse).source
    step = source[source.index("def step") : source.index("def converted")]
    assert (
        step.rstrip()
        == '''def step(linear_weight, x, y):
    """P × X × Y → R × P: one step of training, and the loss before it."""
    y_hat = x @ linear_weight  # f32[150,3]
    difference = y_hat - y  # f32[150,3]
    loss = np.square(difference).sum() / np.float32(450)  # f32[]
    d_y_hat = 0.0044444446 * difference  # f32[150,3]
    d_linear_weight = x.T @ d_y_hat  # f32[4,3]
    new_linear_weight = linear_weight - 0.0001 * d_linear_weight  # f32[4,3]
    return [loss, new_linear_weight]'''
    )


def test_the_published_snippet():
    """The README and the iris example of Python catgrad run unchanged."""
    BATCH_TYPE, INPUT_TYPE, OUTPUT_TYPE = NdArrayType((150,)), NdArrayType((4,)), NdArrayType((1,))
    learning_rate = 0.05
    model = layers.linear(BATCH_TYPE, INPUT_TYPE, OUTPUT_TYPE)
    CompiledModel, ParamType, source = compile_model(model, layers.sgd(learning_rate), layers.mse)
    assert isinstance(source, str)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 4))
    true = np.arange(4).reshape(4, 1)
    y = x @ true
    compiled = CompiledModel()
    p = [rng.normal(0, 0.01, T.shape).astype(T.dtype.numpy) for T in ParamType]
    for _ in range(300):
        p = compiled.step(*p, x, y)
    [y_hat] = compiled.predict(*p, x)
    np.testing.assert_allclose(p[0], true, atol=1e-4)
    np.testing.assert_allclose(y_hat, y, atol=1e-3)


@on("numpy", "torch", "jax", "c", "cuda", "scratch", long=("cuda",))
def test_a_step_returns_the_loss_and_the_new_tables(target):
    """On every target, except the class of `compile_model`, whose step omits the loss."""
    task = mlp(batch=NdArrayType((3,)))
    options = {"batch": 3, "predict_batch": 3} if target == "scratch" else {}
    artifact = emit(task, target, **options)
    model = artifact.load()()
    step = artifact.reference.kinds[Kind.STEP]
    assert step.outputs[0].role is Role.LOSS
    x, y = np.ones((3, 4), np.float32), np.zeros((3, 3), np.float32)
    state = model.init_state(0) if Role.STATE in step.tables else []  # a learning rate
    expected = evaluate(step, *state, *(p := model.init(0)), x, y)
    for found, reference in zip(model.step(*state, *p, x, y), expected, strict=True):
        np.testing.assert_allclose(found, reference, rtol=1e-5, atol=1e-6)
    if target != "scratch":
        published = compile_model(task.model, task.optimiser, task.loss, target).CompiledModel()
        for found, reference in zip(published.step(*p, x, y), expected[1 + len(state) :], strict=True):
            np.testing.assert_allclose(found, reference, rtol=1e-5, atol=1e-6)


def test_combinators_of_the_published_example():
    A, B, C = NdArrayType((5,)), NdArrayType((4,)), NdArrayType((3,))
    from catgrad import obj

    model = layers.dense(A, B, C, activation=layers.sigmoid) >> layers.sigmoid(obj(A + C))
    both = model @ layers.linear(A, B, C)
    assert len(both.source) == len(both.target) == 2


def test_a_bias_has_the_shape_of_the_features():
    A, B, C = NdArrayType((5,)), NdArrayType((4,)), NdArrayType((2, 3))
    compiled = compile_model(layers.dense(A, B, C), sgd(0.1), mse)
    assert [T.shape for T in compiled.ParamType] == [(4, 2, 3), (2, 3)]


@on("numpy", "c")
def test_learner(target):
    learner = emit(mlp(sgd(0.5, 0.9)), target).load()().learner(seed=0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, 4))
    y = np.tanh(x[:, :3])
    before = learner.loss(x, y)
    assert learner.step(x, y) == before
    for _ in range(200):
        learner.step(x, y)
    assert learner.loss(x, y) < before / 10
    assert list(learner.parameters) == ["dense_0.weight", "dense_0.bias", "dense_1.weight", "dense_1.bias"]
    assert list(learner.state) == [f"momentum.{name}" for name in learner.parameters]
    assert learner.predict(x).dtype == np.float32


@on("numpy", "c")
def test_init_is_determined_by_the_seed(target):
    compiled = emit(mlp(), target).load()()
    again = zip(compiled.init(1), compiled.init(1), strict=True)
    assert all(np.array_equal(a, b) for a, b in again)
    assert not np.array_equal(compiled.init(1)[0], compiled.init(2)[0])
    assert all(np.all(np.abs(a) <= 0.5) for a in compiled.init(0)[:2])


X, Y = np.zeros((6, 4), np.float32), np.zeros((6, 3), np.float32)


@pytest.mark.covering
@on("numpy", "c")
@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (X[0], Y, ValueError, r"x must have shape \(4, 4\) where batch = 4, but it is \(4,\); reshape it"),
        (
            X,
            Y[:3],
            ValueError,
            r"step: y must have shape \(6, 3\) where batch = 6, but it is \(3, 3\); reshape it",
        ),
        (X, Y[0], ValueError, r"y must have shape \(6, 3\) where batch = 6, but it is \(3,\)"),
        (np.full((6, 4), 1e300), Y, TypeError, "x must fit float32, but it has values outside; rescale it"),
        (X.astype(complex), Y, TypeError, "x must be float32, but it is complex128; use astype"),
        (np.full((6, 4), "a"), Y, TypeError, "x must be float32"),
    ],
)
def test_wrong_arguments_are_refused(x, y, error, message, target):
    learner = emit(mlp(), target).load()().learner()
    with pytest.raises(error, match=message):
        learner.step(x, y)


@on("numpy", "c")
def test_the_number_of_arguments_is_checked(target):
    compiled = emit(mlp(), target).load()()
    with pytest.raises(
        TypeError, match=r"predict must get 5 arrays, but it got 1; pass dense_0\.weight, .*, x"
    ):
        compiled.predict(X)


@on("numpy", "c")
def test_integers_do_not_wrap(target):
    I = NdArrayType((2,), Dtype.int32)
    program = Program("integers", (lower(build(lambda x: x + 1, [I]), "f"),))
    compiled = get_backend(target).emit(program).load()()
    assert compiled.f(np.array([1, 2], np.int64))[0].dtype == np.int32
    with pytest.raises(TypeError):
        compiled.f(np.array([1, 2**40]))
    with pytest.raises(TypeError):
        compiled.f(np.array([0.5, 1.0]))


@on("numpy", "c")
def test_a_refused_argument_is_refused_again(target):
    learner = emit(mlp(), target).load()().learner()
    for _ in range(2):
        with pytest.raises(ValueError, match="y must have shape"):
            learner.step(X, Y[:1])
    learner.step(X, Y)


@on("numpy", "c")
def test_overflow_is_ieee_and_silent(target):
    [result] = run_on(
        get_backend(target), build(ops.sigmoid, [NdArrayType((3,))]), np.float32([-1000, 0, 1000])
    )
    assert result.tolist() == [0.0, 0.5, 1.0]


@on("numpy", "c")
def test_names_of_the_language_and_of_the_file_do_not_collide(target):
    """Parameters have the names of keywords, builtins, modules, inputs and each other."""
    V = NdArrayType((2,))
    names = ["lambda", "np", "x", "y", "a.b", "a_b", "y_hat", "float", "0", "batch", "restrict", "memcpy"]

    def model(x):
        for name in names:
            x = x * ops.broadcast(layers.parameter(name, V), x.shape)
        return x

    task = Task(build(model, [NdArrayType((Dim("batch"), 2))]), sgd(0.1), mse)
    learner = emit(task, target).load()().learner()
    assert list(learner.parameters) == names
    learner.parameters = {name: np.full(2, k + 1, np.float32) for k, name in enumerate(names)}
    np.testing.assert_allclose(learner.predict(np.ones((3, 2))), np.full((3, 2), 479001600))


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x, y: x - (y - x), "x0 - (x1 - x0)"),
        (lambda x, y: (x - y) - x, "x0 - x1 - x0"),
        (lambda x, y: x / (y * x), "x0 / (x1 * x0)"),
        (lambda x, y: -(x + y), "-(x0 + x1)"),
        (lambda x, y: ops.transpose(x + y), "(x0 + x1).T"),
        (lambda x, y: ops.sum(x * y, 0), "(x0 * x1).sum(axis=0)"),
        (lambda x, y: ops.transpose(x) @ y, "x0.T @ x1"),
        (lambda x, y: x @ ops.transpose(y), "x0 @ x1.T"),
        (lambda x, y: ops.transpose(x @ ops.transpose(y)), "x1 @ x0.T"),
        (lambda x, y: x * 2 + 0.5, "x0 * 2 + 0.5"),
        (lambda x, y: x + ops.broadcast(ops.sum(y, 1), (3, 4), (1,)), "x0 + x1.sum(axis=1)[:, None]"),
        (lambda x, y: x + ops.broadcast(ops.sum(y, 0), (3, 4)), "x0 + x1.sum(axis=0)"),
        (
            lambda x, y: ops.contract(x, ops.reshape(y, 4, 3, 1), 1),
            "(x0 @ x1.reshape((4, 3))).reshape((3, 3, 1))",
        ),
    ],
)
def test_expressions_have_the_parentheses_they_need(function, wanted):
    types = [NdArrayType((3, 4))] * 2
    source = get_backend("numpy").emit(Program("p", (lower(build(function, types), "f"),))).source
    function_body = source[source.index("def f(") : source.index("class Checked")]
    assert wanted in function_body


def test_emission_is_deterministic_across_processes():
    program = (
        "from tests.models import TASKS\nfrom tests.targets import emit\n"
        "text = ''.join(emit(make(), t).source for t in ('numpy', 'c') for make in TASKS.values())\n"
    )
    exec(program, here := {})
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", program + "print(text, end='')"]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert done.stdout.decode() == here["text"]


def test_unknown_targets_are_refused_with_a_suggestion():
    with pytest.raises(UnknownName, match="did you mean 'numpy'"):
        emit(mlp(), "numppy")


@pytest.mark.parametrize(
    ("rate", "momentum"), [(float("inf"), 0), (-1, 0), (float("nan"), 0), (0.1, 1.0), (0.1, -0.1)]
)
def test_optimiser_options_are_checked(rate, momentum):
    with pytest.raises(OptionError):
        sgd(rate, momentum)


def test_a_rate_may_be_0_as_in_torch():
    assert sgd(0.0).settings["learning_rate"] == 0.0


def test_a_loss_must_be_one_number():
    from catgrad.errors import ShapeError

    task = Task(
        layers.linear(NdArrayType((5,)), NdArrayType((4,)), NdArrayType((3,))), sgd(0.1), ops.subtract
    )
    with pytest.raises(ShapeError, match="loss: a loss must be a scalar"):
        emit(task)


BARE = """
import sys
import importlib.util
assert importlib.util.find_spec("catgrad") is None and importlib.util.find_spec("open_hypergraphs") is None
import numpy as np
assert np.__version__.startswith("2."), np.__version__
import mlp
learner = mlp.CompiledModel().learner(seed=0)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(9, 4)), rng.normal(size=(9, 3))
losses = [repr(float(learner.step(x, y))) for _ in range(5)]
print(losses, {a.dtype.name for a in learner.parameters.values()})
"""


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory):
    """Return a Python 3.13 with NumPy 2 and nothing else."""
    python = interpreter("3.13")
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet"]
    subprocess.run([*pip, "numpy>=2,<3"], check=True, capture_output=True)
    return folder / "bin/python"


def test_the_emitted_file_runs_in_a_bare_python(bare_python, tmp_path):
    artifact = emit(mlp(sgd(0.1, 0.9)))
    artifact.write(tmp_path)
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [bare_python, "-W", "error", "-c", BARE],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    losses = ast.literal_eval(done.stdout[: done.stdout.index("]") + 1])
    learner = artifact.load()().learner(seed=0)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 4)), rng.normal(size=(9, 3))
    np.testing.assert_allclose([float(v) for v in losses], [learner.step(x, y) for _ in range(5)], rtol=1e-5)
    assert "{'float32'}" in done.stdout


def test_expressions_with_places_for_operands_are_macros():
    """A text in the table `expressions` makes a target support an operation, with operands in any order."""
    backend = get_backend("torch")
    assert "ReverseGelu" in backend.operations
    assert (
        backend.dialect.macros["ReverseGelu"](None, None, None, "x", "dy")
        == "torch.ops.aten.gelu_backward(dy, x)"
    )
