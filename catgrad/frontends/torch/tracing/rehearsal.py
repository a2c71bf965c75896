"""Rehearsal: calls of a module on fake tensors, which must all be alike, because a trace records one.

Each array of a call has a hash: that of its operation and of the hashes of what it reads, down to inputs,
parameters and buffers. Two calls are alike if their outputs have the same hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch.tracing.places import current_place
from catgrad.frontends.torch.tracing.python_state import (
    attributes,
    changed,
    generators,
    line_of_change,
    other_seeds,
)
from catgrad.frontends.torch.types import Module, OpOverload, Tensor

MUST = "each call of a module must do the same"
DO = (
    "keep what changes in a buffer (self.register_buffer), draw random numbers by torch, and select by "
    "torch.where"
)

MAX_BYTES = 2**26
"""The size of a constant above which its elements are not hashed."""


def check_repeatable(module: Module, inputs: Sequence[Any]) -> None:
    """Refuse a module whose calls differ: one that draws by Python, counts its calls, or reads a clock.

    A module that cannot run on fake tensors is compared as far as it does.

    Raises: UnsupportedOp, with the line
    """
    call, hashes = _calls(module, inputs)
    with other_seeds():
        drawn, first = generators(), attributes(module)
        call()
        for name in changed(drawn, generators()):
            found = f"this one draws from `{name}`, or seeds it, which a trace does once"
            with other_seeds():
                raise UnsupportedOp(MUST, found, DO, where=line_of_change(call, generators))
        second = attributes(module)
        call()
        for name in changed(second, attributes(module)) if changed(first, second) else ():
            where = line_of_change(call, lambda: attributes(module))
            raise UnsupportedOp(MUST, f"each call of this one changes {name}", DO, where=where)
    if hashes.others:
        raise UnsupportedOp(MUST, "the second call computes something else", DO, where=hashes.others[0])


def _calls(module: Module, inputs: Sequence[Any]) -> tuple[Callable[[], None], Hashes]:
    """Return a function that calls a module on fake tensors, as far as it runs, and the hashes of calls."""
    import torch
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    from torch.utils._python_dispatch import TorchDispatchMode

    fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True)
    leaves = torch.utils._pytree.tree_leaves
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    arrays = {name: fake.from_tensor(tensor) for name, tensor in held.items()}
    given = torch.utils._pytree.tree_map(fake.from_tensor, tuple(inputs))
    hashes = Hashes()

    class Mode(TorchDispatchMode):  # type: ignore[misc]  # PyTorch is not annotated here
        def __torch_dispatch__(self, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
            return hashes.call(function, args, kwargs or {})

    def call() -> None:
        hashes.begin({**arrays, **dict(enumerate(leaves(given)))})
        with suppress(Exception):  # the export has succeeded, so this is a limit of fake tensors
            with fake, Mode():
                results = torch.func.functional_call(module, arrays, given)
            hashes.end(leaves(results))

    return call, hashes


class Hashes:
    """The hashes of all arrays of calls; `variable` ones depend on inputs, parameters or buffers.

    `first` are those of the first call, and `others` the places where a later call has others.
    """

    def __init__(self) -> None:
        self.hashes: dict[int, str] = {}
        self.kept: list[Tensor] = []  # so that no two arrays have the same id
        self.variable: set[int] = set()
        self.found: set[str] = set()
        self.results: list[str] = []
        self.first: tuple[set[str], list[str]] | None = None
        self.others: list[str] = []

    def begin(self, arrays: Mapping[Any, Tensor]) -> None:
        """Begin a call with these inputs, parameters and buffers."""
        self.found, self.results = set(), []
        for name, array in arrays.items():
            self._keep(array, f"array {name}", True)

    def end(self, outputs: Sequence[object]) -> None:
        """End a call with these outputs."""
        self.results += map(self._described, outputs)
        self.first = self.first or (self.found, self.results)
        self.others += [""] * (self.first[1] != self.results)

    def call(self, function: OpOverload, args: Any, kwargs: Any) -> Any:
        """Call an operation, whose hash is that of its name and of all that it reads."""
        import torch

        leaves = torch.utils._pytree.tree_leaves
        read = leaves((args, kwargs))
        text = " ".join([str(function), *map(self._described, read)])
        found = blake2b(text.encode(), digest_size=16).hexdigest()
        is_variable = any(id(x) in self.variable for x in read)
        if is_variable:
            self.found.add(found)
            self.results += [found] * function._schema.is_mutable
            if self.first is not None and found not in self.first[0]:
                self.others.append(current_place())
        results = function(*args, **kwargs)
        for k, result in enumerate(leaves(results)):
            if isinstance(result, torch.Tensor):  # all others are themselves
                self._keep(result, f"{found}.{k}", is_variable)
        return results

    def _keep(self, array: Tensor, found: str, is_variable: bool) -> None:
        self.kept.append(array)
        self.hashes[id(array)] = found
        self.variable.update([id(array)] * is_variable)

    def _described(self, value: Any) -> str:
        import torch
        from torch.utils._python_dispatch import _disable_current_modes

        if id(value) in self.hashes:
            return self.hashes[id(value)]
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return "symbol"
        if not isinstance(value, torch.Tensor):
            return "generator" if isinstance(value, torch.Generator) else repr(value)
        is_data = type(value) in (torch.Tensor, torch.nn.Parameter) and value.device.type == "cpu"
        elements = b""
        if is_data and value.nbytes <= MAX_BYTES:
            with _disable_current_modes():
                elements = value.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        return f"{value.dtype} {value.shape} {blake2b(elements).hexdigest()}"
