"""Emitted sprites: what their text says, that they are the same each time, and what they fit into."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator

import numpy as np
import pytest
from catgrad.backends.scratch.assemble import sb3
from catgrad.backends.scratch.machine.projects import Machine, validate

from catgrad import Task, build, emit, layers, mse, ops, sgd
from catgrad.errors import OptionError
from catgrad.initialisers import Normal
from examples.iris import hidden
from tests.conformance.scratch_models import N, cnn, f64, mlp
from tests.conformance.test_scratch_steps import assert_trains
from tests.scratch.machines import on_machines

LONGEST = 240
"""Blocks of a custom block beyond which V8 no longer compiles what TurboWarp makes of it."""

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


def test_the_bytes_are_the_same_each_time():
    """Also in another process, that hashes otherwise."""

    def digests():
        files = emit(cnn(), "scratch").files
        parts = {n: c if isinstance(c, bytes) else c.encode() for n, c in files.items()}
        return "".join(f"{n} {hashlib.sha256(c).hexdigest()}\n" for n, c in parts.items())

    assert digests() == digests()
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PRINT], env=environment, capture_output=True, text=True)
    assert done.stdout == digests(), done.stderr


def targets(file: bytes) -> list[dict]:
    """The stage and the sprites of a project."""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        return json.loads(archive.read("project.json"))["targets"]


def lengths(target: dict) -> Iterator[int]:
    """Return the number of blocks in each custom block."""
    inside: dict[str, list[str]] = {}
    for key, block in target["blocks"].items():
        if isinstance(block, dict) and block["parent"] is not None:
            inside.setdefault(block["parent"], []).append(key)
    for key, block in target["blocks"].items():
        if isinstance(block, dict) and block["opcode"] == "procedures_definition":
            waiting, found = [key], 0
            while waiting:
                waiting += inside.get(waiting.pop(), [])
                found += 1
            yield found


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("batch", [1, 8])
def test_custom_blocks_are_short_enough_for_turbowarp(name, batch):
    artifact = emit(TASKS[name](), "scratch", batch=batch)
    [_, sprite] = targets(artifact.files[f"{artifact.program.name}.sb3"])
    assert max(lengths(sprite)) <= LONGEST


FREE = [
    "x",
    "y_hat",
    "i",
    "e",
    "size",
    "random",
    "add",
    "repeat",
    "predict",
    "read_input",
    "kept",
    "A.b.0.c_d",
]
TAKEN = ["input", "output", "target", "loss", "error", "steps"]


def named(name):
    """A model whose parameters, a list and a number, have these names."""

    def model(x):
        w, b = layers.parameter(name, f64(3, 2), Normal()), layers.parameter(f"b.{name}", f64(), Normal())
        return ops.tanh(x @ w) * ops.broadcast(b, (N, 2))

    return Task(build(model, [f64(N, 3)]), sgd(0.1), mse, name.replace(".", "_"))


@pytest.mark.parametrize("name", FREE)
def test_parameters_may_be_called_like_what_is_within_a_sprite(name):
    assert_trains(named(name), "vanilla", 2)


@pytest.mark.parametrize("name", TAKEN)
def test_parameters_must_not_be_called_like_what_sprites_share(name):
    with pytest.raises(
        OptionError, match=f"must not be called .* one is called {name}; give it another name"
    ):
        emit(named(name), "scratch")


@on_machines
def test_two_sprites_share_a_project(vm):
    """Their blocks have names of their own, and each answers."""
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
