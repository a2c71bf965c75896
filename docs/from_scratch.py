"""A compiler of training loops in small: the ideas of catgrad in one file, to be read from top to bottom.

    python docs/from_scratch.py

trains a network on XOR, once in the NumPy and once in the C that this file emits, and prints both losses.
The large compiler differs in care: symbolic sizes, state, loops, kernels that are fused and fast, and errors
that say what to do. The ideas are these.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment
from open_hypergraphs import (
    FiniteFunction,
    FrobeniusFunctor,
    Hypergraph,
    IndexedCoproduct,
    OpenHypergraph,
    Optic,
)

Shape = tuple[int, ...]

# 1. Terms
#
# A model is an open hypergraph: a string diagram in a form that computers like. Wires are arrays, labelled by
# their shapes; hyperedges are operations, from wires to wires; two lists of wires are the inputs and the
# outputs. Diagrams compose by `>>` and stand beside each other by `@`: both come with the package.


class Edge(NamedTuple):
    """A hyperedge: an operation with its source and target wires."""

    op: Op
    sources: Sequence[int]
    targets: Sequence[int]


def labels(things: Iterable[Any]) -> FiniteFunction:
    """Return a function from numbers to labels."""
    listed = list(things)
    return FiniteFunction(None, np.fromiter(listed, dtype=object, count=len(listed)))


def wires(numbers: Iterable[int], count: int | None) -> FiniteFunction:
    """Return a function into `count` wires."""
    return FiniteFunction(count, np.fromiter(numbers, dtype=FiniteFunction.Dtype))


def assemble(
    shapes: list[Shape], edges: list[Edge], inputs: Iterable[int], outputs: Iterable[int]
) -> OpenHypergraph:
    """Make a term of wires, operations and boundaries."""
    count = len(shapes)

    def segments(ends: list[Sequence[int]]) -> IndexedCoproduct:
        return IndexedCoproduct(wires(map(len, ends), None), wires(chain.from_iterable(ends), count))

    sources, targets = segments([e.sources for e in edges]), segments([e.targets for e in edges])
    hypergraph = Hypergraph(sources, targets, labels(shapes), labels(e.op for e in edges))
    return OpenHypergraph(wires(inputs, count), wires(outputs, count), hypergraph)


def edges_of(term: OpenHypergraph) -> list[Edge]:
    """List the operations of a term."""
    sides = ([tuple(segment.table) for segment in side] for side in (term.H.s, term.H.t))
    return [Edge(*parts) for parts in zip(term.H.x.table, *sides, strict=True)]


# Lists of wires are no fun to write: `build` runs a Python function on variables, and records what it does.
# Each wire of a diagram is used once. The operations copy and discard, inserted at the end, say when an array
# is used more often or never; so the reverse derivative is right, for the reverse of a copy is a sum.


class Diagram:
    """A term under construction."""

    def __init__(self) -> None:
        self.shapes: list[Shape] = []
        self.edges: list[Edge] = []

    def wire(self, shape: Shape) -> Var:
        """Append a wire."""
        self.shapes.append(shape)
        return Var(self, len(self.shapes) - 1)

    def apply(self, op: Op, *arguments: Var) -> tuple[Var, ...]:
        """Append an operation."""
        results = tuple(map(self.wire, RULES[op.name].type(op.value, *(x.shape for x in arguments))))
        self.edges.append(Edge(op, [x.number for x in arguments], [y.number for y in results]))
        return results

    def splice(self, term: OpenHypergraph, *arguments: Var) -> tuple[Var, ...]:
        """Append all operations of a term."""
        place = dict(zip(term.s.table, arguments, strict=True))
        place |= {w: self.wire(shape) for w, shape in enumerate(term.H.w.table) if w not in place}
        for op, *sides in edges_of(term):
            self.edges.append(Edge(op, *([place[wire].number for wire in side] for side in sides)))
        return tuple(place[wire] for wire in term.t.table)

    def finish(self, inputs: Sequence[Var], outputs: Sequence[Var]) -> OpenHypergraph:
        """Return the term, in which every wire is used once."""
        body, self.edges = self.edges, []
        uses = Counter([*chain.from_iterable(edge.sources for edge in body), *(y.number for y in outputs)])
        readers = [self._readers(Var(self, wire), uses[wire]) for wire in range(len(self.shapes))]
        edges = [edge._replace(sources=[readers[wire].pop() for wire in edge.sources]) for edge in body]
        ends = [readers[y.number].pop() for y in outputs]
        return assemble(self.shapes, edges + self.edges, [x.number for x in inputs], ends)

    def _readers(self, x: Var, count: int) -> list[int]:
        """Copy a wire for each of its readers."""
        if count == 0:
            self.apply(Op("discard"), x)
            return []
        copies = []
        for _ in range(count - 1):
            one, x = self.apply(Op("copy"), x)
            copies.append(one.number)
        return [*copies, x.number]


@dataclass(frozen=True)
class Var:
    """A wire of a diagram under construction."""

    diagram: Diagram
    number: int

    @property
    def shape(self) -> Shape:
        """The shape of the array."""
        return self.diagram.shapes[self.number]

    def __add__(self, other: Var) -> Var:
        return Op("add")(self, other)

    def __mul__(self, other: Var | float) -> Var:
        return Op("multiply")(self, other) if isinstance(other, Var) else Op("scale", other)(self)

    def __sub__(self, other: Var) -> Var:
        return self + other * -1.0

    def __matmul__(self, other: Var) -> Var:
        return Op("matmul")(self, other)


def build(function: Callable[..., Any], shapes: Iterable[Shape]) -> OpenHypergraph:
    """Run a function on variables of these shapes, and return its term."""
    diagram = Diagram()
    inputs = list(map(diagram.wire, shapes))
    result = function(*inputs)
    return diagram.finish(inputs, [result] if isinstance(result, Var) else result)


def apply(term: OpenHypergraph, *arguments: Var) -> tuple[Var, ...]:
    """Apply a term to variables."""
    return arguments[0].diagram.splice(term, *arguments)


# 2. Operations
#
# An operation is a name, at times with a number or a shape. Two rules belong to it: the shapes of its
# results; and its reverse derivative, which takes the inputs and a change of each output to a change of each
# input. That is made of operations too, and so has a reverse: `reverse(reverse(f))` comes for nothing.


@dataclass(frozen=True)
class Op:
    """An operation on arrays."""

    name: str
    value: Any = None

    def __call__(self, *arguments: Var) -> Var:
        """Apply to variables, for one result."""
        (result,) = arguments[0].diagram.apply(self, *arguments)
        return result


class Rule(NamedTuple):
    """The types of an operation's results, and its reverse derivative."""

    type: Callable[..., Sequence[Shape]]
    reverse: Callable[..., Any]


