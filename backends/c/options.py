"""Options of the target."""

from __future__ import annotations

from dataclasses import dataclass

from catgrad.errors import OptionError
from catgrad.options import names, require_kinds
from catgrad.programs.ports import Kind

from .bindings import require_languages


@dataclass(frozen=True)
class Options:
    """Options of the emitted library.

    `weights` is a safetensors or GGUF file whose arrays are also written as constants into a header. `openmp`
    has it built with threads, as many as OMP_NUM_THREADS says, in loops at most 16. `memory` is the most
    bytes that the workspace of a training step may have; values are recomputed, and the batch is split, until
    it fits. For this the size of a symbolic `batch` must be known; 0 leaves either open. With `mpi` there is
    also a program that trains by processes that share the rows of each batch. With `single_file` the library
    has its runtime in its own source, rather than in a header beside it. `bindings` are the languages that
    call the library, as a tuple or with commas: fortran, rust, go, julia, swift, csharp, java, python. With
    `microcontroller` it is for a processor without vectors, threads and caches, and takes least memory.

    Raises: OptionError for another value; UnknownName for a language that there is none of
    """

    weights: str = ""
    openmp: bool = False
    memory: int = 0
    batch: int = 0
    mpi: bool = False
    single_file: bool = False
    bindings: tuple[str, ...] = ()
    microcontroller: bool = False

    @property
    def required(self) -> tuple[Kind, ...]:
        """The functions that processes call besides a step."""
        return (Kind.GRADS, Kind.UPDATE) if self.mpi else ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "bindings", names(self.bindings))
        require_kinds(self)
        require_languages(self.bindings)
        for name in ("memory", "batch"):
            if getattr(self, name) < 0:
                raise OptionError(
                    f"{name} must be a number above 0, or 0 for none",
                    f"it is {getattr(self, name)}",
                    "change it",
                )
        if self.memory and self.openmp:
            raise OptionError(
                "memory must be counted without threads", "openmp is true", "leave out openmp, or the limit"
            )
