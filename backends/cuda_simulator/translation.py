"""Translation of CUDA to C++ by tokens: launches and arrays of dynamic shared memory, on the same lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from catgrad.errors import TextError

TOKEN = re.compile(
    r"""(?P<space>\s+|\\\n|//(?:\\\n|[^\n])*|/\*.*?\*/)
      | (?P<text>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
        |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
      | (?P<sign><<<|>>>|.)""",
    re.DOTALL | re.VERBOSE,
)
"""A piece of C++; together they are the whole source."""


class Token(str):
    """The text of a token, with the kind that the expression above gives it."""

    kind: str

    def __new__(cls, text: str, kind: str) -> Token:
        """Create a token."""
        token = super().__new__(cls, text)
        token.kind = kind
        return token


def translate(source: str) -> str:
    """Translate launches and `extern __shared__` arrays of a CUDA source to C++ for the simulator.

        kernel<<<grid, block>>>(x, n);          SIMULATOR_LAUNCH(kernel, grid, block)(x, n);
        extern __shared__ float shared[];       float *const shared = (float *)::simulator::dynamic_shared;
        __shared__ alignas(16) float x[4];      __shared__ __align__(16) float x[4];

    All else stays as it is, and on the same line, so that diagnostics name the lines of the source.

    Raises: TextError if no name precedes a launch, or it does not end
    """
    tokens = [Token(match[0], str(match.lastgroup)) for match in TOKEN.finditer(source)]
    return "".join(_alignments(_dynamic_arrays(_launches(tokens))))


def _launches(tokens: list[Token]) -> list[Token]:
    """Replace `kernel<<<` by the beginning of a macro, and the `>>>` that closes it by a parenthesis."""
    found: list[Token] = []
    i = 0
    while i < len(tokens):
        if tokens[i] == "<<<" and tokens[i].kind == "sign":
            name = next((k for k in reversed(range(len(found))) if found[k].kind != "space"), -1)
            end = _closing(tokens, i)
            if name < 0 or found[name].kind != "name" or end is None:
                raise _bad_launch(tokens, i)
            spaces = found[name + 1 :]
            found[name:] = [Token(f"SIMULATOR_LAUNCH({found[name]}, ", "sign"), *spaces]
            found += [*tokens[i + 1 : end], Token(")", "sign")]
            i = end
        else:
            found.append(tokens[i])
        i += 1
    return found


def _closing(tokens: list[Token], begin: int) -> int | None:
    """Find the `>>>` of a launch, outside of parentheses."""
    depth = 0
    for i in range(begin + 1, len(tokens)):
        if tokens[i].kind != "sign":
            continue
        depth += (tokens[i] in "([{") - (tokens[i] in ")]}")
        if depth < 0 or tokens[i] == ";":
            return None
        if tokens[i] == ">>>" and depth == 0:
            return i
    return None


def _bad_launch(tokens: list[Token], i: int) -> TextError:
    line = "".join(tokens[:i]).count("\n") + 1
    return TextError(
        "a launch in CUDA must be kernel<<<grid, block>>>(...), with the name of a kernel",
        f"that in line {line} is not",
        "give the kernel a name of its own, without template arguments",
    )


def _alignments(tokens: Iterable[Token]) -> Iterator[Token]:
    """Replace `alignas` after `__shared__` by an attribute, since it must not follow `static`."""
    before = Token("", "sign")
    for token in tokens:
        yield Token("__align__", "name") if before == "__shared__" and token == "alignas" else token
        before = before if token.kind == "space" else token


def _dynamic_arrays(tokens: list[Token]) -> Iterator[Token]:
    """Replace declarations of dynamic shared memory by those of pointers to it."""
    i = 0
    while i < len(tokens):
        rest = range(i, len(tokens) if tokens[i] == "extern" else i)
        end = next((k for k in rest if tokens[k] in (";", "{")), i)  # not a block `extern "C" {`
        declaration = tokens[i:end]
        if "__shared__" in declaration:
            yield _pointer(declaration)
            i = end
        else:
            yield tokens[i]
            i += 1


def _pointer(declaration: list[Token]) -> Token:
    """Declare a pointer in place of an array `extern __shared__ [alignas(..)] type name[]`."""
    words = [token for token in declaration if token.kind != "space"]
    words = words[: words.index(Token("[", "sign"))] if "[" in words else words
    *type, name = _without_alignment(words)
    lines = "\n" * "".join(declaration).count("\n")
    kept = " ".join(word for word in type if word not in ("extern", "__shared__"))
    return Token(f"{kept} *const {name} = ({kept} *)::simulator::dynamic_shared{lines}", "sign")


def _without_alignment(words: list[Token]) -> Iterator[Token]:
    """Leave out `alignas(..)` and `__align__(..)`: the memory is aligned more than any type asks."""
    depth = 0
    aligning = False
    for word in words:
        aligning = aligning or word in ("alignas", "__align__")
        if not aligning:
            yield word
        depth += (word == "(") - (word == ")")
        aligning = aligning and (depth > 0 or word != ")")
