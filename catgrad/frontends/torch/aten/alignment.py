"""Losses over alignments: connectionist temporal classification."""

from __future__ import annotations

from math import inf

from catgrad import ops
from catgrad.dims import Size
from catgrad.frontends.torch.aten.operands import at
from catgrad.frontends.torch.registry import aten
from catgrad.frontends.torch.types import Tensor
from catgrad.ops.ctc import ctc_loss
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype


def _numbers(lengths: Var | list[int]) -> Var:
    """Return lengths, a list or an array, as int64."""
    if isinstance(lengths, Var):
        return ops.cast(ops.reshape(lengths, -1), Dtype.int64)
    return ops.array(list(lengths), Dtype.int64)


def _labels(targets: Var, lengths: Var, longest: Size) -> Var:
    """Return one row of labels for each sequence; they may be concatenated."""
    if targets.type.rank == 2:
        return ops.cast(targets, Dtype.int64)
    n, total = lengths.shape[0], targets.shape[0]
    start = ops.cumsum(lengths, 0) - lengths
    place = ops.broadcast(start, (n, longest), [1]) + ops.broadcast(ops.iota(longest), (n, longest))
    last = at(total - 1, place.shape, place.dtype)
    return ops.cast(ops.gather(targets, ops.select(place > last, last, place)), Dtype.int64)


def _results(
    log_probs: Tensor, targets: Tensor, *lengths: object, **options: object
) -> tuple[Tensor, Tensor]:
    """Return a loss for each sequence, and a table of states, without values."""
    steps, *batch = log_probs.shape[:-1]
    table = (*(batch or [1]), steps, 2 * targets.shape[-1] + 1)
    return log_probs.new_empty(batch), log_probs.new_empty(table)


@aten("_ctc_loss.default", "_ctc_loss.Tensor", shapes=_results)
def negative_log_likelihoods(
    log_probs: Var,
    targets: Var,
    input_lengths: Var | list[int],
    target_lengths: Var | list[int],
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[Var, None]:
    """CTC loss of each sequence, infinite where no alignment is possible."""
    is_single = log_probs.type.rank == 2
    if is_single:
        log_probs = ops.expand_dims(log_probs, 1)
    times, lengths = _numbers(input_lengths), _numbers(target_lengths)
    longest = targets.shape[-1] if isinstance(target_lengths, Var) else max(target_lengths)
    loss = ctc_loss(log_probs, _labels(targets, lengths, longest), times, lengths, blank)
    # PyTorch's gradient is that for logits, which exceeds this one by the probabilities of the classes.
    steps, n, _ = log_probs.shape
    is_read = ops.broadcast(ops.iota(steps), (steps, n), [1]) < ops.broadcast(times, (steps, n), [0])
    is_read = is_read & ops.broadcast(loss < inf, (steps, n), [0])
    total = ops.sum(ops.exp(log_probs), 2)
    total = ops.sum(ops.select(is_read, total, zeros_like(total)), 0)
    loss = loss + (total - ops.stop_gradient(total))
    return (ops.reshape(loss) if is_single else loss), None


@aten("ctc_loss.Tensor")
def reduced_ctc_loss(
    log_probs: Var,
    targets: Var,
    input_lengths: Var,
    target_lengths: Var,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Var:
    """CTC loss; its mean is that of the losses per label."""
    loss, _ = negative_log_likelihoods(
        log_probs, targets, input_lengths, target_lengths, blank, zero_infinity
    )
    if zero_infinity:
        loss = ops.select(loss == inf, zeros_like(loss), loss)
    if reduction == 1:
        lengths = _numbers(target_lengths)
        one = Constant(lengths.type, 1)()
        return ops.mean(loss / ops.cast(ops.select(lengths > 1, lengths, one), loss.dtype))
    return ops.sum(loss) if reduction == 2 else loss
