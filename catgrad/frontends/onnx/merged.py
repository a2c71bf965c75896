"""Arrays that exporters merge as their values are equal: each gets its own again, by the names in the file.

PyTorch's older exporter leaves an `Identity` from the array that it keeps to the name of each other one. The
newer one leaves none, but records its calls with the names of their arrays, and removes biases of zeros. Both
store a transposed weight as another array, under a name that they make.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from catgrad.frontends.onnx.conversion import graphs
from catgrad.frontends.onnx.recorded import RULE, Call, calls, entry, reads_no_array
from catgrad.frontends.onnx.registry import fixed_places
from catgrad.frontends.onnx.types import Graph, Node
from catgrad.types import Array

FLOATING = {1, 10, 11, 16}
"""Numbers of TensorProto.DataType: float32, float16, float64, bfloat16."""

MADE = re.compile(r"val_\d+|onnx::.*|\d+")
"""Names that PyTorch's exporters make for arrays that they compute."""

Read = tuple[Node, int]
"""A node, and the place of one of its inputs."""


def separate(graph: Graph) -> tuple[list[str], set[str]]:
    """Give a graph an initialiser for each array of the model.

    Return sentences that say which ones, and the names of constants that the exporter made. Arrays that
    nothing names apart stay one, also if they are equal by accident.
    """
    found = _Separation(graph)
    found.follow_identities()
    found.follow_calls()
    found.part_statistics()
    found.join_transposes()
    constants = found.constants()
    found.note_doubts(constants)
    return found.notes, constants


