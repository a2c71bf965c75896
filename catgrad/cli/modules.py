"""PyTorch modules on the command line: what to compile, from texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import isclass
from typing import TYPE_CHECKING, Any

from catgrad.artifact import Artifact
from catgrad.cli.models import find, guarded
from catgrad.cli.options import parsed
from catgrad.cli.parsing import array_type, call, require_options
from catgrad.dims import Dim
from catgrad.errors import OptionError, ToolError, require_one_of
from catgrad.learn import losses, optimisers
from catgrad.learn.task import EMITTED, LEARNER, Task
from catgrad.programs.ports import Kind, Role
from catgrad.targets import get_backend
from catgrad.types import Array, NdArrayType
from catgrad.verification import draw_arrays

if TYPE_CHECKING:
    from torch import nn
    from torch.optim.lr_scheduler import LRScheduler

    from catgrad.frontends.torch.training.compiled import Compilation, ModuleLearner

COMBINATORS = {"Optimiser", "clipped", "frozen", "grouped"}
"""Names of `catgrad.optimisers` that are no optimisers by themselves."""

COMBINING = {"SequentialLR", "ChainedScheduler"}
"""Schedulers that are made of others."""

FOLDER = "hf:"
"""The prefix of a model that is a folder of Hugging Face."""


@dataclass(frozen=True)
class Training:
    """A module and how to train it, as texts of the command line."""

    model: str
    inputs: Sequence[str]
    loss: str
    optimizer: str
    lr: float | None = None
    evaluation: bool = False
    trainable: Sequence[str] = ("*",)
    name: str = "model"
    scheduler: str = ""

    @cached_property
    def types(self) -> tuple[NdArrayType, ...]:
        """The types of the inputs. Raises: OptionError if there are none, or one is not a type"""
        if not self.inputs:
            raise OptionError(
                "the inputs of a module must be given",
                "there is no --input",
                "write for example --input 'f32[batch,1,28,28]', once for each argument of forward",
            )
        return tuple(map(array_type, self.inputs))

    @cached_property
    def module(self) -> nn.Module:
        """The module. Raises: as `find` or `from_folder`; ToolError without PyTorch"""
        nn = _torch().nn
        if self.model.startswith(FOLDER):
            from catgrad.frontends.torch.hugging_face.folder import from_folder

            with guarded(f"transformers must build the model of {self.model}", "check its config.json"):
                return from_folder(self.model.removeprefix(FOLDER))
        return find(self.model, (nn.Module,), "a torch.nn.Module", "torch.nn.Sequential(...)")

    @cached_property
    def criterion(self) -> Any:
        """The loss. Raises: OptionError for an unknown name or option"""
        return _loss(self.loss)

    @cached_property
    def optimiser(self) -> Any:
        """An optimiser of the module's parameters. Raises: OptionError for an unknown name or option"""
        return _optimiser(self.optimizer, self.lr, self.module)

    @cached_property
    def rate_scheduler(self) -> LRScheduler | None:
        """The scheduler of the optimiser, or None. Raises: OptionError for an unknown name or option"""
        return _scheduler(self.scheduler, self.optimiser) if self.scheduler else None

    @cached_property
    def compilation(self) -> Compilation:
        """The arguments of `compile_module`. Raises: OptionError for unknown names, options or types"""
        types, loss, module = self.types, self.criterion, self.module
        from catgrad.frontends.torch.tensors import example, example_sizes
        from catgrad.frontends.torch.training.compiled import Compilation

        sizes = example_sizes(types)
        return Compilation(
            module,
            tuple(example(type, sizes) for type in types),
            self.optimiser,
            loss,
            self.rate_scheduler,
            dynamic=_dynamic(module, types),
            train=not self.evaluation,
            trainable=tuple(self.trainable),
            name=self.name,
        )

    def emitted(
        self,
        target: str,
        options: Sequence[str],
        functions: Sequence[str] | None = None,
        default: Sequence[str] = EMITTED,
    ) -> tuple[Any, Artifact]:
        """Import the module and emit its training step.

        Raises: any CatgradError, also for an error that the module raises
        """
        backend = get_backend(target).configured(**parsed(options))
        compilation = self.compilation
        with guarded(f"{self.model} must compile for {target}", "mend the module, or what it is given"):
            return compilation.emitted(backend, default, functions)

    def task(self) -> Task:
        """Import the module, and compose it with the optimiser and the loss. Raises: as `emitted`"""
        compilation = self.compilation
        with guarded(f"{self.model} must compile", "mend the module, or what it is given"):
            return compilation.task()[1]

    def learner(self, target: str, options: Sequence[str]) -> ModuleLearner:
        """Build the emitted program, and return the learner that begins with the module's weights.

        Raises: as `emitted`; ToolError if the program cannot be built or run here
        """
        from catgrad.frontends.torch.training.compiled import ModuleLearner, learner_of

        imported, artifact = self.emitted(target, options, default=LEARNER)
        return ModuleLearner(learner_of(artifact), self.compilation, imported, artifact)

    def batches(self, artifact: Artifact, count: int, classes: int) -> list[list[Array]]:
        """Draw batches: inputs from -2 to 2, targets from 0 to 1, whole numbers below `classes`."""
        from catgrad.frontends.torch.tensors import example_sizes

        step = artifact.reference.kinds[Kind.STEP]
        types = {role: [p.type for p in step.inputs if p.role is role] for role in (Role.INPUT, Role.TARGET)}
        sizes = example_sizes([type for each in types.values() for type in each])
        domains = {Role.INPUT: (-2.0, 2.0), Role.TARGET: (0.0, 1.0)}
        return [
            [
                array
                for role, each in types.items()
                for array in draw_arrays([t.substitute(sizes) for t in each], domains[role], seed, classes)
            ]
            for seed in range(count)
        ]


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise ToolError(
            "PyTorch must be installed to compile its modules", "it is not", "pip install torch"
        ) from None
    return torch


