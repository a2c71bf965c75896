"""Build programs for aarch64, and count the instructions that QEMU executes of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import jinja2
from catgrad.backends.c.compiler import REQUIRED
from catgrad.backends.c.cross import said
from catgrad.backends.c.machine import PACKING

from benchmarks.harness import ROOT
from benchmarks.neon.libraries import Library
from catgrad.errors import VerificationError
from catgrad.tools import Executable

FOLDER = ROOT / "benchmarks" / "neon"
GCC = Executable(
    name="GCC for aarch64", names=("aarch64-linux-gnu-gcc",), install="apt install gcc-aarch64-linux-gnu"
)
QEMU = Executable(name="QEMU", names=("qemu-aarch64", "qemu-aarch64-static"), install="apt install qemu-user")
FLAGS = ("-std=c11", "-O3", *REQUIRED, "-static")
DOTS = ("-march=armv8.2-a+dotprod",)
"""Flags of a processor with instructions that add up products of bytes."""
LOG = ("-d", "in_asm,exec,nochain", "-D")
"""Log the instructions of each block when it is translated, and each execution of a block."""


def catgrad(folder: Path, *flags: str, packs: bool = False) -> Path:
    """Build the program of the runtime of emitted C. Raises: ToolError."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([ROOT / "templates" / "c", FOLDER]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    used = {"gemm_f32", "gemm_nested_f32", "gemm_i8", "gemm_nested_i8"} | (
        {"gemm_packed_f32"} if packs else set()
    )
    text = environment.get_template("catgrad.c.j2").render(used=used, packing=PACKING, packs=packs)
    folder.mkdir()
    (folder / "catgrad.c").write_text(text)
    return linked(folder, [folder / "catgrad.c"], flags)


def peer(library: Library, sources: Path, folder: Path) -> Path:
    """Build the program of a library in a folder of sources. Raises: ToolError."""
    place = library.require(sources)
    folder.mkdir()
    headers = [f"-I{place / each}" for each in library.headers]
    return linked(
        folder, [FOLDER / library.source, *(place / each for each in library.files)], [*headers, *DOTS]
    )


def linked(folder: Path, sources: Iterable[Path], flags: Sequence[str]) -> Path:
    """Compile and link a program with the main file of this folder. Raises: ToolError."""
    program = folder / "program"
    said(
        [*GCC.command(), *FLAGS, f"-I{FOLDER}", *flags, FOLDER / "main.c", *sources, "-o", program, "-lm"],
        folder,
    )
    return program


def executed(log: Iterable[str]) -> int:
    """Count the instructions in a log: executions of each block, times its instructions."""
    lengths: Counter[int] = Counter()
    executions: Counter[int] = Counter()
    first: int | None = None
    for line in log:
        if line.startswith("Trace"):
            executions[int(line.split("/")[1], 16)] += 1
        elif line.startswith("IN:"):
            first = None
        elif found := re.match(r"0x([0-9a-f]+):", line):
            address = int(found[1], 16)
            if first is None:
                first, lengths[address] = address, 0
            lengths[first] += 1
    return sum(count * lengths[block] for block, count in executions.items())


def counted(program: Path, arguments: Sequence[str], packs: int, times: int) -> int:
    """Run a program, and count all its instructions. Raises: ToolError."""
    log = program.with_suffix(".log")
    command = [*QEMU.command(), "-cpu", "max", *LOG, log, program, *arguments, str(packs), str(times), "no"]
    said(command, program.parent)
    with log.open(errors="replace") as lines:
        return executed(lines)


def instructions(program: Path, arguments: Sequence[str], most: float) -> dict[str, int]:
    """Count those of a product, and of packing before it. Raises: VerificationError if it is wrong."""
    error = float(
        said([*QEMU.command(), "-cpu", "max", program, *arguments, "1", "1", "yes"], program.parent)
    )
    if not error <= most:
        raise VerificationError(
            "all programs must compute the same product",
            f"an element is {error:.2g} of the greatest apart",
            "check how it is packed",
        )
    once = counted(program, arguments, 1, 1)
    product, packing = counted(program, arguments, 1, 2) - once, counted(program, arguments, 2, 1) - once
    return {"product": product, "packing": packing}
