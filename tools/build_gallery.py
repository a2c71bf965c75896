"""Build the gallery: `python -m tools.build_gallery FOLDER` writes four playgrounds and a list."""

from __future__ import annotations

import sys
from pathlib import Path

import jinja2
from catgrad.backends import templates

from catgrad import Dim, Dtype, NdArrayType, Task, losses, optimisers
from catgrad.playground import Samples, View, write
from examples import char_gpt, digits, iris, lstm, text

TARGETS = ("numpy", "c", "torch", "javascript", "cuda")
"""The targets of the larger models; their blocks in Scratch are too many to read."""

CONTEXT, WINDOWS = 32, 400


def small_gpt() -> tuple[Task, Samples]:
    """Return a GPT with one block, whose steps take milliseconds, and windows of Genesis."""
    book = text.load()
    characters = text.alphabet(book)
    model = char_gpt.gpt(len(characters), depth=1, width=32, heads=2, context=CONTEXT)
    labels = (NdArrayType((Dim("batch"), CONTEXT), Dtype.int64),)
    task = Task(model, optimisers.adam(5e-3), losses.cross_entropy, "char_gpt", labels)
    numbers = text.encode(book, characters)[: WINDOWS * CONTEXT + 1]
    x, y = (numbers[k:][: WINDOWS * CONTEXT].reshape(WINDOWS, CONTEXT) for k in (0, 1))
    note = f"{WINDOWS} windows of {CONTEXT} characters of Genesis. The text after the first words is new."
    samples = Samples(
        x, y, 16, View.TEXT, classes=tuple(characters), logits=True, title="A small GPT", note=note
    )
    return task, samples


def build(folder: Path) -> None:
    """Write the pages."""
    gallery = {
        "iris": (iris.hidden(), iris.samples()),
        "digits": (digits.mlp(), digits.samples()),
        "sunspots": (lstm.lstm(), lstm.samples()),
        "gpt": small_gpt(),
    }
    for name, (task, samples) in gallery.items():
        print(write(folder / f"{name}.html", task, samples, TARGETS))
    listed = [(f"{name}.html", samples.title, samples.note) for name, (_, samples) in gallery.items()]
    pages = templates("playground")
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(pages), autoescape=True)
    style = (pages / "style.css").read_text(encoding="utf-8")
    index = environment.get_template("gallery.html.j2").render(pages=listed, style=style)
    (folder / "index.html").write_text(index, encoding="utf-8")


if __name__ == "__main__":
    build(Path(sys.argv[1]))
