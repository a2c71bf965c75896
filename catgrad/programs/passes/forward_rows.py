"""Copy propagation through loops: rows that an iteration returns as it read them need no new stack."""

from __future__ import annotations

from dataclasses import replace

from catgrad.ops.scan import Scan
from catgrad.programs.passes.rewrite import Rewriter, Values, by_rule
from catgrad.programs.program import Apply, Nested


@by_rule
def forward_rows(rewriter: Rewriter, apply: Apply) -> Values | None:
    """Read, instead of a stack of rows that a loop returns unchanged, the one whose rows it reads."""
    op, inputs, outputs = apply
    if not (isinstance(op, Nested) and isinstance(op.op, Scan)):
        return None
    (body,) = op.functions
    _, rows, _ = op.op.parts(body.arguments)
    read = dict(zip(rows, op.op.parts(inputs)[1], strict=True))
    instead = {
        outputs[k]: read[value]
        for k, value in enumerate(body.results)
        if k >= op.op.carried and value in read
    }
    if not instead:
        return None
    kept = [k for k, value in enumerate(outputs) if value not in instead]
    results, ports = tuple(body.results[k] for k in kept), tuple(body.outputs[k] for k in kept)
    narrow = replace(body, results=results, outputs=ports)
    rewriter.keep(Apply(Nested(op.op, (narrow,)), inputs, tuple(outputs[k] for k in kept)))
    return tuple(instead.get(value, value) for value in outputs)
