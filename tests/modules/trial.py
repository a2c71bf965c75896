"""Train a module five steps beside PyTorch, and say how it went."""

from __future__ import annotations

import contextlib
import math
import warnings
from importlib import import_module
from typing import NamedTuple
from unittest.mock import patch

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from catgrad import compile_module  # noqa: E402
from catgrad.errors import CatgradError, CatgradWarning, VerificationError  # noqa: E402
from catgrad.learn.fit.checkpoint import tables  # noqa: E402
from catgrad.terms.state import DRAWS  # noqa: E402
from tests.modules.records import MODULES, SIZES  # noqa: E402

TOPICS = (
    "vision", "images", "generative", "samplers", "attention", "latents", "sequences", "alignments", "graphs",
    "representations", "margins", "fields", "decisions", "layers",
)  # fmt: skip
"""The files with modules."""

for topic in TOPICS:
    import_module(f"tests.modules.{topic}")

STEPS = 5


class Outcome(NamedTuple):
    """`right`, `right, batch fixed`, `wrong` or `refused`, with the reason."""

    result: str
    reason: str = ""


def outcome(name):
    """Compile a module as it is, and compare five steps with PyTorch."""
    record = MODULES[name]
    try:
        learner, fixed = compiled(record)
        batches = [record.batch(size, seed) for seed, size in enumerate(SIZES[:1] if fixed else SIZES)]
        batches = [(*inputs, *targets) for inputs, targets in batches]
        if any(DRAWS.name in table for table in tables(learner).values()):
            for batch in (batches * STEPS)[:STEPS]:
                assert math.isfinite(learner.step(*(x.numpy() for x in batch)))
            with without_noise():
                learner, fixed = compiled(record, is_quiet=True)
                learner.verify(batches, steps=STEPS).check()
        else:
            learner.verify(batches, steps=STEPS).check()
    except VerificationError as error:
        return Outcome("wrong", str(error))
    except CatgradError as error:
        return Outcome("refused", str(error))
    return Outcome("right, batch fixed" if fixed else "right")


def compiled(record, is_quiet=False):
    """Compile a module with weights drawn from a seed; also return whether the size of the batch is fixed."""
    torch.manual_seed(0)
    module = record.make()
    if is_quiet:
        stop_dropout(module)
    inputs, targets = record.batch(SIZES[0], 0)
    optimiser = record.optimiser([p for p in module.parameters() if p.requires_grad])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner = compile_module(module, inputs, optimiser, record.loss, targets=targets)
    return learner, any(issubclass(w.category, CatgradWarning) for w in caught)


def stop_dropout(module):
    for part in module.modules():
        for rate in ("p", "dropout"):
            if isinstance(getattr(part, rate, None), float):
                setattr(part, rate, 0.0)


@contextlib.contextmanager
def without_noise():
    """Replace draws of PyTorch by numbers that are the same in each call: its random bits are not ours."""
    normal = "torch.distributions.normal._standard_normal"
    with (
        patch("torch.randn_like", lambda x: _fixed(x.shape, x.dtype)),
        patch("torch.rand_like", lambda x: 0.5 + 0.4 * _fixed(x.shape, x.dtype)),
        patch("torch.rand", lambda *shape, dtype=torch.float32, **_: 0.5 + 0.4 * _fixed(shape, dtype)),
        patch("torch.randn", lambda *shape, dtype=torch.float32, **_: _fixed(shape, dtype)),
        patch(normal, lambda shape, dtype, device: _fixed(shape, dtype)),
        patch("torch.Tensor.bernoulli_", lambda x, p: x.fill_(1.0)),
    ):
        yield


def _fixed(shape, dtype):
    shape = shape[0] if shape and not isinstance(shape[0], (int, torch.SymInt)) else shape
    row = torch.cos(torch.arange(shape[-1], dtype=dtype)) if len(shape) else torch.tensor(0.3, dtype=dtype)
    return row.expand(shape).clone()


def main(names=()):
    """Print a table of all modules, or of some."""
    found = {}
    for name in names or MODULES:
        found[name] = outcome(name)
        print(f"{name:34s} {found[name].result:18s} {found[name].reason[:300]}", flush=True)
    for result in dict.fromkeys(each.result for each in found.values()):
        print(f"{sum(each.result == result for each in found.values()):4d} of {len(found)} {result}")
