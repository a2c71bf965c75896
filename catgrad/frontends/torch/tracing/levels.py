"""Fusion of levels and their numbers into fake quantisation, which has a gradient and a grid.

Source: https://docs.pytorch.org/ao/stable/pt2e_quantization (programs of `convert_pt2e`)
"""

from __future__ import annotations

from catgrad.frontends.torch.aten.quantisation import DEQUANTISE, QUANTISE, has_single_inverse
from catgrad.frontends.torch.types import Program


def fuse_levels(program: Program) -> None:
    """Replace an operation to levels, and that to their numbers, by one with the same result."""
    import torch

    fake = {
        "_per_tensor.default": torch.ops.aten.fake_quantize_per_tensor_affine.default,
        "_per_tensor.tensor": torch.ops.aten.fake_quantize_per_tensor_affine.tensor_qparams,
        "_per_channel.default": torch.ops.aten.fake_quantize_per_channel_affine.default,
    }
    graph = program.graph
    for node in list(graph.nodes):
        kind = str(node.target).removeprefix(DEQUANTISE)
        levels = node.args[0] if node.op == "call_function" and kind in fake else None
        if levels is None or str(levels.target) != f"{QUANTISE}{kind}" or levels.args[1:] != node.args[1:]:
            continue
        x, *numbers, _ = levels.args
        is_float32 = all(each.meta["val"].dtype is torch.float32 for each in (x, node))
        if not is_float32 or not has_single_inverse(numbers[0]):
            continue
        with graph.inserting_before(node):
            rounded = graph.call_function(fake[kind], (x, *numbers))
        rounded.meta = dict(node.meta)
        node.replace_all_uses_with(rounded)
        program.graph_signature.replace_all_uses(node.name, rounded.name)
        graph.erase_node(node)
