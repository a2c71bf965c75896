"""State that outlives a call of a module: generators of random numbers, and attributes of its parts."""

from __future__ import annotations

import contextlib
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np

from catgrad.frontends.torch.tracing.places import current_place, is_of_user
from catgrad.frontends.torch.types import Module

TABLES = ("_parameters", "_buffers")
"""Attributes of a module that PyTorch looks after."""

MAX_ELEMENTS = 1000
"""The length of a container above which its elements are not compared."""

MAX_DEPTH = 8
"""The depth of attributes of attributes that are compared."""

State = dict[str, Any]


def generators() -> State:
    """Return the states of the global generators of random numbers, by the names of their modules."""
    import torch

    name, keys, *rest = np.random.get_state(legacy=True)
    numpy = (name, np.asarray(keys).tobytes(), *rest)
    return {"random": random.getstate(), "numpy.random": numpy, "torch.manual_seed": torch.initial_seed()}


@contextlib.contextmanager
def other_seeds() -> Iterator[None]:
    """Give new seeds to the global generators of random numbers, and restore their states afterwards."""
    import torch

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed()
    np.random.seed()
    torch.seed()
    try:
        yield
    finally:
        for restore, state in zip(
            (random.setstate, np.random.set_state, torch.set_rng_state), states, strict=True
        ):
            restore(state)


def attributes(module: Module) -> State:
    """Return the attributes of all parts of a module, by their dotted names, without tensors."""
    seen: set[int] = set()
    return {
        f"self.{name}.{key}" if name else f"self.{key}": _summary(value, seen, 0)
        for name, part in module.named_modules()
        for key, value in vars(part).items()
        if key not in TABLES
    }


def changed(before: State, after: State) -> list[str]:
    """Return the names whose values differ."""
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


@contextlib.contextmanager
def restored(module: Module) -> Iterator[None]:
    """Restore the attributes of all parts of a module that have changed."""
    before = attributes(module)
    saved = [
        (part, {k: _copied(v) for k, v in vars(part).items() if k not in TABLES}) for part in module.modules()
    ]
    try:
        yield
    finally:
        if attributes(module) != before:
            for part, values in saved:
                kept = {name: vars(part)[name] for name in TABLES if name in vars(part)}
                vars(part).clear()
                vars(part).update({**values, **kept})


def line_of_change(run: Callable[[], object], state: Callable[[], State]) -> str:
    """Return the first line of a user's file that changes the state while a function runs, if any does."""
    before, place, found = state(), "", ""

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal place, found
        if found or not is_of_user(frame.f_code.co_filename):
            return None
        if changed(before, state()):
            found = place
        place = current_place(frame.f_back if event == "return" else frame)
        return trace

    known = sys.gettrace()
    sys.settrace(trace)
    try:
        with contextlib.suppress(Exception):  # the run only shows where the state changes
            run()
    finally:
        sys.settrace(known)
    return found


def _copied(value: Any) -> Any:
    """Copy the containers in a value."""
    if type(value) in (list, tuple, set, deque):
        return type(value)(map(_copied, value))
    return {k: _copied(v) for k, v in value.items()} if type(value) is dict else value


def _summary(value: Any, seen: set[int], depth: int) -> Any:
    """Describe a value by numbers, strings and tuples that can be compared."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    kind = type(value).__qualname__
    if id(value) in seen or depth > MAX_DEPTH:
        return kind
    seen.add(id(value))
    drawn = _state_of_generator(value)
    if drawn:
        return drawn
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes() if value.size <= MAX_ELEMENTS else kind
    if isinstance(value, dict):
        keys, values = list(value)[:MAX_ELEMENTS], list(value.values())[:MAX_ELEMENTS]
        return len(value), tuple(map(repr, keys)), tuple(_summary(x, seen, depth + 1) for x in values)
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return len(value), tuple(_summary(x, seen, depth + 1) for x in list(value)[:MAX_ELEMENTS])
    return kind, _attributes_of(value, seen, depth)


def _attributes_of(value: Any, seen: set[int], depth: int) -> Any:
    """Describe the attributes of an object of the user; parts of a module are described by themselves."""
    import torch

    if isinstance(value, torch.nn.Module):
        return id(value)
    if isinstance(value, (torch.Tensor, type)) or callable(value) or not hasattr(value, "__dict__"):
        return ""
    return _summary(vars(value), seen, depth + 1)


def _state_of_generator(value: object) -> str:
    """Return the state of a generator of random numbers, empty for other values."""
    import torch

    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return repr(value.getstate())
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state(legacy=False)["state"])
    return repr(value.initial_seed()) if isinstance(value, torch.Generator) else ""
