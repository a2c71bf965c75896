"""Masks of sequences of different lengths, padded to one."""

from __future__ import annotations

from catgrad.dims import Size
from catgrad.errors import DtypeError
from catgrad.ops.cast import cast
from catgrad.ops.extrema import iota
from catgrad.ops.reduce import broadcast
from catgrad.terms.var import Var
from catgrad.types import Dtype

__all__ = ["sequence_mask"]


def sequence_mask(lengths: Var, size: Size) -> Var:
    """Mask of the elements of sequences: true at i < length, for i = 0, …, size - 1.

    Type:     (I[b…]) -> bool[b…, size] for whole I
    Raises:   DtypeError unless lengths are whole numbers
    """
    if lengths.dtype not in (Dtype.int32, Dtype.int64):
        raise DtypeError("lengths must be whole numbers", f"they are {lengths.type}", "give int64")
    shape, last = (*lengths.shape, size), lengths.type.rank
    return broadcast(iota(size), shape) < broadcast(cast(lengths, Dtype.int64), shape, [last])
