"""Copies of learners: each has arrays of its own, on every target."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NoReturn, Self, cast

from catgrad.errors import UnsupportedOp
from catgrad.learn.fit.checkpoint import restore, tables
from catgrad.learn.learner import Learner
from catgrad.learn.reports.shown import Shown


class Copied(Shown):
    """A learner that `copy.copy` and `copy.deepcopy` copy alike, whole and apart, and that pickle refuses."""

    def another(self) -> Self:
        """Return another learner of the same program."""
        return type(self)()

    def __copy__(self) -> Self:
        other = self.another()
        restore(cast(Learner, other), tables(cast(Learner, self)))
        other.history = deepcopy(self.history)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise UnsupportedOp(
            "a learner must be pickled as arrays, for its program is not in the pickle",
            "it is to be pickled itself",
            'write checkpoint.save(learner, "run.safetensors"), and load that into another learner',
        )
