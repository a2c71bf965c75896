"""Backends: the operations that a target prints, its passes and templates, and its loader."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, reduce
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from catgrad import manifest
from catgrad.errors import (
    ArtifactError,
    CatgradWarning,
    DtypeError,
    OptionError,
    ToolError,
    UnknownName,
    UnsupportedOp,
    nearest,
    not_emitted,
    unknown,
)
from catgrad.files import reason, write_atomically
from catgrad.footprint import Footprint
from catgrad.formats import weights
from catgrad.printing.dialect import Dialect
from catgrad.printing.printer import FunctionPrinter
from catgrad.printing.statements import fill
from catgrad.programs.passes import Pass, erase_barriers, optimise
from catgrad.programs.peak_memory import require_addressable
from catgrad.programs.ports import INITIAL, TABLES, Kind, Role
from catgrad.programs.program import Function, Program, nest, operations, requirements
from catgrad.programs.signatures import SIGNATURES
from catgrad.tables import Table, Tabular
from catgrad.terms.op import OPS, Op
from catgrad.tools import Tool
from catgrad.types import Dtype, as_numpy, symbols

if TYPE_CHECKING:
    import jinja2

GROUP = "catgrad.backends"
"""The entry-point group of targets: each entry is a function () -> {name: loader}."""

BUILTIN = EntryPoint("builtin", "catgrad.backends:provide", GROUP)
"""The entry of the built-in targets, of which a checkout that is not installed has no metadata."""


TOLERANCE = {"f32": 1e-5, "f64": 1e-12, "f16": 2e-3, "bf16": 1.6e-2}
"""Greatest error of results against the reference: of 16 bits, two units in the last place."""

NO_16_BITS = "16 bits"
"""The known gap of targets without float16 and bfloat16, which refuse programs that have them."""


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
        try:
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
        except (OSError, ValueError) as error:
            raise ArtifactError(
                "the output folder must be writable",
                f"{folder} is not: {reason(error)}",
                "choose another folder",
            ) from None

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

    def learner(self: Any, *arguments: Any, **named: Any) -> Any:
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


@dataclass(frozen=True)
class NoOptions:
    """The options of a target that has none."""


def statements(backend: Backend, program: Program) -> dict[str, Any]:
    """Print the functions of a prepared program as statements, by name and by kind, for templates."""
    printed = {f.name: FunctionPrinter(f, backend.dialect).print() for f in program.functions}
    return {"functions": printed, "kinds": {kind: printed[f.name] for kind, f in program.kinds.items()}}


def unchanged(context: Mapping[str, Any], files: dict[str, str]) -> Mapping[str, str | bytes]:
    """Return the rendered files as they are."""
    return files


@dataclass(frozen=True)
class Backend:
    """A target."""

    name: str
    """The word by which `emit` takes it."""

    summary: str
    """What it emits, in a line of a list."""

    folders: tuple[Path, ...]
    """Template folders: its own, then those it inherits from. Each has `ops.j2`, with a macro for each
    operation that the target prints; other operations are expanded to their bodies."""

    files: Mapping[str, str]
    """The template of each emitted file; a file that renders to nothing is omitted."""

    load: Callable[..., Any]
    """Builds and loads an artifact; returns the class `CompiledModel`."""

    passes: Sequence[Pass] = ()
    """Passes that run once, in order, after the common ones, as their results need not obey the type rules."""

    needs: Sequence[Tool] = ()
    """The tools that emitted code needs, some for one use only."""

    unsupported: Mapping[str, str] = field(default_factory=dict)
    """Reasons why operations are not supported, by name."""

    tolerance: Mapping[str, float] = field(default_factory=lambda: dict(TOLERANCE))
    """Greatest error against the reference, by dtype."""

    options: Any = field(default_factory=NoOptions)
    """A frozen dataclass, whose fields `emit` takes by name."""

    entries: Callable[[Any, Any], Sequence[Kind]] = lambda options, task: tuple(SIGNATURES)
    """The functions of a task, the second argument, that can be printed with these options."""

    required: Callable[[Any], Sequence[Kind]] = lambda options: ()
    """The functions that are printed with these options though nobody asks."""

    variants: Mapping[str, Kind] = field(default_factory=dict)
    """Functions that it derives from others, by name: `step_many` from a step."""

    fit: Callable[[Backend, Any], Any] = lambda backend, task: task
    """Changes a task such that it keeps within the options, or refuses it."""

    prepare: Callable[[Backend, Program], Program] = lambda backend, program: program
    """Rearranges a program before any pass, or refuses it."""

    template_context: Callable[[Backend, Program], Mapping[str, Any]] = statements
    """Returns the variables that the templates read, which are statements by default."""

    lowers_to_loops: frozenset[str] = frozenset()
    """Operations that are gone when macros are called, because loops have no shapes."""

    footprint: Callable[[Artifact, Mapping[str, int]], Footprint] | None = None
    """Measures the memory of an artifact at some sizes, if the target plans it when it emits."""

    runtime_learning_rate: bool = False
    """Whether learning rates are numbers in the state, which callers may change."""

    postprocess: Callable[[Mapping[str, Any], dict[str, str]], Mapping[str, str | bytes]] = unchanged
    """Produces the emitted files, which may be bytes, from the variables and the rendered texts."""

    helpers: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Functions that templates call by name."""

    known_gaps: Mapping[str, str] = field(default_factory=dict)
    """Reasons why features besides operations, which other targets have, are missing."""

    weights_suffix: str = ".safetensors"
    """The suffix of files of weights; empty if the emitted files hold stored arrays themselves."""

    @cached_property
    def environment(self) -> jinja2.Environment:
        """The Jinja environment of the template folders."""
        import jinja2

        from catgrad.printing.cache import TemplateCache

        environment = jinja2.Environment(
            bytecode_cache=TemplateCache(),
            loader=self._loader(*self.folders),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        environment.filters["fill"] = fill
        environment.globals |= {"TABLES": TABLES, "INITIAL": INITIAL, **self.helpers}
        return environment

    def _loader(self, *folders: Path) -> jinja2.BaseLoader:
        import jinja2

        # Beside a file's own folder, its siblings by name: "python/ops.j2".
        return jinja2.FileSystemLoader([*folders, *(folder.parent for folder in folders)])

    @cached_property
    def dialect(self) -> Dialect:
        """The macros of all folders; earlier folders override later ones."""
        macros: dict[str, Any] = {}
        binding: dict[str, Sequence[int]] = {}
        reserved: set[str] = set()
        for folder in reversed(self.folders):
            environment = self.environment.overlay(loader=self._loader(folder))
            module = vars(environment.get_template("ops.j2").module)
            macros |= {name: value for name, value in module.items() if callable(value)}
            binding |= module.get("binding", {})
            reserved |= set(module.get("reserved", "").split())
        return Dialect(macros, binding, frozenset(reserved))

    def has(self, op: Op) -> bool:
        """Tell whether the target has a macro for this operation."""
        return op.macro in self.operations

    @cached_property
    def operations(self) -> frozenset[str]:
        """The names of all macros, which include the operations of the target."""
        return self.lowers_to_loops.union(self.dialect.macros)

    def missing(self) -> str | None:
        """Return the reason that emitted code cannot run on this machine, if it cannot."""
        reasons = (tool.missing() for tool in self.needs if not tool.use)
        return next(filter(None, reasons), None)

    def configured(self, /, **options: Any) -> Backend:
        """Set the options. Raises: UnknownName for an unknown option; OptionError for an invalid value."""
        known = [f.name for f in fields(self.options)]
        for name in options:
            if name not in known:
                raise _unknown_option(self.name, name, known)
        if not options:
            return self
        changed = replace(self, options=replace(self.options, **options))
        # Templates do not depend on options: they are parsed once for all.
        vars(changed).update(environment=self.environment, dialect=self.dialect)
        return changed

    def emit(self, program: Program) -> Artifact:
        """Emit the files of a program, whose definitions are already expanded to operations of the target.

        Raises: UnsupportedOp if the target lacks an operation; DtypeError if it lacks 16 bits and the program
        has arrays of them; OptionError if its options are invalid for the program, or its arrays do not fit
        into 64 bits of addresses.
        """
        optimised = self.optimised(program)
        self._check_files(program)
        used = {op.macro for f in optimised.functions for op in operations(f)}
        own = self.template_context(self, optimised)
        context = {"program": optimised, "used": used, "backend": self, **own}
        rendered = {
            name.format(name=program.name): self.environment.get_template(template)
            .render(context)
            .strip("\n")
            for name, template in self.files.items()
        }
        files = {
            name: self.marked(name, program.digest) + text.rstrip() + "\n"
            for name, text in rendered.items()
            if text.strip()
        }
        values = program.stored if self.weights_suffix else {}
        return Artifact(self.postprocess(context, files), optimised, program, self, values)

    def _check_files(self, program: Program) -> None:
        """Raise OptionError if two files have one name, perhaps but for the case of its letters."""
        counts = Counter(name.format(name=program.name).casefold() for name in self.files)
        [(file, count), *_] = counts.most_common()
        if count > 1:
            raise OptionError(
                f"a program for {self.name} must have files of different names",
                f"{program.name} has two called {file}",
                "choose another name for the model",
            )

    def marked(self, name: str, digest: str) -> str:
        """Return the line with the hash of the terms that begins a file, as a comment of its language."""
        if not digest:
            return ""
        loader = self._loader(Path(str(resources.files("catgrad.templates"))))
        template: Any = self.environment.overlay(loader=loader).get_template("shared/mark.j2")
        line = template.module.mark(name.rpartition(".")[2], digest)
        return f"{line}\n" if line else ""

    def optimised(self, program: Program) -> Program:
        """Prepare a program for the target, and apply all passes. Raises: as `emit`"""
        self._check_supported(program)
        self._check_dtypes(program)
        prepared = self.prepare(self, program)
        for function in prepared.functions:
            require_addressable(function)
        return prepared.map(self._optimised)

    def _optimised(self, function: Function) -> Function:
        straight = optimise(function)
        # Passes of the target may replace operations by ones without their requirements.
        return self._suited(replace(straight, requirements=requirements(straight)))

    def _suited(self, function: Function) -> Function:
        straight = nest(erase_barriers.apply(function), lambda block: self._suited(optimise(block)))
        return reduce(lambda f, each: each.apply(f), self.passes, straight)

    def _check_supported(self, program: Program) -> None:
        for function in program.functions:
            for op in operations(function):
                if op.body is None and not self.has(op) and not op.structural:
                    name = op.macro
                    raise UnsupportedOp(
                        f"target {self.name!r} must have a macro for every operation without a body",
                        f"{name} has none: {self.unsupported.get(name, 'nobody has written it yet')}",
                        f"add macro {name} to {self.folders[0].name}/ops.j2, or choose another target",
                    )

    def _check_dtypes(self, program: Program) -> None:
        narrow = sorted(name for name in program.dtypes if Dtype[name].wide is not Dtype[name])
        if narrow and (reason := self.known_gaps.get(NO_16_BITS)):
            raise DtypeError(
                f"a program for {self.name} must have arrays of at least 32 bits, or of booleans",
                f"{program.name} has some of {' and '.join(narrow)}: {reason}",
                "build the model in float32, without mixed precision, or choose another target",
            )


def _unknown_option(target: str, name: str, known: Sequence[str]) -> UnknownName:
    listed = f"one of {', '.join(known)}" if known else "left out, for it has none"
    return UnknownName(
        f"an option of the target {target} must be {listed}",
        f"it is {name!r}",
        f"{nearest(name, known)}see the target's page",
    )


def backends() -> dict[str, Callable[[], Backend]]:
    """Find a loader for every installed target, by name. Raises: UnknownName if two have one name."""
    found: dict[str, Callable[[], Backend]] = {}
    every = {entry.value: entry for entry in (BUILTIN, *entry_points(group=GROUP))}
    for _, entry in sorted(every.items()):
        for name, loader in _provided(entry).items():
            if name in found:
                raise UnknownName(
                    "targets must have distinct names",
                    f"two packages provide {name!r}, one of them {entry.value}",
                    "uninstall one of them",
                )
            found[name] = loader
    return found


def _provided(entry: EntryPoint) -> dict[str, Callable[[], Backend]]:
    try:
        provided: dict[str, Callable[[], Backend]] = entry.load()()
    except Exception as error:  # a broken package must not take the others with it
        said = f"the targets of {entry.value} do not load: {error!r}"
        warnings.warn(said, CatgradWarning, stacklevel=3)
        return {}
    return provided


@cache
def get_backend(name: str) -> Backend:
    """Load the target of this name.

    Raises: UnknownName, with the nearest name there is; ToolError if its package does not load.
    """
    known = backends()
    if name not in known:
        raise unknown("target", name, known, "catgrad targets")
    try:
        return known[name]()
    except Exception as error:
        raise ToolError(
            f"the target {name} must load",
            f"its package raised {error!r}",
            "repair the package, or uninstall it",
        ) from error


def loaded_backends() -> dict[str, Backend]:
    """Load every target, by name; warn of those that fail."""
    found: dict[str, Backend] = {}
    for name in sorted(backends()):
        try:
            found[name] = get_backend(name)
        except ToolError as error:
            warnings.warn(str(error), CatgradWarning, stacklevel=2)
    return found


def capability_table() -> dict[str, dict[str, bool]]:
    """Tabulate, for each operation, which targets print it themselves."""
    loaded = loaded_backends()
    return {op: {name: op in backend.operations for name, backend in loaded.items()} for op in sorted(OPS)}
