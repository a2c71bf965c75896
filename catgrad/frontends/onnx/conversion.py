"""Conversion of models to operators that have rules, by the package onnx."""

from __future__ import annotations

from collections.abc import Iterator

from catgrad.errors import UnsupportedOp
from catgrad.frontends.onnx.registry import RULES
from catgrad.frontends.onnx.types import Graph, Model, Node

OLDEST_OPSET = 13
"""The oldest operator set whose meaning the rules have; models of older ones are converted."""


def versions(model: Model) -> dict[str, int]:
    """Return the versions of operator sets by domain."""
    return {"" if each.domain == "ai.onnx" else each.domain: each.version for each in model.opset_import}


def prepared(model: Model) -> Model:
    """Convert a model to operators that have rules, as far as ONNX can."""
    import onnx
    from onnx import version_converter

    opset = versions(model).get("", onnx.defs.onnx_opset_version())
    if opset > onnx.defs.onnx_opset_version():
        raise UnsupportedOp(
            f"the operator set must be at most {onnx.defs.onnx_opset_version()}",
            f"it is {opset}",
            "install a newer onnx, or convert the model by onnx.version_converter",
        )
    try:
        if opset < OLDEST_OPSET:
            model = version_converter.convert_version(model, OLDEST_OPSET)
        return _inlined(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        raise UnsupportedOp(
            f"a model must be convertible to operators of set {max(opset, OLDEST_OPSET)} that have rules",
            f"onnx fails: {str(error).strip().splitlines()[0]}",
            "export it again, with a newer operator set",
        ) from None


def _inlined(model: Model) -> Model:
    """Inline functions, and operators without a rule that ONNX defines by functions."""
    import onnx
    from onnx import inliner

    sets = versions(model)

    def has_rule(domain: str, operator: str) -> bool:
        if domain not in sets or not onnx.defs.has(operator, sets[domain], domain):
            return False
        schema = onnx.defs.get_schema(operator, sets[domain], domain)
        return schema.since_version in RULES[domain, operator].versions

    known = [pair for pair in RULES if has_rule(*pair)]
    used = {(node.domain, node.op_type) for graph in graphs(model.graph) for node in graph.node}
    if not model.functions and used <= set(known):
        return model
    _spell_defaults(model, set(known))
    _declare_initialisers(model.graph)
    return inliner.inline_selected_functions(model, known, exclude=True, inline_schema_functions=True)


def _declare_initialisers(graph: Graph) -> None:
    """Declare the types of initialisers, from which the inliner makes the bodies of some operators."""
    from onnx import helper

    declared = {value.name for value in (*graph.input, *graph.value_info)}
    for each in graph.initializer:
        if each.name not in declared:
            graph.value_info.append(helper.make_tensor_value_info(each.name, each.data_type, list(each.dims)))


def _spell_defaults(model: Model, known: set[tuple[str, str]]) -> None:
    """Write out the default attributes of operators that are functions, as the inliner omits them."""
    import onnx

    sets = versions(model)
    for nodes in (*(graph.node for graph in graphs(model.graph)), *(f.node for f in model.functions)):
        for node in nodes:
            if (node.domain, node.op_type) in known or not onnx.defs.has(node.op_type, node.domain):
                continue
            schema = onnx.defs.get_schema(node.op_type, sets.get(node.domain, 1), node.domain)
            given = {attribute.name for attribute in node.attribute}
            for name, attribute in schema.attributes.items():
                if name not in given and attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
                    node.attribute.append(attribute.default_value)


def graphs(graph: Graph) -> Iterator[Graph]:
    """Yield a graph, and those inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)


def inputs_that_fix(graph: Graph) -> set[str]:
    """Return the names of values that rules take as constants."""
    return {name for inside in graphs(graph) for node in inside.node for name in _static(node)}


def _static(node: Node) -> list[str]:
    rule = RULES.get(("" if node.domain == "ai.onnx" else node.domain, node.op_type))
    return [name for k, name in enumerate(node.input) if rule and rule.parameter(k) in rule.static]
