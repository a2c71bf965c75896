"""Tokenizers as sprites: blocks that encode text to numbers and decode them."""

from __future__ import annotations

from pathlib import Path

from catgrad.files import write_atomically
from catgrad.naming import require_dotted
from catgrad.paths import writable
from catgrad.targets import get_backend
from catgrad.tokenizers import Tokenizer, from_hugging_face

from ..assemble import sprite3
from .tables import Tables, tables

__all__ = ["Tables", "tables", "transpile_tokenizer"]


def transpile_tokenizer(
    tokenizer: object, name: str = "tokenizer", folder: str | Path | None = None
) -> dict[str, str | bytes]:
    """Build a sprite with the blocks `encode`, text to tokens, and `decode`: its text and its file.

    If a folder is given, they are written into it. The tokenizer is one of `catgrad.tokenizers`, or one that
    `from_hugging_face` reads.

    Raises: OptionError unless the name has letters, digits, `_` and dots only; UnsupportedOp for an
    unsupported tokenizer; ArtifactError if it is too large, or the folder cannot be written
    """
    require_dotted(name)
    read = tokenizer if isinstance(tokenizer, Tokenizer) else from_hugging_face(tokenizer)
    made = tables(read)
    template = get_backend("scratch").environment.get_template("tokenizer_sprite.j2")
    text = template.render(name=name, t=made)
    sprite = sprite3(text, made.lists)
    if folder is not None:
        with writable("the output folder", Path(folder)):
            Path(folder).mkdir(parents=True, exist_ok=True)
            write_atomically(Path(folder) / f"{name}.scratch", [text.encode()])
            write_atomically(Path(folder) / f"{name}.sprite3", [sprite])
    return {f"{name}.scratch": text, f"{name}.sprite3": sprite}
