"""Cross compilation for machines without an operating system, and the flash and stack of what is compiled."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from catgrad.errors import ToolError
from catgrad.paths import reason
from catgrad.tools import Executable, Package, Tool, run

from .compiler import MAX_COMPILE_SECONDS

# Matrix products without vectors, and no unused functions.
SIZE_FLAGS = (
    "-std=c11", "-ffreestanding", "-fbuiltin", "-DGEMM_SCALAR", "-fno-math-errno", "-fno-trapping-math",
    "-ffunction-sections", "-fdata-sections", "-fno-asynchronous-unwind-tables",
    "-Wl,--gc-sections",
)  # fmt: skip

SIZE = Executable(name="size", names=("size", "arm-none-eabi-size"), install="apt install binutils")
ARM_GCC = Executable(
    name="GCC for ARM",
    names=("arm-none-eabi-gcc",),
    install="apt install gcc-arm-none-eabi libnewlib-arm-none-eabi",
)
ZIG = Package(name="ziglang", module="ziglang", install=f"pip install ziglang==0.14.1, or {ARM_GCC.install}")

ASSEMBLY, FRAMES = "assembly.s", "assembly.su"
"""The files that a compiler writes to measure the stack, the second beside the first or where it is told."""


@dataclass(frozen=True)
class Machine:
    """A machine to compile for: a command, libraries to link, and the flags that write the frames."""

    name: str
    command: tuple[str, ...]
    tool: Tool
    libraries: tuple[str, ...] = ()
    frames: tuple[str, ...] = ("-fstack-usage",)

    def framed(self, file: Path) -> list[str]:
        """Return the flags that write the frames of functions to a file."""
        return [flag.replace(FRAMES, str(file)) for flag in self.frames]

    def missing(self) -> str | None:
        """Return why nothing can be compiled and measured, and what to install; None if it can."""
        return self.tool.missing() or SIZE.missing()


@dataclass(frozen=True)
class Sizes:
    """Bytes of a linked program: code with constants, and variables."""

    code: int
    variables: int


def cortex_m4() -> Machine:
    """Return the microcontroller, compiled by GCC for ARM where it is installed, and else by ziglang."""
    return gcc() if ARM_GCC.is_installed() else zig()


def gcc() -> Machine:
    """Return the microcontroller, with newlib and the functions of libgcc that a program calls."""
    target = ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
    return Machine(
        "ARM Cortex-M4 (arm-none-eabi-gcc -Os)",
        (*ARM_GCC.command(), "-Os", *target, "--specs=nosys.specs", "-nostartfiles"),
        ARM_GCC,
        ("-lm",),
    )


def zig() -> Machine:
    """Return the microcontroller, with float arithmetic and all functions that a program calls."""
    target = ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp")
    return Machine(
        "ARM Cortex-M4 (ziglang's clang -Oz)",
        (sys.executable, "-m", "ziglang", "cc", "-Oz", *target, *_headers()),
        ZIG,
        frames=("-fstack-usage", "-Xclang", "-stack-usage-file", "-Xclang", FRAMES),
    )


def _headers() -> list[str]:
    """Find headers of libm and libc for ARM, which a machine without an operating system lacks."""
    found = find_spec("ziglang")
    if found is None or found.origin is None:
        return []
    folder = Path(found.origin).parent / "lib/libc/include"
    return ["-isystem", str(folder / "arm-linux-musl"), "-isystem", str(folder / "generic-musl")]


def linked(machine: Machine, sources: Iterable[str], entries: Sequence[str], folder: Path) -> Sizes:
    """Link what some functions reach, including libraries, and count its bytes. Raises: ToolError."""
    kept = [f"-Wl,-e,{entries[0]}", *(f"-Wl,-u,{name}" for name in entries[1:])]
    _compile(machine, *SIZE_FLAGS, *kept, *sources, *machine.libraries, "-o", "program", folder=folder)
    text, data, bss, *_ = map(int, said([*SIZE.command(), "program"], folder).splitlines()[1].split()[:3])
    return Sizes(text, data + bss)


def stacks(
    machine: Machine, sources: Iterable[str], entries: Iterable[str], folder: Path
) -> dict[str, int | None]:
    """Bound the stack of functions: the longest chain of calls by bytes, without those of libraries.

    It is None where a frame has no constant size. Raises: ToolError.
    """
    frames: dict[str, int | None] = {}
    calls: dict[str, set[str]] = {}
    for source in sources:
        with TemporaryDirectory() as fresh:  # of a name that zig's cache does not know
            assembly, report = Path(fresh) / ASSEMBLY, Path(fresh) / FRAMES
            flags = (*SIZE_FLAGS, *machine.framed(report))
            _compile(machine, *flags, "-S", source, "-o", str(assembly), folder=folder)
            own = frames_of(report.read_text("utf-8"))
            frames |= own
            calls |= calls_of(assembly.read_text("utf-8"), own)
    return {name: longest_chain(name, frames, calls) for name in entries}


def frames_of(report: str) -> dict[str, int | None]:
    """Read the bytes of each function's frame from what `-fstack-usage` writes; None if they vary."""
    found: dict[str, int | None] = {}
    for line in report.splitlines():
        place, bytes, kind = line.split("\t")
        found[_plain(place.rpartition(":")[2])] = None if kind == "dynamic" else int(bytes)
    return found


def calls_of(assembly: str, functions: Collection[str]) -> dict[str, set[str]]:
    """Find the names that the instructions of each function mention: all that it may call."""
    found: dict[str, set[str]] = {name: set() for name in functions}
    current = ""
    for line in assembly.splitlines():
        label = re.match(r"([A-Za-z_][\w.$]*):", line)
        if label and _plain(label[1]) in functions:
            current = _plain(label[1])
        elif current and line[:1].isspace() and not line.lstrip().startswith("."):
            operands = " ".join(line.split()[1:])
            found[current].update(map(_plain, re.findall(r"[A-Za-z_][\w.$]*", operands)))
    return found


def longest_chain(
    name: str, frames: Mapping[str, int | None], calls: Mapping[str, Collection[str]]
) -> int | None:
    """Add the frames of the chain of calls with most bytes; no function is recursive."""

    @cache
    def bytes(caller: str) -> int | None:
        own = frames[caller]
        called = [bytes(each) for each in calls.get(caller, ()) if each in frames and each != caller]
        most = None if None in called else max(filter(None, called), default=0)
        return None if own is None or most is None else own + most

    return bytes(name)


def _plain(name: str) -> str:
    """Return the name in the source of a copy that a compiler made, such as `f.constprop.0`."""
    return name.partition(".")[0]


def _compile(machine: Machine, *arguments: str, folder: Path) -> None:
    said([*machine.command, *arguments], folder)


def said(command: Sequence[object], folder: Path) -> str:
    """Run a compiler or a tool in a folder, and return its output. Raises: ToolError."""
    try:
        done = run([*map(str, command)], MAX_COMPILE_SECONDS, cwd=folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        why = reason(error) if isinstance(error, OSError) else f"it runs {MAX_COMPILE_SECONDS:g} seconds"
        raise ToolError(f"{command[0]} must run", why, "install another version") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip()[-2000:] or f"status {done.returncode}"
        raise ToolError(f"{Path(str(command[0])).name} must succeed", f"it says: {last}", "run it by hand")
    return done.stdout
