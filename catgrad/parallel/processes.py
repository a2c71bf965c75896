"""Data parallelism by processes of torch.distributed: an all-reduce between the halves of a step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from catgrad.errors import OptionError, ToolError
from catgrad.learn.fit.batches import Batch
from catgrad.learn.fit.checkpoint import restore, tables
from catgrad.learn.fit.parallel import Parallel, summed
from catgrad.learn.learner import Learner, require_functions
from catgrad.programs.ports import Kind
from catgrad.terms import state

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise ToolError("PyTorch must be installed for its processes", "it is not", "pip install torch") from None

SEED, FIRST_ROW = state.SEED.name, state.FIRST_ROW.name
"""The buffers from which masks of dropout are drawn."""


def processes(group: object = None) -> Parallel:
    """Return this process among those of a group of torch.distributed, by default all."""
    if not (dist.is_available() and dist.is_initialized()):
        raise ToolError(
            "the processes of PyTorch must have met",
            "torch.distributed is not initialised",
            "call torch.distributed.init_process_group() before, and start the program by torchrun",
        )
    return Processes(group, dist.get_rank(group), dist.get_world_size(group))


@dataclass(frozen=True)
class Processes:
    """A process, number `rank` among `world`, and the others."""

    group: Any
    rank: int
    world: int

    def start(self, learner: Learner) -> None:
        """Make tensors of the learner's arrays, as those of a checkpoint are arrays of NumPy."""
        emitted = getattr(type(learner).step, "__globals__", {})
        if "torch" not in emitted:
            raise OptionError(
                "processes of PyTorch must train a learner of the target torch",
                f"it is of {type(learner).__module__}",
                "emit the task for it",
            )
        require_functions(learner, Kind.GRADS, Kind.UPDATE)
        for table, arrays in tables(learner).items():
            types = emitted.get(table.upper(), {})
            made = {n: _tensor(array, types[n][1]) for n, array in arrays.items()}
            restore(learner, {table: made})

    def place(self, batch: Batch) -> Batch:
        """Return the batch."""
        return batch

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return the numbers of each process, in float64."""
        own = torch.tensor(numbers, dtype=torch.float64, device=self._device)
        found = [torch.empty_like(own) for _ in range(self.world)]
        with self._joint():
            dist.all_gather(found, own, self.group)
            return [each.tolist() for each in found]

    def step(self, learner: Any, batch: Batch, rows: Sequence[int]) -> float:
        """Average loss, gradients and changes of buffers, weighted by rows, and update."""
        before, weight = dict(learner.buffers), rows[self.rank] / sum(rows)
        loss, gradients = self._grads(learner, batch, sum(rows[: self.rank])) if weight else _none(learner)
        changing = [name for name, array in before.items() if array.is_floating_point()]
        changes = [learner.buffers[name] - before[name] for name in changing]
        found = self._averaged([*gradients.values(), *changes], weight)
        # A change of exactly 0 leaves a constant exactly as it is.
        means = zip(changing, found[len(gradients) :], strict=True)
        learner.buffers |= {name: before[name] + change for name, change in means}
        if not all(rows):
            self._share_counters(learner, rows)
        learner.update(dict(zip(gradients, found, strict=False)))
        return summed(self, [loss * weight])[0]

    def _grads(self, learner: Any, batch: Batch, first_row: int) -> tuple[float, dict[str, Any]]:
        """Compute loss and gradients with masks of dropout of these rows, or by a seed of the process."""
        name, shift = (FIRST_ROW, first_row) if FIRST_ROW in learner.buffers else (SEED, self.rank)
        before = {name: learner.buffers[name]} if name in learner.buffers else {}
        learner.buffers |= {name: array + shift for name, array in before.items()}
        loss, gradients = learner.grads(*batch)
        learner.buffers |= before
        return float(loss), gradients

    def _share_counters(self, learner: Any, rows: Sequence[int]) -> None:
        """Send whole numbers, such as counters, to the processes that did not step."""
        first = next(rank for rank, count in enumerate(rows) if count)
        for name, array in learner.buffers.items():
            if not array.is_floating_point():
                shared = array.clone()
                with self._joint():
                    dist.broadcast(shared, group=self.group, group_src=first)
                learner.buffers[name] = shared

    def _averaged(self, arrays: Sequence[Any], weight: float) -> list[Any]:
        """Sum arrays times the weight of their process, by one all-reduce for each dtype."""
        found = list(arrays)
        for dtype in dict.fromkeys(array.dtype for array in arrays):
            chosen = [place for place, array in enumerate(arrays) if array.dtype == dtype]
            flat = torch.cat([arrays[place].reshape(-1) for place in chosen]).mul_(weight)
            with self._joint():
                dist.all_reduce(flat, group=self.group)
            pieces = flat.split([arrays[place].numel() for place in chosen])
            for place, piece in zip(chosen, pieces, strict=True):
                found[place] = piece.view(arrays[place].shape)
        return found

    @property
    def _device(self) -> Any:
        return torch.device("cuda" if dist.get_backend(self.group) == "nccl" else "cpu")

    @contextmanager
    def _joint(self) -> Iterator[None]:
        """Raise ToolError if another process does not take part, because it has ended or hangs."""
        try:
            yield
        except RuntimeError as error:
            raise ToolError(
                "all processes must train to the end",
                f"process {self.rank} of {self.world} has lost another ({_reason(error)})",
                "look at what that one printed, and start all again with a checkpoint and resume=True, "
                "which goes on after the last whole epoch",
            ) from None


def _none(learner: Any) -> tuple[float, dict[str, Any]]:
    """Return loss and gradients of no rows, which have no weight."""
    return 0.0, {name: torch.zeros_like(array) for name, array in learner.parameters.items()}


def _reason(error: RuntimeError) -> str:
    """Return the first sentence of an error, without the line of PyTorch's source that it begins with."""
    return re.sub(r"^\[[^]]*\] ", "", str(error)).split(". ")[0]


def _tensor(array: Any, dtype: object) -> Any:
    return array if isinstance(array, torch.Tensor) else torch.as_tensor(array, dtype=dtype)
