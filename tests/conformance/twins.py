"""Functions on variables, compared with the same functions in PyTorch."""

from __future__ import annotations

import numpy as np

from catgrad import Dtype, NdArrayType, build
from catgrad.functors import reverse
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import run_on


def normal(*shapes, seed=0):
    """Draw arrays of these shapes from the normal distribution."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def assert_same(target, ours, theirs, *arrays, tolerance=1e-9):
    """Compare values and gradients of all floating arguments, by `ref` and by the target."""
    import torch

    tensors = [torch.tensor(a).requires_grad_(a.dtype.kind == "f") for a in arrays]
    wanted = theirs(*tensors)
    (dy,) = normal(tuple(wanted.shape), seed=1)
    inputs = [t for t in tensors if t.requires_grad]
    gradients = torch.autograd.grad(wanted, inputs, torch.tensor(dy))
    types = [NdArrayType(a.shape, Dtype[a.dtype.name]) for a in arrays]
    term = reverse(build(ours, types))
    floats = [0, *(k for k, a in enumerate(arrays, 1) if a.dtype.kind == "f")]
    for found in (evaluate(term, *arrays, dy), run_on(get_backend(target), term, *arrays, dy)):
        for a, b in zip([found[k] for k in floats], (wanted.detach(), *gradients), strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * 1e-2)
