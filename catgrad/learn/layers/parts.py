"""Building blocks of layers: parameters, buffers, labels, and pointwise functions as layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from catgrad import ops
from catgrad.initialisers import ZEROS, Initialiser
from catgrad.learn.layers.arguments import require_type
from catgrad.naming import require_name_of_array
from catgrad.terms.build import build
from catgrad.terms.op import qualified
from catgrad.terms.state import Buffer, Parameter, Update
from catgrad.terms.structural import Label
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

Activation = Callable[[Iterable[NdArrayType]], Term]
Pointwise = Callable[[NdArrayType | Iterable[NdArrayType]], Term]


def parameter(name: str, type: NdArrayType, initial: Initialiser = ZEROS, outputs_first: bool = False) -> Var:
    """Return a new parameter as a variable, named by the dotted name of the current scope and `name`.

    With `outputs_first`, the rows of a matrix are outputs, as in PyTorch, and not inputs, which Muon reads.
    """
    return Parameter(qualified(name), type, initial, outputs_first)()


def label(name: str, x: Var) -> Var:
    """Name x in messages, diagrams and emitted code."""
    require_name_of_array(name)
    return Label(qualified(name))(x)


def buffer(name: str, type: NdArrayType, initial: Initialiser = ZEROS) -> Var:
    """Return a new buffer as a variable, named by the dotted name of the current scope and `name`."""
    return Buffer(qualified(name), type, initial)()


def update(name: str, value: Var) -> None:
    """Set the value of a buffer of the current scope after the step."""
    Update(qualified(name), value.type).apply(value)


def copies(x: Var, type: NdArrayType) -> Var:
    """Broadcast x along the leading axes of this type."""
    return ops.broadcast(x, type.shape)


def types_of_lengths(A: NdArrayType, wanted: bool) -> list[NdArrayType]:
    """Return the type of the input `lengths` of sequences along the last axis of A, if it is wanted."""
    return [NdArrayType(A.shape[:-1], Dtype.int64)] * wanted


def until_lengths(x: Var, lengths: Var | None = None) -> Var:
    """Set to 0 what is beyond the lengths of sequences, along the axis after those of lengths."""
    if lengths is None:
        return x
    time = lengths.type.rank
    mask = ops.sequence_mask(lengths, x.shape[time])
    return ops.select(ops.broadcast(mask, x.shape, range(time + 1, x.type.rank)), x, ops.zeros_like(x))


def pointwise(function: Callable[[Var], Var]) -> Pointwise:
    """Return a function on one variable as a layer at every object: A₁ ⊗ … ⊗ Aₙ to itself, wire by wire."""

    def layer(types: NdArrayType | Iterable[NdArrayType]) -> Term:
        every = list(types) if isinstance(types, Iterable) else [types]
        for each in every:
            require_type("the types of a layer", each)
        return build(lambda *xs: [function(x) for x in xs], every)

    name = getattr(function, "__name__", type(function).__name__.lower())
    layer.__name__, layer.__qualname__ = name, f"layers.{name}"
    layer.__doc__ = f"{function.__doc__ or type(function).__doc__}"
    return layer


def _same(x: Var) -> Var:
    """Identity: y = x, for a dense layer without nonlinearity."""
    return x


identity = pointwise(_same)
sigmoid = pointwise(ops.sigmoid)
tanh = pointwise(ops.tanh)
relu = pointwise(ops.relu)
leaky_relu = pointwise(ops.leaky_relu)
elu = pointwise(ops.elu)
softplus = pointwise(ops.softplus)
silu = pointwise(ops.silu)
gelu = pointwise(ops.gelu)
softmax = pointwise(ops.softmax)
log_softmax = pointwise(ops.log_softmax)
