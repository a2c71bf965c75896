"""Run the command line, or an example, within this process: to start Python and to import takes a second."""

from __future__ import annotations

import io
import runpy
import sys
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

import pytest

ROOT = Path(__file__).parents[2]


def run(
    *arguments: str, module: str = "catgrad.cli", folder: Path = ROOT, **environment: str
) -> CompletedProcess[str]:
    """Run `python -m MODULE ARGUMENTS` in a folder, and return its output and exit status."""
    output, errors, status = io.StringIO(), io.StringIO(), 0
    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", ".*found in sys.modules", RuntimeWarning)  # by an earlier test
        patch.chdir(folder)
        patch.setattr(sys, "argv", [module, *arguments])
        for name, value in {"COLUMNS": "120", **environment}.items():
            patch.setenv(name, value)
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as done:
            status = done.code if isinstance(done.code, int) else int(done.code is not None)
        except Exception:
            traceback.print_exc()
            status = 1
    return CompletedProcess(arguments, status, output.getvalue(), errors.getvalue())
