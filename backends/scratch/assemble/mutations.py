"""Mutations of blocks: attributes besides inputs and fields."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..formats.names import shown_block
from .scope import Custom

_DEFAULTS = {False: "", True: "false"}


def prototype(custom: Custom) -> dict[str, object]:
    """Return the mutation of the prototype of a custom block."""
    return _mutation(
        **_call(custom),
        argumentnames=_array(name for _, name, _ in custom.arguments),
        argumentdefaults=_array(_DEFAULTS[boolean] for _, _, boolean in custom.arguments),
    )


def call(custom: Custom) -> dict[str, object]:
    """Return the mutation of a call of a custom block."""
    return _mutation(**_call(custom))


def stop(ends: bool) -> dict[str, object]:
    """Return the mutation of a stop block, which has a successor unless it ends its own script."""
    return _mutation(hasnext=_truth(not ends))


def _call(custom: Custom) -> dict[str, str]:
    ids = _array(id for id, _, _ in custom.arguments)
    return {"proccode": shown_block(custom.name), "argumentids": ids, "warp": _truth(not custom.slow)}


def _mutation(**attributes: str) -> dict[str, object]:
    return {"tagName": "mutation", "children": [], **attributes}


def _array(texts: Iterable[str]) -> str:
    return json.dumps(list(texts), ensure_ascii=False, separators=(",", ":"))


def _truth(value: bool) -> str:
    return "true" if value else "false"
