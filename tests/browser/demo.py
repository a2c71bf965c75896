"""The lesson about irises, as it runs in Scratch's editor.

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
    """The loss, accuracy and error at the end of the lesson, of which a picture is kept."""
    task = replace(hidden(), name="iris")
    artifact = emit(task, "scratch", batch=10, data=load(), features=FEATURES, classes=SPECIES)
    steps = int(re.search(r"call `train %s steps`\((\d+)\)", artifact.source)[1])
    last = ("steps", 240 * steps)
    return run(artifact.files["iris.sb3"], last, ["loss", "accuracy", "error"], picture, seconds=120)


if __name__ == "__main__":
    print(lesson(sys.argv[1]))
