"""Certificates of training: the SHA-256 of parameters after some steps, and their distance to the reference.

The reference is NumPy, operation by operation, from the same initial values and batches. Equal hashes mean
equal bits of all parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature

from catgrad.artifact import Artifact
from catgrad.errors import OptionError
from catgrad.initialisers import Stored
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Function, evaluate
from catgrad.terms.canonical import digest_of, write_digest
from catgrad.types import Array, as_numpy, symbols
from catgrad.verification import CLASSES, OWN_DOMAIN, Values, difference, draw_arrays, initial_values


@dataclass(frozen=True)
class Certificate:
    """The parameters after training: their hash, and the greatest |p - r| / (1 + |r|) from the reference."""

    target: str
    sha256: str
    difference: float


def certify(
    artifact: Artifact, steps: int = 5, batch: int = 4, seed: int = 0, exact: bool = True
) -> tuple[Certificate, Certificate]:
    """Train the reference and an emitted program on random batches, from the reference's initial values.

    Symbolic sizes are `batch`, then one more for each symbol. With `exact`, a target with a compiler rounds
    every operation by itself, in the order of the source.

    Raises: OptionError if there is no step; ToolError if the program cannot be built or run here
    """
    if Kind.STEP not in artifact.reference.kinds:
        raise OptionError(
            "a model to certify must have a training step", f"{artifact.program.name} has none", "give a Task"
        )
    step = artifact.reference.kinds[Kind.STEP]
    names = symbols(step.argument_types)
    step = step.substitute({name: batch + place for place, name in enumerate(names)})
    expected = initial_values(artifact.reference, seed)
    takes_exact = "exact" in signature(artifact.backend.load).parameters
    learner = artifact.load(**({"exact": exact} if takes_exact else {}))().learner(seed)
    for (role, name), array in expected.items():
        getattr(learner, role)[name] = array.copy()
    for number in range(steps):
        data = _batch(step, seed + number)
        learner.step(*data)
        expected = _stepped(step, expected, data)
    wanted = {name: array for (role, name), array in expected.items() if role is Role.PARAMETER}
    found = {name: as_numpy(learner.parameters[name]) for name in wanted}
    off = max((difference(found[name], wanted[name]) for name in wanted), default=0.0)
    reference = Certificate("reference", parameters_digest(wanted), 0.0)
    return reference, Certificate(artifact.backend.name, parameters_digest(found), off)


def parameters_digest(parameters: dict[str, Array]) -> str:
    """Return the SHA-256 of named arrays, in their order: names, dtypes, shapes and bits."""
    return digest_of([[name, write_digest(Stored(array))] for name, array in parameters.items()])


def _batch(step: Function, seed: int) -> list[Array]:
    """Draw the inputs and targets of a step."""
    types = [port.type for port in step.inputs if not port.role.is_table]
    return draw_arrays(types, OWN_DOMAIN, seed, CLASSES)


def _stepped(step: Function, tables: Values, data: list[Array]) -> Values:
    """Compute the tables after a step of the reference."""
    given = [tables[port.role, port.name] for port in step.inputs if port.role.is_table]
    results = zip(step.outputs, evaluate(step, *given, *data), strict=True)
    return {**tables, **{(port.role, port.name): value for port, value in results if port.role.is_table}}
