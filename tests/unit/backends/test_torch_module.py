"""The file with a torch.nn.Module: its text, options, and independence of catgrad."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from catgrad import Dtype, NdArrayType, Task, build, emit, layers, mse, ops, sgd
from catgrad.errors import DtypeError, OptionError, ShapeError, UnknownName
from catgrad.terms.structural import Constant
from tests.conformance.test_torch_module import stateful
from tests.models import mlp, two_inputs
from tests.unit.command import run

torch = pytest.importorskip("torch", reason="PyTorch, on which the emitted file runs, is not installed")

V = NdArrayType((3,))


def module_source(task: Task, **options) -> str:
    return emit(task, "torch-module", **options).source


def model(function, *types: NdArrayType) -> Task:
    """Build a task from a function."""
    return Task(build(function, types or [V]), sgd(0.1), mse)


def test_golden(check_golden):
    check_golden("torch-module/mlp.py", module_source(mlp(), skeleton=True))
    check_golden("torch-module/stateful.py", module_source(stateful()))


def test_the_module_imports_pytorch_only():
    tree = ast.parse(module_source(mlp(), skeleton=True))
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert [alias.name for node in imports for alias in node.names] == ["math", "torch"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"clas_name": "Net"}, UnknownName, "did you mean 'class_name'"),
        ({"class_name": "Net(object)"}, OptionError, "class_name must be an ASCII identifier"),
        ({"class_name": "A:\n    import os\nclass B"}, OptionError, "class_name must be an ASCII identifier"),
        ({"class_name": "class"}, OptionError, "no keyword or builtin of Python"),
        ({"class_name": "getattr"}, OptionError, "no keyword or builtin of Python"),
        ({"class_name": "math"}, OptionError, "class_name must not be used in the emitted file"),
        ({"class_name": "torch"}, OptionError, "class_name must not be used in the emitted file"),
        ({"class_name": "criterion"}, OptionError, "class_name must not be used"),
        ({"class_name": "Überbau"}, OptionError, "class_name must be an ASCII identifier"),
        ({"class_name": 3}, OptionError, "class_name must be a string"),
        ({"dtype": "torch.float32"}, OptionError, "dtype must be one of float32, float64"),
        (
            {"dtype": "float64"},
            DtypeError,
            r"dense_0.weight is float32; build the model with arrays of float64",
        ),
        ({"constants": "learned"}, OptionError, "constants must be one of inline, buffers, parameters"),
        ({"compress": "no"}, OptionError, "compress must be true or false"),
        ({"skeleton": 1}, OptionError, "skeleton must be true or false"),
    ],
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        emit(mlp(), "torch-module", **options)


def test_targets_without_options_refuse_them():
    with pytest.raises(UnknownName, match="an option of the target numpy must be left out, for it has none"):
        emit(mlp(), "numpy", class_name="Net")


def test_options_come_from_the_command_line(tmp_path):
    arguments = ("--option", "class_name=Net", "--option", "skeleton=true", "-o", str(tmp_path))
    done = run("emit", "examples.iris:dense", "-t", "torch-module", *arguments)
    assert done.returncode == 0, done.stderr
    from examples.iris import dense

    wanted = module_source(dense(), class_name="Net", skeleton=True)
    assert (tmp_path / "dense.py").read_text(encoding="utf-8") == wanted
    refused = run("emit", "examples.iris:dense", "--option", "skeleton")
    assert refused.returncode == 2
    assert "an option must be given as NAME=VALUE" in refused.stderr


@pytest.mark.parametrize("wanted", ["float32", "float64"])
def test_the_dtype_of_the_model_is_accepted(wanted):
    assert f"torch.{wanted}" in module_source(mlp(dtype=Dtype[wanted]), dtype=wanted)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("two_inputs", "TwoInputs"), ("mlp", "Mlp"), ("a.b_2", "AB2"), ("2d", "Model2d"), ("none", "ModelNone")],
)
def test_classes_are_called_like_the_task(name, wanted):
    task = mlp()
    source = module_source(Task(task.model, task.optimiser, task.loss, name))
    assert f"class {wanted}(torch.nn.Module):" in source


def with_parameters(*names: str) -> Task:
    """Build a product of parameters."""

    def forward(x):
        for name in names:
            x = x * layers.parameter(name, V)
        return x

    return model(forward)


def test_every_dotted_name_is_a_key_of_state_dict():
    """Names are numbers, keywords of Python, and names of the file."""
    names = [
        "0",
        "0b.1.weight",
        "lambda",
        "encoder.0.weight",
        "encoder.class.bias",
        "x",
        "y_hat",
        "a.b",
        "a_b",
    ]
    names += ["torch", "seed", "np", "self", "batch"]
    task = with_parameters(*names)
    module = emit(task, "torch-module").load().Module()
    assert list(module.state_dict()) and set(module.state_dict()) == set(names)
    module.load_state_dict({name: torch.full((3,), k + 1.0) for k, name in enumerate(names)})
    product = np.prod(np.arange(1.0, len(names) + 1))
    np.testing.assert_allclose(module(torch.ones(3)).detach(), np.full(3, product), rtol=1e-6)


@pytest.mark.parametrize(
    "names",
    [("float",), ("encoder.training",), ("predict",), ("_parameters",), ("a", "a.b"), ("forward.weight",)],
)
def test_names_that_a_module_has_already_are_refused(names):
    with pytest.raises(OptionError, match=r"must be no attributes of torch\.nn\.Module"):
        emit(with_parameters(*names), "torch-module")


def test_all_attributes_of_a_module_are_known():
    from catgrad.backends.torch_module.parts import TAKEN

    own = {name for name, value in inspect.getmembers(torch.nn.Module()) if not is_foreign(value)}
    assert {name for name in own if not name.startswith("_")} <= TAKEN


def is_foreign(value):
    """Return whether another library, such as transformers, added an attribute to all modules."""
    return not (getattr(value, "__module__", None) or "torch").startswith("torch")


NUMBERS = [
    1e-9,
    1e-12,
    0.1,
    -0.0,
    float("inf"),
    float("-inf"),
    float("nan"),
    1e30,
    3.4028234663852886e38,
    1 / 3,
]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", [Dtype.float32, Dtype.float64])
def test_numbers_round_trip(number, dtype):
    """Defect (c) of another exporter: numbers had six decimals, so 1e-9 was 0."""
    T = NdArrayType((2,), dtype)
    task = model(lambda x: ops.select(x > 0, Constant(T, number)(), x * 0), T)
    y = emit(task, "torch-module").load().Module()(torch.ones(2, dtype=getattr(torch, dtype.name)))
    np.testing.assert_array_equal(y, np.full(2, number, dtype.numpy))
    assert np.array_equal(np.signbit(y), np.signbit(np.full(2, number)))


def test_epsilon_is_always_written():
    """Defect (e) of another exporter: epsilon was omitted."""
    source = module_source(model(lambda x: ops.layer_norm(x, 1, 1e-3)))
    assert "0.001" in source


def test_inputs_are_separate_arguments():
    """Defect (b) of another exporter: every input was the first."""
    task = model(lambda a, b, c: a - 2 * b + 3 * c, V, V, V)
    module = emit(task, "torch-module").load().Module()
    a, b, c = torch.randn(3, 3)
    torch.testing.assert_close(module(a, b, c), a - 2 * b + 3 * c)
    with pytest.raises(TypeError):
        module(a, b)


def test_inputs_of_an_export_follow_parameters_and_buffers():
    """Defect (g) of another exporter: inputs were identified by order, not by the signature."""
    module = emit(two_inputs(), "torch-module").load().Module().eval()
    exported = torch.export.export(module, (torch.randn(2, 4), torch.randn(2, 4)))
    assert list(exported.graph_signature.user_inputs) == ["x_0", "x_1"]
    assert list(exported.graph_signature.parameters) == ["weight"]


def test_weights_are_drawn_and_not_listed():
    """Defect (f) of another exporter: weights were literals, and names numbers."""
    big = NdArrayType((1000,))
    task = Task(layers.dense(NdArrayType((2,)), big, big), sgd(0.1), mse)
    source = module_source(task)
    assert len(source) < 4000
    state = emit(task, "torch-module").load().Module(seed=5).state_dict()
    for name, array in emit(task).load()().learner(seed=5).parameters.items():
        np.testing.assert_array_equal(state[name], array)


GRID = NdArrayType((4, 3))


def with_table(x):
    """Build a sum with a constant table of equal rows, and a number."""
    row = ops.cos(ops.cast(ops.iota(3), Dtype.float32))
    return 2 * x + ops.broadcast(row, (4, 3))


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("constants", ["inline", "buffers", "parameters"])
def test_constants_are_placed_by_the_option(constants, compress):
    """Defect (a) of another exporter: uncompressed parameters became buffers."""
    task = model(with_table, GRID)
    module = emit(task, "torch-module", constants=constants, compress=compress).load().Module()
    tables = {"inline": {}, "buffers": dict(module.named_buffers())}.get(
        constants, dict(module.named_parameters())
    )
    assert [*map(tuple, (t.shape for t in tables.values()))] == (
        [] if constants == "inline" else [(3,)] if compress else [(4, 3)]
    )
    assert len([*module.parameters()]) == (constants == "parameters")
    assert len(module.state_dict()) == (constants == "parameters")
    x = torch.randn(4, 3)
    y = module(x)
    torch.testing.assert_close(y, 2 * x + torch.cos(torch.arange(3.0)))
    compiled = emit(task, "torch-module", constants=constants, compress=compress).load()()
    np.testing.assert_array_equal(compiled.predict(x)[0], y.detach())
    if constants == "parameters":
        y.sum().backward()
        [table] = tables.values()
        assert table.is_contiguous()
        assert table.grad.sum() == 12


def test_tables_of_one_array_do_not_share_memory():
    def forward(x):
        table = ops.cos(ops.cast(ops.iota(6), Dtype.float32))
        a, b = ops.split(ops.concat([table, table]), (6, 6), 0)
        return ops.slice(a, (0,), (3,)) * x + ops.slice(b, (0,), (3,)) + ops.slice(a, (1,), (3,))

    module = emit(model(forward), "torch-module", constants="parameters").load().Module()
    assert len({table.untyped_storage().data_ptr() for table in module.parameters()}) == 3


def test_training_and_evaluation_share_constants():
    def both(x):
        table = ops.sin(ops.cast(ops.iota(3), Dtype.float32))
        return layers.dropout(GRID).apply(x * ops.broadcast(table, (4, 3)))[0]

    module = emit(model(both, GRID), "torch-module", constants="parameters").load().Module()
    assert [*dict(module.named_parameters())] == ["table_0"]
    module(torch.ones(4, 3))
    module.eval()(torch.ones(4, 3))


def test_emission_needs_no_pytorch():
    program = (
        "import sys; sys.modules['torch'] = None\nfrom tests.models import mlp\nfrom catgrad import emit\n"
    )
    program += "emit(mlp(), 'torch-module', skeleton=True, constants='buffers')"
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root)


def test_a_missing_array_is_named():
    with pytest.raises(ShapeError, match="there must be 5 arrays, but there are 1; pass dense_0.weight"):
        emit(mlp(), "torch-module").load()().predict(np.zeros((2, 4)))
