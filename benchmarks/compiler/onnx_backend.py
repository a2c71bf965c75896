"""Cases of ONNX's backend test suite that imported models pass: `python -m benchmarks.compiler.onnx_backend`.

Imports each model, evaluates it by the reference of the operations, and compares its outputs with those of
the suite, at its tolerances; float16 has the tolerance of this project. Takes half a minute; the counts
are kept in docs/howto/onnx.md.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import ROOT
from benchmarks.tables import markdown, write_table
from catgrad.backend import TOLERANCE
from catgrad.errors import CatgradError, DtypeError

PAGE = ROOT / "docs/howto/onnx.md"
KINDS = {
    "node": "operators",
    "simple": "small models",
    "pytorch-converted": "layers of PyTorch",
    "pytorch-operator": "operators of PyTorch",
}
HEADINGS = ("cases", "all", "passed", "refused", "wrong")
REASONS = ("refused for", "cases")


class Outcome(NamedTuple):
    """The result of a case, with the reason if it is not `passed`."""

    kind: str
    name: str
    result: str
    reason: str = ""


def outcomes(kinds: Sequence[str] = tuple(KINDS), step: int = 1) -> Iterator[Outcome]:
    """Run the cases of these kinds that are in the package onnx, each or one of so many."""
    from onnx.backend.test.loader import load_model_tests

    for kind in kinds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of NumPy, in the generators of cases
            cases = load_model_tests(kind=kind)
        for case in cases[::step]:
            yield Outcome(kind, case.name, *_run(case))


def _run(case: Any) -> tuple[str, str]:
    from onnx.backend.test.runner import Runner

    from catgrad.frontends.onnx.backend import CatgradBackend

    try:
        model, data = _read(case)
        prepared = CatgradBackend.prepare(model)
        for inputs, expected in data:
            found = prepared.run(inputs)
            is_half = any(getattr(x, "dtype", None) == np.float16 for x in expected)
            tolerance = max(case.rtol, TOLERANCE["f16"]) if is_half else case.rtol
            with np.errstate(all="ignore"):
                Runner.assert_similar_outputs(expected, found, tolerance, case.atol)
    except CatgradError as error:
        return "refused", _reason(error)
    except Exception as error:
        return "wrong", repr(error)
    return "passed", ""


def _reason(error: CatgradError) -> str:
    """Return the class of a refusal."""
    from catgrad.frontends.onnx.graph import UNKNOWN

    if isinstance(error, DtypeError):
        return "a dtype that terms lack (strings, 16 bits, uint64, complex numbers), or arithmetic in 8 bits"
    if error.must == UNKNOWN or error.must == "the front end must support all operators of a model":
        return "an operator without a rule, or several"
    if error.must == "an input must be an array of a known rank":
        return "a sequence, or an optional array"
    return "sizes that depend on data, or an attribute without a rule"


def _read(case: Any) -> tuple[Any, list[tuple[list[Any], list[Any]]]]:
    """Return a model, and its inputs and outputs."""
    import onnx

    if case.model is not None:
        return case.model, [([*map(_array, i)], [*map(_array, o)]) for i, o in case.data_sets]
    model = onnx.load(f"{case.model_dir}/model.onnx")
    folders = sorted(Path(case.model_dir).glob("test_data_set_*"))
    return model, [
        (_arrays(f, "input", model.graph.input), _arrays(f, "output", model.graph.output)) for f in folders
    ]


def _array(value: Any) -> Any:
    import onnx

    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _arrays(folder: Path, name: str, values: Sequence[Any]) -> list[Any]:
    import onnx

    found: list[Any] = []
    for k, path in enumerate(sorted(folder.glob(f"{name}_*.pb"), key=lambda p: int(p.stem.split("_")[1]))):
        data = path.read_bytes()
        is_array = values[k].type.HasField("tensor_type")
        found.append(onnx.numpy_helper.to_array(onnx.TensorProto.FromString(data)) if is_array else data)
    return found


def tables(rows: Sequence[Outcome]) -> tuple[str, str]:
    """Return the table of counts, and that of reasons."""
    lines = []
    for kind, title in KINDS.items():
        found = Counter(row.result for row in rows if row.kind == kind)
        lines.append((title, *map(str, (found.total(), *(found[name] for name in HEADINGS[2:])))))
    every = Counter(row.result for row in rows)
    lines.append(("together", *map(str, (every.total(), *(every[name] for name in HEADINGS[2:])))))
    reasons = Counter(row.reason for row in rows if row.result == "refused")
    return markdown(HEADINGS, lines), markdown(REASONS, [(why, str(n)) for why, n in reasons.most_common()])


def main() -> None:
    """Run all cases, print the tables and those that are wrong, and keep the tables."""
    rows = list(outcomes())
    for row in rows:
        if row.result == "wrong":
            print(row.name, row.reason)
    for table in tables(rows):
        print(table, end="\n\n")
        write_table(PAGE, table)


if __name__ == "__main__":
    main()
