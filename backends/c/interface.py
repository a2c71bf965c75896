"""Names of an emitted library, and status codes of its functions."""

from __future__ import annotations

from collections.abc import Iterable

from catgrad.errors import OptionError
from catgrad.naming import Namer
from catgrad.programs.ports import TABLES
from catgrad.programs.program import Program

CODES = {
    "OK": "no error",
    "BAD_SIZE": "a size is negative or too small, or an array of such sizes too large",
    "NULL": "a pointer is NULL that must not be",
    "MISALIGNED": "the workspace does not begin at a multiple of 64 bytes",
    "BAD_INDEX": "an index lies outside its array",
    "NO_FILE": "the file cannot be opened",
    "BAD_FILE": "the file is not a whole safetensors file",
    "OTHER_ARRAYS": "the file lacks an array of the model, or has another",
    "OTHER_TYPES": "an array of the file has another dtype or shape than the model's",
    "NO_MEMORY": "there is too little memory",
    "NOT_WRITTEN": "the file cannot be written",
}
"""Status codes of functions, in the order of their numbers, and their meanings."""


FILES = ("train", "train_mpi", "data", "weights")
"""The emitted programs, and the files that they read and write, whose names no library may have."""


OWN = (
    *TABLES, *(f"{table}_{verb}" for table in TABLES for verb in ("bytes", "place", "point", "copy")),
    *(f"{verb}_{table}" for table in TABLES for verb in ("read", "write")),
    "write_trained", "load", "save", "epochs", "set_epochs", "file", "file_*", "array",
    "gradients", "prepared", "prepared_*", "prepare", "status", "read_status", "clear_status", "error_string",
    "message", "create", "destroy", "model", "tables", "stream", "libraries", "libraries_*", "value_of_*",
    "workspace_bytes", "*_workspace_bytes", "*_many", "*_prepared", "*_arrays", "*_place",
)  # fmt: skip
"""The names in the library, after its prefix, that are not those of the program's functions."""


def prefix(program: Program) -> str:
    """Return the prefix of every name in the library."""
    return Namer().fresh(program.name)


def require_name(program: Program, reserved: Iterable[str]) -> None:
    """Check the names of the library's files and functions. Raises: OptionError if one is used otherwise"""
    wanted = prefix(program)
    if wanted in FILES or Namer(reserved).fresh(program.name) != wanted:
        raise OptionError(
            "the name of a model in C must not be used by C, C++ or the emitted files",
            f"it is {program.name!r}",
            "choose another name",
        )


def require_functions(program: Program) -> None:
    """Check that no function is called like a type or function for files. Raises: OptionError"""
    for function in program.functions:
        if Namer(OWN).fresh(function.name) != function.name:
            raise OptionError(
                "a function in C must have a name that the emitted files do not use",
                f"it is {function.name!r}",
                "choose another name",
            )
