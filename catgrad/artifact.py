"""Artifacts: the files emitted for a program, which are written, measured and loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from catgrad import manifest
from catgrad.errors import OptionError, not_emitted, unknown
from catgrad.files import write_atomically
from catgrad.footprint import Footprint
from catgrad.formats import weights
from catgrad.paths import writable
from catgrad.programs.ports import TABLES, Role
from catgrad.programs.program import Program
from catgrad.programs.signatures import SIGNATURES
from catgrad.tables import Table, Tabular
from catgrad.types import as_numpy, symbols

if TYPE_CHECKING:
    from catgrad.backend import Backend


@dataclass(frozen=True, repr=False)
class Artifact(Tabular):
    """The files emitted for a program, by name, and the target that loads them.

    `program` is the one that was printed, `reference` the one before the target's passes, its specification.
    A learner begins with `values`, arrays of the tables by name; `write` puts them in a file of weights.
    `origin` records the model and the options that it was compiled with; `write` adds it to the manifest.
    """

    files: Mapping[str, str | bytes]
    program: Program
    reference: Program
    backend: Backend
    values: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """The target, the functions and the files."""
        functions = ", ".join(f.name for f in self.program.functions if not f.kind.is_initial)
        files = [(name, _length(content)) for name, content in self.files.items()]
        stored = [("stored arrays", f"{len(self.values)}")] if self.values else []
        rows = [("target", self.backend.name), ("functions", functions), *files, *stored]
        return Table(("artifact", self.program.name), rows, texts=2)

    @property
    def source(self) -> str:
        """Text of the main file, which is the first."""
        return str(next(iter(self.files.values())))

    def text(self, name: str) -> str:
        """Return the text of a file."""
        return str(self.files[name])

    def write(self, directory: str | Path) -> list[Path]:
        """Write every file, and that of `values` if there are any; each replaces an older one only whole.

        Of an artifact with an `origin`, the manifest names the file of weights with its hash.

        Raises: ArtifactError if the directory or a file cannot be written.
        """
        folder = Path(directory)
        weights_file = folder / f"{self.program.name}{self.backend.weights_suffix}" if self.values else None
        files = dict(self.files)
        with writable("the output folder", folder):
            folder.mkdir(parents=True, exist_ok=True)
            if weights_file:
                weights.write(weights_file, self.values)
            if self.origin:
                files[manifest.FILE] = self._manifest(weights_file)
            for name, content in files.items():
                text = content.encode() if isinstance(content, str) else content
                (folder / name).parent.mkdir(exist_ok=True)
                write_atomically(folder / name, [text])
            return [*(folder / name for name in files), *filter(None, [weights_file])]

    def _manifest(self, weights_file: Path | None) -> str:
        """Describe the artifact as JSON, with what its target says of it."""
        own = str(self.files.get(manifest.FILE, ""))
        options = {f.name: getattr(self.backend.options, f.name) for f in fields(self.backend.options)}
        target = {"name": self.backend.name, **options}
        return manifest.manifest(self.program, own, weights_file, target=target, origin=self.origin)

    def footprint(self, **sizes: int) -> Footprint:
        """Measure the workspace, flash and stack of the emitted functions; of the target c.

        Raises: OptionError for another target; UnknownName for a size that no argument has; ToolError if the
                compiler of the microcontroller fails
        """
        if self.backend.footprint is None:
            raise OptionError(
                "a target must plan its memory when it emits, to be measured",
                f"{self.backend.name} does not",
                "choose c",
            )
        known = symbols(tuple(type for f in self.reference.functions for type in f.argument_types))
        for name in sizes:
            if name not in known:
                raise unknown("size", name, known, "catgrad summary")
        return self.backend.footprint(self, sizes)

    def load(self, **options: Any) -> Any:
        """Build the files with the target's own tools; returns the class `CompiledModel`.

        Options are those of the target's loader, as `simulate=True` of the target cuda.
        """
        compiled = self.backend.load(self, **options)
        compiled.__getattr__ = _refuse
        return _beginning_with(self, compiled) if self.values else compiled


def _refuse(self: Any, name: str) -> NoReturn:
    """Raise NotEmitted for a function that a class lacks, and AttributeError for any other name."""
    if name in SIGNATURES:
        raise not_emitted(name, [kind for kind in SIGNATURES if hasattr(type(self), kind)])
    raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


def _length(content: str | bytes) -> str:
    """Describe the length of a file."""
    return f"{content.count(chr(10)):,} lines" if isinstance(content, str) else f"{len(content):,} bytes"


def _beginning_with(artifact: Artifact, compiled: Any) -> Any:
    """Derive a class from `CompiledModel` whose learners and buffers begin with the values of an artifact."""
    values, buffers = artifact.values, artifact.program.tables.get(Role.BUFFER, ())

    def learner(self: Any, *arguments: object, **named: Any) -> Any:
        """Return a learner with the stored arrays; a seed draws the others."""
        made = compiled.learner(self, *arguments, **named)
        for table in (getattr(made, role) for role in TABLES):
            for name in [name for name in table if name in values]:
                table[name] = as_numpy(values[name]).copy()
        return made

    def init_buffers(self: Any, seed: int = 0) -> list[Any]:
        """Return the buffers: those that are stored, and others drawn from a seed."""
        drawn = zip(buffers, compiled().init_buffers(seed), strict=True)
        return [as_numpy(values[s.name]).copy() if s.name in values else array for s, array in drawn]

    own = {each.__name__: each for each in (learner, init_buffers) if hasattr(compiled, each.__name__)}
    return type(compiled.__name__, (compiled,), {"__doc__": compiled.__doc__, **own})
