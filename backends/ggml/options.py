"""Options of the target."""

from __future__ import annotations

from dataclasses import dataclass

from catgrad.options import require_choices

WEIGHTS = {"f32": "", "f16": "GGML_TYPE_F16", "q8_0": "GGML_TYPE_Q8_0", "q4_0": "GGML_TYPE_Q4_0"}
"""The types of weights, and their names in ggml where they are not those of the program."""


@dataclass(frozen=True)
class Options:
    """Options of the emitted library.

    `weights` is the type in which it stores matrices that products alone read: f32, f16, q8_0 or q4_0. With
    another type than f32, a program trains if its task freezes some of them, and these are of the type; other
    programs predict only. With `kernels`, a CPU computes products
    and operations on elements by functions in C, which are faster there than ggml's.

    Raises: OptionError for another value
    """

    weights: str = "f32"
    kernels: bool = True

    def __post_init__(self) -> None:
        require_choices(self, {"weights": tuple(WEIGHTS)})
