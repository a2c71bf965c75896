"""Options of the target."""

from __future__ import annotations

from dataclasses import dataclass

from catgrad.options import require_kinds


@dataclass(frozen=True)
class Options:
    """Options of the emitted module.

    With `openmp` the library is built with threads: workers, which share its memory.

    Raises: OptionError for another value
    """

    openmp: bool = False

    def __post_init__(self) -> None:
        require_kinds(self)
