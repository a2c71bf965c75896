"""Loading of sprites into virtual machines of Scratch: functions on arrays, and a learner."""

from __future__ import annotations

import json
from functools import partial

from catgrad.artifact import Artifact
from catgrad.programs.ports import Kind

from ...host.functions import LoadedFunctions
from ..formats.packed import NAME
from .harness import Block, Initial
from .learner import Learner
from .projects import Machine


def load(artifact: Artifact) -> type:
    """Return the class `CompiledModel` of a sprite. Raises: ToolError if there is no virtual machine."""
    program = artifact.program
    blocks, project = opened(artifact, "sprite3"), partial(opened, artifact, "sb3")
    initial = {f.name: Initial(f) for f in program.functions if f.name not in blocks}
    attributes: dict[str, object] = {"program": program, **initial, **blocks}
    attributes |= {"machine": next(iter(blocks.values())).machine}
    if Kind.STEP in program.kinds:
        attributes["learner"] = lambda self, seed=None: Learner(project, initial, seed)
    return type("CompiledModel", (LoadedFunctions,), attributes)


def opened(artifact: Artifact, kind: str) -> dict[str, Block]:
    """Load the custom blocks of the emitted sprite3 or sb3 into a new virtual machine."""
    program = artifact.program
    manifest = json.loads(artifact.text(f"{program.name}_manifest.json"))
    machine = Machine(manifest["vm"])
    machine.load(artifact.files[f"{program.name}.{kind}"])
    if machine.has_list(NAME):
        machine.call("unpack weights")  # or the first call would overwrite its inputs with them
    functions = manifest["functions"].items()
    return {name: Block(machine, artifact, name, how, manifest["tables"]) for name, how in functions}
