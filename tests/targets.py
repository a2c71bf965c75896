"""Selection of targets for tests, and the number of examples on each."""

from __future__ import annotations

import functools
import inspect

import pytest
from hypothesis import Phase, given, settings

from catgrad.learn.compile import emit_by_default
from catgrad.learn.task import COMPILED
from catgrad.targets import get_backend

SHARES = {"c": 8, "cuda": 10, "ggml": 10, "onnx": 5, "scratch": 8, "wasm": 20}
"""Divisors of the number of examples: each compiles a library, or loads a project or a session there."""

USUAL = ("numpy", "torch", "c", "cuda", "ggml", "javascript", "wasm", "scratch", "onnx")
"""Targets of most tests; compiling for JAX takes long."""

LONG = ("cuda", "ggml", "javascript", "onnx", "wasm")
"""Targets that take seconds for a program: tests of many targets run on them with `pytest -m long`."""

TOGETHER = {
    "c": 32, "cuda": 64, "ggml": 64, "javascript": 64, "jax": 32, "numpy": 32, "scratch": 16, "torch": 32,
    "wasm": 32, "webgpu": 64,
}  # fmt: skip
"""Cases that share a program, by target: emitting, compiling or loading one is slower than running it."""

BOTH_WAYS = ("numpy", "torch", "torch-module")
"""Targets that run operations forward too; on others the reverse, which has the values, stands for both."""

UNSHRUNK = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
"""Phases without shrinking, for the same reason."""


def emit(task, target="numpy", functions=None, **options):
    """Emit all functions of the class of `compile_model`, and the target's variants, unless some are named.

    Of a target that does not print all of them, emit those that it prints.
    """
    backend = get_backend(target) if isinstance(target, str) else target
    return emit_by_default((*COMPILED, *backend.variants), task, backend, functions, **options)


def is_later(case):
    """Tell whether a case of an operation has another example than its first, with other options or sizes."""
    number = case.name.split("-")[1]
    return number.isdigit() and number != "0"


@functools.cache  # it looks for programs and packages, and parameters of thousands of tests ask
def cannot(target, *needed):
    """Return the reason that tests with these needs cannot run on a target here, if they cannot."""
    backend = get_backend(target)
    return backend.missing() or next(
        (backend.known_gaps[name] for name in needed if name in backend.known_gaps), None
    )


def need(target, *needed):
    """Skip the rest of a test on a target that does not have these, with its reason."""
    if reason := cannot(target, *needed):
        pytest.skip(f"target {target}: {reason}")


def on(*names, needed=(), long=()):
    """Parametrise a test by these targets; those that cannot run it are skipped with the reason."""
    return pytest.mark.parametrize("target", [_parameter(name, needed, name in long) for name in names])


def _parameter(name, needed, is_long):
    reason = cannot(name, *needed)
    skipped = pytest.mark.skipif(bool(reason), reason=f"target {name}: {reason}")
    return pytest.param(name, marks=[skipped, pytest.mark.long] if is_long else [skipped])


def on_targets_with(*needed):
    """Parametrise a test by the usual targets, given its needs by the keys of `Backend.known_gaps`."""
    return on(*USUAL, needed=needed, long=LONG)


def on_all_targets_with(*needed):
    """Parametrise a test by all targets, given its needs."""
    return on(*USUAL, "jax", needed=needed, long=LONG)


on_targets, on_all_targets = on_targets_with(), on_all_targets_with()

on_learners = on("jax", *USUAL, needed=("learner",), long=(*LONG, "jax"))
"""Parametrise a test of learners, of which all targets that print Python have one class, by target."""


def drawn(max_examples=None, **strategies):
    """Apply Hypothesis's `given` to a test of a target, with fewer examples where each is compiled."""

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
