"""Serialisation of operations as JSON: a name, and attributes by the types that the class declares.

Sizes are integers or polynomials, as `{"batch*heads": 2, "": 1}` for 2·batch·heads + 1; floats are written
with the digits that parse to the same number. Parts, which are terms and stored arrays, are written by the
caller: in full for a file, arrays as base64 of little-endian elements, or as hashes. Parsing checks each
value against the declared type, and calls constructors only.
"""

from __future__ import annotations

import base64
import types as python_types
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from math import isfinite, prod
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from catgrad.dims import Dim, Size, coefficients, polynomial
from catgrad.errors import CatgradError, OptionError, TermError
from catgrad.initialisers import Filled, Initialiser, Normal, Stored, Uniform
from catgrad.terms.block import Block
from catgrad.terms.op import OPS, Op
from catgrad.terms.state import Persistent
from catgrad.terms.term import Term
from catgrad.types import Array, Dtype, NdArrayType

MAX_INTEGER = 2**63 - 1
"""The largest absolute value of an integer in a file, but for elements of constants."""

DRAWN: dict[str, type[Any]] = {kind.__name__: kind for kind in (Uniform, Normal, Filled)}
DTYPES = {dtype.value: dtype for dtype in Dtype}
NOT_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}

Write = Callable[[Term | Stored], Any]
"""A function that writes parts: terms in attributes, and stored arrays."""
Read = Callable[[Any], Term]


@contextmanager
def guarded(must: str) -> Iterator[None]:
    """Turn errors that wrong attributes cause in constructors and type rules into TermError."""
    try:
        yield
    except CatgradError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        NameError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        found = f"Python raises {type(error).__name__}: {str(error)[:100]}"
        raise TermError(must, found, "check the attributes, or write the file again") from None


def write_operation(op: Op, write: Write) -> list[Any]:
    """Return name and attributes; `write` writes the parts among them."""
    kind: Any = type(op)
    with guarded(f"the attributes of {kind.__name__} must have types with a form as JSON"):
        attributes = _declared(kind).items()
        written = {name: _written(getattr(op, name), hint, write) for name, hint in attributes}
    return [type(op).__name__, written] if written else [type(op).__name__]


def read_operation(data: Any, read: Read) -> Op:
    """Parse an operation; `read` parses the terms among its attributes.

    Raises: OptionError for a name or a value that is not allowed; TermError; the errors of the operation
    """
    if not isinstance(data, list) or len(data) not in (1, 2) or not isinstance(data[0], str):
        raise _refused("an operation", "a list of a name and attributes", data)
    name, given = data[0], data[1] if len(data) == 2 else {}
    if name not in OPS:
        raise _refused("an operation", "one that is declared", name)
    with guarded(f"operation {name} must accept its attributes"):
        op: Op = OPS[name](**_read_fields(OPS[name], given, read))
    if isinstance(op, Persistent):
        require_fitting(op.name, op.array_type, op.initial)
    return op


def write_type(type: NdArrayType) -> list[Any]:
    """Return the dtype and the shape."""
    return [type.dtype.value, [_size(size) for size in type.shape]]


def read_type(data: Any) -> NdArrayType:
    """Parse a dtype and a shape. Raises: OptionError"""
    if not isinstance(data, list) or len(data) != 2 or not isinstance(data[1], list):
        raise _refused("a type", "a list of a dtype and a shape", data)
    return NdArrayType(tuple(map(_read_size, data[1])), _read_dtype(data[0]))


def write_initial(initial: Initialiser, write: Write) -> list[Any]:
    """Return the kind of an initialiser and its numbers; `write` writes a stored array."""
    if not isinstance(initial, Stored):
        kind = type(initial)
        return [kind.__name__, {f.name: _number(getattr(initial, f.name)) for f in fields(kind)}]
    drawn = None if initial.drawn is None else write_initial(initial.drawn, write)
    return ["Stored", {"array": write(initial), "drawn": drawn}]


