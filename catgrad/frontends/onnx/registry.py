"""The registry: functions on variables by the ONNX operators, and their versions, that they implement."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from catgrad.errors import UnsupportedOp
from catgrad.frontends.onnx.types import Node

Meaning = Callable[..., Any]
F = TypeVar("F", bound=Meaning)

TRAINING = "ai.onnx.preview.training"
"""The domain of optimisers."""

DO = "write this part with other operators before the export"


@dataclass(frozen=True)
class Rule:
    """The translation of an operator.

    The parameters of `meaning` are the inputs, by position, then the attributes, by name. Inputs in `static`
    must be constants, which it receives as arrays; inputs in `known` are arrays where they are constants. A
    parameter `results` receives the number of outputs that the node names.
    """

    meaning: Meaning
    versions: tuple[int, ...]
    static: frozenset[str]
    known: frozenset[str]

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature of the function."""
        return inspect.signature(self.meaning)

    def parameter(self, position: int) -> str:
        """Return the name of the parameter for an input; further inputs belong to the last one."""
        every = self.signature.parameters.values()
        names = [p.name for p in every if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
        return names[min(position, len(names) - 1)] if names else ""


RULES: dict[tuple[str, str], Rule] = {}
"""Rules by domain and operator."""


STATISTICS = {
    ("", "BatchNormalization"): (3, 4),
    ("", "QuantizeLinear"): (1, 2),
    ("", "DequantizeLinear"): (1, 2),
    ("", "QLinearMatMul"): (1, 2, 4, 5, 6, 7),
    ("", "QLinearConv"): (1, 2, 4, 5, 6, 7),
}
"""Inputs that are statistics, as scales of levels are, which no gradient trains."""


def onnx(
    *names: str, since: int | tuple[int, ...], static: str = "", known: str = "", domain: str = ""
) -> Callable[[F], F]:
    """Register a function for these operators, at the versions of the operator set that changed them.

    `static` and `known` are names of inputs, separated by spaces.
    """
    versions = since if isinstance(since, tuple) else (since,)

    def register(meaning: F) -> F:
        rule = Rule(meaning, versions, frozenset(static.split()), frozenset(known.split()))
        RULES.update({(domain, name): rule for name in names})
        return meaning

    return register


def fixed_places(node: Node) -> list[int]:
    """Return the places of inputs that are never trained: statistics, and what must be constant."""
    operator = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
    rule, places = RULES.get(operator), STATISTICS.get(operator, ())
    return [
        k
        for k, name in enumerate(node.input)
        if name and (k in places or (rule and rule.parameter(k) in rule.static))
    ]


def require(holds: object, must: str, found: str, do: str = DO) -> None:
    """Raise UnsupportedOp unless an argument has a supported value."""
    if not holds:
        raise UnsupportedOp(must, found, do)
