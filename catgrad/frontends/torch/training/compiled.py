"""`compile_module`: a module with its training step as a learner, which has the module's weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, cast

import numpy as np

from catgrad.artifact import Artifact
from catgrad.backend import Backend
from catgrad.errors import CatgradWarning, FixedSize, OptionError
from catgrad.frontends.torch.imported import Imported, from_torch
from catgrad.frontends.torch.replay.comparison import replay
from catgrad.frontends.torch.replay.differences import Replay
from catgrad.frontends.torch.tracing.axes import Dynamic
from catgrad.frontends.torch.tracing.export import argument_names
from catgrad.frontends.torch.training.averages import require_leads, with_averages
from catgrad.frontends.torch.training.criteria import criterion, described
from catgrad.frontends.torch.training.optimisers import continued
from catgrad.frontends.torch.training.targets import split_dynamic, target_types
from catgrad.frontends.torch.types import Module, Optimizers, Schedulers, Tensor
from catgrad.learn.compile import emit_by_default
from catgrad.learn.learner import Learner
from catgrad.learn.task import EMITTED, LEARNER, Task
from catgrad.types import as_numpy, widened

BATCH = ("batch",)
"""The symbolic axes that are tried first: the leading one of all inputs."""


@dataclass(frozen=True)
class Compilation:
    """A module, and how to train it: the arguments of `compile_module`."""

    module: Module
    example_inputs: Tensor | Sequence[Any]
    optimizer: Optimizers
    loss: Callable[..., Any]
    scheduler: Schedulers = None
    averaged: Module | None = None
    dynamic: Dynamic | None = None
    train: bool = True
    trainable: str | Sequence[str] = "*"
    targets: Tensor | Sequence[Tensor] | None = None
    name: str = "model"

    def emitted(
        self,
        target: str | Backend = "numpy",
        default: Sequence[str] = EMITTED,
        functions: Iterable[str] | None = None,
        **options: Any,
    ) -> tuple[Imported, Artifact]:
        """Import the module and emit its training step, without loading the result.

        Raises: as `compile_module`
        """
        imported, task, state = self.task()
        artifact = emit_by_default(default, task, target, functions, **options)
        known = {slot.name for table in artifact.program.tables.values() for slot in table}
        continued = {name: array for name, array in state.items() if name in known}
        return imported, replace(artifact, values={**artifact.values, **continued}, origin=self._origin())

    def task(self) -> tuple[Imported, Task, Mapping[str, Any]]:
        """Import the module, and compose it with an optimiser and a loss; also return the optimiser's state.

        Raises: as `compile_module`
        """
        if self.dynamic is not None:
            return self._task(self.dynamic)
        try:
            return self._task(BATCH)
        except FixedSize as error:
            found = self._task(())
            warnings.warn(f"the size of the batch is fixed: {error}", CatgradWarning, stacklevel=2)
            return found

    def _task(self, dynamic: Dynamic) -> tuple[Imported, Task, Mapping[str, Any]]:
        module, x = self.module, self.example_inputs
        inputs = x if isinstance(x, (tuple, list)) else (x,)
        dynamic, of_targets = split_dynamic(dynamic, argument_names(module, len(inputs)))
        imported = from_torch(
            module, *inputs, name=self.name, train=self.train, dynamic=dynamic, trainable=self.trainable
        )
        optimiser, state = continued(self.optimizer, self.scheduler, module, imported.parameters)
        if self.averaged is not None:
            given = state, self.averaged, self.optimizer
            optimiser, state = with_averages(optimiser, *given, module, imported)
        types = target_types(imported, inputs, self.targets, of_targets)
        function, labels = criterion(self.loss, tuple(imported.model.target.table), types)
        task = imported.task(optimiser, function, labels)
        if self.averaged is not None:
            require_leads(task, state)
        return imported, task, state

    def _origin(self) -> dict[str, Any]:
        """Record what a program was compiled from, for its manifest."""
        import torch

        kind, trainable = type(self.module), self.trainable
        return {
            "torch": torch.__version__,
            "module": f"{kind.__module__}.{kind.__qualname__}",
            "mode": "training" if self.train else "evaluation",
            "trainable": [trainable] if isinstance(trainable, str) else list(trainable),
            "loss": described(self.loss),
        }


class ModuleLearner:
    """A learner of a module, and its arrays as a state_dict of the module.

    It has the attributes of the target's learner; `artifact` is what was emitted, `imported` the term.
    `optimizer`, `criterion`, `scheduler` and `averaged` are those that the module was compiled with.
    """

    def __init__(
        self, learner: Any, compilation: Compilation, imported: Imported, artifact: Artifact
    ) -> None:
        # Not through __setattr__, which sets the tables of the learner.
        given = compilation
        vars(self).update(learner=learner, compilation=given, imported=imported, artifact=artifact)
        vars(self).update(module=given.module, optimizer=given.optimizer, criterion=given.loss)
        vars(self).update(scheduler=given.scheduler, averaged=given.averaged)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["learner"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(vars(self)["learner"], name, value)

    def __copy__(self) -> ModuleLearner:
        return deepcopy(self)

    def __reduce_ex__(self, protocol: object) -> Any:
        return self.learner.__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> ModuleLearner:
        return ModuleLearner(deepcopy(self.learner, memo), self.compilation, self.imported, self.artifact)

    def verify(self, batches: Iterable[Any], steps: int | None = None, **options: Any) -> Replay:
        """Train on these batches by PyTorch and by this learner, and compare them: `catgrad.verify`.

        Raises: as `replay`
        """
        return replay(self.module, self, batches, steps, **options)

    def state_dict(self) -> dict[str, Any]:
        """Return the trained arrays as tensors for `module.load_state_dict`: all names that it has.

        Tied parameters have one value under all their names; what the model neither trains nor updates has
        the value of the module.
        """
        import torch

        trained = {**self.learner.parameters, **self.learner.buffers}
        found = {}
        for name, tensor in self.module.state_dict().items():
            value = trained.get(self.imported.aliases.get(name, name))
            kept = tensor.detach().clone() if isinstance(tensor, torch.Tensor) else tensor
            found[name] = kept if value is None else _like(torch, value, tensor)
        return found


def compile_module(
    module: Module,
    example_inputs: Tensor | Sequence[Any],
    optimizer: Optimizers,
    loss: Callable[..., Any],
    target: str = "numpy",
    functions: Iterable[str] | None = None,
    *,
    scheduler: Schedulers = None,
    averaged: Module | None = None,
    dynamic: Dynamic | None = None,
    train: bool = True,
    trainable: str | Sequence[str] = "*",
    targets: Tensor | Sequence[Tensor] | None = None,
    name: str = "model",
    seed: int = 0,
    **options: Any,
) -> ModuleLearner:
    """Compile a module and its training step; return a learner that begins with the module's weights.

    `example_inputs` is a tensor, or a tuple of tensors. `optimizer` is one of `catgrad.optimisers`, or an
    instance of `torch.optim`, or several, whose groups, hyperparameters and state are continued. `scheduler`
    is that of the learning rate, or several; it makes one step for each step of the learner. `averaged` is an
    `AveragedModel` of the module, or timm's `ModelEmaV2` or `ModelEmaV3`, which is updated in each step, and
    whose weights are those of the learner. `loss` is one of `catgrad.losses`, a loss module of PyTorch, or a
    function of tensors (outputs…, targets…); `targets` are examples of its targets where they are neither
    like the outputs nor numbers of classes. The first axis of all inputs is symbolic, so that any batch can
    be trained on, or fixed, with a CatgradWarning, for a module that fixes it; `dynamic` names more, those of
    `targets` too, or `()` fixes all, for targets that need it. `train=False` imports evaluation mode.
    Parameters whose names match none of `trainable`, patterns as in a shell, are constants. `functions` are
    those to emit, as for `emit`; by default those that learners call. `options` are those of the target.

        learner = compile_module(net, x, torch.optim.AdamW(net.parameters(), 1e-3), nn.CrossEntropyLoss())
        loss = learner.step(x, labels)
        net.load_state_dict(learner.state_dict())

    `learner.artifact.write(folder)` writes the sources, the weights, and a manifest with their hash.

    Raises: as `from_torch` and `emit`; OptionError for an optimizer, a scheduler or a loss that has no
            counterpart, or for a target without learners
    """
    compilation = Compilation(
        module, example_inputs, optimizer, loss, scheduler, averaged, dynamic, train, trainable, targets, name
    )
    imported, artifact = compilation.emitted(target, LEARNER, functions, **options)
    return ModuleLearner(learner_of(artifact, seed), compilation, imported, artifact)


def learner_of(artifact: Artifact, seed: int = 0) -> Learner:
    """Build an artifact and return its learner. Raises: OptionError if the target has none"""
    compiled = artifact.load()()
    if not hasattr(compiled, "learner"):
        raise OptionError(
            "the target must be one whose programs train when they are called from Python",
            f"it is {artifact.backend.name}",
            "choose for example numpy or c, or write the sources by catgrad compile",
        )
    return cast(Learner, compiled.learner(seed))


def _like(torch: ModuleType, value: Any, tensor: Any) -> Any:
    """Convert an array of any library to a tensor of the dtype and device of another."""
    # PyTorch takes no negative strides, which NumPy has after a flip.
    return torch.tensor(np.ascontiguousarray(widened(as_numpy(value)))).reshape(tensor.shape).to(tensor)
