"""Refuse updates in place of arrays with a gradient that autograd does not see."""

from __future__ import annotations

import operator
from collections.abc import Callable

from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch.graph import place
from catgrad.frontends.torch.tracing.own_gradients import DO, MUST
from catgrad.frontends.torch.types import Node, Program

DETACH = ("aten.detach.default", "aten.detach_.default")


def check_updates(program: Program, is_new: Callable[[Node], bool]) -> None:
    """Refuse updates under torch.no_grad(), or by detach(), of arrays with a gradient, which stays the old.

    `is_new` returns whether the result of an operation shares no storage with its arguments.

    Raises: UnsupportedOp
    """
    differentiable = differentiable_nodes(program)
    names = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs if spec.target}
    for node in program.graph.nodes:
        if _is_update(node):
            aliases = _aliases(node.args[0], is_new)
            hidden = [x for each in aliases if is_detach(each) for x in each.all_input_nodes]
            if not differentiable.isdisjoint(hidden):
                name = names.get(hidden[-1].name, hidden[-1])
                found = f"{name} is changed after detach() or .data"
                raise UnsupportedOp(MUST, found, DO, where=place(node))
        if str(node.target) == "wrap_with_set_grad_enabled" and not node.args[0]:
            block = operator.attrgetter(node.args[1].target)(program.graph_module)
            updates = [each for each in block.graph.nodes if _is_update(each)]
            changed = {each for update in updates for each in _aliases(update.args[0], is_new)}
            inputs = [each for each in block.graph.nodes if each.op == "placeholder"]
            for argument, each in zip(node.args[2:], inputs, strict=True):
                if argument in differentiable and each in changed:
                    found = f"{names.get(argument.name, argument)} is changed under torch.no_grad()"
                    raise UnsupportedOp(MUST, found, DO, where=place(updates[0]))


def differentiable_nodes(program: Program, with_inputs: bool = False) -> set[Node]:
    """Return the nodes whose values depend on tensors that require a gradient, by operations that pass it.

    The reverse derivative of a term has cotangents `with_inputs` too.
    """
    found, inputs = set(), set(program.graph_signature.user_inputs if with_inputs else ())
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and (getattr(value, "requires_grad", False) or node.name in inputs):
            found.add(node)
        is_cut = is_detach(node) or (str(node.target) == "wrap_with_set_grad_enabled" and not node.args[0])
        if node.op == "call_function" and not is_cut and not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def is_detach(node: Node) -> bool:
    """Return whether an operation cuts the gradient of its argument."""
    return str(node.target) in DETACH


def _is_update(node: Node) -> bool:
    """Return whether an operation writes to its first argument."""
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and schema.is_mutable


def _aliases(array: Node, is_new: Callable[[Node], bool]) -> list[Node]:
    """Return an array, and those before it that share its storage."""
    found = [array]
    while array.op == "call_function" and not is_new(array) and array.all_input_nodes:
        array = array.all_input_nodes[0]
        found.append(array)
    return found
