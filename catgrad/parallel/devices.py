"""Sharded training by the devices of a mesh of JAX, whose compiler partitions the emitted step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catgrad.errors import OptionError, ToolError
from catgrad.learn.fit.batches import Batch
from catgrad.learn.fit.checkpoint import restore, tables
from catgrad.learn.learner import Learner
from catgrad.types import as_numpy

try:
    import jax
    from jax.sharding import NamedSharding, PartitionSpec
except ImportError:
    raise ToolError("JAX must be installed for its devices", "it is not", "pip install jax") from None

AXIS = "devices"
"""The axis of the mesh that emitted tables of shards name."""


class Devices:
    """The devices of a mesh, which one process feeds.

    The step is compiled for arrays that are placed as the module's table SHARDS says, so that its meaning is
    that of one device. Raises: OptionError unless it is a mesh with the axis "devices", of this process
    """

    rank, world = 0, 1

    def __init__(self, mesh: Any) -> None:
        is_mesh = isinstance(mesh, jax.sharding.Mesh) and mesh.axis_names == (AXIS,)
        if not is_mesh or any(d.process_index != jax.process_index() for d in mesh.devices.flat):
            raise OptionError(
                f"a mesh must have the one axis {AXIS!r}, of devices of this process",
                f"it is {mesh!r}",
                f"write jax.sharding.Mesh(numpy.array(jax.local_devices()), ({AXIS!r},))",
            )
        self.mesh = mesh
        self.shards: Mapping[str, Any] = {}
        self.names: Sequence[str] = ()

    def start(self, learner: Learner) -> None:
        """Place the learner's arrays. Raises: OptionError unless it is emitted with the option `shard`"""
        emitted = getattr(type(learner).step, "__globals__", {})
        if "SHARDS" not in emitted:
            raise OptionError(
                "the devices of a mesh must train a learner that is emitted with shards",
                f"its module {type(learner).__module__} has no SHARDS",
                'emit it by emit(task, "jax", shard="data"), or with shard="fsdp" and devices',
            )
        self.shards, self.names = emitted["SHARDS"], emitted["PORTS"]["step"][0]
        self._keep(learner)

    def place(self, batch: Batch) -> Batch:
        """Share the rows among the devices, or give all rows to each if they cannot share them evenly."""
        names = self.names[len(self.names) - len(batch) :]
        return tuple(self._placed(name, as_numpy(array)) for name, array in zip(names, batch, strict=True))

    def step(self, learner: Learner, batch: Batch, rows: Sequence[int]) -> Any:
        """Train on the batch; the compiler adds the communication that the places of arrays need."""
        loss = learner.step(*self.place(batch))
        self._keep(learner)
        return loss

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return the numbers of this process."""
        return [list(numbers)]

    def _keep(self, learner: Learner) -> None:
        """Place the learner's arrays; those that are in their place are not copied."""
        values = tables(learner).items()
        restore(learner, {t: {n: self._placed(n, a) for n, a in arrays.items()} for t, arrays in values})

    def _placed(self, name: str, array: Any) -> Any:
        sharding = NamedSharding(self.mesh, self.shards.get(name, PartitionSpec()))
        axes = enumerate(sharding.spec)
        is_even = all(axis is None or array.shape[k] % self.mesh.size == 0 for k, axis in axes)
        return jax.device_put(array, sharding if is_even else NamedSharding(self.mesh, PartitionSpec()))
