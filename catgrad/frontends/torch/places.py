"""Places in the source of a module, for errors."""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path
from traceback import StackSummary, extract_stack, extract_tb
from typing import Any


def place_of(error: BaseException) -> str:
    """Return the innermost line of the user's code in the traceback of an error."""
    return _innermost(extract_tb(error.__traceback__))


def current_place(frame: Any = None) -> str:
    """Return the innermost line of the user's code that is running, in a frame or those that called it."""
    return _innermost(extract_stack(frame))


def _innermost(frames: StackSummary) -> str:
    of_user = (frame for frame in reversed(frames) if is_of_user(frame.filename))
    found = (f"{frame.name} ({Path(frame.filename).name}, line {frame.lineno})" for frame in of_user)
    return next(found, "")


@cache
def is_of_user(filename: str) -> bool:
    """Return whether a file is neither of Python, of PyTorch, nor of this front end."""
    import torch

    file = Path(filename)
    standard, pytorch = Path(contextlib.__file__).parent, Path(torch.__file__).parent
    others = (standard, Path(__file__).parent)
    return not filename.startswith("<frozen") and file.parent not in others and pytorch not in file.parents
