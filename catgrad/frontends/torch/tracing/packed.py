"""Sequences of any length during a trace: one loop, which is an operation, over padded arrays.

A packed sequence is a padded array with the length of each, as sizes must not depend on data; a loop over it
leaves the state of a sequence as it is after its last element. Layers over a symbolic number of times are
loops too, which torch.export would unroll.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from catgrad.frontends.torch.registry import require
from catgrad.frontends.torch.types import Module, Replacement, Tensor

OPERATION = "catgrad::recurrent"
"""The operation of recurrent layers over sequences of any length, which `recurrent.py` translates."""

SCHEMA = (
    "(Tensor x, Tensor? lengths, Tensor[] first, Tensor[] weights, str kind, bool has_biases, int num_layers,"
    " float dropout, bool train, bool bidirectional) -> Tensor[]"
)

KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


class Padded:
    """The rows of a packed sequence, and their numbers at each time, in place of both.

    `array` is [time, batch, …] and zero beyond the `lengths` of its sequences.
    """

    def __init__(self, array: Tensor, lengths: Tensor) -> None:
        self.array, self.lengths = array, lengths
        self.dtype, self.device = array.dtype, array.device

    @property
    def exists(self) -> Tensor:
        """Return where sequences have elements: [time, batch]."""
        return torch.arange(self.array.size(0))[:, None] < self.lengths

    def dim(self) -> int:
        """Return the number of axes of rows, which have time and batch in one."""
        return self.array.dim() - 1  # type: ignore[no-any-return]

    def size(self, axis: int) -> Longest | int:
        """Return the number of times, which is that of the longest sequence, or of features."""
        return Longest(self.array.size(0)) if axis == 0 else self.array.size(axis)

    def __getitem__(self, time: int) -> Any:
        require(time == 0, *_READ)
        return self.array.size(1)

    def __getattr__(self, name: str) -> Any:
        require(False, *_READ)

    def _refuse(self, *others: object) -> Any:
        require(False, *_READ)

    __add__ = __sub__ = __mul__ = __truediv__ = __matmul__ = __neg__ = __iter__ = __len__ = _refuse

    @classmethod
    def __torch_function__(
        cls, function: object, types: object, args: object = (), kwargs: object = None
    ) -> Any:
        require(False, *_READ)


_READ = (
    "packed sequences must be read by recurrent layers and pad_packed_sequence alone",
    "their rows, of which the number depends on data, are read",
    "pad them first, and compute with padded arrays and a mask",
)


class Longest:
    """The length of the longest sequence, in place of `total_length`: it must be that of the padded array."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __gt__(self, total: int) -> bool:
        must = "total_length must be at least the length of the padded array"
        require(total >= self.length, must, f"it is {total} for {self.length}", "leave it out")
        return False


class Functions:
    """PyTorch's functions of packed sequences, with `Padded` ones, and its other functions."""

    def __getattr__(self, name: str) -> Any:
        return _recurrent(name) if name in KINDS else getattr(torch._VF, name)

    def _pack_padded_sequence(self, x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Padded, Padded]:
        x = x.transpose(0, 1) if batch_first else x
        packed = Padded(x, lengths)
        packed.array = x.masked_fill(~_wide(packed.exists, x), 0)
        return packed, packed

    def _pad_packed_sequence(
        self, rows: Padded, sizes: Padded, batch_first: bool, padding: float, total: Longest | int
    ) -> tuple[Tensor, Tensor]:
        x, exists = rows.array, sizes.exists
        time = x.size(0)
        if isinstance(total, Longest):  # an index out of range unless a sequence is as long
            exists = exists.index_select(0, torch.arange(time) + (time - sizes.lengths.max()))
        x = x.masked_fill(~_wide(exists, x), padding)
        if not isinstance(total, Longest) and total != time:
            rest = x.new_full((total - time, *x.shape[1:]), padding)
            x = torch.cat([x, rest])
        return x.transpose(0, 1) if batch_first else x, sizes.lengths


def replacements() -> Iterator[Replacement]:
    """Yield what to replace during a trace, as owners, names and values."""
    _declare()
    functions, base = Functions(), torch.nn.RNNBase
    yield torch.nn.utils.rnn, "_VF", functions
    yield torch.nn.modules.rnn, "_VF", functions
    yield torch.nn.utils.rnn, "invert_permutation", lambda order: None if order is None else order.argsort()
    yield base, "get_expected_hidden_size", _with_padded(base.get_expected_hidden_size)


def _recurrent(kind: str) -> Callable[..., Any]:
    """Return the function of recurrent layers, of packed or other sequences."""

    def layers(x: Tensor | Padded, *arguments: Any) -> Any:
        if isinstance(x, Padded):
            y, *last = _loop(kind, x.array, x.lengths, *arguments[1:])
            return (Padded(y, x.lengths), *last)
        *options, is_batch_first = arguments
        if not isinstance(x.size(int(is_batch_first)), torch.SymInt):
            return getattr(torch._VF, kind)(x, *arguments)
        y, *last = _loop(kind, x.transpose(0, 1) if is_batch_first else x, None, *options)
        return (y.transpose(0, 1) if is_batch_first else y, *last)

    return layers


def _loop(kind: str, x: Tensor, lengths: Tensor | None, first: Any, *arguments: Any) -> Any:
    """Apply the operation to an array [time, batch, features] and the first states, several or one."""
    states = list(first) if isinstance(first, (tuple, list)) else [first]
    return torch.ops.catgrad.recurrent(x, lengths, states, arguments[0], kind, *arguments[1:])


def _with_padded(sizes: Callable[..., Any]) -> Callable[..., Any]:
    """Return the expected sizes of states, without the batch as a number."""

    def expected(self: Module, x: Tensor | Padded, batch_sizes: Tensor | Padded | None) -> Any:
        if not isinstance(batch_sizes, Padded):
            return sizes(self, x, batch_sizes)
        layers = self.num_layers * (1 + self.bidirectional)
        return layers, batch_sizes[0], self.proj_size or self.hidden_size

    return expected


@functools.cache
def _declare() -> None:
    """Declare the operation to PyTorch, once, with the shapes of its results."""

    def shapes(x: Tensor, lengths: Any, first: list[Tensor], weights: Any, *options: Any) -> list[Tensor]:
        width = first[0].size(-1) * (1 + options[-1])
        return [x.new_empty((*x.shape[:2], width)), *map(torch.empty_like, first)]

    torch.library.define(OPERATION, SCHEMA)
    torch.library.register_fake(OPERATION, shapes)
    torch.library.register_autograd(OPERATION, _refuse_derivative)


def _refuse_derivative(*_: object) -> None:
    """Refuse a derivative within forward: the loop has one as a term alone."""
    require(
        False,
        "a derivative within forward must pass through operations of PyTorch",
        "it passes through a recurrent layer over sequences of different or symbolic lengths",
        "leave the axis of time out of `dynamic`, and mask the outputs of the layer in place of packing",
    )


def _wide(mask: Tensor, x: Tensor) -> Tensor:
    """Return a mask [time, batch] that broadcasts to x."""
    return mask.reshape(*mask.shape, *(1 for _ in x.shape[2:]))