def alike(value: Any, *shapes: Shape) -> Sequence[Shape]:
    """Type the result of an operation on each element of arrays of one shape."""
    assert len(set(shapes)) == 1, f"the shapes must be equal, but they are {shapes}"
    return shapes[:1]


def product_type(value: Any, a: Shape, b: Shape) -> Sequence[Shape]:
    """Type the product of two matrices."""
    assert len(a) == len(b) == 2 and a[1] == b[0], f"{a} and {b} must be matrices that fit"
    return [(a[0], b[1])]


def tanh_reverse(value: Any, x: Var, dy: Var) -> Var:
    """dy · (1 - tanh² x)."""
    y = Op("tanh")(x)
    return dy - dy * y * y


RULES = {
    "copy": Rule(lambda _, x: [x, x], lambda _, x, dy, dz: dy + dz),
    "discard": Rule(lambda _, x: [], lambda _, x: Op("fill", 0.0)(x)),
    "fill": Rule(alike, lambda _, x, dy: Op("fill", 0.0)(x)),
    "scale": Rule(alike, lambda factor, x, dy: dy * factor),
    "add": Rule(alike, lambda _, x, y, dz: (dz, dz)),
    "multiply": Rule(alike, lambda _, x, y, dz: (dz * y, dz * x)),
    "tanh": Rule(alike, tanh_reverse),
    "matmul": Rule(product_type, lambda _, a, b, dc: (dc @ Op("transpose")(b), Op("transpose")(a) @ dc)),
    "transpose": Rule(lambda _, a: [a[::-1]], lambda _, a, db: Op("transpose")(db)),
    "sum": Rule(lambda _, x: [()], lambda _, x, dy: Op("broadcast", x.shape)(dy)),
    "broadcast": Rule(lambda shape, x: [shape], lambda _, x, dy: Op("sum")(dy)),
}

