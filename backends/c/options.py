"""Options of the target."""

from __future__ import annotations

from dataclasses import dataclass

from catgrad.options import require_kinds


@dataclass(frozen=True)
class Options:
    """Options of the emitted library.

    `weights` is a safetensors or GGUF file whose arrays are also written as constants into a header. `openmp`
    has it built with threads, as many as OMP_NUM_THREADS says.

    Raises: OptionError for another value
    """

    weights: str = ""
    openmp: bool = False

    def __post_init__(self) -> None:
        require_kinds(self)
