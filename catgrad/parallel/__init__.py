"""Engines by which `fit` trains on many devices: processes of PyTorch, and a mesh of JAX."""

from __future__ import annotations

from catgrad.learn.fit.parallel import Parallel


def torch(group: object = None) -> Parallel:
    """Return the processes of `torch.distributed`, which average gradients weighted by rows.

    After each step, all have the same arrays, to the bit. Changes of buffers, such as the running statistics
    of batch norm, are averaged too; masks of dropout are drawn by a seed of each process, or those of one
    process where a task has `shared_rows`.

    Raises: ToolError without PyTorch, or unless init_process_group has been called
    """
    from catgrad.parallel.processes import processes

    return processes(group)


def jax(mesh: object) -> Parallel:
    """Return the devices of a mesh of JAX, for a learner emitted with the option `shard`.

    Batches whose rows the devices cannot share evenly are on each of them; the numbers are the same.

    Raises: OptionError unless it is a mesh with the axis "devices", of this process
    """
    from catgrad.parallel.devices import Devices

    return Devices(mesh)


__all__ = ["jax", "torch"]
