"""Open a playground in a browser; screenshot of the one about irises.

python -m tests.browser.playground docs/images/playground.png
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from catgrad.playground import write
from examples import iris

from .editor import ask

LESSON = """playground.train(400);
document.querySelector("#parameters button").click();
for (const button of document.querySelectorAll(".following")) for (let k = 0; k < 4; k++) button.click();
window.scrollTo(0, 0);"""
"""Train, light the first parameter, and go on to the functions that use it."""


def visit(file, script, picture="", width=1280, height=1500, dark=False, seconds=120):
    """Run a script in a page; returns its result, the errors in the page, and the addresses it asked for."""
    request = {
        "file": str(file),
        "script": script,
        "picture": str(picture),
        "width": width,
        "height": height,
        "dark": dark,
    }
    return ask("page.cjs", seconds, **request)


def main(picture):
    """Write the page of the network on irises, train it, and keep a picture."""
    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder, "iris.html").resolve(), iris.hidden(), iris.samples())
        print(visit(file, LESSON, picture))


if __name__ == "__main__":
    main(sys.argv[1])
