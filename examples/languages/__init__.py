"""Train Fisher's irises in other languages: programs of at most 30 lines, and commands that build them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from catgrad import Artifact, Task, emit

from ..iris import hidden, load

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Program:
    """A program: where its file must lie beside the emitted ones, and the commands that build and run it."""

    file: str
    commands: tuple[str, ...]

    @property
    def source(self) -> Path:
        """Path of its file here."""
        return PROGRAMS / Path(self.file).name


LANGUAGES = {
    "fortran": Program(
        "flowers.f90", ("make", "gfortran iris_fortran.f90 flowers.f90 libiris.a -o flowers", "./flowers")
    ),
    "rust": Program("examples/flowers.rs", ("cargo run --quiet --release --example flowers",)),
    "go": Program("go/flowers/flowers.go", ("make", "go build -C go -o ../flowers ./flowers", "./flowers")),
    "julia": Program("flowers.jl", ("make shared", "julia flowers.jl")),
    "swift": Program(
        "main.swift", ("make", "swiftc -I . -L . Iris.swift main.swift -o flowers", "./flowers")
    ),
    "csharp": Program(
        "Flowers.cs",
        ("make shared", "mcs Iris.cs Flowers.cs -out:flowers.exe", "LD_LIBRARY_PATH=. mono flowers.exe"),
    ),
    "java": Program(
        "Flowers.java",
        (
            "make shared",
            "javac Iris.java Flowers.java",
            "LD_LIBRARY_PATH=. java --enable-native-access=ALL-UNNAMED Flowers",
        ),
    ),
    "python": Program("flowers.py", ("make shared", "python3 flowers.py")),
}
"""The program and the commands of each language of bindings."""

IN_C = Program("flowers.c", ("make", "cc flowers.c libiris.a -lm -o flowers", "./flowers"))
"""The same in C, with whose numbers the others agree bit by bit."""


def iris() -> Task:
    """Two dense layers, with 20 hidden units."""
    return replace(hidden(), name="iris")


def artifact(language: str) -> Artifact:
    """Emit the model in C with bindings to a language. Raises: UnknownName if there are none"""
    return emit(iris(), "c", bindings=(language,))


def write(folder: Path, program: Program) -> None:
    """Write a program beside emitted files, and the flowers: in a line four features and three species."""
    path = folder / program.file
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(program.source, path)
    np.savetxt(folder / "flowers.txt", np.hstack(load()), fmt="%.9g")
