"""Differences between emitted code of an imported module and PyTorch, forward and backward."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from catgrad import Task, mse, sgd
from catgrad.programs.ports import Kind, Role
from catgrad.targets import get_backend
from tests.targets import emit


def largest_difference(module, inputs, imported, target):
    """Return the largest difference of an element of the output or of a gradient.

    It is relative to the largest element of the same array, as one may be a sum of others that cancel, and at
    least to a thousandth of the largest gradient.
    """
    backend = replace(get_backend(target), entries=lambda options, task: (Kind.PREDICT, Kind.REV))
    artifact = emit(Task(imported.model, sgd(0.1), mse), backend)
    compiled, tables = artifact.load()(), {Role.PARAMETER: imported.parameters, Role.BUFFER: imported.buffers}

    def run(kind, *arrays):
        ports = artifact.reference.kinds[kind].inputs
        held = [tables[port.role][port.name] for port in ports if port.role.is_table]
        return getattr(compiled, kind)(*held, *(x.numpy() for x in inputs), *arrays)

    [output] = run(Kind.PREDICT)
    cotangent = np.random.default_rng(0).normal(size=output.shape).astype(np.float32)
    gradients = [gradient for gradient in run(Kind.REV, cotangent) if gradient.dtype.kind == "f"]
    expected, expected_gradients = _of_pytorch(module, inputs, imported.parameters, cotangent)
    least = max(map(_largest, expected_gradients)) / 1000
    pairs = [(output, expected, 0.0)]
    pairs += [(ours, theirs, least) for ours, theirs in zip(gradients, expected_gradients, strict=True)]
    return max(_relative(*pair) for pair in pairs)


def _of_pytorch(module, inputs, names, cotangent):
    """Return the output, and the gradients of these parameters and of floating inputs, by torch.autograd."""
    given = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    output = module(*given)
    parameters = dict(module.named_parameters())
    learnt = [*(parameters[name] for name in names), *(x for x in given if x.requires_grad)]
    gradients = torch.autograd.grad(
        output, learnt, torch.tensor(cotangent), allow_unused=True, materialize_grads=True
    )
    return output.detach().numpy(), [gradient.numpy() for gradient in gradients]


def _largest(array):
    return float(np.abs(array).max(initial=0))


def _relative(found, expected, least_scale):
    """Return the largest difference over the scale of the expected array; infinite unless it is a number."""
    assert found.shape == expected.shape
    difference = np.abs(found - expected) / max(_largest(expected), least_scale)
    return float(difference.max()) if np.isfinite(difference).all() else np.inf
