"""Load the model `MODULE:NAME` from users' code, which may raise any error."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isfunction
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from catgrad.errors import CatgradError, OptionError, UnknownName, nearest
from catgrad.terms.origin import is_library


def resolve(reference: str) -> Any:
    """Import the Task or term that `module:name` refers to, or call the function that returns it.

    A path that ends in `.catgrad.json` is read.

    Raises: as `find`, or as `catgrad.load` for a file of terms
    """
    from catgrad.formats import terms as files
    from catgrad.learn.functions import Functions
    from catgrad.learn.task import Task
    from catgrad.programs.terms import Terms
    from catgrad.terms.term import Term

    if reference.endswith(files.SUFFIX):
        return files.read(reference)
    kinds = (Task, Functions, Term, Terms)
    return find(reference, kinds, "a Task or a term", "Task(...) or build(...)")


def find(reference: str, kinds: tuple[type, ...], what: str, built: str) -> Any:
    """Import the value of these types that `module:name` refers to, or call the function that returns it.

    The module is a name, as Python imports it, or the path of a file that ends in `.py`.

    Raises: UnknownName, OptionError, also for any error that the module raises except KeyboardInterrupt
    """
    module_name, _, name = reference.rpartition(":")
    if not (module_name and name):
        raise OptionError(
            "a model must be given as MODULE:NAME",
            f"it is {reference!r}",
            f"write for example {_reference_like(reference)}",
        )
    module = _imported(module_name)
    with guarded(f"{reference} must be {what}, or return one", "mend the module"):
        if not hasattr(module, name):
            raise _unknown_name(module, module_name, name, kinds)
        found = getattr(module, name)
        made = callable(found) and not isinstance(found, kinds)
    if made:
        must = f"{reference} must return {what} when it is called without arguments"
        with guarded(must, "give a function without arguments that builds the model"):
            found = found()
    if not isinstance(found, kinds):
        raise OptionError(
            f"{reference} must be {what}, or return one",
            f"it is {type(found).__name__}",
            f"build one with {built}",
        )
    return found


def _reference_like(text: str) -> str:
    """Return MODULE:NAME with the words of a text that is none: `net.py`, `net.task`."""
    words = text.removesuffix(".py").strip(":").replace("/", ".").split(".")
    if text.endswith(".py") or len(words) == 1:
        words.append("task")
    return f"{'.'.join(words[:-1])}:{words[-1]}" if all(words) else "net:task"


def _unknown_name(module: ModuleType, written: str, name: str, kinds: tuple[type, ...]) -> UnknownName:
    """Return the error for a name that a module lacks, with those that it has; tasks are written first."""
    own = {n: v for n, v in vars(module).items() if not n.startswith("_")}
    functions = [n for n, v in own.items() if isfunction(v) and v.__module__ == module.__name__]
    values = [n for kind in kinds for n, v in own.items() if isinstance(v, kind)]
    if not (values or functions):
        found, hint = f"it is {name!r}, and there is none", f"write {name} = Task(...) in {written}"
        return UnknownName(
            f"a name in {written} must be a model, or a function that returns one", found, hint
        )
    known = ", ".join(sorted([*values, *functions]))
    hint = f"{nearest(name, [*values, *functions])}write for example {written}:{[*values, *functions][0]}"
    return UnknownName(f"a name in the module must be one of {known}", f"it is {name!r}", hint)


@contextmanager
def guarded(must: str, do: str, kind: type[CatgradError] = OptionError) -> Iterator[None]:
    """Run users' code; turn any error into one of this kind, with its line."""
    try:
        yield
    except CatgradError as error:
        raise error.about(where=place(error))  # noqa: B904  # the same error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too, or the command would end silently
        raise kind(must, f"it raised {described(error)}", do, where=place(error)) from error


def described(error: BaseException) -> str:
    """Describe any exception by type and message, even one whose message raises an error."""
    try:
        message = str(error)
    except Exception:
        message = "which has no message"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def place(error: BaseException) -> str:
    """Return the line of users' code that raised an exception; empty if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not (is_library(frame.filename) or frame.filename.startswith("<"))]
    return f"line {own[-1].lineno} of {Path(own[-1].filename).name}" if own else ""


def _imported(name: str) -> ModuleType:
    hint = "run from the folder that holds it, and see that `python -c 'import ...'` works"
    if name.endswith(".py"):
        with guarded(f"the file {name} must run as a module", "check its path, and its code", UnknownName):
            return _run(Path(name).resolve())
    with guarded(f"the module {name!r} must import", f"{_nearest_module(name)}{hint}", UnknownName):
        _look_in(os.getcwd())
        return import_module(name)


def _run(file: Path) -> ModuleType:
    """Run a file as a module with its name, which imports from its folder first, as a script does."""
    # A file may have the name of a module that others have imported, such as copy.py.
    name = file.stem if file.stem not in sys.modules else f"{file.stem} in {file.parent}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no module")
    _look_in(str(file.parent))
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _look_in(folder: str) -> None:
    """Import modules from this folder first."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _nearest_module(name: str) -> str:
    """Suggest a module with a similar name in the same folder; empty if there is none."""
    parent, _, last = name.rpartition(".")
    folder = Path(*parent.split(".")) if parent else Path()
    try:
        beside = [module.name for module in iter_modules([str(folder)])]
    except (OSError, ValueError):
        return ""
    return nearest(last, beside) if last not in beside else ""
