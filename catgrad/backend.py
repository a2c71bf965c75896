"""Backends: the operations that a target prints, its passes and templates, and its loader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial, reduce
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catgrad.artifact import Artifact
from catgrad.errors import DtypeError, OptionError, UnknownName, UnsupportedOp, nearest
from catgrad.footprint import Footprint
from catgrad.printing.dialect import Dialect
from catgrad.printing.printer import FunctionPrinter
from catgrad.printing.statements import FunctionText, fill
from catgrad.programs.passes import Pass, erase_barriers, optimise
from catgrad.programs.peak_memory import require_addressable
from catgrad.programs.ports import INITIAL, TABLES, Kind
from catgrad.programs.program import Function, Program, nest, operations, requirements
from catgrad.programs.signatures import SIGNATURES
from catgrad.terms.op import Op
from catgrad.tools import Tool
from catgrad.types import Dtype, NdArrayType

if TYPE_CHECKING:
    import jinja2

TOLERANCE = {"f32": 1e-5, "f64": 1e-12, "f16": 2e-3, "bf16": 1.6e-2}
"""Greatest error of results against the reference: of 16 bits, two units in the last place."""

NO_16_BITS = "16 bits"
"""The known gap of targets without float16 and bfloat16, which refuse programs that have them."""


@dataclass(frozen=True)
class NoOptions:
    """The options of a target that has none."""


def statements(backend: Backend, program: Program) -> dict[str, dict[str, FunctionText]]:
    """Print the functions of a prepared program as statements, by name and by kind, for templates."""
    printed = {f.name: FunctionPrinter(f, backend.dialect).print() for f in program.functions}
    return {"functions": printed, "kinds": {kind: printed[f.name] for kind, f in program.kinds.items()}}


def unchanged(context: Mapping[str, object], files: dict[str, str]) -> Mapping[str, str | bytes]:
    """Return the rendered files as they are."""
    return files


@dataclass(frozen=True)
class Backend:
    """A target."""

    name: str
    """The word by which `emit` takes it."""

    summary: str
    """A line of a list of targets: the kind of code it emits."""

    folders: tuple[Path, ...]
    """Template folders: its own, then those it inherits from. Each has `ops.j2`, with a macro for each
    operation that the target prints, or an entry of `expressions`, a text with places for operands; other
    operations are expanded to their bodies."""

    files: Mapping[str, str]
    """The template of each emitted file; a file that renders to nothing is omitted."""

    load: Callable[..., Any]
    """Builds and loads an artifact; returns the class `CompiledModel`."""

    passes: Sequence[Pass] = ()
    """Passes that run once, in order, after the common ones; their results need not obey the type rules."""

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
    """Learning rates are numbers in the state, which callers may change."""

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

        # Beside a file's own folder, the siblings of all folders by name: "python/ops.j2".
        return jinja2.FileSystemLoader([*folders, *(folder.parent for folder in self.folders)])

    @cached_property
    def dialect(self) -> Dialect:
        """The macros of all folders; earlier folders override later ones."""
        macros: dict[str, Any] = {}
        binding: dict[str, Sequence[int]] = {}
        reserved: set[str] = set()
        for folder in reversed(self.folders):
            environment = self.environment.overlay(loader=self._loader(folder))
            module = vars(environment.get_template("ops.j2").module)
            forms = module.get("expressions", {})
            macros |= {name: partial(_filled, form) for name, form in forms.items()}
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
        straight = nest(erase_barriers(function), lambda block: self._suited(optimise(block)))
        return reduce(lambda f, each: each(f), self.passes, straight)

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


def _filled(form: str, f: object, op: Op, type: NdArrayType, *operands: str) -> str:
    """Write operands into the places of an expression, as a macro that reads nothing else."""
    return form.format(*operands)


def _unknown_option(target: str, name: str, known: Sequence[str]) -> UnknownName:
    listed = f"one of {', '.join(known)}" if known else "left out, for it has none"
    return UnknownName(
        f"an option of the target {target} must be {listed}",
        f"it is {name!r}",
        f"{nearest(name, known)}see the target's page",
    )
