"""Traces: a term run operation by operation, which finds the first one that makes NaN of numbers.

Each operation runs as the function that a target emits for it alone. Evaluation is then a functor from terms
to functions on arrays, given by the images of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from catgrad.backend import Backend
from catgrad.errors import ShapeError, require_one_of
from catgrad.files import write_atomically
from catgrad.functors import Expand
from catgrad.learn.compile import emit
from catgrad.learn.learner import Learner
from catgrad.learn.task import COMPILED, Task
from catgrad.paths import writable
from catgrad.programs.ports import Kind
from catgrad.programs.program import Program, bind_symbols, lower
from catgrad.tables import Cell, Table, Tabular, spelled
from catgrad.targets import get_backend
from catgrad.terms.dead_code import eliminate_dead_code
from catgrad.terms.draw import around, render
from catgrad.terms.op import Op
from catgrad.terms.structural import Label
from catgrad.terms.term import Term, check_functional, edges, singleton, substitute
from catgrad.terms.topological import schedule
from catgrad.types import Array, NdArrayType, as_numpy, widened

MAX_DRAWN_OPERATIONS = 200
"""The number of operations above which a diagram shows only those around the first NaN."""

NEIGHBOURS = 4
"""The distance of these from it, in wires."""

ROWS = 12
"""The slowest operations, which a trace lists."""


@dataclass(frozen=True)
class Visit:
    """An operation that has run: its place in the term, the name of its result, its arrays, and its time."""

    edge: int
    op: Op
    name: str
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    seconds: float

    @property
    def makes_nan(self) -> bool:
        """Tell whether an output has a NaN and no input has one."""
        return any(map(has_nan, self.outputs)) and not any(map(has_nan, self.inputs))


Hook = Callable[[Visit], None]
"""A function that is called after each operation."""


@dataclass(frozen=True)
class Step:
    """The record of an operation: the greatest magnitude of its results, and the number of NaN in them."""

    edge: int
    op: Op
    name: str
    types: tuple[NdArrayType, ...]
    seconds: float
    magnitude: float
    nans: int


@dataclass(frozen=True, repr=False)
class Trace(Tabular):
    """A term whose operations have run: records in order, results, and where NaN come from.

    `first_nan` is the first operation that made NaN of operands without any, if there is one.
    """

    term: Term
    steps: tuple[Step, ...]
    results: tuple[Array, ...]
    first_nan: Step | None
    nan_arguments: tuple[int, ...]

    @property
    def table(self) -> Table:
        """The operation that made the first NaN, and the slowest ones."""
        slowest = sorted(self.steps, key=lambda step: -step.seconds)[:ROWS]
        first = [] if self.first_nan is None else [self.first_nan]
        rows = [_cells(step) for step in (*first, *(step for step in slowest if step not in first))]
        seconds = sum(step.seconds for step in self.steps)
        notes = [f"{spelled(len(self.steps))} operations in {1000 * seconds:.1f} ms"]
        if self.first_nan is not None:
            name, operation = self.first_nan.name, type(self.first_nan.op).__name__
            notes.append(f"the first NaN of numbers is made by {operation} {name}".rstrip())
        elif self.nan_arguments:
            notes.append(f"NaN comes from {', '.join(f'argument {k}' for k in self.nan_arguments)}")
        header = ("operation", "name", "type", "ms", "greatest magnitude", "NaN")
        return Table(header, rows, notes=notes, texts=3)

    def draw(self, path: str | Path) -> None:
        """Draw the term to an SVG, PNG or PDF, with the operation that made the first NaN in red.

        Of a term with more than 200 operations, those around it are drawn.

        Raises: ToolError if no program draws the format; OptionError for another format; ArtifactError if the
                file cannot be written
        """
        file, term = Path(path), self.term
        marked = None if self.first_nan is None else self.first_nan.edge
        if marked is not None and len(self.steps) > MAX_DRAWN_OPERATIONS:
            term, marked = around(term, marked, NEIGHBOURS)
        with writable("the picture's file", file):
            write_atomically(file, [render(term, file.suffix.removeprefix("."), marked)])


def trace(
    model: Task | Term,
    *arrays: Any,
    function: str = "loss",
    learner: Learner | None = None,
    target: str = "numpy",
    hook: Hook | None = None,
) -> Trace:
    """Run a term on arrays, operation by operation, by the code that a target emits for each of them.

    Of a task it runs a `function`, on the tables of a learner, by default of a new one, and these arrays.
    `hook` is called after each operation, with its arrays. Loops and branches are one operation.

    Raises: ShapeError if the arrays do not fit; OptionError for an unknown function; as `emit`; any error
            that an operation or the hook raises
    """
    if isinstance(model, Task):
        term, arrays = model.entry(kind_of(function))[0], arguments(model, function, arrays, learner)
    else:
        term = model
    backend = get_backend(target)
    check_functional(term)
    sizes = bind_symbols(tuple(term.source.table), [np.shape(array) for array in arrays])
    whole = eliminate_dead_code(substitute(Expand(backend.has)(term), sizes))
    images, every, types = _Images(backend, whole), edges(whole), whole.H.w.table
    names = {edge.sources[0]: edge.op.name for edge in every if isinstance(edge.op, Label)}
    values = dict(zip(whole.s.table.tolist(), arrays, strict=True))
    steps, first = [], None
    for k in schedule(whole):
        op, sources, targets = every[k]
        given = tuple(values[wire] for wire in sources)
        began = perf_counter()
        outputs = images.run(op, tuple(types[wire] for wire in sources), given)
        seconds = perf_counter() - began
        values |= zip(targets, outputs, strict=True)
        if op.structural:
            continue
        name = next((names[wire] for wire in targets if wire in names), "")
        visit = Visit(k, op, name, given, outputs, seconds)
        steps.append(_recorded(visit, tuple(types[wire] for wire in targets)))
        if first is None and visit.makes_nan:
            first = steps[-1]
        if hook is not None:
            hook(visit)
    results = tuple(values[wire] for wire in whole.t.table.tolist())
    return Trace(whole, tuple(steps), results, first, tuple(k for k, a in enumerate(arrays) if has_nan(a)))


def arguments(
    task: Task, function: str, own: Sequence[object], learner: Learner | None = None
) -> tuple[Any, ...]:
    """Return the arguments of a function: the tables of a learner, or of a new one, and its own arrays.

    Raises: OptionError for an unknown function; ShapeError for another number of arrays
    """
    ports = task.entry(kind_of(function))[1]
    tables = learner or emit(task).load()().learner(seed=0)
    expected = [port.name for port in ports if not port.role.is_table]
    if len(own) != len(expected):
        raise ShapeError(
            f"{function} must get {len(expected)} arrays",
            f"it gets {len(own)}",
            f"pass {', '.join(expected)}",
        )
    given = iter(own)
    return tuple(
        getattr(tables, port.role)[port.name] if port.role.is_table else next(given) for port in ports
    )


def kind_of(function: str) -> Kind:
    """Return the kind of a function of this name. Raises: OptionError if a task has none"""
    require_one_of("a function", function, COMPILED)
    return Kind(function)


class _Images:
    """The images of the operations of a term: functions of one program that the target emits and loads."""

    def __init__(self, backend: Backend, term: Term) -> None:
        types = term.H.w.table
        every = (
            (op, tuple(types[w] for w in sources)) for op, sources, _ in edges(term) if not op.structural
        )
        self.names = {image: f"operation_{k}" for k, image in enumerate(dict.fromkeys(every))}
        functions = [lower(singleton(op, *types), name) for (op, types), name in self.names.items()]
        self.compiled = backend.emit(Program("trace", tuple(functions))).load()() if functions else None

    def run(self, op: Op, types: tuple[NdArrayType, ...], arrays: Sequence[object]) -> tuple[Any, ...]:
        """Run an operation; structural ones are the same on arrays of any library."""
        if op.structural:
            results = op.ref(*arrays)
            return results if isinstance(results, tuple) else (results,)
        return tuple(getattr(self.compiled, self.names[op, types])(*map(_accepted, arrays)))


def _accepted(array: Any) -> Any:
    """Widen an array of bfloat16, which only NumPy knows by the name of ml_dtypes."""
    return widened(array) if isinstance(array, np.ndarray) and array.dtype.name == "bfloat16" else array


def has_nan(array: ArrayLike) -> bool:
    """Tell whether an array has a NaN."""
    return _nans(widened(as_numpy(array))) > 0


def _nans(array: Any) -> int:
    return int(np.isnan(array).sum()) if array.dtype.kind == "f" else 0


def _recorded(visit: Visit, types: tuple[NdArrayType, ...]) -> Step:
    arrays = [widened(as_numpy(array)) for array in visit.outputs]
    numbers = [np.abs(array[~np.isnan(array)]) for array in arrays if array.dtype.kind == "f"]
    magnitude = max((float(array.max(initial=0)) for array in numbers), default=0.0)
    nans = sum(map(_nans, arrays))
    return Step(visit.edge, visit.op, visit.name, types, visit.seconds, magnitude, nans)


def _cells(step: Step) -> tuple[Cell, ...]:
    types = " ".join(map(str, step.types))
    return type(step.op).__name__, step.name, types, 1000 * step.seconds, step.magnitude, step.nans
