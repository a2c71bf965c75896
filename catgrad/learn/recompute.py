"""Recomputation: checkpoint a model in segments, or run it in a loop over parts of the batch.

Training then saves the values between segments, or one part's, and computes all others again in the reverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from catgrad import ops
from catgrad.dims import Dim
from catgrad.errors import OptionError
from catgrad.functors import factor_parameters, substitute
from catgrad.loops.ir.nest import size_hint
from catgrad.ops.control import as_tuple
from catgrad.programs.program import Apply, Function, evaluate, straighten
from catgrad.terms.build import build
from catgrad.terms.state import Buffer, Persistent, RunNumber, Update
from catgrad.terms.term import Term, edges
from catgrad.terms.var import Var
from catgrad.verification import draw_arrays


def segmented(model: Term, count: int) -> Term:
    """Checkpoint a model in segments: the last is not recomputed, for its reverse follows at once.

    Type:     X -> Ŷ, as the model
    Source:   Chen et al. 2016 (arXiv:1604.06174), section 4
    """
    code = straighten(model)
    state = [apply for apply in code.body if isinstance(apply.op, Persistent)]
    body = [apply for apply in code.body if not isinstance(apply.op, (Persistent, Update))]
    updates = [apply for apply in code.body if isinstance(apply.op, Update)]
    *segments, last = _segments(code, body, count)

    def run(*xs: Var) -> list[Var]:
        values = dict(zip(code.arguments, xs, strict=True))
        _run(state, values)
        end = 0
        for segment in segments:
            end += len(segment)
            later = {value for apply in (*body[end:], *updates) for value in apply.inputs}
            _run_again(segment, values, later.union(code.results))
        _run([*last, *updates], values)
        return [values[value] for value in code.results]

    return build(run, list(model.source.table))


def _run(body: Sequence[Apply], values: dict[int, Var]) -> None:
    for op, inputs, outputs in body:
        values.update(zip(outputs, op.apply(*(values[value] for value in inputs)), strict=True))


def _run_again(segment: Sequence[Apply], values: dict[int, Var], later: set[int]) -> None:
    """Run a segment as a checkpoint, from the values that it reads to those that are read later."""
    made = {value for apply in segment for value in apply.outputs}
    read = [v for v in dict.fromkeys(v for apply in segment for v in apply.inputs) if v not in made]
    results = sorted(made & later)

    def inside(*given: Var) -> list[Var]:
        own = dict(zip(read, given, strict=True))
        _run(segment, own)
        return [own[value] for value in results]

    found = ops.checkpoint(inside, *(values[value] for value in read))
    values.update(zip(results, found if isinstance(found, (list, tuple)) else (found,), strict=True))


def _segments(code: Function, body: Sequence[Apply], count: int) -> list[Sequence[Apply]]:
    """Cut a body into parts that make about equally many bytes, where the fewest are alive."""
    size = {v: size_hint(t.size) * t.dtype.itemsize for v, t in enumerate(code.types) if t is not None}
    last = {value: place for place, apply in enumerate(body) for value in apply.inputs}
    last.update(dict.fromkeys(code.results, len(body)))
    made = [*accumulate((sum(size[v] for v in apply.outputs) for apply in body), initial=0)]
    alive, crossing = 0, [0] * (len(body) + 1)
    ending: list[int] = [0] * (len(body) + 1)
    for place, apply in enumerate(body):
        for value in apply.outputs:
            if value in last:
                alive += size[value]
                ending[last[value]] += size[value]
        alive -= ending[place]
        crossing[place + 1] = alive
    cuts = [0]
    for number in range(1, count):
        goal, reach = made[-1] * number // count, made[-1] / count / 2
        near = [p for p in range(cuts[-1] + 1, len(body)) if abs(made[p] - goal) <= reach]
        if near:
            cuts.append(min(near, key=lambda p: (crossing[p], abs(made[p] - goal))))
    return [body[start:end] for start, end in pairwise([*cuts, len(body)])]


def in_parts(model: Term, symbol: str, batch: int, parts: int) -> Term:
    """Run a model on equal parts of the batch, one after the other, each recomputed in the reverse.

    The reverse adds the gradients of the parts (gradient accumulation); the loss is that of the whole batch.

    Type:     X -> Ŷ, as the model at this size of the batch
    Raises:   OptionError as `require_examples`
    Source:   Gao et al. 2021 (arXiv:2101.06983), section 3
    """
    require_examples(model, symbol)
    part = substitute(model, {symbol: batch // parts})

    def run(*xs: Var) -> list[Var]:
        rows = [ops.reshape(x, parts, batch // parts, *x.type.shape[1:]) for x in xs]
        _, stacks = ops.scan(lambda carry, row: ((), ops.checkpoint(part, *row)), (), tuple(rows))
        return [ops.reshape(y, batch, *y.type.shape[2:]) for y in as_tuple(stacks)]

    return build(run, [type.substitute({symbol: batch}) for type in model.source.table])


def require_examples(model: Term, symbol: str) -> None:
    """Require that a model computes each example of a batch on its own, which is tried on random examples.

    Raises: OptionError if an array has no first axis of this size, or the model has batch norm statistics or
            a counter of random numbers, or an example changes the output of another
    """
    for type in (*model.source.table, *model.target.table):
        if not type.shape or type.shape[0] != Dim(symbol) or symbol in map(str, type.shape[1:]):
            raise _refused(f"one of its arrays is {type}", f"make the batch, {symbol}, its first axis alone")
    for edge in edges(model):
        if isinstance(edge.op, (Buffer, RunNumber)):
            what = (
                "a counter of random numbers" if isinstance(edge.op, RunNumber) else "statistics of the batch"
            )
            raise _refused(f"it keeps {what}, {edge.op.name!r}", "use a layer without, such as group norm")
    slots, opened = factor_parameters(model)
    whole, single = (substitute(opened, {symbol: size}) for size in (2, 1))
    given = [slot.type for slot in slots]
    arrays = draw_arrays(
        [*given, *(t.substitute({symbol: 2}) for t in model.source.table)], (-1.0, 1.0), classes=2
    )
    parameters, xs = arrays[: len(slots)], arrays[len(slots) :]
    found = evaluate(whole, *parameters, *xs)
    for number in range(2):
        wanted = evaluate(single, *parameters, *(x[number : number + 1] for x in xs))
        for y, own in zip(found, wanted, strict=True):
            if not np.allclose(y[number : number + 1], own, rtol=1e-3, atol=1e-4, equal_nan=True):
                raise _refused("one example changes the output of another", "normalise each on its own")


def _refused(found: str, advice: str) -> OptionError:
    return OptionError(
        "to split the batch, a model must compute each example on its own",
        found,
        f"{advice}; or give the step more memory",
    )
