"""Operations: one frozen class declares type, reference implementation and reverse derivative."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache, wraps
from inspect import isfunction, signature
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, dataclass_transform

import numpy as np

from catgrad.dims import Size
from catgrad.errors import CatgradError, DtypeError, OptionError, ShapeError, TermError, TypeMismatch
from catgrad.types import Dtype, NdArrayType, widened

Wire = TypeVar("Wire")
if TYPE_CHECKING:
    from catgrad.terms.var import Var

F = TypeVar("F", bound=Callable[..., Any])
Types = NdArrayType | tuple[NdArrayType, ...]
Examples = Sequence[tuple["Op", tuple[NdArrayType, ...]]]
"""Operations with the types of their inputs."""

OPS: dict[str, type[Op]] = {}
"""All operations by class name; declaring a class registers it."""

_PLACES: dict[str, str] = {}

SYMBOLS: dict[str, Callable[..., Any]] = {}
"""For each operator of `Var`, the function on variables that it applies."""


@dataclass(frozen=True)
class Saves:
    """The residual of the optic: the wires that the reverse map reads from the forward map.

    `...` selects all wires, a tuple those at its positions that there are: inputs may be optional.
    """

    inputs: tuple[int, ...] | EllipsisType = ()
    outputs: tuple[int, ...] | EllipsisType = ()

    def pick(self, inputs: tuple[Wire, ...], outputs: tuple[Wire, ...]) -> tuple[Wire, ...]:
        """Return the saved wires, inputs before outputs."""
        return _pick(self.inputs, inputs) + _pick(self.outputs, outputs)


def _pick(chosen: tuple[int, ...] | EllipsisType, wires: tuple[Wire, ...]) -> tuple[Wire, ...]:
    return wires if isinstance(chosen, EllipsisType) else tuple(wires[i] for i in chosen if i < len(wires))


NOTHING = Saves()
"""For linear maps: `rev(*dy)`."""
INPUTS = Saves(inputs=...)
"""For lenses: `rev(*x, *dy)`."""
OUTPUTS = Saves(outputs=...)
"""For maps whose derivative is a function of their value: `rev(*y, *dy)`."""


class Builder(Protocol):
    """The term under construction that variables belong to."""

    types: list[NdArrayType]
    """The type of each wire."""

    def apply(self, op: Op, arguments: tuple[Any, ...]) -> tuple[Any, ...]: ...

    def splice(self, term: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]: ...


BUILDER: ContextVar[Builder] = ContextVar("BUILDER")
"""The construction in progress, to which operations without arguments belong."""


@dataclass_transform(frozen_default=True)
class Op:
    """An operation: attributes are fields, arrays are positional arguments.

    A subclass declares `type` (types of the outputs for those of the inputs), `ref` (the reference
    implementation in NumPy) and `rev` (the reverse derivative, a function on variables that receives
    the wires in `saves`, then the cotangents of the outputs). An operation with a `body` is a
    definition: targets without a macro for it print the body, and `rev` is optional.

    A wire whose type is not differentiable (bool) has no cotangent: `rev` neither receives nor
    returns one for it, and is not called if no output has one.
    """

    type: ClassVar[Callable[..., Types]]
    """The types of the outputs, given those of the inputs; raises TypeMismatch if these are not accepted."""
    ref: ClassVar[Callable[..., Any]]
    """The reference implementation, on NumPy arrays: a method, or a `ufunc` of NumPy."""
    saves: ClassVar[Saves] = INPUTS
    body: ClassVar[Callable[..., Any] | None] = None
    rev: ClassVar[Callable[..., Any] | None] = None
    optic: ClassVar[Callable[..., tuple[Any, Any]] | None] = None
    """For a residual that is not a selection of wires: a function of the reverse functor and the input types
    that returns two terms, the forward map A → B ⊗ M and the reverse map M ⊗ B′ → A′.
    """
    evaluated: ClassVar[Callable[..., Any] | None] = None
    """The replacement in evaluation mode, a function on variables like `body`."""

    structural: ClassVar[bool] = False
    """Copies, discards or names values; passes remove it before printing."""
    elementwise: ClassVar[bool] = False
    """Each element of the one output is a function of the input elements at the same index."""
    reduces: ClassVar[bool] = False
    """Each element of the first input is added, or compared, once."""
    rearranges: ClassVar[bool] = False
    """Data movement: the output consists of elements of the one input."""
    costly: ClassVar[bool] = False
    """Much slower than a load, so the output is stored rather than recomputed."""
    multilinear: ClassVar[bool] = False
    """Linear in each array, so an empty operand makes the result 0."""
    contracts: ClassVar[bool] = False
    """Computes sums of products of its arrays, which mixed precision rounds to bfloat16."""
    may_fail: ClassVar[bool] = False
    """Raises an error for some elements, such as an index out of range."""
    commutative: ClassVar[bool] = False
    """f(x, y) = f(y, x)."""
    involution: ClassVar[bool] = False
    """f(f(x)) = x."""
    rounds_once: ClassVar[bool] = False
    """Body and reverse round each element at most once, so intermediate values may have 16 bits."""
    left_unit: ClassVar[float | None] = None
    """f(unit, x) = x."""
    right_unit: ClassVar[float | None] = None
    """f(x, unit) = x."""
    names_result: ClassVar[bool] = False
    """Name the result of its body after it."""
    result: ClassVar[str] = ""
    """The default name of the output in emitted code; if empty, that of the operation."""
    domain: ClassVar[tuple[float, float]] = (-2.0, 2.0)
    """The interval from which tests draw inputs."""

    def __init_subclass__(cls, symbol: str | None = None, register: bool = True, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        dataclass(frozen=True)(cls)
        cls.__hash__ = _hash_with_class  # type: ignore[method-assign, assignment]
        # Macros are looked up by name, so names are unique; a notebook cell may run twice.
        place = f"{cls.__module__}.{cls.__qualname__}"
        if _PLACES.setdefault(cls.__name__, place) != place:
            raise OptionError(
                "each operation must have a unique name",
                f"{place} has that of {_PLACES[cls.__name__]}",
                "rename one of them",
            )
        if register:
            OPS[cls.__name__] = cls
        if symbol is not None:
            SYMBOLS[symbol] = cls()

    @property
    def macro(self) -> str:
        """The name of the macro that prints it."""
        return type(self).__name__

    def outputs(self, *inputs: NdArrayType) -> tuple[NdArrayType, ...]:
        """Return the types of the outputs, always as a tuple; cached."""
        return _outputs(self, inputs)

    def pruned(self, needed: Sequence[bool]) -> tuple[Op, Sequence[int], Sequence[int]] | None:
        """Remove unneeded outputs, and inputs that are then unused; return the smaller operation with the
        positions of its inputs and outputs, or None if nothing can be removed.
        """
        return None

    def minimum_sizes(self, *inputs: Any, **_: Any) -> tuple[tuple[Size, int], ...]:
        """Return sizes with their minima; `type` refuses smaller numbers, emitted code smaller symbols."""
        return ()

    def flops(self, *inputs: Any, **_: Any) -> Size:
        """Count the operations on numbers: one for each element of an elementwise result, or that is reduced.

        Definitions are counted by their bodies, loops and branches by their blocks.
        """
        if self.reduces:
            return inputs[0].size  # type: ignore[no-any-return]
        return self.outputs(*inputs)[0].size if self.elementwise else 0

    def is_identity(self, *inputs: NdArrayType) -> bool:
        """Return whether the operation is the identity at these types."""
        return False

    def fuse(self, inner: Op) -> Op | None:
        """Return one operation equal to `inner` followed by this one, or None."""
        return None

    def result_name(self, *operands: str) -> str:
        """Return a name for the output in emitted code; operands without a name are empty."""
        return self.result or re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()

    def compute(self, *arrays: Any) -> Any:
        """Evaluate `ref`: 16-bit numbers are widened to float32, and the caller rounds the result."""
        return self.ref(*map(widened, arrays))

    def substitute(self, sizes: Mapping[str, Size]) -> Op:
        """Substitute `sizes[name]` for each symbolic dimension in the fields."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]
        return replace(self, **{k: _substitute(v, sizes) for k, v in values.items()}) if values else self  # type: ignore[type-var]

    @classmethod
    def examples(cls) -> Examples:
        """Return operations with input types for tests; derived from the arity if there are no attributes."""
        return [(cls(), (NdArrayType(shape),) * cls.arity()) for shape in ((2, 3), (), (0, 2))]

    @classmethod
    def arity(cls) -> int:
        """Return the number of array arguments."""
        return cls.ref.nin if isinstance(cls.ref, np.ufunc) else len(signature(cls.ref).parameters) - 1

    def apply(self, *arguments: Any) -> tuple[Any, ...]:
        """Apply to variables; the outputs, always as a tuple."""
        return builder_of(arguments, type(self).__name__).apply(self, arguments)

    def __call__(self, *arguments: Any) -> Var:
        """Apply to variables: one variable for one output, else a tuple of them."""
        results = self.apply(*arguments)
        return results[0] if len(results) == 1 else results  # type: ignore[return-value]