# 3. The reverse derivative
#
# It is a functor: it is defined on operations, and what it does to a composition follows. A wire A becomes a
# pair, A forwards and A′ backwards. An operation f : A → B becomes two: one computes f and keeps what it has
# read, A → B ⊗ A; the other takes that and a change of the output, A ⊗ B′ → A′. Put in place, the backward
# wires run through the diagram from right to left: this is backpropagation, and nobody has programmed it.


class OnOperations(FrobeniusFunctor):  # type: ignore[misc]
    """A functor that leaves wires as they are, given the image of an operation."""

    def __init__(self, image: Callable[[Op, Sequence[Shape]], OpenHypergraph]) -> None:
        self.image = image

    @classmethod
    def OpenHypergraph(cls) -> type:
        """The class of terms."""
        return OpenHypergraph

    def map_objects(self, objects: FiniteFunction) -> IndexedCoproduct:
        """F(A) = A."""
        return IndexedCoproduct.elements(objects)

    def map_operations(
        self, ops: FiniteFunction, sources: IndexedCoproduct, targets: IndexedCoproduct
    ) -> OpenHypergraph:
        """F(f₁ ⊗ … ⊗ fₙ) = F(f₁) ⊗ … ⊗ F(fₙ)."""
        images = [self.image(op, tuple(shapes.table)) for op, shapes in zip(ops.table, sources, strict=True)]
        return OpenHypergraph.tensor_list(images, labels([]), labels([]))


def forward(op: Op, shapes: Sequence[Shape]) -> OpenHypergraph:
    """Return A → B ⊗ A, which applies an operation and keeps its inputs."""
    return build(lambda *x: (*x[0].diagram.apply(op, *x), *x), shapes)


def backward(op: Op, shapes: Sequence[Shape]) -> OpenHypergraph:
    """Return A ⊗ B′ → A′, the reverse derivative of an operation."""
    rule = RULES[op.name]
    return build(lambda *x: rule.reverse(op.value, *x), (*shapes, *rule.type(op.value, *shapes)))


class ReverseDerivative(Optic):  # type: ignore[misc]
    """The functor from operations to pairs of maps, which the package joins."""

    F, R = OnOperations(forward), OnOperations(backward)

    @classmethod
    def OpenHypergraph(cls) -> type:
        """The class of terms."""
        return OpenHypergraph

    def residual(
        self, ops: FiniteFunction, sources: IndexedCoproduct, targets: IndexedCoproduct
    ) -> IndexedCoproduct:
        """Return the wires that the forward map keeps for the reverse one: the inputs."""
        return sources


def reverse(f: OpenHypergraph) -> OpenHypergraph:
    """Return A ⊗ B′ → B ⊗ A′ for f : A → B: the value, and the change of the inputs."""
    functor = ReverseDerivative()
    return functor.adapt(functor(f), f.source, f.target)


# 4. Training
#
# Loss and optimiser are functions on variables; the step that they make of a model and its reverse is a term,
# from parameters and a batch to new parameters. Nothing is left for the run but arithmetic.


def mean_squared_error(y: Var, wanted: Var) -> Var:
    """(1 / n) Σ (y - wanted)²."""
    error = y - wanted
    return Op("sum")(error * error) * (1 / prod(y.shape))


