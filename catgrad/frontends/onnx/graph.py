"""Interpret a graph of ONNX on variables of a term."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from catgrad.errors import CatgradError, OptionError, UnsupportedOp
from catgrad.frontends.onnx import sizes
from catgrad.frontends.onnx.operators.operands import dtype_of_array, require_constant
from catgrad.frontends.onnx.registry import DO, RULES, Rule, require
from catgrad.frontends.onnx.types import Attribute, Graph, Node, Value
from catgrad.frontends.translation import REFUSED, raise_refusals
from catgrad.programs.program import evaluate
from catgrad.terms.build import build
from catgrad.terms.op import BUILDER, scope
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

UNKNOWN = "an operator must be supported by the front end"


class Walk:
    """An interpreter of graphs, whose values are variables, and constants as NumPy arrays.

    Operators on constants are evaluated. `constant` turns one that another operator reads into a variable,
    given its name; `versions` are those of the operator sets, by domain.
    """

    def __init__(self, versions: Mapping[str, int], constant: Callable[[str, Array], Var]) -> None:
        self.versions, self.constant = versions, constant
        self.builder = BUILDER.get()
        self.variables: dict[int, tuple[Array, Var]] = {}
        self.refusals: list[CatgradError] = []

    def run(self, graph: Graph, values: MutableMapping[str, Any]) -> list[Any]:
        """Interpret a graph on these values by name, and return its outputs."""
        for node in graph.node:
            with scope(dotted(node.name)):
                results = self._translated(node, values)
            named = [name for name in node.output if name]
            if results is REFUSED:
                values.update(dict.fromkeys(named, REFUSED))
            else:
                values.update(zip(node.output, results, strict=False))
        return [values[output.name] for output in graph.output]

    def variable(self, name: str, value: Value) -> Var:
        """Return a value as a variable: of a constant, one outside all loops."""
        if not isinstance(value, np.ndarray):
            return value
        if id(value) not in self.variables:
            token = BUILDER.set(self.builder)
            try:
                made = sizes.as_variable(value) if sizes.is_symbolic(value) else self.constant(name, value)
            finally:
                BUILDER.reset(token)
            self.variables[id(value)] = value, made  # the array too, so that no other gets its id
        return self.variables[id(value)][1]

    def raise_refusals(self) -> None:
        """Raise the only refusal, or one that lists all."""
        must = "the front end must support all operators of a model"
        raise_refusals(self.refusals, UNKNOWN, must, "the graph", DO)

    def _translated(self, node: Node, values: MutableMapping[str, Any]) -> Any:
        """Apply one operator, or note why it cannot be translated."""
        inputs = [values[name] if name else None for name in node.input]
        if any(value is REFUSED for value in inputs):
            return REFUSED
        try:
            results = self._call(node, inputs, values)
            results = results if isinstance(results, tuple) else (results,)
            for name in node.output[len(results) :]:
                require(not name, "only results that the front end computes may be read", f"{name} is not")
            return results
        except CatgradError as error:
            self.refusals.append(error.about(node.op_type, node.name))
            return REFUSED

    def _call(self, node: Node, inputs: list[Any], values: MutableMapping[str, Any]) -> Any:
        rule = self._rule(node)
        attributes = {a.name: self._attribute(a, values) for a in node.attribute}
        blocks = any(isinstance(value, Block) for value in attributes.values())
        symbolic = any(map(sizes.is_symbolic, inputs))
        is_constant = all(value is None or isinstance(value, np.ndarray) for value in inputs)
        if is_constant and symbolic:
            found = sizes.computed(node.op_type, inputs, attributes)
            if found is not None:
                return found
        while inputs and inputs[-1] is None:
            inputs.pop()
        if "results" in rule.signature.parameters:
            attributes["results"] = max([k + 1 for k, name in enumerate(node.output) if name], default=1)
        if is_constant and not symbolic and not blocks:
            return _computed(rule, inputs, attributes)
        names = node.input
        given = [
            self._given(rule, k, value, names[k]) if value is not None else None
            for k, value in enumerate(inputs)
        ]
        return _applied(rule, given, attributes)

    def _given(self, rule: Rule, position: int, value: Value, name: str) -> Value:
        """Return an input as the rule takes it. Raises: UnsupportedOp for a variable that must be constant"""
        parameter = rule.parameter(position)
        if parameter in rule.static:
            require(
                isinstance(value, np.ndarray),
                f"the input {parameter} must be a constant",
                f"{name!r} is computed, or an input of the model",
                "give its value by `constants`",
            )
            return value
        is_known = parameter in rule.known and not sizes.is_symbolic(value)
        return value if is_known else self.variable(name, value)

    def _rule(self, node: Node) -> Rule:
        """Return the rule of an operator. Raises: UnsupportedOp if there is none for its version"""
        import onnx

        domain = "" if node.domain == "ai.onnx" else node.domain
        rule = RULES.get((domain, node.op_type))
        require(rule is not None, UNKNOWN, "this one is not")
        assert rule is not None  # for type checkers
        version = onnx.defs.get_schema(node.op_type, self.versions[domain], domain).since_version
        require(
            version in rule.versions,
            f"an operator must have one of the versions {', '.join(map(str, rule.versions))}",
            f"it has version {version}",
            "convert the model by onnx.version_converter",
        )
        return rule

    def _attribute(self, attribute: Attribute, values: MutableMapping[str, Any]) -> Any:
        import onnx

        if attribute.type == onnx.AttributeProto.GRAPH:
            return Block(self, attribute.g, values)
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        if isinstance(value, onnx.TensorProto):
            return onnx.numpy_helper.to_array(value)
        if isinstance(value, Sequence) or hasattr(value, "__len__"):
            return [v.decode(errors="replace") if isinstance(v, bytes) else v for v in value]
        return value


class Block:
    """A graph as an attribute, which also reads the values around it."""

    def __init__(self, walk: Walk, graph: Graph, values: MutableMapping[str, Any]) -> None:
        self.walk, self.graph, self.around = walk, graph, values

    def __call__(self, *inputs: Value) -> list[Value]:
        """Interpret the graph on these inputs. Raises: UnsupportedOp if it has unsupported operators"""
        inside: dict[str, Any] = constants(self.graph)
        inside.update(zip((each.name for each in self.graph.input), inputs, strict=True))
        results = self.walk.run(self.graph, ChainMap(inside, self.around))
        require(
            not any(value is REFUSED for value in results),
            "all operators of a block must be supported",
            "some are not",
        )
        return results

    def as_variables(self, values: Sequence[Value]) -> list[Var]:
        """Return values as variables."""
        return [self.walk.variable("constant", value) for value in values]

    def variables(self, *inputs: Value) -> list[Var]:
        """Interpret the graph, and return its outputs as variables."""
        return self.as_variables(self(*inputs))


def constants(graph: Graph) -> dict[str, Array]:
    """Return the initialisers of a graph by name."""
    import onnx

    require(not graph.sparse_initializer, "arrays must be dense", "an initialiser is sparse", "make it dense")
    return {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}


def _applied(rule: Rule, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> Any:
    """Apply a rule. Raises: UnsupportedOp if it does not take these arguments"""
    try:
        rule.signature.bind(*inputs, **attributes)
    except TypeError as error:
        raise UnsupportedOp("the attributes must be supported", f"binding them fails: {error}", DO) from None
    try:
        return rule.meaning(*inputs, **attributes)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        TypeError,
        ValueError,
    ) as error:
        if isinstance(error, CatgradError):
            raise
        raise OptionError(
            "inputs and attributes must fit together", f"they do not: {error!r}", "check the model"
        ) from error


def _computed(rule: Rule, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[Array, ...]:
    """Apply a rule to constants, by the reference of its operations."""
    own = [
        k
        for k, value in enumerate(inputs)
        if value is not None and rule.parameter(k) not in rule.static | rule.known
    ]
    results: list[Any] = []

    def function(*arguments: Var) -> list[Var]:
        given: list[Value] = list(inputs)
        for k, argument in zip(own, arguments, strict=True):
            given[k] = argument
        found = _applied(rule, given, attributes)
        results.extend(found if isinstance(found, tuple) else (found,))
        return [result for result in results if isinstance(result, Var)]

    types = [NdArrayType(inputs[k].shape, dtype_of_array(inputs[k])) for k in own]
    term = build(function, types)
    for each in term.H.w.table:
        require_constant(each.shape)
    evaluated = iter(evaluate(term, *(inputs[k] for k in own)))
    return tuple(next(evaluated) if isinstance(result, Var) else result for result in results)


def dotted(name: str) -> str:
    """Return a name of ONNX as letters, digits and underscores, with dots between parts."""
    parts = re.sub(r"[^A-Za-z0-9_.]+", "_", name.replace("/", ".").replace("::", ".")).split(".")
    return ".".join(part for part in parts if part)[:150].rstrip(".")
