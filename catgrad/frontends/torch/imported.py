"""The imported module: its term, parameters and buffers."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import catgrad.frontends.torch.aten  # noqa: F401  # registers the operations
from catgrad.errors import OptionError
from catgrad.frontends.imported import Imported as Imported
from catgrad.frontends.torch.importer import Importer
from catgrad.frontends.torch.tracing.axes import Dynamic
from catgrad.frontends.torch.tracing.export import Export
from catgrad.frontends.torch.types import Module


def from_torch(
    module: Module,
    *example_inputs: Any,
    name: str = "model",
    train: bool = False,
    dynamic: Dynamic = (),
    trainable: str | Sequence[str] = "*",
) -> Imported:
    """Import a module as a term, at the shapes and dtypes of these tensors.

    Its parameters are those that require a gradient and whose names match a pattern of `trainable`; all
    other tensors are constants. The module is not changed. It is imported in evaluation mode, or with
    `train` in training mode: dropout drops, and batch norm uses statistics of the batch and updates the
    running ones; evaluation mode is then `inference`, a graph of its own. `dynamic` names the leading axes
    of every input that are symbolic, as ("batch",), or maps names of inputs to such tuples; None keeps an
    axis fixed.

    Raises: UnsupportedOp, with all operations that the front end lacks and the modules they are in, or if the
            module fixes a symbolic axis; OptionError for inputs that are not tensors; DtypeError for a dtype
            that terms do not have
    """
    export = Export(module, example_inputs, train, dynamic)
    trained = _trained(module, trainable)
    importer = Importer(export, trained)
    model, values, inference = importer.model(), importer.buffers, None
    if train:
        evaluation = Importer(export.evaluated(), trained, importer)
        inference = evaluation.model()
        values = {**values, **evaluation.buffers}
    aliases = {n: first for n, first in trained.items() if n != first}
    return Imported(name, model, importer.parameters, importer.inputs, values, inference, aliases)


def _trained(module: Module, trainable: str | Sequence[str]) -> dict[str, str]:
    """Return the parameters to train; tied ones have the first of their names.

    Raises: OptionError if a pattern matches no parameter
    """
    patterns = [trainable] if isinstance(trainable, str) else list(trainable)
    every = dict(module.named_parameters(remove_duplicate=False))
    for pattern in patterns:
        if pattern != "*" and not any(fnmatchcase(name, pattern) for name in every):
            raise OptionError(
                f"a pattern of `trainable` must match one of {', '.join(every) or 'no parameters'}",
                f"{pattern!r} matches none",
                "write for example '*.weight'",
            )
    first: dict[int, str] = {}
    return {
        name: first.setdefault(id(p), name)
        for name, p in every.items()
        if p.requires_grad and any(fnmatchcase(name, pattern) for pattern in patterns)
    }
