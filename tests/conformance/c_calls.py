"""Terms as functions of one C library, and a program that calls each of them with arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import numpy as np

from catgrad import Term
from catgrad.artifact import Artifact
from catgrad.functors import Expand
from catgrad.programs.program import Program, bind_symbols, lower
from catgrad.targets import get_backend
from catgrad.types import Array, substitute, symbols

Case = tuple[Term, Sequence[Array]]


@dataclass(frozen=True)
class Call:
    """A function with the sizes of a call, and the bytes of its arguments and results."""

    name: str
    sizes: list[int]
    inputs: list[int]
    outputs: list[int]


def library(name: str, terms: Sequence[Term], **options: object) -> Artifact:
    """Emit the terms as functions f0, f1, …"""
    backend = get_backend("c")
    functions = [lower(Expand(backend.has)(t), f"f{i}", doc="A case.") for i, t in enumerate(terms)]
    return backend.configured(**options).emit(Program(name, tuple(functions)))


def write(name: str, cases: Sequence[Case], folder: Path) -> None:
    """Write the library, the program main.c and the arrays it reads."""
    library(name, [term for term, _ in cases]).write(folder)
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    calls = [_call(f"f{i}", case) for i, case in enumerate(cases)]
    text = environment.get_template("c_calls.c.j2").render(name=name, calls=calls)
    (folder / "main.c").write_text(f"{text}\n")
    with (folder / "inputs").open("wb") as file:
        for _, arrays in cases:
            file.writelines(np.ascontiguousarray(array).tobytes() for array in arrays)


def results(cases: Sequence[Case], folder: Path) -> list[list[Array]]:
    """Read the results that the program has written, for each case."""
    found: list[list[Array]] = []
    with (folder / "outputs").open("rb") as file:
        for term, arrays in cases:
            sizes, outputs = _sizes((term, arrays)), []
            for type in term.target.table:
                shape = substitute(type.shape, sizes)
                empty = np.empty(shape, type.dtype.numpy)
                outputs.append(np.frombuffer(file.read(empty.nbytes), empty.dtype).reshape(shape))
            found.append(outputs)
        assert not file.read()
    return found


def _sizes(case: Case) -> dict[str, int]:
    term, arrays = case
    return bind_symbols(tuple(term.source.table), [array.shape for array in arrays])


def _call(name: str, case: Case) -> Call:
    term, arrays = case
    sizes = _sizes(case)
    outputs = [np.empty(substitute(t.shape, sizes), t.dtype.numpy).nbytes for t in term.target.table]
    in_order = [sizes[symbol] for symbol in symbols(tuple(term.source.table))]
    return Call(name, in_order, [array.nbytes for array in arrays], outputs)
