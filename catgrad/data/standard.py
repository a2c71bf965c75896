"""Standardisation: an affine map to mean 0 and variance 1, whose constants are part of the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from catgrad.errors import DtypeError, ShapeError
from catgrad.initialisers import Stored
from catgrad.learn.layers.parts import buffer, copies, label
from catgrad.terms.build import build
from catgrad.terms.op import scope
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType


@dataclass(frozen=True)
class Standard:
    """Standardisation by the mean and deviation of each feature: y = (x - mean) / deviation."""

    mean: Array
    deviation: Array

    def __call__(self, x: Array) -> Array:
        """Standardise an array of examples, as float32."""
        standardised: Array = (np.asarray(x, np.float32) - self.mean) / self.deviation
        return standardised

    def layer(self, A: NdArrayType, name: str = "standard") -> Term:
        """Standardisation as a layer, so that the emitted program takes the values as they are measured.

        Its constants are buffers that nothing changes: checkpoints have them, and emitted code computes them
        in `init_buffers`.

        Type:     A + B -> A + B, for the type B of an example, with the buffers `<name>.mean` and
                  `<name>.deviation` of type B
        Gradient: dx = dy / deviation
        """
        features = NdArrayType(self.mean.shape)

        def forward(x: Var) -> Var:
            mean, deviation = (
                copies(buffer(each, features, Stored(array)), A + features)
                for each, array in (("mean", self.mean), ("deviation", self.deviation))
            )
            return label("out", (x - mean) / deviation)

        with scope(name):
            return build(forward, [A + features])


def standardise(x: ArrayLike) -> Standard:
    """Return the standardisation of examples, from the mean and the standard deviation of each feature.

    Take the training data, not the validation data. The deviation of a constant feature counts as 1.

    Raises: DtypeError unless they are finite numbers; ShapeError if there is no example
    """
    array = np.asarray(x)
    if array.dtype.kind not in "iufb" or not np.isfinite(array).all():
        raise DtypeError(
            "examples must be finite numbers to be standardised", f"they are {array.dtype}", "correct them"
        )
    if not array.ndim or not len(array):
        raise ShapeError("there must be an example", f"the shape is {array.shape}", "give rows of features")
    exact = array.astype(np.float64)
    mean, deviation = exact.mean(axis=0), exact.std(axis=0)
    is_constant = array.min(axis=0) == array.max(axis=0)  # the deviation of copies of 0.1 is rounded, not 0
    kept = np.where(is_constant | (deviation.astype(np.float32) == 0), 1.0, deviation)
    return Standard(mean.astype(np.float32), kept.astype(np.float32))
