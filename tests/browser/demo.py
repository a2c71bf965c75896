"""Screenshot of the lesson about irises in Scratch's editor.

python -m tests.browser.demo docs/images/scratch.png
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace

from catgrad import emit
from examples.iris import FEATURES, SPECIES, hidden, load

from .editor import run


def lesson(picture):
    """Run the lesson, save a screenshot, and return loss, accuracy and error at its end."""
    task = replace(hidden(), name="iris")
    artifact = emit(task, "scratch", batch=10, data=load(), features=FEATURES, classes=SPECIES)
    steps = int(re.search(r"call `train %s steps`\((\d+)\)", artifact.source)[1])
    last = ("steps", 240 * steps)
    return run(artifact.files["iris.sb3"], last, ["loss", "accuracy", "error"], picture, seconds=120)


if __name__ == "__main__":
    print(lesson(sys.argv[1]))
