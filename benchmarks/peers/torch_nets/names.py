"""The names that catgrad has for the parameters of these models."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


def places(net: nn.Module, names: Iterable[str]) -> dict[str, torch.Tensor]:
    """Return views of a net's parameters by their names in catgrad, where matrices of maps are transposed."""
    mine = {catgrad_name(name): p.data for name, p in net.named_parameters()}
    tables = {
        catgrad_name(f"{name}.weight") for name, part in net.named_modules() if isinstance(part, nn.Embedding)
    }
    untouched = {"positions.weight", *tables}
    return {name: mine[name] if mine[name].ndim != 2 or name in untouched else mine[name].T for name in names}


def catgrad_name(name: str) -> str:
    """Return the name that catgrad has for a parameter of these models."""
    if name == "positions":
        return "positions.weight"
    for part in ("in_proj", "out_proj"):
        name = name.replace(f".{part}.", f".self_attn.{part}.")
    return name.replace("blocks.", "block_")
