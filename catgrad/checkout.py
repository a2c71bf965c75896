"""Find targets, templates and examples in a checkout, where they are beside `catgrad/` (ADR 0002)."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parent

if not (FOLDER / "backends").exists():
    sys.modules["catgrad"].__path__.append(str(FOLDER.parent))
