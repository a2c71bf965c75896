"""The excerpt of an emitted file that examples print."""

from __future__ import annotations

import re


def training_step(source: str) -> str:
    """Return the source of the training step; the whole file if it has none."""
    begin = re.search(r"^(def step|int \w+_step)\(", source, re.MULTILINE)
    return re.split(r"\n\n(?=\S)", source[begin.start() :])[0] if begin else source
