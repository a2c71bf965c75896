"""Import of models from PyTorch: `python -m benchmarks.compiler.torch_import`.

Imports a small model of each family of tests/conformance/torch_families.py, and GPT-2 with 124 million
parameters, and compares with torch.export alone. Measures the processor time, the minimum of five rounds; the
memory that the import takes beyond what the process held before; and for small models the largest difference
between emitted code and PyTorch, relative to the largest element of the same array. Each model has a process
of its own, on Linux. Takes ten minutes, and ten more with `--targets numpy,c`, for the C compiler.

Prints the figures, writes the tables of docs/reference/torch-families.md, and keeps the figures in
benchmarks/results/torch_import.json.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import platform
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import records
from benchmarks.harness import RESULTS, ROOT, duration, processor

JSON = RESULTS / "torch_import.json"
PAGE = ROOT / "docs" / "reference" / "torch-families.md"
ROUNDS = 5
MAX_RATIO, MAX_COPIES, MAX_MORE_BYTES = 2.0, 2, 300e6
LARGE = "GPT-2, 124 million parameters"
HEADINGS = ("family", "parameters", "operations", "torch.export", "import", "ratio", "memory of the import")


@dataclass(frozen=True)
class Row:
    """The figures of one model; differences by target."""

    family: str
    parameters: int
    operations: int
    weights_bytes: int
    export_seconds: float
    seconds: float
    ratio: float
    peak_bytes: int
    differences: dict[str, float]


def measured(family: str, make: Callable[[], tuple[Any, Sequence[Any]]], targets: Sequence[str]) -> Row:
    """Import one model, in this process."""
    import torch

    from catgrad.frontends.torch import from_torch
    from tests.conformance.torch_differences import largest_difference

    module, inputs = make()
    exports, imports = [], []
    before = resident_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak
    imported = from_torch(module, *inputs)
    peak = resident_bytes("VmHWM") - before
    for _ in range(ROUNDS):
        exports.append(seconds(lambda: torch.export.export(module, tuple(inputs), strict=False)))
        imports.append(seconds(lambda: from_torch(module, *inputs)))
    return Row(
        family,
        sum(parameter.size for parameter in imported.parameters.values()),
        imported.model.H.X,
        sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers())),
        min(exports),
        min(imports),
        min(imports) / min(exports),
        peak,
        {target: largest_difference(module, inputs, imported, target) for target in targets},
    )


def seconds(function: Callable[[], Any]) -> float:
    """Return the processor time of one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def resident_bytes(name: str) -> int:
    """Return the resident memory of this process, or its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def in_a_process(*arguments: Any) -> Row:
    """Measure in a child process, which has the libraries of this one."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(measured, arguments)


def gpt_2() -> tuple[Any, Sequence[Any]]:
    """Return GPT-2 of its usual size with random weights, and 64 tokens."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from tests.conformance.torch_families import Result

    model = GPT2LMHeadModel(GPT2Config()).eval()
    return Result(model, "logits", "input_ids", use_cache=False), [torch.randint(50257, (1, 64))]


def cells(row: Row) -> list[str]:
    """Return a row of the table as texts."""
    return [
        row.family, f"{row.parameters:,}", f"{row.operations:,}", duration(row.export_seconds),
        duration(row.seconds), f"{row.ratio:.2f}", f"{row.peak_bytes / 1e6:.0f} MB",
        *(f"{difference:.1e}" for difference in row.differences.values()),
    ]  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Return a table in Markdown."""
    targets = [f"difference on {target}" for target in rows[0].differences]
    lines = [[*HEADINGS, *targets], ["---"] * (len(HEADINGS) + len(targets)), *map(cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def verdict(row: Row) -> str:
    """Compare the import of a large model with its limits."""
    limit = MAX_COPIES * row.weights_bytes + MAX_MORE_BYTES
    return (
        f"{row.family}: {row.ratio:.2f} times the time of torch.export (at most {MAX_RATIO:g}), "
        f"{row.peak_bytes / 1e6:.0f} MB (at most {limit / 1e6:.0f} MB, twice the weights and 300 MB)"
    )


def written(page: str, small: str, large: str) -> str:
    """Return the page with its tables replaced."""
    parts = page.split("\n\n")
    first, second = (k for k, part in enumerate(parts) if part.startswith("| family"))
    parts[first], parts[second] = small, large
    return "\n\n".join(parts).rstrip("\n") + "\n"


def keep(rows: dict[str, Row], names: Sequence[str]) -> None:
    """Write the JSON and the page, with the figures of earlier runs for models that were not measured now."""
    import torch
    import transformers

    earlier = json.loads(JSON.read_text())["rows"] if JSON.exists() else []
    known = {row["family"]: Row(**row) for row in earlier} | rows
    every = [known[name] for name in names if name in known]
    machine = {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version()}
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    whole = {
        "command": "python -m benchmarks.compiler.torch_import", "machine": machine, "versions": versions,
        "rows": [asdict(row) for row in every],
    }  # fmt: skip
    small, large = ([row for row in every if bool(row.differences) == is_small] for is_small in (True, False))
    page = written(PAGE.read_text(encoding="utf-8"), table(small), table(large))
    records.keep(JSON, whole)
    PAGE.write_text(page, encoding="utf-8")
    print(f"kept in {JSON.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")


def main() -> None:
    """Measure all, or the families that are named, and print tables."""
    import torch

    from tests.conformance.torch_families import FAMILIES, made
    from tests.conformance.torch_vision import import_torchvision

    parser = argparse.ArgumentParser(description="Measure imports from PyTorch.")
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, LARGE, []], metavar="FAMILY")
    parser.add_argument("--targets", default="numpy", help="targets on which differences are measured")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # warnings of the libraries about their own code
    torch.set_num_threads(1)
    import_torchvision()
    measured("", lambda: made("GPT-2"), ())  # loads the libraries, and what they compute once
    names, rows = (*FAMILIES, LARGE), {}
    for name in options.families or names:
        if name == LARGE:
            rows[name] = in_a_process(name, gpt_2, ())
            print(verdict(rows[name]), flush=True)
        else:
            targets = options.targets.split(",")
            rows[name] = in_a_process(name, functools.partial(made, name), targets)
            print(" ".join(cells(rows[name])), flush=True)
    keep(rows, names)


if __name__ == "__main__":
    main()
