"""Language bindings: the interface of a library with the identifiers of another language, for templates.

A language is a file `templates/bindings/NAME.j2` that sets its files, types, styles and reserved words, and
the templates of those files. Every template prints the same `Interface`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from catgrad.backend import Backend
from catgrad.dims import Dim, Size, coefficients
from catgrad.errors import unknown
from catgrad.naming import Namer
from catgrad.programs.ports import Kind, Role
from catgrad.types import NdArrayType

from .. import templates
from ..host.learner import STEP_MANY
from ..kernels.signatures import ArrayArgument, Signature, initials
from .interface import prefix
from .layouts import layouts

FOLDER = templates("bindings")

GRADIENTS = "gradients"
"""The table of a model that `grads` writes and `update` reads, with the struct of the parameters."""

Terms = tuple[tuple[bool, tuple[str, ...]], ...]
"""A size as a sum of terms: whether each is subtracted, and its factors."""


@dataclass(frozen=True)
class Language:
    """Identifiers, types and files of a language.

    `files` maps names of files, in which `{module}` stands for that of the module, to templates; `types` maps
    dtypes to types. `styles` say how identifiers of a `module`, a `function` and a `value` are written: in
    `snake`, `lower`, `camel` or `pascal` case, with at most `longest` characters. `reserved` are the words of
    the language, and the names that its templates use themselves.
    """

    name: str
    files: Mapping[str, str]
    types: Mapping[str, str]
    styles: Mapping[str, str]
    longest: int
    reserved: frozenset[str]

    def namer(self, *taken: str) -> Namer:
        """Return a namer for a scope in which these names are taken."""
        return Namer([*self.reserved, *taken])

    def identifier(self, namer: Namer, kind: str, name: str) -> str:
        """Return a unique identifier for a name, in the style of its kind."""
        return namer.fresh(styled(self.styles[kind], name)[: self.longest])


@dataclass(frozen=True)
class BoundArray:
    """An argument or result: its identifier, its type, its sizes, and the number of its elements.

    A message names it by its `label`, with its shape.
    """

    identifier: str
    dtype: str
    type: str
    sizes: tuple[Terms, ...]
    length: Terms
    label: str
    is_result: bool


@dataclass(frozen=True)
class Argument:
    """An argument in C: its kind, which each language maps to a type, its name, and the array that it is."""

    kind: str
    name: str
    array: BoundArray | None = None


WORKSPACE = Argument("workspace", "workspace")


@dataclass(frozen=True)
class Native:
    """A function in C: its name here, its symbol, what it returns, and its arguments."""

    name: str
    symbol: str
    returns: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Workspace:
    """The function that owns a workspace: its name in the language, its symbol in C, and its sizes."""

    name: str
    symbol: str
    sizes: tuple[str, ...]


@dataclass(frozen=True)
class BoundFunction:
    """A function: its name in the language, its `symbol` in C, and its arguments in the order of C.

    One number that is the only result is the value of the function, not an array that is passed. A function
    that `writes_gradients` takes their table after its arrays.
    """

    name: str
    symbol: str
    doc: str
    tables: tuple[str, ...]
    sizes: tuple[str, ...]
    arrays: tuple[BoundArray, ...]
    value: BoundArray | None
    writes_gradients: bool
    workspace: Workspace

    @property
    def owns_workspace(self) -> bool:
        """Tell whether its workspace is not that of another function."""
        return self.workspace.symbol == self.symbol

    @property
    def memories(self) -> tuple[str, ...]:
        """List the tables that it takes, gradients included."""
        return (*self.tables, GRADIENTS) if self.writes_gradients else self.tables

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """List the arguments in the order of C."""
        return (
            *(Argument("table", table) for table in self.tables),
            *(Argument("size", size) for size in self.sizes),
            *(Argument("array", array.identifier, array) for array in self.arrays),
            *([Argument("table", GRADIENTS)] if self.writes_gradients else []),
            *([Argument("value", self.value.identifier, self.value)] if self.value else []),
            WORKSPACE,
        )


@dataclass(frozen=True)
class BoundTable:
    """A table: its name, its struct in C, and the number of pointers in that."""

    name: str
    struct: str
    pointers: int


@dataclass(frozen=True)
class Interface:
    """The library in a language: its prefix in C, the name of its module, tables and functions.

    `memories` are the tables, and gradients, if a function takes them.
    """

    prefix: str
    module: str
    doc: str
    tables: tuple[BoundTable, ...]
    memories: tuple[BoundTable, ...]
    functions: tuple[BoundFunction, ...]
    has_initial_values: bool
    has_files: bool

    @property
    def natives(self) -> list[Native]:
        """List the functions in C that bindings call."""
        tables = [Argument("table", table.name) for table in self.tables]
        natives = [self._native("error_string", "text", [Argument("code", "code")])]
        for table in tables:
            natives.append(self._native(f"{table.name}_bytes", "bytes", []))
            given = [replace(table, kind="placed"), Argument("memory", "memory")]
            natives.append(self._native(f"{table.name}_place", "nothing", given))
        if self.has_initial_values:
            natives.append(self._native("init", "code", [Argument("seed", "seed"), *tables, WORKSPACE]))
            natives.append(self._native("init_workspace_bytes", "bytes", []))
        for f in self.functions:
            natives.append(Native(f.name, f.symbol, "code", f.arguments))
            if f.owns_workspace:
                sizes = tuple(Argument("size", size) for size in f.sizes)
                natives.append(Native(f"{f.name}_bytes", f"{f.symbol}_workspace_bytes", "bytes", sizes))
        for verb in ("load", "save") if self.has_files else ():
            natives.append(self._native(verb, "code", [Argument("path", "path"), *tables]))
        return natives

    def _native(self, name: str, returns: str, arguments: Sequence[Argument]) -> Native:
        return Native(name, f"{self.prefix}_{name}", returns, tuple(arguments))


@cache
def languages() -> tuple[str, ...]:
    """List the names of the languages."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.j2") if "." not in path.stem))


