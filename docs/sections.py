"""Shows the sections of our docstrings (Type, Raises, Gradient, …) as a list in the reference."""

from __future__ import annotations

import re
from typing import Any

import griffe

SECTION = re.compile(r"^(Type|Units|Domain|Initial|State|Raises|Gradient|Source):\s+", re.MULTILINE)


class Sections(griffe.Extension):
    """Rewrites each section to an item of a list, the first after an empty line."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class and function that is loaded."""
        if obj.docstring is not None:
            first = SECTION.sub(r"\n- **\1:** ", obj.docstring.value, count=1)
            obj.docstring.value = SECTION.sub(r"- **\1:** ", first)
