"""Places in the source of a module, for errors."""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType

from catgrad.frontends.torch.types import Module

Frames = Iterable[tuple[FrameType, int]]


def place_of(error: BaseException, module: Module | None = None) -> str:
    """Return the innermost line of the user's code in the traceback of an error.

    It begins with the dotted name of the part of `module` that runs there.
    """
    return _place(reversed(list(walk_tb(error.__traceback__))), module)


def current_place(frame: FrameType | None = None) -> str:
    """Return the innermost line of the user's code that is running, in a frame or those that called it."""
    return _place(walk_stack(frame), None)


def code_of(error: BaseException) -> str:
    """Return the text of the innermost line of the user's code in the traceback of an error."""
    frames = reversed(list(walk_tb(error.__traceback__)))
    lines = ((f.f_code.co_filename, number) for f, number in frames if is_of_user(f.f_code.co_filename))
    return linecache.getline(*next(lines, ("", 0))).strip()


def _place(frames: Frames, module: Module | None) -> str:
    """Format the first line of the user, after the dotted name of the first part of a module."""
    names = {id(part): name for name, part in module.named_modules()} if module is not None else {}
    path = place = ""
    for frame, number in frames:
        path = path or names.get(id(frame.f_locals.get("self")), "")
        if not place and is_of_user(file := frame.f_code.co_filename):
            place = f"{frame.f_code.co_name} ({Path(file).name}, line {number})"
    return ", in ".join(filter(None, (path, place)))


@cache
def is_of_user(filename: str) -> bool:
    """Return whether a file is neither of Python, of PyTorch, nor of this front end."""
    import torch

    file = Path(filename)
    standard, pytorch, own = Path(contextlib.__file__), Path(torch.__file__), Path(__file__).parent
    is_standard = standard.parent in file.parents and "site-packages" not in file.parts
    is_generated = filename.startswith("<") and not filename.startswith("<ipython")
    of_library = pytorch.parent in file.parents or own.parent in file.parents
    return not (is_standard or is_generated or of_library)
