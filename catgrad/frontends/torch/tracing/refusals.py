"""Refusals of modules that PyTorch cannot export: its own cause in a sentence, and what to write."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence

from catgrad.errors import UnsupportedOp, one_line
from catgrad.frontends.torch.tracing.places import code_of, place_of
from catgrad.frontends.torch.tracing.python_state import other_seeds, restored
from catgrad.frontends.torch.types import Module

BRANCHES = "control flow in a module must not depend on data"
SELECT = "select by torch.where, and leave out checks of values"
REWRITE = "write that line with operations on whole tensors"

MAX_CHARACTERS = 200
"""The length up to which a cause is quoted."""

CAUSES: tuple[tuple[tuple[str, ...], str, str, str], ...] = (
    (
        ("specialized integer",),
        "sizes, indices of lists and numbers of repetitions must not depend on data",
        "a whole number is read from a tensor",
        "give it as a number of Python, an attribute or a size of an input",
    ),
    (
        ("UnsupportedOperatorException",),
        "PyTorch must be able to trace each operation",
        "it cannot trace {}",
        REWRITE,
    ),
    (("Eq(", "aten.equal", "aten.allclose"), BRANCHES, "a truth value is read from a tensor", SELECT),
    (
        ("data-dependent",),
        "numbers must not be read out of tensors",
        "one is, by float(), int() or .item()",
        "compute with the tensor itself",
    ),
    (
        (".numpy()", "__array__"),
        "a module must compute with tensors",
        "one is converted to an array of NumPy",
        "use the function of torch of the same name",
    ),
    (
        ("data pointer", "storage"),
        "a module must compute with tensors",
        "the memory of one is read, as copy.deepcopy, data_ptr and code in C do",
        "use operations of torch, and make copies before the import",
    ),
    (
        ("vmap", "functorch", "attribute 'constant'", "fake tensor in the exported program"),
        "torch.export must be able to trace transforms such as torch.vmap and torch.func.jacrev",
        "it cannot trace one here",
        "write it for the whole batch, by broadcasting or torch.einsum",
    ),
    (
        ("__torch__.",),
        "the parts of a module must be written in Python",
        "one is packed, for quantisation",
        "import the module that it was made from",
    ),
)
"""Texts of errors of torch.export, what must hold, what was found, and what to write."""


def refusal(error: Exception, module: Module, inputs: Sequence[object]) -> UnsupportedOp:
    """Return the error for a module that torch.export does not trace.

    The module is called as it is, to tell an error of its own from a limit of torch.export.
    """
    where = place_of(error, module)
    if isinstance(error, UnsupportedOp):
        return error.about(where=where)
    own = own_error(module, inputs)
    if own is not None:
        return UnsupportedOp(
            "a module must run on the example inputs",
            f"PyTorch raises {type(own).__name__}: {_sentence(own)}",
            "pass inputs that it takes, or mend that line",
            where=place_of(own, module) or where,
        )
    text = f"{type(error).__name__} {error}"
    quoted = f"`{one_line(code)}`: " if (code := code_of(error)) else ""
    for words, must, found, do in CAUSES:
        if any(word in text for word in words):
            return UnsupportedOp(must, quoted + found.format(_sentence(error)), do, where=where)
    found = f"torch.export says of {quoted.removesuffix(': ') or 'it'}: {_sentence(error)}"
    return UnsupportedOp("torch.export must be able to trace a module", found, REWRITE, where=where)


def own_error(module: Module, inputs: Sequence[object]) -> Exception | None:
    """Call a module on copies of its arrays, and return the error that it raises, if it does."""
    import torch

    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    copies = {name: x.detach().clone().requires_grad_(x.requires_grad) for name, x in held.items()}
    given = torch.utils._pytree.tree_map(lambda x: x.detach().clone(), tuple(inputs))
    with other_seeds(), restored(module), quiet():
        try:
            torch.func.functional_call(module, copies, given)
        except Exception as error:
            return error
    return None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the warnings and logs of PyTorch, and what a module prints, from the terminal."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "torch"]
    loggers = [(each, each.disabled) for each in map(logging.getLogger, names)]
    output = io.StringIO()
    for logger, _ in loggers:
        logger.disabled = True
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            contextlib.redirect_stderr(output),
            contextlib.redirect_stdout(output),
        ):
            yield
    finally:
        for logger, disabled in loggers:
            logger.disabled = disabled


def _sentence(error: Exception) -> str:
    """Return the first sentence of a text, without addresses and advice about PyTorch itself."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    sentence = line.split(". ")[0].split(" (see http")[0].rstrip(".:")
    return sentence if len(sentence) <= MAX_CHARACTERS else f"{sentence[:MAX_CHARACTERS]}…"