def builder_of(arguments: tuple[Any, ...], subject: str) -> Builder:
    """Return the construction that the variables belong to, or the current one. Raises: TermError."""
    current = BUILDER.get(None)
    for argument in arguments:
        if hasattr(argument, "builder"):
            # Inside the body of a loop, the first variable may belong to the enclosing function.
            return current or argument.builder
    if arguments or current is None:
        raise not_variables(subject, arguments)
    return current


def is_running(arguments: tuple[Any, ...]) -> bool:
    """Ask whether arguments are arrays, and no function is being built in which they were a mistake."""
    return BUILDER.get(None) is None and not any(hasattr(argument, "builder") for argument in arguments)


def not_variables(subject: str, arguments: tuple[Any, ...]) -> TermError:
    """Return the error for an operation on values that are no variables."""
    constant = "ops.array(values) for a constant"
    return TermError(
        f"{subject} must be applied to variables, inside a function that is being built",
        f"it is applied to {', '.join(map(shortened, arguments))}" if arguments else "nothing is being built",
        f"write {constant}" if BUILDER.get(None) else f"write build(function, types), or {constant}",
    )


def refuses_arrays(operation: F) -> F:
    """Return a function on variables that names arrays and lists among its arguments as the error."""
    if not isfunction(operation):
        return operation

    @wraps(operation)
    def refusing(*arguments: Any, **named: Any) -> Any:
        try:
            return operation(*arguments, **named)
        except AttributeError:  # an array has no type of catgrad
            first = [*arguments, *named.values()][:1]
            if isinstance(first[0], (np.ndarray, list, float)):
                raise not_variables(operation.__name__, tuple(first)) from None
            raise

    return refusing  # type: ignore[return-value]


