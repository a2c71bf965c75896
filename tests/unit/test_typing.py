"""Type checkers see the operators on variables: user code under `mypy --strict`."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

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
