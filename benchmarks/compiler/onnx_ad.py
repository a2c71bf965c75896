"""Derivatives of the models in the tests of the package onnx-ad, by central differences.

Its source distribution has them: `pip download onnx-ad==0.3.0 --no-deps --no-binary :all:`, and unpack it.
Each model whose Jacobian its tests check is differentiated by ours, at the point of the test: the Jacobian
by rows (vjp) and by columns (jvp), and a second derivative (vjp_2, or hvp). All are emitted as ONNX, and run
by ONNX Runtime.

    python -m benchmarks.compiler.onnx_ad onnx_ad-0.3.0
"""

from __future__ import annotations

import sys
import unittest
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from catgrad import emit
from catgrad.errors import CatgradError, ToolError
from catgrad.frontends.onnx import from_onnx
from catgrad.types import Array

MODULES = ("test_ad", "test_control", "test_functions", "test_more_ops", "test_recurrent")


@dataclass(frozen=True)
class Case:
    """A model at a point, and the input and the output of the Jacobian that a test checks."""

    test: str
    model: Any
    feeds: Mapping[str, Array]
    x: str
    y: str
    jacobian: Array | None
    differs: bool
    """True if differences approximate it, which they do not at a tie or a kink."""


def cases(folder: Path, module: str) -> list[Case]:
    """Run the tests of a module, and return what they would check."""
    found: list[Case] = []

    def check(
        test: Any,
        model: Any,
        feeds: Any,
        reference: Any = None,
        x: str = "x",
        y: str = "y",
        differences: bool = True,
        **more: Any,
    ) -> None:
        found.append(Case(test.id(), model, dict(feeds), x, y, reference, differences))

    sys.path[:0] = [str(folder / "src"), str(folder / "tests")]
    import_module("test_ad").JacobianCase.check = check
    unittest.TextTestRunner(stream=StringIO()).run(unittest.defaultTestLoader.loadTestsFromName(module))
    return found


def outcome(case: Case) -> str:
    """Return `right`, `wrong`, or the reason of a refusal."""
    constants = {n: a for n, a in case.feeds.items() if n != case.x}
    outputs = [each.name for each in case.model.graph.output]
    try:
        imported = from_onnx(case.model, constants=constants)
        functions = imported.derived(2)
        artifact = emit(functions, "onnx", [name for name in functions.terms if name != "jvp_2"])
    except CatgradError as error:
        return f"refused: {type(error).__name__}: {error}"
    x, chosen = np.asarray(case.feeds[case.x]), outputs.index(case.y)
    try:
        return "right" if _agrees(case, _Loaded(artifact), x, chosen) else "wrong"
    except ToolError as error:
        return f"refused: {error}"


class _Loaded:
    """Emitted functions, on the arrays that the model has."""

    def __init__(self, artifact: Any) -> None:
        self.functions, self.program = artifact.load()(), artifact.program
        self.names = [function.name for function in self.program.functions]

    def __getattr__(self, name: str) -> Any:
        tables = [port.name for port in self.program[name].inputs if port.role.is_table]
        arrays = [self.program.stored[each] for each in tables]
        return lambda *own: getattr(self.functions, name)(*arrays, *own)


def _agrees(case: Case, derived: Any, x: Array, chosen: int) -> bool:
    """Compare vjp, jvp and the second derivative with differences, and with each other."""
    double = x.dtype == np.float64
    step, tolerance = (1e-6, 1e-5) if double else (1e-3, 5e-3)
    values = [np.asarray(each) for each in derived.value(x)]
    floating = [k for k, y in enumerate(values) if y.dtype.kind == "f"]
    place = floating.index(chosen)
    number = "gradient" in derived.names
    reverse, second = (derived.gradient, derived.hvp) if number else (derived.vjp, derived.vjp_2)

    def seeds(u: Array) -> list[Array]:
        if number:
            return []
        return [u if k == chosen else np.zeros_like(values[k]) for k in floating]

    y = values[chosen]
    rows = np.array([reverse(x, *seeds(u))[0].ravel() for u in _basis(y)]).reshape(y.size, x.size)
    columns = np.array([derived.jvp(x, v)[place].ravel() for v in _basis(x)]).reshape(x.size, y.size).T
    expected = case.jacobian if not case.differs and case.jacobian is not None else None
    if expected is None:
        expected = _differences(lambda a: derived.value(a)[chosen], x, step)
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=y.shape).astype(y.dtype), rng.normal(size=x.shape).astype(x.dtype)
    gradients = _differences(lambda a: reverse(a, *seeds(u))[0], x, step) @ v.ravel()
    product = second(x, *seeds(u), v)[0].ravel()
    pairs = [(rows, columns), (rows, expected), (columns, expected)]
    if case.differs:
        pairs.append((product, gradients))
    return all(np.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in pairs)


def _basis(x: Array) -> Iterator[Array]:
    """Yield the arrays of one 1."""
    for k in range(x.size):
        flat = np.zeros(x.size, x.dtype)
        flat[k] = 1
        yield flat.reshape(x.shape)


def _differences(function: Callable[[Array], Any], x: Array, step: float) -> Array:
    """Return the Jacobian by central differences."""
    h = x.dtype.type(step)
    columns = [
        (np.asarray(function(x + h * v), np.float64) - function(x - h * v)).ravel() / (2 * step)
        for v in _basis(x)
    ]
    return np.stack(columns, 1)


if __name__ == "__main__":
    print("module", "right", "wrong", "refused")
    for module in sys.argv[2:] or MODULES:
        counts: Counter[str] = Counter()
        for each in cases(Path(sys.argv[1]), module):
            result = outcome(each)
            counts[result.partition(":")[0]] += 1
            if result != "right":
                print(each.test, result, flush=True)
        print(module, counts["right"], counts["wrong"], counts["refused"], flush=True)
