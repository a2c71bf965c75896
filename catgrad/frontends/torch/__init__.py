"""Import a `torch.nn.Module` as a term, by `torch.export`."""

from typing import TYPE_CHECKING

from catgrad.frontends.torch.imported import Imported, from_torch
from catgrad.frontends.torch.lora import lora, merge
from catgrad.frontends.torch.training.compiled import ModuleLearner, compile_module

if TYPE_CHECKING:
    from catgrad.backends.scratch.transpile import transpile

__all__ = ["Imported", "ModuleLearner", "compile_module", "from_torch", "lora", "merge", "transpile"]


def __getattr__(name: str) -> object:
    """Load `transpile` at its first use: it belongs to the target scratch, which imports this package."""
    if name != "transpile":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from catgrad.backends.scratch.transpile import transpile

    return transpile
