"""Files and hashes of models: a term, or all terms of a Task or of Functions."""

from __future__ import annotations

from pathlib import Path

from catgrad.formats import terms as files
from catgrad.learn.entries import layered, terms_of
from catgrad.learn.functions import Functions
from catgrad.learn.task import Task
from catgrad.programs.terms import Terms
from catgrad.terms import canonical
from catgrad.terms.term import Term

Model = Term | Task | Functions | Terms


def save(model: Model, path: str | Path) -> None:
    """Write a term, or all terms of a Task or of Functions with ports and tables, to a `.catgrad.json` file.

        catgrad.save(task, "model.catgrad.json")
        artifact = catgrad.emit(catgrad.load("model.catgrad.json"), "c")

    Raises: ArtifactError if the file cannot be written; OptionError for any other model
    """
    files.write(path, model if isinstance(model, Term) else terms_of(layered(model)))


def load(path: str | Path) -> Term | Terms:
    """Read a file that `save` wrote: a term, or the `Terms` of a Task or of Functions, which `emit` takes.

    Nothing in the file is executed.

    Raises: ArtifactError if the file cannot be read, or its hash is another than it states; TermError,
            TypeMismatch, OptionError for invalid terms
    """
    return files.read(path)


def digest(model: Model) -> str:
    """Return the SHA-256 of a model in hexadecimal: the same for isomorphic terms.

    Any change of an operation, attribute, type, initial value or hyperparameter changes it; labels, notes,
    the name of the model and the numbers of wires and operations do not.

    Raises: OptionError for anything that is no model
    """
    return canonical.digest(model) if isinstance(model, Term) else terms_of(layered(model)).digest
