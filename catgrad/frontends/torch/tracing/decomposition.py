"""Decomposition of an exported program to operations that the front end translates."""

from __future__ import annotations

import operator
from types import ModuleType
from typing import Any

from catgrad.frontends.torch.aten.pairs import reads_complex
from catgrad.frontends.torch.registry import function_for, translation
from catgrad.frontends.torch.tracing.hidden_updates import check_updates, differentiable_nodes, is_detach
from catgrad.frontends.torch.tracing.levels import fuse_levels
from catgrad.frontends.torch.types import Node, OpOverload, Program

GRAD_MODE = "wrap_with_set_grad_enabled"
"""The operation that has a block under torch.no_grad() or torch.enable_grad()."""

DROPOUTS = {
    f"aten.{kind}{place}.default"
    for kind in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
    for place in ("", "_")
}
"""Operations of an array, a rate, and whether the mode is that of training."""

NEW_RESULTS = {
    f"aten.{name}.default" for name in ("batch_norm", "conv1d", "conv2d", "conv3d", "linear", "matmul")
}
"""Composite operations whose results never share storage with their arguments."""


RETURN_ARGUMENTS = {
    f"aten.{name}"
    for name in (
        "alpha_dropout.default", "atleast_1d.default", "atleast_2d.default", "atleast_3d.default",
        "contiguous.default", "dropout.default", "feature_alpha_dropout.default", "feature_dropout.default",
        "flatten.using_ints", "positive.default", "resolve_conj.default", "resolve_neg.default",
        "to.device", "to.dtype", "to.dtype_layout", "to.other", "type_as.default",
    )
}  # fmt: skip
"""Composite operations that return their very argument, with its gradient, where they change nothing."""


def decomposed(program: Program) -> Program:
    """Decompose the operations that the front end does not translate, as far as PyTorch can.

    A program without such operations stays as it is: PyTorch decomposes by tracing the program again, which
    takes longer than the export.
    """
    import torch

    _pass_arguments(program)
    check_updates(program, _is_new)
    _detach_without_gradient(program, torch.ops.aten.detach.default)
    _inline_grad_modes(program)
    _remove_identities(program)
    _remove_needless_detach(program)
    _replace_updates(program)
    fuse_levels(program)
    program.graph.eliminate_dead_code()
    is_translated = all(map(_is_translated, program.graph.nodes))
    return program if is_translated else program.run_decompositions(_table(torch))


def _table(torch: ModuleType) -> Any:
    """Return PyTorch's decompositions, except those of registered operations."""
    table = torch.export.default_decompositions()
    for operation in list(table):
        known = translation(operation)
        if known.of_pairs or (known.real and not known.whole):
            table.pop(operation)
    return table


def _is_translated(node: Node) -> bool:
    """Return whether the front end has a translation of an operation."""
    import torch

    if node.op != "call_function":
        return node.op in ("placeholder", "get_attr", "output")
    if node.target is operator.getitem or isinstance(
        node.meta.get("val"), (torch.SymInt, torch.SymBool, int)
    ):
        return True
    whole = translation(node.target).whole
    return function_for(node.target, reads_complex(node)) is not None and (
        whole is None or whole(*node.args, **node.kwargs)
    )


def _pass_arguments(program: Program) -> None:
    """Replace results of a block that are an argument of it: under torch.no_grad() they keep the gradient.

    A trace knows an array by its last name, so later reads of a parameter may read such a result.
    """
    for node in program.graph.nodes:
        if str(node.target) != GRAD_MODE:
            continue
        inner = operator.attrgetter(node.args[1].target)(program.graph_module).graph
        arguments = dict(
            zip((each for each in inner.nodes if each.op == "placeholder"), node.args[2:], strict=True)
        )
        results = inner.output_node().args[0]
        for part in list(node.users):
            result = results[part.args[1]]
            while _returns_argument(result):
                result = result.args[0]
            if result in arguments:
                _replace(program, part, arguments[result])


