"""Tensors of exported programs: those that a program has, constants of a term, and examples of types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catgrad.dims import numbers
from catgrad.frontends import imported
from catgrad.frontends.torch.aten.operands import type_of
from catgrad.frontends.torch.types import InputSpec, Program, Tensor
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType, as_numpy, symbols

SMALLEST_EXAMPLE = 3
"""The size of the first symbolic axis of examples; further axes have other odd sizes."""


def held(program: Program, spec: InputSpec) -> Tensor:
    """Return the tensor of an exported program that an input specification names."""
    known = program.state_dict
    return known[spec.target] if spec.target in known else program.constants[spec.target]


def constant(name: str, tensor: Tensor, buffers: dict[str, Array]) -> Var:
    """Turn a constant tensor into a variable: a literal, or a buffer of this name, added to `buffers`."""
    return imported.constant(name, stored(tensor), buffers)


def stored(tensor: Tensor) -> Array:
    """Convert a constant tensor to an array of the dtype that a term stores it in."""
    return as_numpy(tensor).astype(type_of(tensor).dtype.numpy)


def example_sizes(types: Sequence[NdArrayType]) -> dict[str, int]:
    """Choose a size for each symbolic axis of these types, no two of which are equal."""
    return {name: SMALLEST_EXAMPLE + 2 * k for k, name in enumerate(symbols(tuple(types)))}


def example(type: NdArrayType, sizes: Mapping[str, int]) -> Tensor:
    """Return zeros of a type at these sizes."""
    import torch

    return torch.zeros(numbers(type.substitute(sizes).shape), dtype=getattr(torch, type.dtype.name))
