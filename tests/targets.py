"""On which targets tests run, and how many examples each of these can afford."""

from __future__ import annotations

import functools
import inspect

import pytest
from hypothesis import Phase, given, settings

from catgrad.backend import get_backend

SHARE_ON_C = 5
"""One example in so many is drawn there, for each is a library to compile."""

UNSHRUNK = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
"""For the same reason, one that fails is shown as it is."""


def on(*names):
    """A test on each of these targets; those that cannot run on this machine are skipped with the reason."""
    reasons = {name: get_backend(name).missing() for name in names}
    return pytest.mark.parametrize(
        "target",
        [
            pytest.param(name, marks=pytest.mark.skipif(bool(reason), reason=f"target {name}: {reason}"))
            for name, reason in reasons.items()
        ],
    )


on_targets, on_all_targets = on("numpy", "torch", "c"), on("numpy", "torch", "jax", "c")


def drawn(max_examples=None, **strategies):
    """Hypothesis's `given` for a test of a target, with fewer examples where each must be compiled."""

    def decorated(test):
        @functools.wraps(test)
        def on_a_target(target, **others):
            def on_an_example(**example):
                test(target=target, **others, **example)

            chosen = settings(max_examples=max_examples or settings().max_examples)
            if target == "c":
                chosen = settings(max_examples=max(1, chosen.max_examples // SHARE_ON_C), phases=UNSHRUNK)
            chosen(given(**strategies)(on_an_example))()

        taken = inspect.signature(test).parameters.values()
        on_a_target.__signature__ = inspect.Signature([p for p in taken if p.name not in strategies])
        return on_a_target

    return decorated
