"""Options of the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from catgrad.errors import OptionError
from catgrad.options import require_choices
from catgrad.programs.ports import Kind

CHOICES = {
    "unroll": ("compact", "auto", "max"),
    "storage": ("numbers", "packed", "float16", "int8", "int6", "int4"),
    "vm": ("vanilla", "turbowarp"),
}
KINDS: Mapping[str, tuple[Any, str]] = {
    "weights": ((str, Mapping), "the path of a file, or arrays by name"),
    "data": ((tuple, list, np.ndarray, type(None)), "arrays, which no command line can give"),
}

MAX_FIGURES = 17
"""Decimal digits that tell each float64 from all others."""


@dataclass(frozen=True)
class Options:
    """Options of the sprite.

    `batch` is how many examples a train step takes, `predict_batch` how many predict takes. `weights` are
    arrays by name, or a file of them; without, parameters begin as the model says. `data` are
    examples, an array of inputs and one of targets (or several of each, as the model takes them), with
    which the sprite trains itself. `features` are names for the numbers of an input, `classes` for those
    of an output, of which the largest is then the guess. `sig_figs` rounds parameters to so many digits.
    `storage` says how the file keeps them: as "numbers"; as texts, exactly ("packed") or rounded to
    "float16", "int8", "int6" or "int4". `unroll` is "compact" for few blocks, "max" for speed, or "auto".
    With a `tokenizer`, one of `catgrad.tokenizers` or of Hugging
    Face, it writes text: the model takes a token at a time, and remembers those before. `vm` is what runs
    the sprite when it is loaded, "vanilla" or "turbowarp".

    Raises: OptionError for another value
    """

    batch: int = 1
    predict_batch: int = 1
    weights: str | Mapping[str, ArrayLike] = ""
    data: Sequence[ArrayLike] | None = field(default=None, compare=False)
    features: Sequence[str] = ()
    classes: Sequence[str] = ()
    sig_figs: int | None = None
    storage: str = "numbers"
    unroll: str = "auto"
    tokenizer: Any = None
    vm: str = "vanilla"

    @property
    def entries(self) -> Sequence[Kind]:
        """The kinds of functions of a task that the sprite can have."""
        return (Kind.PREDICT, Kind.STEP) if self.tokenizer is None else (Kind.TRAINED,)

    def __post_init__(self) -> None:
        require_choices(self, CHOICES)
        for name in ("features", "classes"):
            _check_names(name, getattr(self, name))
        for name, (kinds, must) in KINDS.items():
            if not isinstance(getattr(self, name), kinds):
                raise OptionError(f"{name} must be {must}", f"it is {getattr(self, name)!r}", "leave it out")
        for name in ("batch", "predict_batch", "sig_figs"):
            value = getattr(self, name)
            if (value is None and name == "sig_figs") or (type(value) is int and value > 0):
                continue
            raise OptionError(f"{name} must be an integer above 0", f"it is {value!r}", "write for example 4")
        if self.sig_figs is not None and self.sig_figs > MAX_FIGURES:
            raise OptionError(
                f"sig_figs must be at most {MAX_FIGURES}, which represent every float64 exactly",
                f"it is {self.sig_figs}",
                "leave it out",
            )


def _check_names(option: str, names: Sequence[str]) -> None:
    if (
        isinstance(names, str)
        or not isinstance(names, Iterable)
        or not all(isinstance(name, str) and name.strip() for name in names)
    ):
        raise OptionError(
            f"{option} must be names", f"they are {names!r}", 'write for example ("cat", "dog")'
        )
