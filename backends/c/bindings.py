"""Language bindings: the interface of a library with the identifiers of another language, for templates.

A language is a file `templates/bindings/NAME.j2` that sets its files, types, styles and reserved words, and
the templates of those files. Every template prints the same `Interface`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from catgrad.backend import Backend
from catgrad.dims import Size, coefficients
from catgrad.errors import unknown
from catgrad.naming import Namer

from .. import templates
from ..kernels.signatures import ArrayArgument, Signature, initials
from .interface import prefix
from .layouts import layouts

FOLDER = templates("bindings")

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
class BoundFunction:
    """A function: its name in the language, its `symbol` in C, and its arguments in the order of C.

    One number that is the only result is the value of the function, not an array that is passed.
    """

    name: str
    symbol: str
    doc: str
    tables: tuple[tuple[str, bool], ...]
    sizes: tuple[str, ...]
    arrays: tuple[BoundArray, ...]
    value: BoundArray | None


@dataclass(frozen=True)
class BoundTable:
    """A table: its name, and the number of pointers in its struct."""

    name: str
    pointers: int


@dataclass(frozen=True)
class Interface:
    """The library in a language: its prefix in C, the name of its module, tables and functions."""

    prefix: str
    module: str
    doc: str
    tables: tuple[BoundTable, ...]
    functions: tuple[BoundFunction, ...]
    has_initial_values: bool
    has_files: bool


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

    Functions that take gradients or packed weights are called in C and C++ only.
    """
    program, functions = context["program"], context["functions"]
    module = language.identifier(language.namer(), "module", prefix(program))
    namer, tables = language.namer(module), layouts(context["tables"])
    return Interface(
        prefix(program),
        module,
        program.name,
        tuple(BoundTable(table, len(layout)) for table, layout in tables.items()),
        tuple(
            _function(language, namer, language.namer(module), prefix(program), each)
            for each in functions.values()
            if not (each.kind.is_initial or each.convention.gradients or each.convention.is_prepared)
        ),
        bool(initials(functions)),
        bool(tables) and "step" in context["kinds"],
    )


def _function(language: Language, namer: Namer, own: Namer, prefix: str, printed: Signature) -> BoundFunction:
    """Name a function and, in a scope of its `own`, its arguments."""
    name = language.identifier(namer, "function", printed.name)
    sizes = {size: language.identifier(own, "value", size) for size in printed.sizes}
    *arrays, last = [
        *(_array(language, own, sizes, x, is_result=False) for x in printed.inputs),
        *(_array(language, own, sizes, y, is_result=True) for y in printed.outputs),
    ]
    has_value = len(printed.outputs) == 1 and not last.sizes
    tables = tuple((str(table), changed) for table, changed in printed.convention.tables)
    passed = tuple(arrays) if has_value else (*arrays, last)
    value = last if has_value else None
    symbol = f"{prefix}_{printed.convention.name}"
    return BoundFunction(name, symbol, printed.doc, tables, (*sizes.values(),), passed, value)


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
