"""Options of the target."""

from __future__ import annotations

from dataclasses import dataclass, fields

from catgrad.errors import OptionError


@dataclass(frozen=True)
class Options:
    """Options of the emitted library.

    `weights` is a safetensors file whose arrays are also written as constants into a header. `openmp`
    has it built with threads, as many as OMP_NUM_THREADS says.

    Raises: OptionError for another value
    """

    weights: str = ""
    openmp: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, type(field.default)):
                kind = "true or false" if isinstance(field.default, bool) else "a string"
                raise OptionError(f"{field.name} must be {kind}", f"it is {value!r}", "write one")