class _Separation:
    """A graph that is being changed, its floating initialisers by name, and notes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.arrays = {each.name: each for each in graph.initializer if each.data_type in FLOATING}
        self.notes: list[str] = []
        self.named: Counter[str] = Counter()  # reads that a recorded call names

    def follow_identities(self) -> None:
        """Replace each `Identity` of an array, under the name of another, by that other array."""
        outputs = {each.name for each in self.graph.output}
        places = []
        for place, node in enumerate(self.graph.node):
            if node.op_type == "Identity" and node.output[0] not in outputs and self._renames(node):
                self._add(node.output[0], node.input[0])
                places.append(place)
        for place in reversed(places):
            del self.graph.node[place]

    def _renames(self, node: Node) -> bool:
        """Return whether an Identity gives an array the name of another, and is no operator of the model.

        The result of an operator has the name of its node. Under a made name there is a copy of the array,
        or another computed array, which is equal by accident where all elements are.
        """
        source, name = node.input[0], node.output[0]
        if source not in self.arrays or (
            node.name and (name.startswith(node.name) or node.name.endswith(name))
        ):
            return False
        return not MADE.fullmatch(name) or _is_uniform(self._values(source))

    def follow_calls(self) -> None:
        """Give each array that a recorded call names an initialiser, and removed biases theirs."""
        claims: dict[str, dict[str, list[Read]]] = {}
        for call in calls(self.graph):
            self._restore_bias(call)
            for name, (node, place) in self._pairs(call):
                claims.setdefault(node.input[place], {}).setdefault(name, []).append((node, place))
        for source, names in claims.items():
            is_whole = len(names) == 1 and MADE.fullmatch(source)  # computed from one array
            for name, reads in names.items():
                own = source if is_whole else name
                if own not in self.arrays:
                    self._add(own, source)
                self.named[own] += len(reads)
                for node, place in reads:
                    node.input[place] = own

    def _pairs(self, call: Call) -> list[tuple[str, Read]]:
        """Pair the arrays of a call with the inputs of its nodes: by their names, then in order."""
        reads = [
            (node, k)
            for node in call.nodes
            for k, name in enumerate(node.input)
            if name in self.arrays and self.arrays[name].dims
        ]
        if len(reads) != len(call.arrays):
            return []
        paired: list[tuple[str, Read]] = []
        rest = []
        for array in call.arrays:
            read = next((r for r in reads if r[0].input[r[1]] == array), None)
            if read:
                reads.remove(read)
                paired.append((array, read))
            elif array not in self.arrays:
                rest.append(array)
        return paired + list(zip(rest, reads, strict=True)) if len(rest) == len(reads) else []

    def _restore_bias(self, call: Call) -> None:
        """Add the bias of zeros that the exporter removed from a product or a convolution."""
        for node in call.nodes:
            if not entry(node, RULE).startswith("RemoveOptionalBias") or len(node.input) != 2:
                continue
            weight = self.arrays.get(node.input[1])
            missing = [array for array in call.arrays if array not in node.input]
            if weight is None or not missing:
                continue
            name, size = missing[-1], _channels(node, weight.dims)
            if name not in self.arrays:
                self._set(name, np.zeros(size, self._values(node.input[1]).dtype))
                self.notes.append(f"{name} is zeros, which the exporter removed")
            if [*self.arrays[name].dims] == [size]:
                node.input.append(name)

    def part_statistics(self) -> None:
        """Give places of statistics and of sizes, which are not trained, arrays of their own."""
        nodes = [node for each in graphs(self.graph) for node in each.node]
        fixed = [(node, k) for node in nodes for k in fixed_places(node) if node.input[k] in self.arrays]
        reads = self._reads()
        at_fixed = Counter(node.input[k] for node, k in fixed)
        for node, place in fixed:
            source = node.input[place]
            if reads[source] > at_fixed[source]:
                name = f"{source}_fixed"
                if name not in self.arrays:
                    self._add(name, source)
                node.input[place] = name

    def join_transposes(self) -> None:
        """Read a weight where the exporter stored its transposed copy, unless all elements are equal."""
        import onnx

        own = {
            n: self._values(n).T for n, t in self.arrays.items() if len(t.dims) == 2 and not MADE.fullmatch(n)
        }
        for name in [n for n, t in self.arrays.items() if len(t.dims) == 2 and MADE.fullmatch(n)]:
            values = self._values(name)
            source = next((n for n, each in own.items() if _same(each, values)), None)
            if source and not _is_uniform(values):
                del self.graph.initializer[[each.name for each in self.graph.initializer].index(name)]
                del self.arrays[name]
                node = onnx.helper.make_node("Transpose", [source], [name], perm=[1, 0])
                self.graph.node.insert(0, node)
                self.notes.append(f"{name} is {source} transposed, with which it is trained")

    def constants(self) -> set[str]:
        """Return the arrays under made names that only recorded calls read which read none of the module."""
        made = {name for name in self.arrays if MADE.fullmatch(name)}
        nodes = [node for each in graphs(self.graph) for node in each.node]
        return made - {name for node in nodes if not reads_no_array(node) for name in node.input}

    def note_doubts(self, constants: set[str]) -> None:
        """Note arrays of equal elements that several operators read, and that no name tells apart."""
        for name, reads in self._reads().items():
            tensor = None if name in constants else self.arrays.get(name)
            if tensor is None or not tensor.dims or reads < 2 or self.named[name] == reads:
                continue
            if _is_uniform(self._values(name)):
                self.notes.append(
                    f"{name} is one array for {reads} operators; if the model has several of equal values, "
                    "export it with optimize=False"
                )

    def _reads(self) -> Counter[str]:
        return Counter(name for each in graphs(self.graph) for node in each.node for name in node.input)

    def _add(self, name: str, source: str) -> None:
        """Add a copy of an array under this name, and note it."""
        self.arrays[name] = self.graph.initializer.add()
        self.arrays[name].CopyFrom(self.arrays[source])
        self.arrays[name].name = name
        self.notes.append(f"{name} is trained apart from {source}, with which the file merges it")

    def _set(self, name: str, values: Array) -> None:
        import onnx

        self.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
        self.arrays[name] = self.graph.initializer[-1]

    def _values(self, name: str) -> Array:
        import onnx

        return onnx.numpy_helper.to_array(self.arrays[name])


def _channels(node: Node, weight: Sequence[int]) -> int:
    """Return the size of the bias of a product or a convolution."""
    import onnx

    given = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    match node.op_type:
        case "Gemm":
            return int(weight[0] if given.get("transB") else weight[1])
        case "ConvTranspose":
            return int(weight[1] * given.get("group", 1))
        case _:
            return int(weight[0])


def _is_uniform(values: Array) -> bool:
    return bool(values.size) and bool((values == values.flat[0]).all())


def _same(left: Array, right: Array) -> bool:
    return left.shape == right.shape and left.dtype == right.dtype and left.tobytes() == right.tobytes()
