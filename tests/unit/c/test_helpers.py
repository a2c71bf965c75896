"""The runtime of emitted C: a program has every function that it calls."""

from __future__ import annotations

import re

from catgrad.functors import Expand
from catgrad.programs.program import Program, lower
from catgrad.targets import get_backend
from catgrad.testing import operation_cases

NO_CODE = re.compile(r"/\*.*?\*/|^\s*#.*?$", re.DOTALL | re.MULTILINE)
"""Comments, and lines for the preprocessor."""
CALLED = re.compile(r"\b([a-z]\w*)\(")
DEFINED = re.compile(r"^[a-z][\w ]*[ *](\w+)\(", re.MULTILINE)
MATHEMATICS = {"ceil", "copysign", "cos", "fabs", "floor", "fmod", "pow", "rint", "sin", "sqrt"}
STANDARD = {"for", "if", "return", "sizeof", "switch", "while", "memcpy", "memmove", "memset"}
STANDARD |= MATHEMATICS | {f"{name}f" for name in MATHEMATICS} | {"fmaf", "isfinite", "isnan"}
"""Keywords of C, and functions of its library, that precede a parenthesis."""


def test_an_operation_that_is_emitted_alone_has_the_functions_that_it_calls():
    """Conformance tests compile many operations together, where one may use the helpers of another."""
    backend = get_backend("c").configured(single_file=True)
    expand, missing = Expand(backend.has), {}
    firsts = {case.operation: case for case in reversed([*operation_cases()]) if case.reversed}
    for case in firsts.values():  # the reverse computes the value too
        function = lower(expand(case.term), "f", doc="A reverse.")
        source = NO_CODE.sub("", backend.emit(Program("case", (function,))).source)
        defined = set(DEFINED.findall(source))
        if unknown := set(CALLED.findall(source)) - defined - STANDARD:
            missing[case.name] = unknown
    assert missing == {}
