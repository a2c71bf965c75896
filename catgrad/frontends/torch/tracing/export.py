"""Export a module to a graph of operations, by `torch.export`, or by `make_fx` what that refuses."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from catgrad.dims import Dim
from catgrad.errors import ToolError, UnsupportedOp
from catgrad.frontends.torch.registry import TRANSLATIONS
from catgrad.frontends.torch.tracing.axes import Axes, Dynamic
from catgrad.frontends.torch.tracing.decomposition import decomposed
from catgrad.frontends.torch.tracing.modes import reads_of_mode
from catgrad.frontends.torch.tracing.own_gradients import Derivative, derived, refused
from catgrad.frontends.torch.tracing.preconditions import check_module
from catgrad.frontends.torch.tracing.python_state import restored
from catgrad.frontends.torch.tracing.refusals import quiet, refusal
from catgrad.frontends.torch.tracing.rehearsal import check_repeatable
from catgrad.frontends.torch.types import Module, Program

ONE_AT_A_TIME = threading.RLock()
"""Held while a module is traced, since functions of PyTorch, Python and NumPy are replaced meanwhile."""


class Export:
    """A module exported on example inputs, in training or in evaluation mode, with symbolic axes.

    Raises: OptionError if it is not a module, inputs are not tensors, or `dynamic` names no input;
            UnsupportedOp if torch.export fails, or the module fixes a symbolic axis; ToolError without
            PyTorch
    """

    def __init__(self, module: Module, inputs: Sequence[Any], train: bool, dynamic: Dynamic) -> None:
        try:
            import torch
        except ImportError:
            raise ToolError(
                "PyTorch must be installed to import from it", "it is not", "pip install torch"
            ) from None
        check_module(module, inputs)
        self._torch, self.module, self.train, self._dynamic = torch, module, train, dynamic
        self.axes = Axes(dynamic, argument_names(module, len(inputs)), inputs)
        self._assumed: list[tuple[Dim, int]] = []
        self._whole = self._export()

    def evaluated(self) -> Export:
        """Return the export in evaluation mode: the same graph, unless the module reads its mode."""
        if self._reads_mode:
            return Export(self.module, self.axes.inputs, False, self._dynamic)
        same = copy.copy(self)
        same.train = False
        return same

    @functools.cached_property
    def decomposed(self) -> Program:
        """Decompose operations that are not registered, and read the symbolic sizes."""
        with _mode(self.module, self.train), quiet():
            try:
                program = decomposed(self._whole)
            except Exception as error:
                raise refusal(error, self.module, self.axes.inputs) from error
        nodes = {node.name: node for node in program.graph.nodes}
        kinds = program.graph_signature.input_specs
        self.inputs = [nodes[spec.arg.name].meta["val"] for spec in kinds if spec.kind.name == "USER_INPUT"]
        self.axes.read(self.inputs, self._whole.graph)
        return program

    def assumptions(self) -> tuple[tuple[Dim, int], ...]:
        """Return sizes and their least values, as the module assumes them. Raises: as `Axes.assumptions`"""
        return tuple(dict.fromkeys([*self._assumed, *self.axes.assumptions(self.inputs)]))

    def _dynamic_shapes(self) -> Any:
        """Return the symbolic axes by arguments of forward, of which *args are one."""
        each, (names, rest) = self.axes.specification, _positional(self.module)
        is_plain = each is None or not rest or len(each) <= len(names)
        return each if is_plain else (*each[: len(names)], tuple(each[len(names) :]))

    def _export(self) -> Program:
        from catgrad.frontends.torch.tracing.traceable import traceable  # it needs PyTorch

        _declare_shapes()
        with ONE_AT_A_TIME, _mode(self.module, self.train), restored(self.module), quiet():
            try:
                with traceable(self.module), refused(self.module), reads_of_mode(self.module) as reads:
                    program = self._traced()
                self._reads_mode = bool(reads)
            except Exception as error:
                raise refusal(error, self.module, self.axes.inputs) from error
            with traceable(self.module):
                check_repeatable(self.module, self.axes.inputs)
            return program

    def _traced(self) -> Program:
        """Trace by torch.export, or by make_fx what that refuses. Raises: the first error, or ours"""
        try:
            return self._by_export(self.module)
        except Derivative:
            return self._by_make_fx()
        except UnsupportedOp:  # the module defines gradients of its own
            raise
        except Exception as error:
            try:
                return self._by_make_fx()
            except UnsupportedOp:
                raise
            except Exception:
                raise error from None

    def _by_export(self, module: Module) -> Program:
        shapes = self._dynamic_shapes()
        program = self._torch.export.export(module, self.axes.inputs, strict=False, dynamic_shapes=shapes)
        owners = {node.name: getattr(node.target, "__module__", "") for node in program.graph.nodes}
        steps = [name for name, owner in owners.items() if str(owner).startswith("torch._functorch")]
        if steps:  # of a transform of functions, such as torch.vmap
            raise NotImplementedError(f"functorch: {', '.join(steps)}")
        return program

    def _by_make_fx(self) -> Program:
        """Export the replay of a trace below autograd, which has guards of its own."""
        from catgrad.frontends.torch.tracing.below_autograd import replayed  # it needs PyTorch

        with derived():
            module, values, graph = replayed(self.module, self.axes.inputs, self.axes.wanted)
        axes = copy.copy(self.axes)
        axes.sizes = {}
        axes.read(values, graph)
        self._assumed = list(axes.assumptions(values))
        return self._by_export(module)


def argument_names(module: Module, count: int) -> list[str]:
    """Return the names of forward's positional arguments; those of *args are numbered."""
    names, rest = _positional(module)
    return names + [f"{rest}_{k}" for k in range(count - len(names))] if rest else names


def _positional(module: Module) -> tuple[list[str], str]:
    """Return the names of forward's positional arguments, and that of *args if there are."""
    parameters = inspect.signature(module.forward).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return names, next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")


@functools.cache
def _declare_shapes() -> None:
    """Declare to PyTorch, once, the shapes of results, which it lacks for some operations."""
    import torch

    for overload, translation in TRANSLATIONS.items():
        if translation.shapes is None:
            continue
        name = overload.replace(".", "::", 1).removesuffix(".default")
        try:
            torch.library.register_fake(name, translation.shapes)
        except RuntimeError as error:
            if "already has" not in str(error):  # as PyTorch before 2.13 says of shapes that it knows
                raise


def _set_mode(module: Module, train: bool) -> None:
    """Set the mode of a module; a program of torch.export has the one that it was exported in."""
    import torch

    try:
        module.train(train)
    except NotImplementedError:
        if not isinstance(module, torch.fx.GraphModule):
            raise


@contextlib.contextmanager
def _mode(module: Module, train: bool) -> Iterator[None]:
    """Set the mode of a module, and restore that of each submodule afterwards.

    In training, submodules keep their modes unless the whole module is in evaluation mode.
    """
    flags = [(each, each.training) for each in module.modules()]
    if not train or not module.training:
        _set_mode(module, train)
    try:
        yield
    finally:
        for each, training in flags:
            each.training = training
