"""Build and run emitted C in tests."""

from __future__ import annotations

import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from catgrad import emit, tools
from catgrad.targets import get_backend
from tests.compiled import COMPILER, LIMIT, compiled_once

ZIG = [sys.executable, "-m", "ziglang", "cc"]
CLANG = ["clang"] if shutil.which("clang") else ZIG if find_spec("ziglang") else []
COMPILERS = {"gcc": ["gcc"] if shutil.which("gcc") else [], "clang": CLANG}
PROGRAMS = Path(__file__).parent
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]
STRICT += ["-fopenmp-simd"]
SANE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
MISSING = get_backend("c").missing()
NEEDS_C = pytest.mark.skipif(bool(MISSING), reason=f"target c: {MISSING}")


def write_page(page, folder, functions=None):
    """Write the files of a how-to's task, perhaps with other functions, and its program as main.cpp."""
    text = page.read_text(encoding="utf-8")
    task, program = (re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)[1] for kind in ("python", "cpp"))
    namespace = {}
    exec(task.partition("for path")[0], namespace)
    artifact = namespace["artifact"]
    (emit(namespace["task"], artifact.backend, functions) if functions else artifact).write(folder)
    (folder / "main.cpp").write_text(program)


def run(*command, **options):
    return tools.run([str(c) for c in command], LIMIT, **options)


def built(*command, **options):
    """Run a command that must succeed; what compilers write in a folder is cached."""
    is_cached = COMPILER.fullmatch(str(command[0])) and options.keys() == {"cwd"}
    done = (compiled_once if is_cached else run)(*command, **options)
    assert done.returncode == 0, done.stderr + done.stdout


def uses_package(folder, name, language, body):
    """Write a project that finds the installed package of a model, and a program `uses` that calls it."""
    folder.mkdir()
    file = f"uses.{language.lower()}"
    (folder / file).write_text(f'#include "{name}.h"\nint main(void) {{ {body} }}\n')
    (folder / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.18)\nproject(user {language})\nfind_package({name} REQUIRED)\n"
        f"add_executable(uses {file})\ntarget_link_libraries(uses PRIVATE {name}::{name})\n"
    )
