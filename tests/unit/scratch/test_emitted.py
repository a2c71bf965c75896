"""Emitted sprites: their text, determinism, and limits."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from catgrad.backends.scratch.assemble import sb3
from catgrad.backends.scratch.compile.files import printed
from catgrad.backends.scratch.formats.names import shown_block
from catgrad.backends.scratch.kernels.texts import blocks
from catgrad.backends.scratch.machine.projects import Machine, validate

from catgrad import Task, build, layers, mse, ops, sgd
from catgrad.errors import OptionError
from catgrad.functors import Expand
from catgrad.initialisers import Normal
from catgrad.programs.program import Program, lower
from catgrad.targets import get_backend
from catgrad.terms.term import edges
from catgrad.testing import operation_cases
from examples.iris import hidden
from tests.conformance.scratch_models import MODELS, N, cnn, f64, mlp
from tests.conformance.test_scratch_steps import assert_trains
from tests.scratch.machines import on_machines
from tests.targets import emit

LONGEST = 240
"""Limit of blocks in a custom block, above which V8 does not optimise TurboWarp's code."""

TASKS = {"hidden": hidden, "cnn": cnn, "mlp": mlp}


@pytest.mark.parametrize("name", ["hidden", "cnn"])
def test_golden(check_golden, name):
    check_golden(f"scratch/{name}.scratch", emit(TASKS[name](), "scratch").source)


PRINT = """
import hashlib
from catgrad import emit
from tests.conformance.scratch_models import cnn
for name, content in emit(cnn(), "scratch").files.items():
    print(name, hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest())
"""


def test_the_bytes_are_deterministic():
    """Emission in another process, with other hashes, gives the same bytes."""

    def digests():
        files = emit(cnn(), "scratch").files
        parts = {n: c if isinstance(c, bytes) else c.encode() for n, c in files.items()}
        return "".join(f"{n} {hashlib.sha256(c).hexdigest()}\n" for n, c in parts.items())

    here = digests()
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PRINT], env=environment, capture_output=True, text=True)
    assert done.stdout == here, done.stderr


def targets(file: bytes) -> list[dict]:
    """Return the stage and the sprites of a project."""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        return json.loads(archive.read("project.json"))["targets"]


def lengths(target: dict) -> dict[str, int]:
    """Count the blocks of each custom block, with the two of its head."""
    inside: dict[str, list[str]] = {}
    for key, block in target["blocks"].items():
        if isinstance(block, dict) and block["parent"] is not None:
            inside.setdefault(block["parent"], []).append(key)
    found: dict[str, int] = {}
    for key, block in target["blocks"].items():
        if isinstance(block, dict) and block["opcode"] == "procedures_definition":
            head = target["blocks"][block["inputs"]["custom_block"][1]]
            name, waiting = head["mutation"]["proccode"].strip(), [key]
            found[name] = 0
            while waiting:
                waiting += inside.get(waiting.pop(), [])
                found[name] += 1
    return found


@pytest.mark.covering
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("batch", [1, 8])
def test_custom_blocks_are_short_enough_for_turbowarp(name, batch):
    artifact = emit(TASKS[name](), "scratch", batch=batch)
    [_, sprite] = targets(artifact.files[f"{artifact.program.name}.sb3"])
    assert max(lengths(sprite).values()) <= LONGEST


def assert_counted(artifact):
    """Compare the blocks of each script with the count of its lines."""
    [_, assembled] = targets(artifact.files[f"{artifact.program.name}.sb3"])
    sprite, _ = printed(artifact.backend, artifact.program)
    found = lengths(assembled)
    assert sprite.definitions
    assert {d.name: blocks(d.lines) for d in sprite.definitions} == {
        d.name: found[shown_block(d.name)] - 2 for d in sprite.definitions
    }


@pytest.mark.filterwarnings("ignore:case has")
def test_blocks_of_operations_are_counted():
    """One sprite has all operations with macros, on each dtype of their examples."""
    backend = get_backend("scratch").configured(unroll="compact")
    terms = [c.term for c in operation_cases() if all(backend.dialect.has(e.op) for e in edges(c.term))]
    assert len(terms) > 50
    functions = [lower(Expand(backend.has)(term), f"f{k}") for k, term in enumerate(terms)]
    assert_counted(backend.emit(Program("case", tuple(functions))))


@pytest.mark.parametrize("name", ["classifier", "normalised", "bigrams"])
def test_blocks_of_models_are_counted(name):
    assert_counted(emit(MODELS[name](), "scratch"))


FREE = ["x", "y_hat", "size", "repeat", "predict", "kept", "A.b.0.c_d"]
TAKEN = ["input", "output", "target", "loss", "error", "steps"]


def named(name):
    """Build a model whose parameters, a list and a number, have these names."""

    def model(x):
        w, b = layers.parameter(name, f64(3, 2), Normal()), layers.parameter(f"b.{name}", f64(), Normal())
        return ops.tanh(x @ w) * ops.broadcast(b, (N, 2))

    return Task(build(model, [f64(N, 3)]), sgd(0.1), mse, name.replace(".", "_"))


@pytest.mark.parametrize("name", FREE)
def test_parameters_may_have_names_of_private_variables(name):
    assert_trains(named(name), "vanilla", 2)


@pytest.mark.parametrize("name", TAKEN)
def test_parameters_must_not_have_names_of_shared_variables(name):
    with pytest.raises(
        OptionError, match=f"must not have the name .* one is called {name}; give it another name"
    ):
        emit(named(name), "scratch")


@on_machines
def test_two_sprites_share_a_project(vm):
    """Their blocks have distinct names, and each works."""
    one, other = emit(mlp(sgd(5.0)), "scratch"), emit(hidden(), "scratch")
    given = {}
    for artifact in (one, other):
        [_, sprite] = targets(artifact.files[f"{artifact.program.name}.sb3"])
        held = dict(sprite["lists"].values())
        given |= {name: held[name] for name in re.findall(r"    list `?([^`\n]+?)`? given", artifact.source)}
    file = sb3([one.source, other.source], given)
    validate(file)
    _, *sprites = targets(file)
    assert not set(sprites[0]["blocks"]) & set(sprites[1]["blocks"])
    machine = Machine(vm)
    machine.load(file)
    x = np.linspace(-1, 1, 4)
    machine.set_list("input", x)
    machine.broadcast("predict")
    assert machine.variable("error") == ""
    assert len(machine.list("output")) == 3
