"""Import torchvision beside a build of PyTorch for the CPU.

The wheel on PyPI has a compiled library for CUDA, which such a PyTorch cannot load. Models need none of its
operations, but torchvision names two of them when it is imported: it says "operator torchvision::nms does not
exist".
"""

from __future__ import annotations

import functools

import torch

BOXES = "Tensor boxes, Tensor scores, float iou_threshold"


@functools.cache
def import_torchvision():
    """Return torchvision; declare the operations that it names if its library cannot be loaded."""
    declared = torch.library.Library("torchvision", "FRAGMENT")
    try:
        import torchvision
    except RuntimeError:
        for name in ("nms", "qnms"):
            declared.define(f"{name}({BOXES}) -> Tensor")
        import torchvision
    import_torchvision.declared = declared  # it lasts as long as the operations
    return torchvision