def _returns_argument(node: Node) -> bool:
    """Return whether the result of an operation is its argument itself."""
    if str(getattr(node, "target", "")) not in RETURN_ARGUMENTS:
        return False
    y, x = node.meta["val"], node.args[0].meta["val"]
    is_drawn = str(node.target) in DROPOUTS and node.args[1] and node.args[2]
    return not is_drawn and (y.shape, y.dtype, y.stride()) == (x.shape, x.dtype, x.stride())


def _detach_without_gradient(program: Program, detach: OpOverload) -> None:
    """Detach results of torch.no_grad(), as decomposition removes that context."""
    graph = program.graph_module.graph
    for node in graph.nodes:
        if str(node.target) != GRAD_MODE or node.args[0]:
            continue
        for part in list(node.users):
            with graph.inserting_after(part):
                detached = graph.call_function(detach, (part,))
            detached.meta = dict(part.meta)
            part.replace_all_uses_with(detached, lambda user, new=detached: user is not new)
            program.graph_signature.replace_all_uses(part.name, detached.name)


def _inline_grad_modes(program: Program) -> None:
    """Inline blocks under torch.no_grad() or torch.enable_grad() that have no blocks inside."""
    graph = program.graph
    for node in [node for node in graph.nodes if str(node.target) == GRAD_MODE]:
        _, block, *arguments = node.args
        inner = operator.attrgetter(block.target)(program.graph_module).graph
        if any(each.op == "get_attr" for each in inner.nodes):
            continue
        inputs = [each for each in inner.nodes if each.op == "placeholder"]
        with graph.inserting_before(node):
            results = graph.graph_copy(inner, dict(zip(inputs, arguments, strict=True)))
        for part in list(node.users):
            _replace(program, part, results[part.args[1]])
        graph.erase_node(node)


def _remove_identities(program: Program) -> None:
    """Remove dropout in evaluation, whose result is its argument, and not a copy that later updates spare."""
    for node in list(program.graph.nodes):
        if str(node.target) in DROPOUTS and not (node.args[1] and node.args[2]):
            _replace(program, node, node.args[0])


def _remove_needless_detach(program: Program) -> None:
    """Remove detach() where there is no gradient: PyTorch's decomposition makes a copy of it.

    Then an update of the result would not reach its argument, such as a buffer that holds an average.
    """
    differentiable = differentiable_nodes(program, with_inputs=True)
    for node in list(program.graph.nodes):
        if is_detach(node) and node.args[0] not in differentiable:
            _replace(program, node, node.args[0])


def _replace_updates(program: Program) -> None:
    """Replace updates in place by functions, where no other array shares the storage."""
    for node in list(program.graph.nodes):
        function = _function_of(node.target)
        if function is None or not _owns_storage(node.args[0], node):
            continue
        with program.graph.inserting_before(node):
            new = program.graph.call_function(function, node.args, node.kwargs)
        new.meta = dict(node.meta)
        old = node.args[0]
        _replace(program, node, new)
        old.replace_all_uses_with(new, lambda user, new=new: new < user)
        if new in old.graph.output_node().args[0]:
            program.graph_signature.replace_all_uses(old.name, new.name)


def _function_of(target: object) -> OpOverload | None:
    """Return the function that computes what an operation such as `relu_` writes to its first argument."""
    import torch

    if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable:
        return None
    name = target._schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None) if name.endswith("_") else None
    return getattr(packet, target._overloadname, None)


def _owns_storage(array: Node, update: Node) -> bool:
    """Return whether an array is new, and none that shares its storage exists before an update."""
    return _is_new(array) and all(_is_new(user) for user in array.users if user < update)


def _is_new(node: Node) -> bool:
    """Return whether the result of an operation shares no storage with its arguments."""
    import torch

    if node.target is operator.getitem:
        return _is_new(node.args[0])
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    shares = any(result.alias_info for result in node.target._schema.returns)
    return str(node.target) in NEW_RESULTS or not (shares or node.target._can_decompose())


def _replace(program: Program, old: Node, new: Node) -> None:
    """Replace a node, which may be an output."""
    old.replace_all_uses_with(new)
    program.graph_signature.replace_all_uses(old.name, new.name)
    program.graph.erase_node(old)