def require_languages(names: Iterable[str]) -> None:
    """Raise UnknownName unless each of these names is one of a language."""
    for name in names:
        if name not in languages():
            raise unknown("language of bindings", name, languages(), "catgrad targets c")


def language(backend: Backend, name: str) -> Language:
    """Read the names of a language."""
    found: Any = backend.environment.get_template(f"bindings/{name}.j2").module
    words = frozenset(found.reserved.split())
    return Language(name, found.files, found.types, found.styles, found.longest, words)


def interface(language: Language, context: Mapping[str, Any]) -> Interface:
    """Describe a library in the names of a language, from the variables that the templates of C read.

    Functions that take packed weights are called in C and C++ only.
    """
    program, functions = context["program"], context["functions"]
    module = language.identifier(language.namer(), "module", prefix(program))
    namer, layout = language.namer(module), layouts(context["tables"])
    tables = tuple(BoundTable(table, table, len(each)) for table, each in layout.items())
    bound = [
        _function(language, namer, language.namer(module), prefix(program), each)
        for each in functions.values()
        if not (each.kind.is_initial or each.convention.is_prepared)
    ]
    if STEP_MANY in program.variants:
        step = context["kinds"][Kind.STEP]
        many = _function(language, namer, language.namer(module), prefix(program), _repeated(step))
        owner = next(each for each in bound if each.symbol == f"{prefix(program)}_{step.name}")
        sizes = many.sizes[: len(owner.sizes)]
        bound.append(replace(many, workspace=Workspace(owner.name, owner.symbol, sizes)))
    has_gradients = any(each.convention.gradients for each in functions.values())
    gradients = BoundTable(GRADIENTS, Role.PARAMETER, len(layout[Role.PARAMETER])) if has_gradients else None
    return Interface(
        prefix(program),
        module,
        program.name,
        tables,
        (*tables, gradients) if gradients else tables,
        tuple(bound),
        bool(initials(functions)),
        bool(tables) and "step" in context["kinds"],
    )


