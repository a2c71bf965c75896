"""A harness: the emitted module as functions on arrays, differentiated by autograd."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import ArrayLike

from catgrad.artifact import Artifact
from catgrad.errors import ShapeError, UnsupportedOp
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Function, Program
from catgrad.terms.structural import is_differentiable

from ..python import load_module

if TYPE_CHECKING:
    from torch import Tensor


def harness(artifact: Artifact) -> type:
    """Return the class `CompiledModel` of a module, whose class is its attribute `Module`.

    The program of a task has predict, loss, rev, rev_p and grads; others have their functions.
    """
    base = Trained if Kind.PREDICT in artifact.program.kinds else Applied
    return load_module(artifact, lambda module: _compiled(base, module, artifact.program))


def _compiled(base: type[Emitted], module: ModuleType, program: Program) -> Any:
    from torch.nn import Module

    [found] = [v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Module)]
    attributes = {"Module": _stored(found, program), "program": program, "file": module}
    if base is Applied:
        attributes[program.functions[-1].name] = Applied.apply
    return type("CompiledModel", (base,), attributes)


def _stored(module: Any, program: Program) -> Any:
    """Derive a module that begins with the stored arrays of a program."""
    if not program.stored:
        return module

    def init(self: Any, seed: int = 0) -> None:
        module.__init__(self, seed)
        held = self.state_dict()
        values = {n: as_tensor(a.copy(), held[n].dtype) for n, a in program.stored.items() if n in held}
        self.load_state_dict(values, strict=False)

    return type(module.__name__, (module,), {"__init__": init, "__doc__": module.__doc__})


class Emitted:
    """An emitted module, its file, and its program."""

    Module: ClassVar[Any]
    file: ClassVar[ModuleType]
    program: ClassVar[Program]

    def tensors(self, function: Function, arrays: Sequence[ArrayLike]) -> list[Tensor]:
        """Convert the first arrays to new tensors in the dtypes of the arguments.

        Raises: ShapeError if there are fewer
        """
        ports = zip(function.arguments, function.inputs, strict=True)
        expected = [v for v, port in ports if port.role is not Role.CONSTANT]
        if len(arrays) < len(expected):
            names = ", ".join(function.names[v] for v in expected)
            raise ShapeError(
                f"there must be {len(expected)} arrays", f"there are {len(arrays)}", f"pass {names}"
            )
        return [as_tensor(a, function.types[v].dtype.name) for a, v in zip(arrays, expected, strict=False)]


class Applied(Emitted):
    """A module with one function."""

    def apply(self, *arrays: ArrayLike) -> list[Tensor]:
        """Call the function."""
        module = self.Module()
        return [y.detach() for y in as_list(module(*self.tensors(self.program.functions[-1], arrays)))]


class Trained(Emitted):
    """The functions of a task, with the parameters and buffers of the module as arguments."""

    def init(self, seed: int = 0) -> list[Tensor]:
        """Return initial values of the parameters."""
        return self._first(Role.PARAMETER, seed)

    def init_buffers(self, seed: int = 0) -> list[Tensor]:
        """Return initial values of the buffers."""
        return self._first(Role.BUFFER, seed)

    def predict(self, *arrays: ArrayLike) -> list[Tensor]:
        """Compute M × P × X → Ŷ."""
        return [y.detach() for y in Run(self, Kind.PREDICT, arrays).outputs]

    def trained(self, *arrays: ArrayLike) -> list[Tensor]:
        """Compute M × P × X → M × Ŷ, in training."""
        run = Run(self, Kind.TRAINED, arrays)
        return [y.detach() for y in (*run.buffers, *run.outputs)]

    def criterion(self, *arrays: ArrayLike) -> list[Tensor]:
        """Compute Ŷ × Y → R."""
        return [self.file.criterion(*self.tensors(self.program.kinds[Kind.CRITERION], arrays)).detach()]

    def loss(self, *arrays: ArrayLike) -> list[Tensor]:
        """Compute M × P × X × Y → R. Raises: UnsupportedOp if the criterion takes other outputs."""
        outputs, taken = self.program.kinds[Kind.PREDICT].outputs, self.program.kinds[Kind.CRITERION].inputs
        if tuple(port for port in taken if port.role is Role.OUTPUT) != outputs:
            raise UnsupportedOp(
                "a module must have the outputs of training to compute its loss in evaluation",
                "it returns others after eval()",
                "apply criterion to the outputs of a module in training",
            )
        return [Run(self, Kind.PREDICT, arrays).loss().detach()]

    def rev(self, *arrays: ArrayLike) -> list[Tensor]:
        """Compute M × P × X × Ŷ′ → P′ × X′."""
        run = Run(self, Kind.PREDICT, arrays)
        types = [port.type for port in self.program.kinds[Kind.PREDICT].outputs]
        outputs = [y for y, type in zip(run.outputs, types, strict=True) if is_differentiable(type)]
        return gradients(outputs, run.rest, [*run.parameters, *run.inputs])

    def rev_p(self, *arrays: ArrayLike) -> list[Tensor]:
        """Compute M × P × X × Ŷ′ → P′."""
        return self.rev(*arrays)[: len(self.program.tables[Role.PARAMETER])]

    def grads(self, *arrays: ArrayLike) -> list[Tensor]:
        """Compute M × P × X × Y → R × M × P′."""
        run = Run(self, Kind.TRAINED, arrays)
        loss = run.loss()
        return [loss.detach(), *run.buffers, *gradients([loss], [None], run.parameters)]

    def _first(self, table: Role, seed: int) -> list[Tensor]:
        module = self.Module(seed)
        return [module.state_dict()[slot.name] for slot in self.program.tables[table]]


class Run:
    """One forward pass of a module, in training or evaluation, with these parameters and buffers."""

    def __init__(self, model: Trained, kind: Kind, arrays: Sequence[ArrayLike]) -> None:
        from torch.func import functional_call

        self.model, function = model, model.program.kinds[kind]
        given = model.tensors(function, arrays)
        self.rest = list(arrays[len(given) :])
        tables: dict[Role, dict[str, Tensor]] = {Role.BUFFER: {}, Role.PARAMETER: {}, Role.INPUT: {}}
        ports = (port for port in function.inputs if port.role is not Role.CONSTANT)
        for port, tensor in zip(ports, given, strict=True):
            tables[port.role][port.name] = tensor
        self.buffers, self.parameters, self.inputs = (list(tensors.values()) for tensors in tables.values())
        for leaf in (*self.parameters, *self.inputs):
            leaf.requires_grad_(leaf.is_floating_point())
        module = model.Module().train(kind is Kind.TRAINED)
        state = tables[Role.BUFFER] | tables[Role.PARAMETER]
        self.outputs = as_list(functional_call(module, state, tuple(self.inputs)))

    def loss(self) -> Tensor:
        """Apply the loss to the outputs and the other arguments."""
        criterion = self.model.program.kinds[Kind.CRITERION]
        types = [port.type.dtype.name for port in criterion.inputs if port.role is Role.TARGET]
        targets = [as_tensor(y, dtype) for y, dtype in zip(self.rest, types, strict=True)]
        return self.model.file.criterion(*self.outputs, *targets)


def gradients(outputs: Sequence[Tensor], cotangents: Sequence[Any], leaves: Sequence[Tensor]) -> list[Tensor]:
    """Compute the vector-Jacobian product by autograd, with zeros for unused inputs."""
    import torch

    pairs = [
        (y, None if dy is None else as_tensor(dy, y.dtype))
        for y, dy in zip(outputs, cotangents, strict=True)
        if y.requires_grad
    ]
    numbers = [leaf for leaf in leaves if leaf.dtype is not torch.bool]
    floating = [leaf for leaf in numbers if leaf.requires_grad]
    if not pairs or not floating:
        return [torch.zeros_like(leaf) for leaf in numbers]
    ys, dys = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(ys, floating, dys, allow_unused=True, materialize_grads=True))
    return [next(found) if leaf.requires_grad else torch.zeros_like(leaf) for leaf in numbers]


def as_tensor(array: Any, dtype: object) -> Tensor:
    """Return a new tensor of this dtype, which may be a name."""
    import torch

    known = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    return torch.as_tensor(array).detach().to(known, copy=True)


def as_list(outputs: Tensor | tuple[Tensor, ...]) -> list[Tensor]:
    """Return the results of a module as a list."""
    return list(outputs) if isinstance(outputs, tuple) else [outputs]
