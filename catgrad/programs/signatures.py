"""Signatures of the functions of a task: the roles of arguments and results, and documentation."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.programs.ports import Kind, Role

_STATE, _BUFFERS, _P = Role.STATE, Role.BUFFER, Role.PARAMETER
_X, _Y, _Y_HAT, _R = Role.INPUT, Role.TARGET, Role.OUTPUT, Role.LOSS

SIGNATURES: dict[Kind, tuple[tuple[Role, ...], tuple[Role, ...]]] = {
    Kind.PREDICT: ((_BUFFERS, _P, _X), (_Y_HAT,)),
    Kind.TRAINED: ((_BUFFERS, _P, _X), (_BUFFERS, _Y_HAT)),
    Kind.CRITERION: ((_Y_HAT, _Y), (_R,)),
    Kind.LOSS: ((_BUFFERS, _P, _X, _Y), (_R,)),
    Kind.REV: ((_BUFFERS, _P, _X, Role.OUTPUT_COTANGENT), (Role.GRADIENT, Role.INPUT_COTANGENT)),
    Kind.REV_P: ((_BUFFERS, _P, _X, Role.OUTPUT_COTANGENT), (Role.GRADIENT,)),
    Kind.GRADS: ((_STATE, _BUFFERS, _P, _X, _Y), (_R, _BUFFERS, Role.GRADIENT)),
    Kind.UPDATE: ((_STATE, _P, Role.GRADIENT), (_STATE, _P)),
    Kind.STEP: ((_STATE, _BUFFERS, _P, _X, _Y), (_R, _STATE, _BUFFERS, _P)),
}
"""Roles of the arguments and of the results of each kind, in order.

State and buffers are omitted if a model has none, or if they are neither read nor returned.
"""

MEANINGS = {
    Kind.PREDICT: "the model's output",
    Kind.TRAINED: "the model's output in training",
    Kind.CRITERION: "the loss between ŷ and y",
    Kind.LOSS: "the loss between the output and y",
    Kind.REV: "the reverse derivative of predict",
    Kind.REV_P: "the part of rev for the parameters",
    Kind.GRADS: "the loss in training and its gradient",
    Kind.UPDATE: "the optimiser's part of a step",
    Kind.STEP: "one step of training, and the loss before it",
}

LETTERS = {
    Role.STATE: "S",
    Role.BUFFER: "M",
    Role.PARAMETER: "P",
    Role.GRADIENT: "P′",
    Role.INPUT: "X",
    Role.OUTPUT: "Ŷ",
    Role.TARGET: "Y",
    Role.LOSS: "R",
    Role.INPUT_COTANGENT: "X′",
    Role.OUTPUT_COTANGENT: "Ŷ′",
}
"""Notation of the arrays of a role in the literature."""

INITIAL_VALUES = {
    Role.STATE: "Initial values of the optimiser's state.",
    Role.BUFFER: "Initial values of the buffers.",
    Role.PARAMETER: "Initial values of the parameters.",
}
"""Documentation of the functions that compute the initial values of tables."""


def described(kind: Kind, left_out: Sequence[Role]) -> str:
    """Document a function without the tables that its model does not have."""
    sides = (" × ".join(LETTERS[r] for r in side if r not in left_out) for side in SIGNATURES[kind])
    return f"{' → '.join(sides)}: {MEANINGS[kind]}."