def read_initial(data: Any) -> Initialiser:
    """Parse an initialiser. Raises: OptionError"""
    if not isinstance(data, list) or len(data) != 2 or not isinstance(data[1], dict):
        raise _refused("an initialiser", "a list of its kind and its numbers", data)
    kind, given = data
    if kind == "Stored":
        if given.keys() != {"array", "drawn"}:
            raise _refused("a stored array", "`array` and `drawn`", sorted(given))
        drawn = None if given["drawn"] is None else read_initial(given["drawn"])
        if isinstance(drawn, Stored):
            raise _refused("what init draws from", "a distribution", "a stored array")
        return Stored(_read_elements(given["array"]), drawn)
    if not isinstance(kind, str) or kind not in DRAWN:
        raise _refused("an initialiser", f"one of {', '.join(DRAWN)}, Stored", kind)
    initial: Initialiser = DRAWN[kind](**_read_fields(DRAWN[kind], given, _no_terms))
    return initial


def require_fitting(name: str, type: NdArrayType, initial: Initialiser) -> None:
    """Raise OptionError unless a stored initial value has the shape of its array."""
    if isinstance(initial, Stored) and initial.array.shape != type.shape:
        raise _refused(f"the initial value of {name}", f"of the shape of {type}", initial)


@cache
def _declared(kind: Any) -> dict[str, Any]:
    """Return the types of the attributes that the constructor takes, by name."""
    with guarded("the fields of an operation must have types that can be found in its module"):
        hints = get_type_hints(kind, localns={"Dim": Dim})
    return {f.name: hints[f.name] for f in fields(kind) if f.init}


def _written(value: Any, hint: Any, write: Write) -> Any:
    if isinstance(value, Op):
        return write_operation(value, write)
    if isinstance(value, Block):
        return write(value.term)
    if isinstance(value, NdArrayType):
        return write_type(value)
    if isinstance(value, Dtype):
        return value.value
    if isinstance(value, Initialiser):
        return write_initial(value, write)
    if isinstance(value, tuple):
        inner = get_args(hint)
        inner = inner[:1] * len(value) if Ellipsis in inner else inner
        return [_written(item, of, write) for item, of in zip(value, inner, strict=True)]
    if hint is float or (float in get_args(hint) and value is not None):
        return _number(value)
    if value is None or isinstance(value, (bool, str)):
        return value
    return _size(value)


def _read_fields(kind: Any, given: Any, read: Read) -> dict[str, Any]:
    declared = _declared(kind)
    if not isinstance(given, dict) or given.keys() != declared.keys():
        found = sorted(given) if isinstance(given, dict) else given
        raise _refused(f"{kind.__name__}", f"the attributes {', '.join(declared) or '(none)'}", found)
    return {name: _parsed(given[name], hint, read) for name, hint in declared.items()}


def _parsed(data: Any, hint: Any, read: Read) -> Any:
    """Parse a value of a declared type."""
    if hint in _READERS:
        return _READERS[hint](data)
    if hint is Op:
        return read_operation(data, read)
    if hint is Block:
        return Block(read(data))
    if get_origin(hint) is tuple:
        return _parsed_tuple(data, get_args(hint), read)
    if get_origin(hint) in (Union, python_types.UnionType) and type(None) in get_args(hint):
        inner = [each for each in get_args(hint) if each is not type(None)]
        return None if data is None else _parsed(data, Union[tuple(inner)], read)  # noqa: UP007  # of a list
    raise TermError(
        f"attributes in files must have types with a form as JSON, not {hint}",
        "one has none",
        "declare the field as an integer, a tuple of sizes and the like",
    )


def _parsed_tuple(data: Any, inner: tuple[Any, ...], read: Read) -> tuple[Any, ...]:
    if not isinstance(data, list) or (Ellipsis not in inner and len(data) != len(inner)):
        raise _refused("a tuple", "a list", data)
    each = inner[:1] * len(data) if Ellipsis in inner else inner
    return tuple(_parsed(item, hint, read) for item, hint in zip(data, each, strict=True))