def training_step(model: OpenHypergraph, rate: float) -> OpenHypergraph:
    """Return (p…, x, wanted) → (loss, p - rate · dp, …), for a model (p…, x) → y."""
    shapes = *model.source.table, *model.target.table
    graded = build(lambda *a: mean_squared_error(*apply(model, *a[:-1]), a[-1]), shapes)

    def step(*arguments: Var) -> Sequence[Var]:
        (loss,) = apply(graded, *arguments)
        _, *gradients = apply(reverse(graded), *arguments, Op("fill", 1.0)(loss))
        return [loss, *(p + dp * -rate for p, dp in zip(arguments[:-2], gradients, strict=False))]

    return build(step, shapes)


# 5. From a diagram to a list of assignments
#
# A depth-first search from the outputs visits what they need, each operation after those it reads; the rest
# is dead code. Equal operations on equal values are computed once, and a copy is another name for a value.


class Value(NamedTuple):
    """An array of a program."""

    name: str
    shape: Shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)


class Assignment(NamedTuple):
    """A line of a program."""

    op: Op
    result: Value
    arguments: list[Value]


class Program(NamedTuple):
    """A function as assignments in order."""

    name: str
    inputs: list[Value]
    body: list[Assignment]
    outputs: list[Value]


def needed(term: OpenHypergraph) -> Iterator[Edge]:
    """Yield the operations that the outputs depend on, each after those it reads."""
    maker = {wire: edge for edge in edges_of(term) for wire in edge.targets}
    done, stack = set(term.s.table), [*term.t.table]
    while stack:
        edge = maker.get(stack[-1])
        waiting = [wire for wire in edge.sources if wire not in done] if edge else []
        stack += waiting
        if not waiting:
            if edge and stack[-1] not in done:
                yield edge
                done.update(edge.targets)
            stack.pop()


def program(name: str, term: OpenHypergraph, inputs: Sequence[str]) -> Program:
    """Number the values of a term, equal ones alike, and list their assignments."""
    arguments = list(map(Value, inputs, term.source.table))
    values: dict[int, Value] = dict(zip(term.s.table, arguments, strict=True))
    known: dict[Any, Value] = {}
    body: list[Assignment] = []
    for op, sources, targets in needed(term):
        read = [values[wire] for wire in sources]
        key = read[0] if op.name == "copy" else (op, *read)
        if op.name == "copy":
            known[key] = read[0]
        elif key not in known:
            known[key] = Value(f"{op.name}_{len(body) + 1}", term.H.w.table[targets[0]])
            body.append(Assignment(op, known[key], read))
        values |= dict.fromkeys(targets, known[key])
    return Program(name, arguments, body, [values[wire] for wire in term.t.table])


# 6. Source code
#
# A target is a template. All that it knows of an operation is a pattern; another target has other patterns.

NUMPY = """\
{%- set patterns = {
    "fill": "np.full({result.shape}, {value}, np.float32)", "broadcast": "np.full({value}, {x.name})",
    "scale": "{x.name} * np.float32({value})", "add": "{x.name} + {y.name}",
    "multiply": "{x.name} * {y.name}", "tanh": "np.tanh({x.name})", "sum": "np.sum({x.name})",
    "matmul": "{x.name} @ {y.name}", "transpose": "{x.name}.T",
} -%}
import numpy as np


def {{ name }}({{ inputs | map(attribute="name") | join(", ") }}):
{%- for line in body %}
    {{ line.result.name }} = {{ line | text(patterns) }}  # {{ line.result.shape }}
{%- endfor %}
    return {{ outputs | map(attribute="name") | join(", ") }}
"""

