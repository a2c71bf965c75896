"""Connectionist temporal classification: the likelihood of labels of unknown alignment."""

from __future__ import annotations

from math import inf

from catgrad.dims import Size
from catgrad.ops.arithmetic import add
from catgrad.ops.compare import select
from catgrad.ops.control import scan
from catgrad.ops.extrema import iota, max
from catgrad.ops.prefix import logaddexp
from catgrad.ops.reduce import broadcast
from catgrad.ops.shape import expand_dims, reshape
from catgrad.ops.slices import concat, slice
from catgrad.ops.softmax import logsumexp
from catgrad.ops.take import take_along_axis
from catgrad.terms.structural import Constant, stop_gradient, zeros_like
from catgrad.terms.var import Var


def ctc_loss(log_probs: Var, labels: Var, times: Var, lengths: Var, blank: int = 0) -> Var:
    """Negative logarithm of the probability of labels, summed over all alignments with blanks between them.

    Sequence k has times[k] > 0 rows of log_probs, and lengths[k] labels. The loss is infinite, with
    gradient 0, where the rows are too few for the labels.

    Type:     (T[t, n, c], i64[n, s], i64[n], i64[n]) -> T[n] for floating T and numbers t, c, s
    Gradient: by the loop; minus the posterior probability of each class at each time
    Source:   Graves et al. 2006, Connectionist temporal classification, equations 6 to 8
    """
    n, s = labels.shape
    count = 2 * s + 1
    shape = (n, count)
    place = broadcast(iota(count), shape)
    blanks = Constant(labels.type, blank)()
    known = broadcast(iota(s), (n, s)) < _rows(lengths, s)
    pairs = concat([expand_dims(blanks, 2), expand_dims(select(known, labels, blanks), 2)], 2)
    last = Constant(labels.type.with_shape((n, 1)), blank)()
    states = concat([reshape(pairs, n, 2 * s), last], 1)
    steps = log_probs.shape[0]
    scores = take_along_axis(log_probs, broadcast(states, (steps, n, count), [0]), 2)

    may_skip = (states != _moved(states, 2, -1)) & (place > 1) & (states != Constant(states.type, blank)())
    begin = reshape(slice(scores, (0, 0, 0), (1, n, count)), n, count)
    none = Constant(begin.type, -inf)()
    begin = select(place < 2, begin, none)

    def step(alpha: Var, row: tuple[Var, Var]) -> tuple[Var, tuple[()]]:
        score, time = row
        skipped = select(may_skip, _moved(alpha, 2, -inf), none)
        new = add(logaddexp(logaddexp(alpha, _moved(alpha, 1, -inf)), skipped), score)
        goes_on = _rows(times, count) > broadcast(time, shape)
        return select(goes_on, new, alpha), ()

    rest = slice(scores, (1, 0, 0), (steps - 1, n, count))
    alpha, _ = scan(step, begin, (rest, iota(steps - 1) + 1))
    ends = _rows(2 * lengths, count)
    final = select((place == ends) | (place + 1 == ends), alpha, none)
    impossible = max(stop_gradient(final), 1) == -inf
    loss = -logsumexp(select(_rows(impossible, count), zeros_like(final), final), 1)
    return select(impossible, Constant(loss.type, inf)(), loss)


def _rows(x: Var, count: Size) -> Var:
    """Repeat each element in a row."""
    return broadcast(x, (*x.shape, count), [1])


def _moved(x: Var, by: int, value: float) -> Var:
    """Move rows to the right, and fill in a number."""
    first = Constant(x.type.with_shape((x.shape[0], by)), value)()
    return slice(concat([first, x], 1), (0, 0), x.shape)
