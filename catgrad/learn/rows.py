"""Models whose rows are shared by processes, and whose random numbers are those of one process."""

from __future__ import annotations

from typing import TypeVar, cast

from catgrad.dims import Dim
from catgrad.errors import OptionError
from catgrad.functors import DrawsByRow
from catgrad.learn.task import Task
from catgrad.terms.term import Term

Model = TypeVar("Model", bound=Term | Task)


def shared_rows(model: Model) -> Model:
    """Draw random numbers by the row of the whole batch: N processes that share its rows draw what one would.

    The model has a further buffer, the run number `first_row`: how many rows of the batch are before those of
    this process, at first 0. `train_mpi.c`, a step by NCCL and `parallel.torch()` set it, and other programs
    must, before each step. A model that draws nothing of the batch is unchanged.

    Type:     X -> Y remains X -> Y
    Raises:   OptionError unless every input begins with one symbolic axis, the batch; ShapeError if random
              numbers have the batch, but not as their first axis alone
    Gradient: that of the model with these random numbers
    """
    if isinstance(model, Task):
        return cast(Model, model.mapped(shared_rows))
    if not isinstance(model, Term):
        raise OptionError(
            "shared rows must be those of a Task or a term",
            f"they are of {type(model).__name__}",
            "Functions are in evaluation mode, and draw nothing",
        )
    return DrawsByRow(_batch(model))(model)  # type: ignore[no-any-return]


def _batch(model: Term) -> Dim:
    """Return the symbol that is the first axis of each input."""
    inputs = list(model.source.table)
    found = {type.shape[0] if type.rank else 0 for type in inputs}
    [batch] = found if len(found) == 1 else [0]
    if not isinstance(batch, Dim) or batch != Dim(min(batch.symbols)):
        raise OptionError(
            "a model whose rows are shared must have inputs that begin with one symbolic axis, the batch",
            f"its inputs are {', '.join(map(str, inputs)) or 'none'}",
            'write Dim("batch") for it',
        )
    return batch
