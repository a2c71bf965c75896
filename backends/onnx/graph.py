"""Graphs of ONNX under construction: nodes, constants, and symbolic sizes computed from shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from catgrad.dims import Dim, Size, coefficients
from catgrad.naming import Namer
from catgrad.types import Array, Dtype, NdArrayType

ELEMENT_TYPES = {
    Dtype.float32: 1, Dtype.int32: 6, Dtype.int64: 7, Dtype.bool: 9, Dtype.float16: 10, Dtype.float64: 11,
    Dtype.uint32: 12, Dtype.int8: 3, Dtype.uint8: 2, Dtype.bfloat16: 16,
}  # fmt: skip
"""Numbers of TensorProto.DataType."""

LAST = np.iinfo(np.int64).max
"""The end of a slice to the last element."""


class Value(str):
    """The name of a value in a graph, with its type."""

    __slots__ = ("type",)
    type: NdArrayType

    def __new__(cls, name: str, type: NdArrayType) -> Value:
        """Return the name with this type."""
        value = super().__new__(cls, name)
        value.type = type
        return value

    @property
    def dtype(self) -> Dtype:
        """The dtype of its elements."""
        return self.type.dtype


class Graph:
    """A graph under construction; one inside another has its names, constants and sizes too."""

    def __init__(self, around: Graph | None = None, reserved: Sequence[str] = ()) -> None:
        self.namer: Namer = around.namer if around else Namer(reserved)
        self.constants: dict[object, tuple[str, Array]] = around.constants if around else {}
        self.sizes: dict[Size, str] = dict(around.sizes) if around else {}
        self.nodes: list[Any] = []

    def add(self, operator: str, *inputs: str, outputs: Sequence[str] = (), **attributes: Any) -> str:
        """Append a node, and return the name of its first output."""
        from onnx import helper

        named = list(outputs) or [self.namer.fresh(operator.lower())]
        self.nodes.append(helper.make_node(operator, list(inputs), named, **attributes))
        return named[0]

    def several(self, operator: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Append a node with several outputs."""
        outputs = [self.namer.fresh(operator.lower()) for _ in range(count)]
        self.add(operator, *inputs, outputs=outputs, **attributes)
        return outputs

    def constant(self, array: Any, dtype: Dtype = Dtype.int64) -> str:
        """Return a constant, which all graphs share; by default of int64."""
        value = np.asarray(array, dtype.numpy)
        key = dtype, value.shape, value.tobytes()
        if key not in self.constants:
            self.constants[key] = self.namer.fresh("constant"), value
        return self.constants[key][0]

    def like(self, value: Value, number: float) -> str:
        """Return a number in the dtype of a value."""
        return self.constant(number, value.dtype)

    def size(self, size: Size) -> str:
        """Return a size as a vector of one int64."""
        if not isinstance(size, Dim):
            return self.constant([size])
        if size not in self.sizes:
            total = None
            for symbols, coefficient in coefficients(size).items():
                term = self.constant([coefficient]) if coefficient != 1 or not symbols else None
                for symbol in symbols:
                    term = self.add("Mul", term, self.sizes[Dim(symbol)]) if term else self.sizes[Dim(symbol)]
                total = self.add("Add", total, term) if total and term else term
            self.sizes[size] = str(total)
        return self.sizes[size]

    def number(self, size: Size) -> str:
        """Return a size as one int64."""
        return (
            self.add("Squeeze", self.size(size), self.constant([0]))
            if isinstance(size, Dim)
            else self.constant(size)
        )

    def shape(self, sizes: Sequence[Size]) -> str:
        """Return sizes as a vector of int64."""
        if not any(isinstance(size, Dim) for size in sizes):
            return self.constant(list(sizes))
        return self.add("Concat", *map(self.size, sizes), axis=0) if len(sizes) > 1 else self.size(sizes[0])

    def cast(self, value: str, dtype: Dtype) -> str:
        """Convert to another dtype."""
        return self.add("Cast", value, to=ELEMENT_TYPES[dtype])

    def proto(
        self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], arrays: Sequence[Any] = ()
    ) -> Any:
        """Return the GraphProto."""
        from onnx import helper

        return helper.make_graph(self.nodes, name, list(inputs), list(outputs), list(arrays))


def value_info(name: str, type: NdArrayType) -> Any:
    """Describe an input or output; a symbolic size has its polynomial as name."""
    from onnx import helper

    shape = [str(size) if isinstance(size, Dim) else size for size in type.shape]
    return helper.make_tensor_value_info(name, ELEMENT_TYPES[type.dtype], shape)
