"""Checks of a task: its model, optimiser, loss and the types of labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from catgrad.errors import DtypeError, OptionError, ShapeError, TypeMismatch
from catgrad.learn.optimiser import Optimiser, Run
from catgrad.terms.state import Slot
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import NdArrayType

Loss = Callable[..., Var]
Types = tuple[NdArrayType, ...]


def check_parts(model: object, optimiser: object, loss: object, labels: Any) -> None:
    """Check the parts of a task. Raises: OptionError if one has another type."""
    fits = {
        "model": (model, isinstance(model, Term)),
        "optimiser": (optimiser, isinstance(optimiser, Optimiser)),
        "loss": (loss, callable(loss)),
    }
    for part, (value, is_fit) in fits.items():
        if not is_fit:
            raise OptionError(
                "a task must get a term, an optimiser and a loss function, in this order",
                f"its {part} is {value!r}",
                "write Task(model, sgd(0.01), mse)",
            )
    is_tuple = isinstance(labels, (tuple, list))
    if labels is not None and not (is_tuple and all(isinstance(type, NdArrayType) for type in labels)):
        raise OptionError(
            "labels must be a tuple of types",
            f"they are {labels!r}",
            "write for example labels=(NdArrayType((Dim('batch'),), Dtype.int64),)",
        )


def check_is_inference(inputs: Types, own: Types, parameters: Sequence[Slot], read: Sequence[Slot]) -> None:
    """Check a model in evaluation mode by its inputs and parameters beside those of training.

    Raises: OptionError if its inputs differ, or it reads a parameter that training does not
    """
    if inputs != own:
        raise OptionError(
            "the model in evaluation must have the inputs of the model in training",
            f"they are {', '.join(map(str, own))} instead of {', '.join(map(str, inputs))}",
            "give inputs that one mode does not read to both",
        )
    known = {slot.name for slot in parameters}
    unknown = [slot.name for slot in read if slot.name not in known]
    if unknown:
        raise OptionError(
            "the model in evaluation must read parameters of the model in training",
            f"training has no gradient for {', '.join(unknown)}",
            "make them buffers",
        )


def check_takes(loss: Loss, arguments: tuple[Var, ...]) -> None:
    """Check the arity of a loss. Raises: OptionError unless it takes these arguments."""
    try:
        signature(loss).bind(*arguments)
    except TypeError:
        raise OptionError(
            "a loss must take the model's outputs, then a target for each",
            f"these are {len(arguments)} arguments and it takes {signature(loss)}",
            "write a function (y_hat, y) for one output, (y_hat_0, y_hat_1, y_0, y_1) for two",
            subject="loss",
        ) from None


def check_is_loss(loss: object) -> None:
    """Check a loss. Raises: ShapeError unless it is a scalar; DtypeError unless it is floating."""
    if not isinstance(loss, Var) or loss.shape != ():
        raise ShapeError(
            "a loss must be a scalar variable of the term",
            f"it is {loss!r}",
            "end it with mean or sum",
            subject="loss",
        )
    if not loss.dtype.is_floating:
        raise DtypeError(
            "a loss must be floating-point, because parameters are updated by its gradient",
            f"it is {loss.type}",
            "compare scores, not the classes they choose",
            subject="loss",
        )


def checked_put(optimiser: Optimiser, run: Run, lens: tuple[Var, ...], gradient: Var) -> tuple[Var, ...]:
    """Compute the new state and parameter.

    Raises: OptionError if `put` takes other arguments; TypeMismatch if it returns other types
    """
    state = [array if isinstance(array, str) else array.name for array in optimiser.state]
    wanted = f"put({', '.join(['run', *state, 'p', 'dp'])}), and return [{', '.join([*state, 'p'])}]"
    try:
        signature(optimiser.put).bind(run, *lens, gradient)
    except TypeError as error:
        raise OptionError(
            f"the optimiser {optimiser.name} must have a function of its run, state, parameter and gradient",
            f"its put is {optimiser.put!r}: {error}",
            f"write {wanted}",
        ) from None
    new = optimiser.put(run, *lens, gradient)
    are_variables = isinstance(new, (tuple, list)) and all(isinstance(array, Var) for array in new)
    if not are_variables or [array.type for array in new] != [array.type for array in lens]:
        raise TypeMismatch(
            f"the optimiser {optimiser.name} must return state and parameter with the types of its arguments",
            f"they are {lens} and it returns {new}",
            f"write {wanted} with these types",
        )
    return tuple(new)
