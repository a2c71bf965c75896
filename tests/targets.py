"""On which targets tests run, and how many examples each of these can afford."""

from __future__ import annotations

import functools
import inspect

import pytest
from hypothesis import Phase, given, settings

from catgrad.backend import get_backend

SHARES = {"c": 5, "scratch": 5}
"""One example in so many is drawn there, for each is a library to compile or a project to load."""

TOGETHER = {"c": 32}
"""Cases that are emitted to one program, by target: to compile a library takes far longer than to run it."""

UNSHRUNK = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
"""For the same reason, one that fails is shown as it is."""


def cannot(target, *needed):
    """Why tests that need these of a target cannot run on it here, if they cannot."""
    backend = get_backend(target)
    return backend.missing() or next(
        (backend.known_gaps[name] for name in needed if name in backend.known_gaps), None
    )


def need(target, *needed):
    """Skip the rest of a test on a target that does not have these, with its reason."""
    if reason := cannot(target, *needed):
        pytest.skip(f"target {target}: {reason}")


def on(*names, needed=()):
    """A test on each of these targets; those that cannot run it are skipped with the reason."""
    reasons = {name: cannot(name, *needed) for name in names}
    return pytest.mark.parametrize(
        "target",
        [
            pytest.param(name, marks=pytest.mark.skipif(bool(reason), reason=f"target {name}: {reason}"))
            for name, reason in reasons.items()
        ],
    )


def on_targets_with(*needed):
    """A test that needs these, by the words of `Backend.known_gaps`, on the targets that most run on."""
    return on("numpy", "torch", "c", "scratch", needed=needed)


def on_all_targets_with(*needed):
    """The same, on those too on which few run."""
    return on("numpy", "torch", "jax", "c", "scratch", needed=needed)


on_targets, on_all_targets = on_targets_with(), on_all_targets_with()


def drawn(max_examples=None, **strategies):
    """Hypothesis's `given` for a test of a target, with fewer examples where each must be compiled."""

    def decorated(test):
        @functools.wraps(test)
        def on_a_target(target, **others):
            def on_an_example(**example):
                test(target=target, **others, **example)

            chosen = settings(max_examples=max_examples or settings().max_examples)
            if target in SHARES:
                fewer = max(1, chosen.max_examples // SHARES[target])
                chosen = settings(max_examples=fewer, phases=UNSHRUNK)
            chosen(given(**strategies)(on_an_example))()

        taken = inspect.signature(test).parameters.values()
        on_a_target.__signature__ = inspect.Signature([p for p in taken if p.name not in strategies])
        return on_a_target

    return decorated
