"""Type checkers see the public names and the operators on variables: user code under mypy and pyright."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import catgrad
from catgrad import layers, losses, ops, optimisers, schedules
from tests.unit import surface

ROOT = Path(__file__).parents[3]

RIGHT = """\
from catgrad import Dtype, NdArrayType, Var, build


def layer(x: Var, w: Var, b: Var) -> tuple[Var, Var]:
    h: Var = 2 * (x @ w) + b - 1.5
    h = -(h**2) / (1 + h)
    near: Var = (h > 0) & (h <= 10) | ~(0 < h) ^ (h == 2)
    assert x.shape[0] == 2 and x.dtype is Dtype.float32
    return h, near


def digit(n: Var) -> Var:
    return (n << 3 >> 1) // 10 % 10


real, whole = NdArrayType((2, 2)), NdArrayType((), Dtype.int32)
types = [*build(layer, [real, real, real]).target.table, *build(digit, [whole]).target.table]
"""

WRONG = {
    'def f(x: Var) -> Var:\n    return x + "one"': 'Unsupported operand types for + ("Var" and "str")',
    "def f(x: Var) -> Var:\n    return [1] @ x": 'Unsupported operand types for @ ("list[int]" and "Var")',
    "def f(x: Var) -> int:\n    return x * 2": 'Incompatible return value type (got "Var", expected "int")',
    "def f(x: Var) -> bool:\n    return x > 0": 'Incompatible return value type (got "Var", expected "bool")',
    "def f(x: Var) -> object:\n    return x[0]": 'Value of type "Var" is not indexable',
}


def test_operators_on_variables_have_types(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "surface.py").write_text(PROGRAM.read_text())
    for number, snippet in enumerate(WRONG):
        (tmp_path / f"wrong_{number}.py").write_text(f"from catgrad import Var\n\n\n{snippet}\n")
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    config = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    printed, _, _ = api.run([*config, "--strict", str(tmp_path)])
    errors = sorted(line for line in printed.splitlines() if ": error:" in line)
    for line, (number, expected) in zip(errors, enumerate(WRONG.values()), strict=True):
        assert f"wrong_{number}.py:5:" in line
        assert expected in line


def test_the_program_that_type_checks_runs():
    namespace = {}
    exec(RIGHT, namespace)
    assert [str(type) for type in namespace["types"]] == ["f32[2,2]", "bool[2,2]", "i32[]"]


PROGRAM = Path(surface.__file__)
"""A program with every public name."""


def test_pyright_finds_nothing_in_a_program_with_every_public_name(tmp_path):
    pytest.importorskip("pyright", reason="pyright is not installed")
    (tmp_path / "surface.py").write_text(PROGRAM.read_text())
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "include": ["."]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=os.environ)
    assert [each["message"] for each in json.loads(found.stdout)["generalDiagnostics"]] == []


NAMESPACES = [catgrad, layers, losses, ops, optimisers, schedules]


@pytest.mark.parametrize("namespace", NAMESPACES, ids=lambda module: module.__name__)
def test_a_namespace_lists_public_names_only(namespace):
    extra = ["__version__"] if namespace is catgrad else []
    assert dir(namespace) == sorted([*namespace.__all__, *extra])
    assert all(hasattr(namespace, name) for name in namespace.__all__)


def test_the_program_has_every_public_name_but_operations():
    tree = ast.parse(PROGRAM.read_text())
    read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    read |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for namespace in (catgrad, layers, losses, optimisers, schedules):
        assert set(namespace.__all__) - read == set()


def test_the_program_with_every_public_name_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    surface.main()
