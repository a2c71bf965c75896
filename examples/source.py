"""What of an emitted file the examples show."""

from __future__ import annotations

import re


def training_step(source: str) -> str:
    """The function that is one step of training; all of a file that has none."""
    begin = re.search(r"^(def step|int \w+_step)\(", source, re.MULTILINE)
    return re.split(r"\n\n(?=\S)", source[begin.start() :])[0] if begin else source