def _repeated(step: Signature) -> Signature:
    """Return the signature of one step after another, whose arrays have an axis of steps before theirs."""
    steps = Dim(Namer(step.sizes).fresh("steps"))
    inputs = [replace(x, type=NdArrayType((steps, *x.type.shape), x.type.dtype)) for x in step.inputs]
    (loss,) = step.outputs
    losses = replace(loss, identifier="losses", type=NdArrayType((steps,), loss.type.dtype))
    return replace(
        step,
        name=STEP_MANY,
        doc="Steps on one batch after another; if one fails, those before it are done.",
        convention=replace(step.convention, name=STEP_MANY),
        sizes=(*step.sizes, str(steps)),
        inputs=tuple(inputs),
        outputs=(losses,),
    )


def _function(language: Language, namer: Namer, own: Namer, prefix: str, printed: Signature) -> BoundFunction:
    """Name a function and, in a scope of its `own`, its arguments."""
    name = language.identifier(namer, "function", printed.name)
    sizes = {size: language.identifier(own, "value", size) for size in printed.sizes}
    arrays = [_array(language, own, sizes, x, is_result=False) for x in printed.inputs]
    last = [_array(language, own, sizes, y, is_result=True) for y in printed.outputs]
    has_value = len(last) == 1 and not last[0].sizes
    tables = [str(table) for table, _ in printed.convention.tables]
    if printed.convention.reads_gradients:
        tables.append(GRADIENTS)
    passed = tuple(arrays) if has_value else (*arrays, *last)
    value = last[0] if has_value else None
    symbol, own_sizes = f"{prefix}_{printed.convention.name}", (*sizes.values(),)
    return BoundFunction(
        name, symbol, printed.doc, tuple(tables), own_sizes, passed, value,
        printed.convention.writes_gradients, Workspace(name, symbol, own_sizes),
    )  # fmt: skip


def _array(
    language: Language, namer: Namer, sizes: Mapping[str, str], array: ArrayArgument, is_result: bool
) -> BoundArray:
    name = language.identifier(namer, "value", array.identifier)
    shape = tuple(terms(size, sizes) for size in array.type.shape)
    label = f"{name}[{', '.join(map(str, array.type.shape))}]"
    dtype = array.type.dtype.value
    length = terms(array.type.size, sizes)
    return BoundArray(name, dtype, language.types[dtype], shape, length, label, is_result)


def terms(size: Size, names: Mapping[str, str]) -> Terms:
    """Return a size as a sum of products of numbers and names."""
    return tuple(
        (number < 0, _factors(abs(number), [names[symbol] for symbol in monomial]))
        for monomial, number in coefficients(size).items()
    )


def _factors(number: int, names: Sequence[str]) -> tuple[str, ...]:
    return (str(number), *names) if number != 1 or not names else tuple(names)


def styled(style: str, name: str) -> str:
    """Return a name in `snake` (as it is), `lower`, `camel` or `pascal` case."""
    if style in ("snake", "lower"):
        return name.lower() if style == "lower" else name
    first, *others = name.split("_")
    words = "".join(word[:1].upper() + word[1:] for word in others)
    return (first[:1].upper() + first[1:] if style == "pascal" else first) + words


def with_bindings(context: Mapping[str, Any], files: dict[str, str]) -> dict[str, str | bytes]:
    """Add the files of the bindings that the options name."""
    backend, program = context["backend"], context["program"]
    found: dict[str, str | bytes] = dict(files)
    for name in backend.options.bindings:
        each = language(backend, name)
        api = interface(each, context)
        for file, template in each.files.items():
            text = backend.environment.get_template(template).render(**context, api=api, language=each)
            path = file.format(module=api.module)
            found[path] = backend.marked(path, program.digest) + text.strip() + "\n"
    return found
