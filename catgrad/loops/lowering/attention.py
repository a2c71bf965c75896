"""Attention and its reverse: steps of their own where a machine tiles them, else their definitions."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from catgrad.functors.expand import Expand
from catgrad.functors.reverse import Reversed
from catgrad.functors.wide import in_wide
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Kernel, Reduce, nested, size_hint
from catgrad.loops.ir.scalar import ROW_MAJOR, Buffer, Compute, Load, Scalar, converted
from catgrad.loops.ir.steps import Attend, AttentionPart
from catgrad.loops.lowering.index_maps import Source
from catgrad.loops.lowering.rules import Stages, element_by_element, stage
from catgrad.ops.arithmetic import Add
from catgrad.ops.arithmetic import Multiply as Times
from catgrad.ops.attention import Attention
from catgrad.programs.passes import optimise
from catgrad.programs.program import Apply, lower
from catgrad.terms.build import build
from catgrad.types import Dtype, NdArrayType

MAX_FEATURES = 128
"""Features of queries and of values whose tiles fit into the shared memory of a block."""

MIN_POSITIONS = 8
"""Queries, and keys, that are worth tiles; scores of fewer take little memory."""


@stage.register
def _(op: Attention, stages: Stages, apply: Apply, position: int) -> None:
    if not _is_tiled(stages, apply):
        _by_definition(stages, apply)
        return
    attention = _Attention(op, stages, apply.inputs)
    [output] = apply.outputs
    array = _array(stages, output)
    is_reversed = any(
        isinstance(a.op, Reversed) and a.op.op == op and a.inputs[:3] == apply.inputs
        for a in stages.function.body
    )
    logsumexp = attention.of_queries("logsumexp") if is_reversed else None
    attention.forward(array, logsumexp)
    stages.elements.store(output, array)
    if logsumexp is not None:
        stages.attended[op, apply.inputs] = stages.elements.sources[output], logsumexp


@stage.register
def _(op: Reversed, stages: Stages, apply: Apply, position: int) -> None:
    if not isinstance(op.op, Attention):
        element_by_element(stages, apply.outputs[position])
        return
    if not _is_tiled(stages, apply):
        _by_definition(stages, apply)
        return
    arrays = [_array(stages, value) for value in apply.outputs]
    _Attention(op.op, stages, apply.inputs[:3]).reverse(apply.inputs[3], arrays)
    for value, array in zip(apply.outputs, arrays, strict=True):
        stages.elements.store(value, array)


def _is_tiled(stages: Stages, apply: Apply) -> bool:
    """Tell whether a machine tiles attention of these sizes: sums in float32 over not too many features."""
    q, k, v = (stages.types[value] for value in apply.inputs[:3])
    features = q.shape[-1], v.shape[-1]
    return (
        stages.machine.gpu.tiles_attention
        and q.dtype.wide is Dtype.float32
        and all(isinstance(size, int) and size <= MAX_FEATURES for size in features)
        and all(size_hint(type.shape[-2]) >= MIN_POSITIONS for type in (q, k))
        and 0 not in (*q.shape, *v.shape)
    )


def _array(stages: Stages, value: int) -> Buffer:
    is_result = value in stages.function.results
    return stages.array(value, ROW_MAJOR if is_result else stages.choice.orders.get(value, ROW_MAJOR))


def _by_definition(stages: Stages, apply: Apply) -> None:
    """Lower the definition of an operation in its place."""
    op, inputs = apply.op, tuple(stages.types[value] for value in apply.inputs)
    outputs = tuple(stages.types[value] for value in apply.outputs)
    assert op.body is not None
    term = build(in_wide(op, op.body, inputs, outputs), inputs)
    function = optimise(lower(Expand()(term)))
    given = {a: _source(stages, value) for a, value in zip(function.arguments, apply.inputs, strict=True)}
    inside = Stages(function, given, stages.machine)
    for each in function.body:
        inside.emit(each)
    stages.steps += [*inside.checks, *inside.steps]
    for result, value in zip(function.results, apply.outputs, strict=True):
        array = stages.array(value)
        stages.add(stages.copied(array, lambda i, r=result: inside.elements.at(r, i)), value)  # type: ignore[misc]


def _source(stages: Stages, value: int) -> Source:
    return lambda indices: stages.elements.at(value, indices)


class _Attention:
    """The variables and operands of one attention."""

    def __init__(self, op: Attention, stages: Stages, inputs: Sequence[int]) -> None:
        self.op, self.stages = op, stages
        q, k, v = (stages.types[value] for value in inputs)
        self.batch = tuple(Variable(size) for size in q.shape[:-2])
        self.query, self.key = Variable(q.shape[-2], "query"), Variable(k.shape[-2], "key")
        self.feature, self.column = Variable(q.shape[-1], "feature"), Variable(v.shape[-1], "column")
        self.inputs = tuple(inputs)
        self.operands = (
            self._operand(inputs[0], self.query, self.feature),
            self._operand(inputs[1], self.key, self.feature),
            self._operand(inputs[2], self.key, self.column),
        )

    def _operand(self, value: int, *variables: Variable) -> Scalar:
        scalar = self.stages.elements.at(value, tuple(map(index, (*self.batch, *variables))))
        return converted(scalar, Dtype.float32)

    def _element(self, buffer: Buffer, *variables: Variable) -> Load:
        return Load(buffer, tuple(map(index, (*self.batch, *variables))))

    def of_queries(self, name: str) -> Buffer:
        """Return an array with one number for each query."""
        shape = tuple(v.extent for v in (*self.batch, self.query))
        return Buffer(name, NdArrayType(shape, Dtype.float32))

    def forward(self, output: Buffer, logsumexp: Buffer | None) -> None:
        """Add the step that computes the output, and perhaps the logarithms of its rows' sums."""
        results = [self._element(output, self.query, self.column)]
        results += [self._element(logsumexp, self.query)] if logsumexp else []
        self._add(AttentionPart.OUTPUT, self.operands, results)

    def reverse(self, cotangent: int, arrays: Sequence[Buffer]) -> None:
        """Add the steps of the reverse; those of the forward pass if it is not computed elsewhere."""
        of_output = self._operand(cotangent, self.query, self.column)
        output, logsumexp = self._forward_results()
        product = Compute(Times(), Dtype.float32, (of_output, converted(output, Dtype.float32)))
        inner = self.of_queries("inner_products")
        at = self._element(inner, self.query)
        reduce = Reduce(inner, at.indices, Add(), product, (self.column,))
        self.stages.steps += [Kernel([item]) for item in nested((*self.batch, self.query), [reduce])]
        operands = (*self.operands, of_output, self._element(logsumexp, self.query), at)
        of_q, of_k, of_v = arrays
        self._add(AttentionPart.QUERIES, operands, [self._element(of_q, self.query, self.feature)])
        of_keys = [self._element(of_k, self.key, self.feature), self._element(of_v, self.key, self.column)]
        self._add(AttentionPart.KEYS, operands, of_keys)

    def _forward_results(self) -> tuple[Scalar, Buffer]:
        """Return an element of the output, and the logarithms of its rows' sums."""
        at = tuple(map(index, (*self.batch, self.query, self.column)))
        if (self.op, self.inputs) in self.stages.attended:
            source, logsumexp = self.stages.attended[self.op, self.inputs]
            return source(at), logsumexp
        shape = tuple(v.extent for v in (*self.batch, self.query, self.column))
        output = Buffer("attended", NdArrayType(shape, Dtype.float32))
        logsumexp = self.of_queries("logsumexp")
        self.forward(output, logsumexp)
        return Load(output, at), logsumexp

    def _add(self, part: AttentionPart, operands: Sequence[Scalar], results: Sequence[Load]) -> None:
        features = self.feature.extent
        scale = 1 / sqrt(features) if isinstance(features, int) and features else 1.0
        self.stages.steps.append(
            Attend(
                part, self.batch, self.query, self.key, self.feature, self.column,
                scale, self.op.causal, self.op.window, tuple(operands), tuple(results),
            )
        )  # fmt: skip
