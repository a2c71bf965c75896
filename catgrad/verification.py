"""Differential testing of emitted programs: each function, in its real runtime, against the reference.

The reference is computed from the program before any pass of the target, by the `ref` of its operations in
NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from catgrad.artifact import Artifact
from catgrad.dims import numbers
from catgrad.errors import CatgradError, OptionError, ShapeError, ToolError, VerificationError, one_line
from catgrad.programs.ports import Role
from catgrad.programs.program import Function, Program, dtypes, evaluate
from catgrad.types import Array, Dtype, NdArrayType, as_numpy, symbols, widened

SMALLEST_SIZE, LARGEST_SIZE = 3, 3 * 2**10
"""Sizes to try for the first symbol, each twice the previous, until a function accepts them."""

CLASSES = 3
"""Integers are drawn below this."""

OWN_DOMAIN, NOISE = (0.1, 0.9), 0.1
"""The interval of inputs and targets, and the maximum added to initial values of tables."""


Values = dict[tuple[Role, str], Array]
"""Arrays by table and name."""


@dataclass(frozen=True)
class Comparison:
    """The comparison of one result of a function with the reference.

    `difference` is the greatest |y - r| / (1 + |r|), or infinite; `problem` explains an infinite one that is
    not caused by a number.
    """

    function: str
    result: str
    difference: float
    tolerance: float
    problem: str = ""

    @property
    def agrees(self) -> bool:
        """Return whether the result agrees with the reference within the tolerance of the target."""
        return self.difference <= self.tolerance


@dataclass(frozen=True)
class Verification:
    """The comparisons of all results of all functions of an artifact."""

    target: str
    comparisons: tuple[Comparison, ...]

    @property
    def agrees(self) -> bool:
        """Return whether all results agree with the reference."""
        return all(each.agrees for each in self.comparisons)

    @property
    def worst(self) -> list[tuple[Comparison, int]]:
        """For each function, the comparison closest to or above its tolerance, and the number of results."""
        by_function: dict[str, list[Comparison]] = {}
        for each in self.comparisons:
            by_function.setdefault(each.function, []).append(each)
        return [(max(found, key=_share), len(found)) for found in by_function.values()]

    def check(self) -> None:
        """Raise VerificationError unless all results agree, with the worst one."""
        wrong = [each for each in self.comparisons if not each.agrees]
        if not wrong:
            return
        worst = max(wrong, key=_share)
        found = worst.problem or f"{worst.result} is {worst.difference:.2g} off"
        raise VerificationError(
            f"the program emitted for {self.target} must agree with the reference",
            f"{len(wrong)} of {len(self.comparisons)} results do not agree: in {worst.function}, {found}",
            "report it with the model, or correct the target",
        )


def verify(artifact: Artifact, seed: int = 0) -> Verification:
    """Run each function of an emitted program on random arrays, and compare its results with the reference.

    Weights are drawn too; those in files are not compared.

    Raises: ToolError if the program cannot be built or run here; VerificationError if it does not load;
    ShapeError or OptionError if no sizes are valid for a function
    """
    compiled = _loaded(artifact)
    first = _moved(initial_values(artifact.reference, seed), seed)
    found: list[Comparison] = []
    for function in artifact.reference.functions:
        arrays, reference = _example(artifact, function, first, seed)
        found += _compared(artifact, compiled, function, arrays, reference)
    return Verification(artifact.backend.name, tuple(found))


def _share(comparison: Comparison) -> tuple[bool, float]:
    """Order comparisons by difference relative to the tolerance."""
    tolerance = comparison.tolerance
    return not comparison.agrees, comparison.difference / tolerance if tolerance else comparison.difference


def draw_arrays(
    types: Sequence[NdArrayType],
    domain: tuple[float, float] = (-2.0, 2.0),
    seed: int = 0,
    classes: int = CLASSES,
) -> list[Array]:
    """Draw arrays of these types: elements uniformly from the interval, whole ones from 0 to classes - 1."""
    rng = np.random.default_rng(seed)
    return [_draw(rng, type, domain, classes) for type in types]


def _draw(rng: np.random.Generator, type: NdArrayType, domain: tuple[float, float], classes: int) -> Array:
    drawn = rng.uniform(*domain, numbers(type.shape))
    if type.dtype is Dtype.bool:
        return np.asarray(drawn > np.mean(domain))
    # Integers may be indices of rows, of which every example has three.
    return np.asarray(drawn if type.dtype.is_floating else rng.integers(0, classes, drawn.shape)).astype(
        type.dtype.numpy
    )


def _loaded(artifact: Artifact) -> Any:
    try:
        return artifact.load()()
    except CatgradError:
        raise
    except Exception as error:  # emitted code may fail in any way, which is what is to be found out
        raise VerificationError(
            f"the program emitted for {artifact.backend.name} must load",
            f"it raises {type(error).__name__}: {error}",
            "report it with the model, or correct the target",
        ) from error


def initial_values(program: Program, seed: int) -> Values:
    """Compute the initial values of all tables, by table and name."""
    initial = [function for function in program.functions if function.kind.is_initial]
    ports = [port for function in initial for port in function.outputs]
    drawn = [array for function in initial for array in evaluate(function, np.int64(seed))]
    return {
        (port.role, port.name): program.stored.get(port.name, array)
        for port, array in zip(ports, drawn, strict=True)
    }


def _moved(values: Values, seed: int) -> Values:
    """Move values slightly above the initial ones, as zeros hide errors."""
    rng = np.random.default_rng(seed)
    return {
        key: (a + rng.uniform(0, NOISE, a.shape)).astype(a.dtype) if a.dtype.kind == "f" else a
        for key, a in values.items()
    }


def _example(
    artifact: Artifact, function: Function, first: Values, seed: int
) -> tuple[list[Array], list[Array]]:
    """Draw valid arguments of a function; return them with the results of the reference.

    Sizes grow until all operations accept them; indices become 0 if there are fewer rows.
    """
    size = SMALLEST_SIZE
    classes = CLASSES
    while True:
        try:
            arrays = _arguments(artifact, function, first, size, classes, seed)
            return arrays, evaluate(function, *arrays)
        except (ShapeError, OptionError):  # a size is too small for an operation, or negative
            size *= 2
            if size > LARGEST_SIZE:
                raise
        except IndexError:
            if classes == 1:
                raise
            classes -= 1


def _arguments(
    artifact: Artifact,
    function: Function,
    first: Values,
    size: int,
    classes: int,
    seed: int,
) -> list[Array]:
    types = _sized(artifact, function, size)
    if function.kind.is_initial:
        return [np.asarray(seed, types[0].dtype.numpy)]
    drawn = draw_arrays(types, OWN_DOMAIN, seed, classes)
    return [first.get((p.role, p.name), a) for p, a in zip(function.inputs, drawn, strict=True)]


def _sized(artifact: Artifact, function: Function, size: int) -> tuple[NdArrayType, ...]:
    """Return the argument types with numbers for symbols, which the target may have chosen."""
    printed = {each.name: each.argument_types for each in artifact.program.functions}
    names, settled = symbols(function.argument_types), printed.get(function.name, ())
    if names and settled and not symbols(settled):
        return settled
    sizes = {name: size + place for place, name in enumerate(names)}
    return tuple(type.substitute(sizes) for type in function.argument_types)


def _compared(
    artifact: Artifact,
    compiled: object,
    function: Function,
    arrays: Sequence[Array],
    reference: Sequence[Array],
) -> list[Comparison]:
    ports = enumerate(zip(function.outputs, function.results, strict=True))
    names = [port.label or function.names.get(value, f"result {k}") for k, (port, value) in ports]
    tolerances = _tolerances(artifact.backend.tolerance, function)
    # Only NumPy accepts ml_dtypes' bfloat16; all targets accept float32 in its place.
    inputs = [widened(array) if array.dtype.name == "bfloat16" else array for array in arrays]
    try:
        results = [as_numpy(result) for result in getattr(compiled, function.name)(*inputs)]
    except ToolError:
        raise
    except Exception as error:  # as above
        said = str(error) if isinstance(error, CatgradError) else f"{type(error).__name__}: {error}"
        return [Comparison(function.name, "all", np.inf, 0.0, one_line(f"it raises {said}"))]
    if len(results) != len(reference):
        problem = f"it returns {len(results)} arrays, not {len(reference)}"
        return [Comparison(function.name, "all", np.inf, 0.0, problem)]
    return [
        _comparison(function.name, name, result, expected, tolerance)
        for name, result, expected, tolerance in zip(names, results, reference, tolerances, strict=True)
    ]


def _tolerances(allowed: Mapping[str, float], function: Function) -> list[float]:
    """Return the tolerance of each result: that of its dtype, or of 16 bits if values before it have those.

    A sum in another order may be rounded to another number of 16 bits, on which float32 results depend.
    """
    narrow = [Dtype[name] for name in dtypes(function) if Dtype[name].wide is not Dtype[name]]
    kinds = [function.types[value].dtype for value in function.results]
    return [
        max(allowed.get(dtype.value, 0.0) for dtype in (kind, *(narrow if kind.is_floating else ())))
        for kind in kinds
    ]


def _comparison(function: str, name: str, found: Array, reference: Array, tolerance: float) -> Comparison:
    if found.shape != reference.shape or found.dtype != reference.dtype:
        kinds = [f"{array.dtype}{list(array.shape)}" for array in (found, reference)]
        return Comparison(function, name, np.inf, tolerance, f"{name} is {kinds[0]}, not {kinds[1]}")
    return Comparison(function, name, difference(found, reference), tolerance)


def difference(found: Array, reference: Array) -> float:
    """Compute the greatest |y - r| / (1 + |r|), or |y - r| for integers and booleans.

    It is infinite where only one of them is finite; NaN equals NaN.
    """
    if reference.dtype.kind in "iub":
        high, low = np.maximum(found, reference), np.minimum(found, reference)
        return float((high.astype(np.uint64) - low.astype(np.uint64)).max(initial=0))
    y, r = (widened(array).astype(np.float64) for array in (found, reference))
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(y - r) / (1 + np.abs(r))
    same = (y == r) | (np.isnan(y) & np.isnan(r))
    return float(np.where(same, 0.0, np.where(np.isnan(off), np.inf, off)).max(initial=0))
