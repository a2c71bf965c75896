"""Fake quantisation of torch.ao, whose switches are numbers in buffers, as they are before a trace.

Source: https://docs.pytorch.org/docs/stable/quantization.html (quantisation-aware training)
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch.types import Module, Replacement, Tensor

PLACE = "torch.ao.quantization.fake_quantize"
"""The module of PyTorch that has the layers, which takes long to import and is if there are such layers."""


def replacements(module: Module) -> list[Replacement]:
    """Return the methods of fake quantisation without its switches, for a module that has some.

    Raises: UnsupportedOp if an observer is on, as it would change the scales in evaluation too
    """
    place = sys.modules.get(PLACE)
    if place is None:
        return []
    # Subclasses may have methods of their own.
    known = (place.FakeQuantize.forward, place.FusedMovingAvgObsFakeQuantize.forward)
    parts = [each for each in module.named_modules() if getattr(type(each[1]), "forward", None) in known]
    for name, part in parts:
        if part.observer_enabled[0] == 1:
            raise UnsupportedOp(
                "observers of quantisation-aware training must be off, so that its scales are fixed",
                "this one is on",
                "call module.apply(torch.ao.quantization.disable_observer)",
                where=name,
            )
    forward = _forward({id(part): bool(part.fake_quant_enabled[0] == 1) for _, part in parts})
    return [(kind, "forward", forward) for kind in {type(part) for _, part in parts}]


def _forward(is_on: dict[int, bool]) -> Callable[[Module, Tensor], Tensor]:
    def rounded(self: Module, x: Tensor) -> Tensor:
        if not is_on[id(self)]:
            return x
        bounds = self.activation_post_process.quant_min, self.activation_post_process.quant_max
        if self.is_per_channel:
            given = (self.scale, self.zero_point, self.ch_axis, *bounds)
            return torch.fake_quantize_per_channel_affine(x, *given)
        return torch.fake_quantize_per_tensor_affine(x, self.scale, self.zero_point, *bounds)

    return rounded
