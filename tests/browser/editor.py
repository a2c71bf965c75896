"""Run a project in Scratch's editor."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

from catgrad.backends.scratch.machine.node import CHROMIUM, NODE

FOLDER = Path(__file__).parent


def missing():
    """Return the reason that the editor cannot run here, if it cannot."""
    if reason := NODE.missing() or CHROMIUM.missing():
        return reason
    if not (FOLDER / "node_modules").is_dir():
        return "the editor is not installed; `make browser` does it"
    return None


def ask(program, seconds, **request):
    """Return the answer of a program in this folder, which drives a browser."""
    request["chromium"] = shutil.which(CHROMIUM.command()[0])
    command = ["node", str(FOLDER / program)]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def run(project, until, names, picture, seconds=60):
    """Return variables and lists of an .sb3 file, once a variable has reached the value in `until`.

    The green flag starts it, so many seconds are waited, and a picture of the editor is kept. What goes
    wrong in the page is an error here.
    """
    request = {
        "file": base64.b64encode(project).decode(),
        "until": until,
        "names": names,
        "picture": str(picture),
        "limit": seconds,
    }
    answer = ask("editor.cjs", seconds + 300, **request)
    if answer["errors"]:
        raise RuntimeError("; ".join(answer["errors"]))
    return answer["values"]
