"""The options of the target."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass
from keyword import iskeyword

from catgrad.errors import OptionError
from catgrad.options import require_choices, require_kinds

CHOICES = {"dtype": ("", "float32", "float64"), "constants": ("inline", "buffers", "parameters")}


@dataclass(frozen=True)
class Options:
    """Options of the target torch-module.

    `class_name` is by default the program's name in CamelCase. `dtype`, float32 or float64, must be that of
    all parameters and inputs; nothing is cast. `constants` are arrays that do not depend on arguments:
    computed inline, or once as buffers or as parameters, with `compress` without a final broadcast.
    Scalars stay inline. `skeleton` adds an optimiser, a training step and a demo on random data.

    Raises: OptionError for another value
    """

    class_name: str = ""
    dtype: str = ""
    constants: str = "inline"
    compress: bool = True
    skeleton: bool = False

    def __post_init__(self) -> None:
        require_kinds(self)
        require_choices(self, CHOICES)
        if self.class_name and not is_class_name(self.class_name):
            raise OptionError(
                "class_name must be an ASCII identifier that is no keyword or builtin of Python",
                f"it is {self.class_name!r}",
                "write for example Encoder",
            )


def is_class_name(text: str) -> bool:
    """Return whether a class of an emitted file may have this name."""
    free = not iskeyword(text) and text not in vars(builtins)
    return free and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", text) is not None


def class_name_of(program: str) -> str:
    """Return the name of a program in CamelCase: two_inputs becomes TwoInputs."""
    words = re.split(r"[._]+", program)
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if is_class_name(name) else f"Model{name}"
