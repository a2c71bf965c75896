"""Emitted sprites, controlled by shared lists and variables, and custom blocks."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
from catgrad.backends.scratch.formats.names import SHOWN
from catgrad.backends.scratch.machine.projects import Machine


class Sprite:
    """The project of an artifact in a virtual machine."""

    def __init__(self, artifact, vm):
        self.program, self.machine = artifact.program, Machine(vm)
        self.machine.load(artifact.files[f"{self.program.name}.sb3"])
        told = json.loads(artifact.text(f"{artifact.program.name}_manifest.json"))
        self.tables, self.functions = told["tables"], told["functions"]

    def give(self, function, *arrays):
        """Put arrays into the lists that a function reads."""
        for place, array in zip(self.functions[function]["takes"], arrays, strict=True):
            self.machine.set_list(place["list"], np.asarray(array, np.float64).ravel())

    def call(self, block):
        """Run a custom block, which must not report an error."""
        self.machine.call(block)
        assert self.machine.variable("error") == ""

    def outputs(self):
        """Read the shared outputs of the model."""
        return [self.machine.array(given["list"]) for given in self.functions["predict"]["gives"]]

    def table(self, name):
        """Read the arrays of a table, by name."""
        slots = self.program.tables.get(name, ())
        return {slot.name: self._held(self.tables[slot.name]) for slot in slots}

    def _held(self, place):
        if "list" in place:
            return self.machine.array(place["list"])
        return np.array([self.machine.variable(place["variable"])], np.float64)

    def all_held(self):
        """Read every list and variable of the project, except for local ones of scripts."""
        with zipfile.ZipFile(io.BytesIO(self.machine.save())) as file:
            targets = json.loads(file.read("project.json"))["targets"]
        held = [
            (*each, kind) for t in targets for kind in ("variables", "lists") for each in t[kind].values()
        ]
        return {(name, kind): value for name, value, kind in held if not name.startswith(SHOWN)}
