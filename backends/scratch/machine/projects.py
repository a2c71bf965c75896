"""Scratch files in the virtual machines that run them, controlled from Python."""

from __future__ import annotations

import base64
import io
import json
import weakref
import zipfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.errors import ArtifactError, ToolError, brief, require_one_of, translated
from catgrad.paths import require_file
from catgrad.types import Array

from ...host.process import MAX_ANSWER_SECONDS
from ..formats.names import shown, shown_block
from .node import PACKAGES, Node, missing, running

__all__ = ["Machine", "Value", "missing", "validate"]

Value = float | str | bool
"""Type of a variable or an item of a list; numbers are float64."""

_sessions = count(1)


MAX_UNPACKED_BYTES = 2**28
"""The maximum size of all files of a project in bytes, pictures and sounds too."""

NOT_FINITE = ("Infinity", "-Infinity", "NaN")
"""The texts as which files hold numbers that JSON has no digits for."""


class Machine:
    """One project in a virtual machine: "vanilla", Scratch's own, or "turbowarp", which compiles scripts.

    Raises: OptionError for other names. Every method: ToolError if Node.js or the machine fails.
    """

    def __init__(self, vm: str = "vanilla", *, limit: float = MAX_ANSWER_SECONDS) -> None:
        require_one_of("a virtual machine", vm, PACKAGES, "name one")
        self.vm, self.limit = vm, limit
        self._node: Node | None = None
        self._session = next(_sessions)
        self._assets: dict[str, bytes] = {}

    def load(self, file: bytes | str | Path) -> None:
        """Replace the project by an .sb3 or .sprite3 file; on errors the loaded one stays."""
        data = file if isinstance(file, bytes) else _content(file)
        description, files = _unzipped(data)
        node = running(self.vm)
        if node is not self._node:
            self._node = node
            weakref.finalize(self, node.dropped.append, self._session)
        self._ask("load", file=_text(data), sprite=description == "sprite.json")
        self._assets = {name: content for name, content in files.items() if name != description}

    def save(self) -> bytes:
        """Save the current project as an .sb3 file."""
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in {"project.json": self._ask("json"), **self._assets}.items():
                file.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        return archive.getvalue()

    def has_list(self, name: str) -> bool:
        """Tell whether there is a list of this name."""
        return bool(self._ask("has", type="list", name=shown(name)))

    def list(self, name: str) -> list[Value]:
        """Read a list: the stage's, or else that of the first sprite with one of this name."""
        return _unpacked(self._ask("get", type="list", name=shown(name)))

    def array(self, name: str) -> Array:
        """Read a list of numbers, as float64. Raises: ArtifactError if another item is among them."""
        packed = self._ask("get", type="list", name=shown(name))
        numbers = _numbers(packed)
        for place, item in packed["others"].items():
            if item in NOT_FINITE:
                numbers[int(place)] = float(item)
                continue
            raise ArtifactError(
                f'the list "{name}" must hold numbers',
                f"item {int(place) + 1} is {item!r}",
                "read it with `list`",
            )
        return numbers

    def set_list(self, name: str, items: Sequence[Value] | Array) -> None:
        """Put these items into a list; an array is put there in row-major order."""
        self._ask("set", type="list", name=shown(name), value=_packed(items))

    def variable(self, name: str) -> Value:
        """Read a variable: the stage's, or else that of the first sprite with one of this name."""
        return _unpacked(self._ask("get", type="", name=shown(name)))[0]

    def set_variable(self, name: str, value: Value) -> None:
        """Give a variable this value."""
        self._ask("set", type="", name=shown(name), value=_packed([value]))

    def call(self, block: str, *arguments: Value) -> None:
        """Run a custom block, named as in "train %s steps", until it ends; arguments are as if typed in."""
        self._ask("call", block=shown_block(block), values=_packed(arguments))

    def broadcast(self, message: str) -> None:
        """Send a message and wait until the scripts it starts have ended."""
        self._ask("broadcast", message=message)

    def green_flag(self, frames: int | None = None) -> None:
        """Click the green flag and run this many frames, or until every script has ended."""
        self._ask("flag", frames=frames)

    def run(self, frames: int | None = None) -> None:
        """Continue for this many frames, or until every script has ended."""
        self._ask("run", frames=frames)

    def seconds(self, message: str, repeats: int, warm_up: int = 0) -> float:
        """Measure the processor time of a broadcast in seconds: the mean over repeats, after warm-up runs."""
        return float(self._ask("seconds", message=message, repeats=repeats, warmUp=warm_up))

    def blocks(self) -> int:
        """Count the blocks; variables and literals in their slots do not count."""
        return sum(len(target["blocks"]) for target in json.loads(self._ask("json"))["targets"])

    def _ask(self, command: str, **arguments: Any) -> Any:
        if self._node is None:
            raise ToolError(f"`{command}` must have a project", "none is loaded", "load one")
        return self._node.ask(command, self._session, limit=self.limit, **arguments)


def validate(file: bytes) -> None:
    """Validate a project or sprite by Scratch's schema. Raises: ToolError with the parser's message."""
    running("vanilla").ask("validate", file=_text(file), sprite=_unzipped(file)[0] == "sprite.json")


def _unzipped(file: bytes) -> tuple[str, dict[str, bytes]]:
    with translated(_malformed), zipfile.ZipFile(io.BytesIO(file)) as archive:
        unpacked = sum(each.file_size for each in archive.infolist())
        if unpacked > MAX_UNPACKED_BYTES:
            raise ValueError(f"it unpacks to {unpacked:,} bytes, more than {MAX_UNPACKED_BYTES:,}")
        files = {name: archive.read(name) for name in archive.namelist()}
    for description in ("project.json", "sprite.json"):
        if description in files:
            return description, files
    raise ArtifactError(
        "a Scratch file must hold project.json or sprite.json", f"it holds {sorted(files)}", "name another"
    )


def _malformed(error: Exception) -> ArtifactError:
    return ArtifactError("a Scratch file must be a zip archive", brief(error), "name another")


def _content(file: str | Path) -> bytes:
    require_file("a Scratch file", file, MAX_UNPACKED_BYTES)
    with translated(_malformed):
        return Path(file).read_bytes()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _packed(items: Sequence[Value] | Array) -> dict[str, object]:
    if isinstance(items, np.ndarray):
        return {"numbers": _text(items.astype("<f8").tobytes()), "others": {}}
    others = {place: item for place, item in enumerate(items) if isinstance(item, str | bool)}
    numbers = [0.0 if place in others else item for place, item in enumerate(items)]
    return {"numbers": _text(np.array(numbers, "<f8").tobytes()), "others": others}


def _numbers(packed: dict[str, Any]) -> Array:
    return np.frombuffer(base64.b64decode(packed["numbers"]), "<f8").astype(np.float64)


def _unpacked(packed: dict[str, Any]) -> list[Value]:
    items: list[Value] = _numbers(packed).tolist()
    for place, item in packed["others"].items():
        items[int(place)] = item
    return items