def _dynamic(module: object, types: Sequence[NdArrayType]) -> dict[str, tuple[str | None, ...]]:
    """Name the symbolic axes of each argument of forward. Raises: OptionError for too many types"""
    from catgrad.frontends.torch.tracing.export import argument_names

    names = argument_names(module, len(types))
    if len(types) > len(names):
        raise OptionError(
            f"there must be an --input for each argument of forward: {', '.join(names) or 'none'}",
            f"there are {len(types)}",
            "leave one out",
        )
    axes = [tuple(str(size) if isinstance(size, Dim) else None for size in type.shape) for type in types]
    return dict(zip(names, axes, strict=False))


def _loss(text: str) -> Any:
    nn = _torch().nn
    name, options = call(text)
    ours = {n: getattr(losses, n) for n in losses.__all__}
    theirs = {n: c for n, c in vars(nn).items() if isclass(c) and c.__module__ == nn.MSELoss.__module__}
    require_one_of("a loss", name, sorted({*ours, *theirs}))
    if name in ours:
        require_options(name, ours[name], options, positions=2)
        return partial(ours[name], **options) if options else ours[name]
    with guarded(f"{name} must take the options of --loss", "see its documentation"):
        made: Any = theirs[name]
        return made(**options)


def _optimiser(text: str, lr: float | None, module: nn.Module) -> Any:
    """Return an optimiser of torch.optim, or one of catgrad that PyTorch lacks."""
    from catgrad.frontends.torch.training.optimiser_options import of_name

    optim = _torch().optim
    name, options = call(text)
    known = {n for n in optimisers.__all__ if n not in COMBINATORS}
    require_one_of("an optimizer", name.lower(), sorted(known))
    if lr is not None:
        if "lr" in options:
            raise OptionError("the learning rate must be given once", "it is in --optimizer too", "omit --lr")
        options["lr"] = lr
    classes = {n: c for n, c in vars(optim).items() if isclass(c) and issubclass(c, optim.Optimizer)}
    theirs: dict[str, Any] = {n.lower(): c for n, c in classes.items()}
    with guarded(f"{name} must take the options of --optimizer", "name them as torch.optim does"):
        # PyTorch's Muon refuses parameters that are not matrices; ours has another optimiser for them.
        if name.lower() in theirs and name.lower() != "muon":
            return theirs[name.lower()](module.parameters(), **options)
        return of_name(name.lower(), {"lr": 1e-3, **options})


def _scheduler(text: str, optimizer: Any) -> Any:
    """Return a scheduler of torch.optim for an optimiser."""
    from catgrad.frontends.torch.training.schedulers import FORMULAS

    schedulers = _torch().optim.lr_scheduler
    name, options = call(text)
    require_one_of("a scheduler", name, sorted(FORMULAS.keys() - COMBINING))
    if not hasattr(optimizer, "param_groups"):
        raise OptionError(
            "a scheduler must be one of an optimiser of torch.optim",
            f"the optimiser is {optimizer.name} of catgrad",
            "omit --scheduler",
        )
    with guarded(f"{name} must take the options of --scheduler", "name them as torch.optim does"):
        return getattr(schedulers, name)(optimizer, **options)
