"""Low-rank adapters (LoRA) on modules: add them to linear layers, and merge them into the weights.

Source: Hu et al. 2021 (arXiv:2106.09685), section 4.1
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from fnmatch import fnmatchcase

from catgrad.errors import OptionError
from catgrad.frontends.torch.types import Module
from catgrad.learn.options import check_integer, positive


def lora(module: Module, rank: int = 8, alpha: float = 16.0, target: str | Sequence[str] = "*") -> Module:
    """Return a copy of a module that trains low-rank adapters only: y = x Wᵀ + b + (α / r) · x · U · V.

    Each `torch.nn.Linear` whose dotted name matches a pattern of `target` gets the parameters
    `<name>.lora_a`, U of shape [inputs, r], drawn as in PyTorch's linear layer, and `<name>.lora_b`, V of
    shape [r, outputs], zeros, so that the outputs are unchanged. All other parameters are frozen, so that
    checkpoints of a learner have the adapters alone.

        learner = compile_module(lora(model, 8, target="*.q_proj"), x, adamw(1e-3), loss)
        save_adapters(learner, "adapter.gguf", alpha=16)

    Raises: OptionError unless r is an integer ≥ 1 and α > 0, or if no linear layer matches
    """
    import torch

    from catgrad.frontends.torch.low_rank import LowRank

    check_integer("rank", rank, 1)
    scale = positive("alpha", alpha) / rank
    patterns = [target] if isinstance(target, str) else list(target)
    adapted = copy.deepcopy(module).requires_grad_(False)
    layers = {name: layer for name, layer in adapted.named_modules() if type(layer) is torch.nn.Linear}
    chosen = [name for name in layers if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if not chosen:
        raise OptionError(
            f"target must match one of the linear layers {', '.join(layers) or '(there are none)'}",
            f"it is {target!r}",
            "write for example '*.q_proj'",
        )
    for name in chosen:
        adapted = _replaced(adapted, name, LowRank(layers[name], rank, scale))
    return adapted


def merge(module: Module) -> Module:
    """Return a copy of a module with the adapters of `lora` added to the weights: W + (α / r) · (U · V)ᵀ."""
    from catgrad.frontends.torch.low_rank import LowRank

    merged = copy.deepcopy(module)
    for name, layer in list(merged.named_modules()):
        if isinstance(layer, LowRank):
            merged = _replaced(merged, name, layer.merged())
    return merged.requires_grad_()


def _replaced(module: Module, name: str, layer: Module) -> Module:
    """Set the submodule of this dotted name, which is the module itself if the name is empty."""
    owner, _, leaf = name.rpartition(".")
    if not name:
        return layer
    setattr(module.get_submodule(owner), leaf, layer)
    return module
