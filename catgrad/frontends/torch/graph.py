"""Interpret a graph of PyTorch's operations on variables of a term."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from catgrad.dims import Size
from catgrad.errors import CatgradError, FixedSize, ShapeError, UnsupportedOp
from catgrad.frontends.torch.aten.operands import type_of_parts
from catgrad.frontends.torch.aten.pairs import Pair, is_complex, reads_complex
from catgrad.frontends.torch.aten.short_integers import check_operands, operand, wrapped
from catgrad.frontends.torch.registry import DO, function_for, require, translation
from catgrad.frontends.torch.types import GraphModule, Node, Tensor
from catgrad.frontends.translation import REFUSED, raise_refusals
from catgrad.terms.op import scope
from catgrad.terms.structural import Label
from catgrad.terms.var import Var
from catgrad.types import NdArrayType

PLACEMENT = {"device", "layout", "pin_memory", "memory_format", "non_blocking"}
"""Arguments for layout and device, which a term does not have."""

UNKNOWN = "an operation must be supported by the front end"

READS = ("aten.item.default", "aten._local_scalar_dense.default")
"""Operations that return an element as a number of Python."""

TOKEN = object()
"""The value by which operations with effects are in order."""


class Walk:
    """An interpreter of a graph, whose values are variables, sizes, numbers and constant tensors.

    Operations on constant tensors are evaluated; `constant` turns a tensor that another operation reads
    into a variable, given the name of its node. `size` converts symbolic sizes.
    """

    def __init__(self, constant: Callable[[str, Tensor], Var], size: Callable[[Any], Size]) -> None:
        self.constant, self.size = constant, size
        self.variables: dict[Node, Var | Pair] = {}
        self.refusals: list[CatgradError] = []

    def run(self, module: GraphModule, inputs: Sequence[Tensor | Var | None]) -> list[Any]:
        """Interpret the graph on these inputs, and return its outputs.

        Raises: UnsupportedOp, or the only error, for all operations that cannot be translated
        """
        values: dict[Node, Any] = {}
        given = iter(inputs)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "get_attr":
                values[node] = operator.attrgetter(node.target)(module)
            elif node.op == "output":
                self._raise_refusals()
                return [self._variable(each, values) for each in node.args[0]]
            else:
                with scope(_path(node)):
                    values[node] = _labelled(node, self._translated(node, values))
        return []

    def _translated(self, node: Node, values: dict[Node, Any]) -> Any:
        """Apply one operation, or note why it cannot be translated."""
        import torch

        if any(values[n] is REFUSED for n in node.all_input_nodes):
            known = node.target is operator.getitem or function_for(node.target, reads_complex(node))
            is_tensor = isinstance(node.meta.get("val"), (torch.Tensor, tuple, list))
            if not known and is_tensor:
                self._refuse(node, _unknown(node))
            return REFUSED
        try:
            return self._call(node, values)
        except CatgradError as error:
            self._refuse(node, error)
            return REFUSED

    def _refuse(self, node: Node, error: CatgradError) -> None:
        if isinstance(error, ShapeError) and _has_symbolic_sizes(node):
            # torch.export has checked the shapes, but for symbolic sizes.
            error = FixedSize(error.must, error.found, subject=error.subject, where=error.where)
        error.where = place(node) or error.where  # a scope knows the module, and not the line
        self.refusals.append(error.about(str(node.target)))

    def _raise_refusals(self) -> None:
        """Raise the only refusal, or one that lists all."""
        must = "the front end must support all operations of a module"
        raise_refusals(self.refusals, UNKNOWN, must, "the module", DO)

    def _call(self, node: Node, values: dict[Node, Any]) -> Any:
        """Apply one operation. Raises: UnsupportedOp if the front end has no translation"""
        import torch

        if str(node.target) in READS and isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat)):
            raise UnsupportedOp(
                "numbers must not be read out of tensors",
                "one is, by .item(), .tolist() or float()",
                "compute with the tensor itself, and keep sizes fixed",
            )
        if isinstance(node.meta.get("val"), (torch.SymInt, int)):
            return self.size(node.meta["val"])
        if isinstance(node.meta.get("val"), torch.SymBool):
            return None  # an assumption about sizes, which the import reads from torch.export's guards
        if isinstance(node.meta.get("val"), torch.SymFloat):
            raise FixedSize("numbers must not depend on a symbolic axis", "this one does")
        if node.target is torch.ops.higher_order.with_effects:
            return (TOKEN, None)  # a check of values, such as that of torch.linalg.inv
        if node.target is operator.getitem:
            return self._part(node, values[node.args[0]])
        if self._is_constant(node, values):
            return _computed(node, values)
        return self._meaning(node, values)

    def _meaning(self, node: Node, values: dict[Node, Any]) -> Any:
        meaning = function_for(node.target, reads_complex(node))
        if meaning is None:
            raise _unknown(node)
        from torch.fx.node import map_arg

        args, kwargs = map_arg(
            (node.args, dict(node.kwargs)), lambda n: operand(node, self._variable(n, values))
        )
        kwargs = {name: value for name, value in kwargs.items() if name not in PLACEMENT}
        try:
            inspect.signature(meaning).bind(*args, **kwargs)
        except TypeError as error:
            raise UnsupportedOp(
                "the arguments must be supported", f"binding them fails: {error}", DO
            ) from None
        require(
            not translation(node.target).reads_storage or node.args[0].meta["val"].is_contiguous(),
            "the array must be stored in row-major order",
            "its axes are permuted or broadcast",
            "apply .contiguous() to it",
        )
        check_operands(node)
        with scope(node.name if translation(node.target).is_random else ""):
            result = wrapped(node, meaning(*args, **kwargs))
        _check(node, result, self.size)
        return result

    def _part(self, node: Node, results: Sequence[Any]) -> Any:
        part = results[node.args[1]]
        require(
            part is not None,
            "only results that the front end computes may be read",
            f"result {node.args[1]} of {node.args[0].target} is not",
        )
        return part

    def _is_constant(self, node: Node, values: dict[Node, Any]) -> bool:
        import torch

        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            return False
        read = [values[n] for n in node.all_input_nodes]
        if not read:
            known = function_for(node.target, reads_complex(node))
            return known is None and isinstance(node.meta.get("val"), torch.Tensor)
        return all(isinstance(value, torch.Tensor) for value in read)

    def _variable(self, node: Node, values: dict[Node, Any]) -> Any:
        """Return the value of a node; a constant becomes a variable, or a pair, when it is first read."""
        import torch

        value = values[node] if isinstance(node, torch.fx.Node) else node
        if not isinstance(value, torch.Tensor):
            return value
        if node not in self.variables:
            self.variables[node] = self._constant(node.name, value)
        return self.variables[node]

    def _constant(self, name: str, value: Tensor) -> Var | Pair:
        if not value.is_complex():
            return self.constant(name, value)
        real, imag = value.real.clone(), value.imag.clone()
        return Pair(self.constant(f"{name}.real", real), self.constant(f"{name}.imag", imag))


def _has_symbolic_sizes(node: Node) -> bool:
    import torch

    values = torch.utils._pytree.tree_leaves([n.meta.get("val") for n in (node, *node.all_input_nodes)])
    return any(
        isinstance(size, torch.SymInt) for value in values for size in getattr(value, "shape", [value])
    )


def _computed(node: Node, values: dict[Node, Any]) -> Any:
    import torch
    from torch.fx.node import map_arg

    with torch.no_grad():
        args, kwargs = map_arg((node.args, dict(node.kwargs)), values.__getitem__)
        return node.target(*args, **kwargs)


def _unknown(node: Node) -> UnsupportedOp:
    import torch

    if function_for(node.target) and reads_complex(node):
        return UnsupportedOp(
            "an operation must be supported by the front end for complex arrays",
            "this one is only for real ones",
            "apply it to x.real and x.imag, or write it with other operations",
        )
    if torch.Tag.dynamic_output_shape in getattr(node.target, "tags", ()):
        return UnsupportedOp(
            "sizes must not depend on data",
            "the size of its result does",
            "keep all elements, and select by torch.where(mask, x, y) or torch.nonzero_static",
        )
    return UnsupportedOp(UNKNOWN, "this one is not", DO)


def _check(node: Node, result: Any, size: Callable[[Any], Size]) -> None:
    """Check types against those of PyTorch: a difference is an error of the front end."""
    wanted = node.meta.get("val")
    is_one = isinstance(result, (Var, Pair))
    for ours, theirs in [(result, wanted)] if is_one else zip(result or (), wanted or (), strict=False):
        if not isinstance(ours, (Var, Pair)):
            continue
        must, found = (is_complex(theirs), type_of_parts(theirs, size)), (is_complex(ours), ours.type)
        if found != must:
            raise UnsupportedOp(
                f"the result must be {_shown(*must)}", f"it would be {_shown(*found)}", "report this"
            )


def _shown(is_complex: bool, type: NdArrayType) -> str:
    return f"complex, with parts {type}" if is_complex else str(type)


def _labelled(node: Node, result: Any) -> Any:
    """Label values that leave a module with its name, for emitted code."""
    path = _path(node)
    leaves = all(not f"{_path(user)}.".startswith(f"{path}.") for user in node.users)
    return Label(f"{path}.out")(result) if path and leaves and isinstance(result, Var) else result


def _path(node: Node) -> str:
    """Return the dotted name of the innermost module of an operation."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack else ""
    return re.sub(r"[^A-Za-z0-9_.]", "_", re.sub(r"@\d+", "", path.removeprefix("L['self']").strip(".")))


def place(node: Node) -> str:
    """Return the dotted name of the innermost module of an operation, and the line of its source."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    line = f"{Path(frames[-1][0]).name}, line {frames[-1][1]}" if frames else ""
    path = _path(node)
    return f"{path} ({line})" if path and line else path or line
