"""ONNX: models that predict and train, for any runtime; uint32 is int64, as for PyTorch."""

from __future__ import annotations

from catgrad.backend import NO_16_BITS, Backend

from .. import templates
from ..python.matmul import MatmulForms
from ..torch.unsigned import uint32_in_int64
from . import control, elementwise, images, movement, random, reductions  # noqa: F401  # each registers rules
from .loading import load
from .models import postprocess, template_context
from .rules import RULES
from .tools import ONNX, ONNXRUNTIME

BACKEND = Backend(
    name="onnx",
    summary="models of ONNX, opset 18: predict and the whole training step",
    folders=(templates("onnx"),),
    files={"README.md": "README.md.j2"},
    load=load,
    needs=(ONNX, ONNXRUNTIME),
    passes=(uint32_in_int64, MatmulForms()),
    template_context=template_context,
    lowers_to_loops=frozenset(RULES),
    postprocess=postprocess,
    known_gaps={NO_16_BITS: "ONNX Runtime lacks most operators for them on a CPU"},
)