def shortened(value: Any) -> str:
    """Describe a value in a few words; an array by its type."""
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype}[{','.join(map(str, value.shape))}]"
    return f"[{', '.join(map(shortened, value))}]" if isinstance(value, list) else repr(value)


@cache
def _takes(kind: Any, count: int) -> bool:
    """Return whether an operation has this number of arguments, of which `ref` has as many."""
    if isinstance(kind.ref, np.ufunc):
        return bool(kind.ref.nin == count)
    try:
        signature(kind.ref).bind(*range(1 + count))
    except TypeError:
        return False
    return True


@lru_cache(maxsize=1 << 16)
def _outputs(op: Op, inputs: tuple[NdArrayType, ...]) -> tuple[NdArrayType, ...]:
    if not _takes(type(op), len(inputs)):  # type: ignore[arg-type]  # a class has a hash
        raise TypeMismatch(
            f"there must be {op.arity()} arguments",
            f"there are {len(inputs)}",
            "pass arrays here and attributes to the constructor",
            subject=type(op).__name__,
        )
    try:
        types = op.type(*inputs)
        for size, least in op.minimum_sizes(*inputs):
            if isinstance(size, int) and size < least:
                raise ShapeError(f"a size must be at least {least}", f"it is {size}", "choose larger shapes")
    except CatgradError as error:
        raise error.about(subject=type(op).__name__) from None
    return types if isinstance(types, tuple) else (types,)


def _hash_with_class(op: Op) -> int:
    # The default hash of a dataclass ignores the class, so all operations without attributes would collide.
    return hash((type(op), *vars(op).values()))


def _substitute(value: Any, sizes: Mapping[str, Size]) -> Any:
    if hasattr(value, "substitute"):
        return value.substitute(sizes)
    if isinstance(value, tuple):
        return tuple(_substitute(v, sizes) for v in value)
    return value


_SCOPE: ContextVar[tuple[str, ...]] = ContextVar("_SCOPE", default=())


@contextmanager
def scope(name: str) -> Iterator[None]:
    """Prefix the names of parameters with `name`: `encoder.0.weight`; errors within have the dotted name.

    An empty name has no effect.
    """
    token = _SCOPE.set((*_SCOPE.get(), name) if name else _SCOPE.get())
    try:
        yield
    except CatgradError as error:
        error.about(where=qualified())
        raise
    finally:
        _SCOPE.reset(token)


def qualified(*names: str) -> str:
    """Return the dotted name of something in the current scope."""
    return ".".join((*_SCOPE.get(), *names))


def same(*types: NdArrayType) -> NdArrayType:
    """Return the type that all of `types` are. Raises: ShapeError, DtypeError."""
    first = types[0]
    for other in types[1:]:
        if other is not first:
            wrong = ShapeError if other.dtype is first.dtype else DtypeError
            raise wrong(
                "operands must have one type",
                f"they are {', '.join(map(str, types))}",
                "broadcast, reshape or cast one of them explicitly",
            )
    return first


def numeric(*types: NdArrayType) -> NdArrayType:
    """Return the one type of numbers that all of `types` are. Raises: ShapeError, DtypeError."""
    first = same(*types)
    if not first.dtype.is_numeric:
        is_truth = first.dtype is Dtype.bool
        must = "operands must be numbers" if is_truth else "operands must have at least 16 bits"
        do = "cast them first, for example to float32 or int32"
        if is_truth:
            do += ", or use select(condition, x, y), any or all"
        raise DtypeError(must, f"they are {first}", do)
    return first


def floating(*types: NdArrayType) -> NdArrayType:
    """Return the one floating-point type that all of `types` are. Raises: ShapeError, DtypeError."""
    first = same(*types)
    if not first.dtype.is_floating:
        raise DtypeError("operands must be floating-point", f"they are {first}", "cast them to float32 first")
    return first