C = """\
{%- set patterns = {
    "fill": "{value}f", "broadcast": "{x.name}[0]", "scale": "{x.name}[i] * {value}f",
    "add": "{x.name}[i] + {y.name}[i]", "multiply": "{x.name}[i] * {y.name}[i]",
    "tanh": "tanhf({x.name}[i])", "sum": "dot({x.size}, {x.name}, 1, (float[]){{1.0f}}, 0)",
    "matmul": "dot({y.shape[0]}, {x.name} + i / {y.shape[1]} * {y.shape[0]}, 1, "
              "{y.name} + i % {y.shape[1]}, {y.shape[1]})",
    "transpose": "{x.name}[i % {x.shape[0]} * {x.shape[1]} + i / {x.shape[0]}]",
} -%}
#include <math.h>
#include <string.h>

/* Sum products of elements that lie so far apart. */
static float dot(int count, const float *x, int x_stride, const float *y, int y_stride)
{
    float sum = 0.0f;
    for (int i = 0; i < count; i++) sum += x[i * x_stride] * y[i * y_stride];
    return sum;
}

void {{ name }}(
{%- for x in inputs %}const float *{{ x.name }}, {% endfor %}
{%- for y in outputs %}float *out{{ loop.index }}{{ "" if loop.last else ", " }}{% endfor %})
{
{%- for line in body %}
    static float {{ line.result.name }}[{{ line.result.size }}]; /* {{ line.result.shape }} */
    for (int i = 0; i < {{ line.result.size }}; i++) {{ line.result.name }}[i] = {{ line | text(patterns) }};
{%- endfor %}
{% for y in outputs %}
    memcpy(out{{ loop.index }}, {{ y.name }}, sizeof(float) * {{ y.size }});
{%- endfor %}
}
"""


def printed(function: Program, target: str) -> str:
    """Print a function by the template of a target."""

    def text(line: Assignment, patterns: dict[str, str]) -> str:
        arguments = dict(zip("xy", line.arguments, strict=False))
        return patterns[line.op.name].format(result=line.result, value=line.op.value, **arguments)

    environment = Environment()
    environment.filters["text"] = text
    return environment.from_string(target).render(function._asdict())


# 7. A demonstration: XOR
#
# The columns of x are two bits and a constant, which gives the first layer a bias.

BITS = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1]], np.float32)
XOR = np.array([[0], [1], [1], [0]], np.float32)


def network(w1: Var, w2: Var, x: Var) -> Var:
    """tanh(x w₁) w₂."""
    return Op("tanh")(x @ w1) @ w2


def xor_step() -> Program:
    """Compile the training of a network of 8 hidden units."""
    model = build(network, [(3, 8), (8, 1), BITS.shape])
    return program("step", training_step(model, rate=0.2), ["w1", "w2", "x", "y"])


def in_numpy(function: Program) -> Callable[..., Any]:
    """Load the emitted Python."""
    namespace: dict[str, Any] = {}
    exec(printed(function, NUMPY), namespace)  # our own text
    return namespace[function.name]


def in_c(function: Program, folder: Path) -> Callable[..., Any]:
    """Compile and load the emitted C."""
    source, library = folder / "step.c", folder / "step.so"
    source.write_text(printed(function, C), encoding="utf-8")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)
    entry = getattr(ctypes.CDLL(str(library)), function.name)

    def call(*arrays: np.ndarray) -> list[np.ndarray]:
        results = [np.empty(value.shape, np.float32) for value in function.outputs]
        entry(*(array.ctypes.data_as(ctypes.c_void_p) for array in (*arrays, *results)))
        return results

    return call


def trained(step: Callable[..., Any], steps: int) -> float:
    """Train from the same random parameters, and return the last loss."""
    random = np.random.default_rng(0)
    parameters = [random.normal(size=shape).astype(np.float32) for shape in ((3, 8), (8, 1))]
    for _ in range(steps):
        loss, *parameters = step(*parameters, BITS, XOR)
    return float(loss)


def main() -> None:
    """Print the training step, and train in both languages."""
    function = xor_step()
    print(printed(function, NUMPY))
    with tempfile.TemporaryDirectory() as folder:
        for language, step in (("NumPy", in_numpy(function)), ("C", in_c(function, Path(folder)))):
            print(f"{language}: loss {trained(step, 1):.4f}, after 100 steps {trained(step, 100):.4f}")


if __name__ == "__main__":
    main()
