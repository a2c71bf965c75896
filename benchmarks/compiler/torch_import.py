"""Import of models from PyTorch: `python -m benchmarks.compiler.torch_import`.

Imports a small model of each family of tests/conformance/torch_families.py, and GPT-2 with 124 million
parameters, and compares with torch.export alone. Measures the processor time, the minimum of five rounds; the
memory that the import takes beyond what the process held before; and for small models the largest difference
between emitted code and PyTorch, relative to the largest element of the same array. Each model has a process
of its own, on Linux. Takes ten minutes, and ten more with `--targets numpy,c`, for the C compiler.

Prints the figures; `--keep` writes benchmarks/results/torch_import.json and the tables of
docs/reference/torch-families.md.
"""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.harness import ROOT
from benchmarks.options import Keep, Only, is_chosen
from benchmarks.records import OURS, Record, Row, path_of
from benchmarks.tables import Columns, cells, counted, figure, markdown, text, times
from benchmarks.tables import keep as keep_tables

COMMAND = "python -m benchmarks.compiler.torch_import"
JSON = path_of("torch_import")
PAGE = ROOT / "docs" / "reference" / "torch-families.md"
ROUNDS = 5
MAX_RATIO, MAX_COPIES, MAX_MORE_BYTES = 2.0, 2, 300e6
LARGE = "GPT-2, 124 million parameters"


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
    results = {
        OURS: {"seconds": min(imports), "peak_bytes": peak},
        "torch.export": {"seconds": min(exports)},
    }
    facts = {
        "parameters": sum(parameter.size for parameter in imported.parameters.values()),
        "operations": imported.model.H.X,
        "weights_bytes": sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers())),
        "differences": {target: largest_difference(module, inputs, imported, target) for target in targets},
    }
    return Row(family, results, facts=facts)


def seconds(function: Callable[[], object]) -> float:
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


def columns_of(targets: Iterable[str]) -> Columns:
    """Return the columns of the figures, and of the differences on targets."""

    def difference(row: Row, target: str) -> str:
        return f"{row.facts['differences'][target]:.1e}"

    return {
        "family": lambda row: row.what,
        **{name: lambda row, name=name: counted(row.facts[name]) for name in ("parameters", "operations")},
        **times(["torch.export"]),
        "import": figure("seconds", text),
        "ratio": lambda row: f"{row.ratio:.2f}",
        "memory of the import": figure("peak_bytes", lambda size: f"{size / 1e6:.0f} MB"),
        **{f"difference on {target}": partial(difference, target=target) for target in targets},
    }


def table(rows: Sequence[Row]) -> str:
    """Return a table in Markdown."""
    return markdown(*cells(rows, columns_of(rows[0].facts["differences"])))


def verdict(row: Row) -> str:
    """Compare the import of a large model with its limits."""
    limit, used = MAX_COPIES * row.facts["weights_bytes"] + MAX_MORE_BYTES, row.results[OURS]["peak_bytes"]
    return (
        f"{row.what}: {row.ratio:.2f} times the time of torch.export (at most {MAX_RATIO:g}), "
        f"{used / 1e6:.0f} MB (at most {limit / 1e6:.0f} MB, twice the weights and 300 MB)"
    )


def tables(rows: Sequence[Row]) -> list[str]:
    """Return the tables of small models and of the large one."""
    parts = ([row for row in rows if bool(row.facts["differences"]) == small] for small in (True, False))
    return [table(part) for part in parts if part]


def main(
    only: Only = "",
    targets: Annotated[str, typer.Option(help="Targets on which differences are measured.")] = "numpy",
    keep: Keep = False,
) -> None:
    """Measure all families, or those that are named, and print tables."""
    import torch

    from tests.conformance.torch_families import FAMILIES, made
    from tests.conformance.torch_vision import import_torchvision

    warnings.simplefilter("ignore")  # warnings of the libraries about their own code
    torch.set_num_threads(1)
    import_torchvision()
    measured("", lambda: made("GPT-2"), ())  # loads the libraries, and what they compute once
    names, rows = (*FAMILIES, LARGE), []
    for name in (name for name in names if is_chosen(name, only)):
        if name == LARGE:
            rows.append(in_a_process(name, gpt_2, ()))
            print(verdict(rows[-1]), flush=True)
        else:
            rows.append(in_a_process(name, partial(made, name), targets.split(",")))
            print(*cells(rows[-1:], columns_of(targets.split(",")))[1][0], flush=True)
    if keep:
        versions = {name: version(name) for name in ("torch", "transformers")}
        keep_tables(Record(f"{COMMAND} --keep", rows, versions=versions), JSON, PAGE, tables)


if __name__ == "__main__":
    typer.run(main)
