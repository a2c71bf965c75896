"""A self-contained page of a task: its diagram, its sources for targets, and training in the browser."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from catgrad.artifact import Artifact
from catgrad.errors import OptionError
from catgrad.files import write_atomically
from catgrad.functors.parameters import with_distinct_names
from catgrad.initialisers import Filled
from catgrad.learn.compile import emit
from catgrad.learn.task import Task
from catgrad.naming import Namer
from catgrad.paths import writable
from catgrad.playground.samples import Samples
from catgrad.playground.sprite import sprite
from catgrad.programs.ports import Role
from catgrad.terms.draw import render
from catgrad.terms.state import Slot

TRAINS = "javascript"
"""The target that trains in the page; it is always one of those that are shown."""

SPRITE = "scratch"
"""The target whose sprite takes the weights that were trained in the page, if it is shown."""

TARGETS = ("numpy", "c", "torch", TRAINS, "cuda", SPRITE)
"""The targets whose sources are shown by default."""

SCRIPTS = ("pictures.mjs", "zip.mjs", "training.mjs", "sources.mjs")
"""The parts of the page's script, in order."""

VARIANTS = ("", "d_", "new_")
"""Prefixes of emitted names: of a parameter itself, its gradient, its new value."""


def page(task: Task, samples: Samples | None = None, targets: Iterable[str] = TARGETS) -> str:
    """Return the page of a task as HTML; without samples, it shows diagram and sources, and does not train.

    Raises: as `catgrad.emit` for each target; as `Samples.described`; ToolError if nothing draws the diagram;
            OptionError if the model is no Task
    """
    import jinja2

    if not isinstance(task, Task):
        raise OptionError(
            "the model of a playground must be a Task, because it trains",
            f"it is {type(task).__name__}",
            "write Task(model, sgd(0.01), mse)",
        )
    described = samples.described(task) if samples else None
    artifacts = {name: emit(task, name) for name in dict.fromkeys((*targets, TRAINS))}
    folder = Path(str(resources.files("catgrad.templates"))) / "playground"
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(folder), autoescape=True)
    drawing = render(with_distinct_names(task.model), "svg").decode()
    return environment.get_template("page.html.j2").render(
        title=(samples.title if samples else "") or task.name,
        task=task,
        elements=sum(slot.type.size for slot in task.parameters),
        digest=artifacts[TRAINS].program.digest,
        samples=described,
        diagram=drawing[drawing.index("<svg") :],  # without the prologue of a file
        style=(folder / "style.css").read_text(encoding="utf-8"),
        scripts=[(folder / name).read_text(encoding="utf-8") for name in SCRIPTS],
        data=_data(task, described, artifacts),
    )


def write(
    path: str | Path, task: Task, samples: Samples | None = None, targets: Iterable[str] = TARGETS
) -> Path:
    """Write the page of a task to a file. Raises: as `page`; ArtifactError if it cannot be written"""
    file, text = Path(path), page(task, samples, targets)
    with writable("the page", file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, [text.encode()])
    return file


def _data(
    task: Task, samples: Mapping[str, object] | None, artifacts: Mapping[str, Artifact]
) -> Mapping[str, object]:
    """Collect what the script of the page reads."""
    adjustable = replace(task, runtime_learning_rate=True)
    rates = [
        {"table": Role.STATE, "name": slot.name, "value": slot.initial.value}
        for slot in adjustable.state
        if slot not in task.state and isinstance(slot.initial, Filled)
    ]
    # A schedule computes its rate from the number of the step, and groups have several rates.
    rate = rates[0] if len(rates) == 1 else None
    return {
        "name": task.name,
        "parameters": _parameters(task.parameters),
        "sources": [
            {"target": name, "file": next(iter(artifact.files)), "text": artifact.source}
            for name, artifact in artifacts.items()
        ],
        "trains": TRAINS,
        "module": emit(adjustable if rate else task, TRAINS).source if samples else None,
        "rate": rate,
        "sprite": sprite(artifacts[SPRITE]) if SPRITE in artifacts else None,
        "samples": samples,
    }


def _parameters(slots: Sequence[Slot]) -> list[Mapping[str, object]]:
    """Describe parameters, with the identifiers that emitted text has for them and their gradients."""
    namer = Namer()
    described: list[Mapping[str, object]] = []
    for slot in slots:
        variants = [prefix + slot.name for prefix in VARIANTS]
        names = dict.fromkeys([*variants, *map(namer.fresh, variants)])
        described.append({"name": slot.name, "type": str(slot.type), "identifiers": list(names)})
    return described