def _size(size: Size) -> Any:
    if not isinstance(size, Dim):
        return int(size)
    return {"*".join(monomial): coefficient for monomial, coefficient in coefficients(size).items()}


def _read_size(data: Any) -> Size:
    if not isinstance(data, dict):
        return _read_integer(data)
    terms = {tuple(key.split("*")) if key else (): _read_integer(value) for key, value in data.items()}
    with guarded("a size must be a polynomial"):
        for name in {name for monomial in terms for name in monomial}:
            Dim(name)
        found = polynomial(terms)
    if list(coefficients(found).items()) != list(terms.items()) or not isinstance(found, Dim):
        raise _refused("a size", "a polynomial with symbols, in the order in which it is printed", data)
    return found


def _number(value: Any) -> Any:
    """Return a number as JSON: a float where it equals one, and text where it is not finite."""
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, float) and not isfinite(number):
        return str(number)
    return float(number) if float(number) == number else int(number)


def _read_number(data: Any) -> float:
    if type(data) is str and data in NOT_FINITE:
        return NOT_FINITE[data]
    if type(data) not in (int, float) or (type(data) is float and not isfinite(data)):
        raise _refused("an attribute", "a number", data)
    return data  # type: ignore[no-any-return]  # checked above


def _read_integer(data: Any) -> int:
    if type(data) is not int or abs(data) > MAX_INTEGER:
        raise _refused("an attribute", "an integer of 64 bits", data)
    return data


def _read_bool(data: Any) -> bool:
    if type(data) is not bool:
        raise _refused("an attribute", "true or false", data)
    return data


def _read_text(data: Any) -> str:
    if type(data) is not str:
        raise _refused("an attribute", "a text", data)
    return data


def _read_dtype(data: Any) -> Dtype:
    if not isinstance(data, str) or data not in DTYPES:
        raise _refused("a dtype", f"one of {', '.join(DTYPES)}", data)
    return DTYPES[data]


def write_elements(stored: Stored) -> Any:
    """Return dtype, shape and elements of an array. Raises: OptionError for a dtype that terms do not have"""
    array = np.ascontiguousarray(stored.array)
    if array.dtype.name not in Dtype.__members__:
        raise _refused("an array in a file", f"of a dtype among {', '.join(Dtype.__members__)}", array.dtype)
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    encoded = base64.b64encode(little.tobytes()).decode()
    return {"dtype": Dtype[array.dtype.name].value, "shape": list(stored.array.shape), "base64": encoded}


def _read_elements(data: Any) -> Array:
    if not isinstance(data, dict) or data.keys() != {"dtype", "shape", "base64"}:
        raise _refused("an array", "`dtype`, `shape` and `base64`", data)
    type = read_type([data["dtype"], data["shape"]])
    try:
        content = base64.b64decode(_read_text(data["base64"]), validate=True)
    except (Base64Error, ValueError):
        raise _refused("an array", "base64", data["base64"]) from None
    shape = tuple(_read_integer(size) for size in data["shape"])
    if len(content) != prod(shape) * type.dtype.itemsize:
        raise _refused(f"an array of {type}", f"of {prod(shape) * type.dtype.itemsize} bytes", len(content))
    if type.dtype is Dtype.bool and content.strip(b"\0\1"):
        raise _refused("a boolean", "a byte 0 or 1", content.strip(b"\0\1")[0])
    return np.frombuffer(content, type.dtype.numpy.newbyteorder("<")).astype(type.dtype.numpy).reshape(shape)


_READERS: dict[Any, Callable[[Any], Any]] = {
    bool: _read_bool,
    int: _read_integer,
    float: _read_number,
    str: _read_text,
    Dtype: _read_dtype,
    int | Dim: _read_size,
    NdArrayType: read_type,
    Initialiser: read_initial,
}


def _no_terms(data: Any) -> Term:
    raise _refused("an initialiser", "without terms", data)


def _refused(what: str, must: str, found: Any) -> OptionError:
    return OptionError(f"{what} must be {must}", f"it is {repr(found)[:100]}", "write the file again")
