"""MCUNet for five images a second, with the batch norm of each convolution folded into it.

Source: Lin et al. 2020, MCUNet (arXiv:2007.10319), and Lin et al. 2022, On-device training under 256KB memory
(arXiv:2206.15472); sizes of layers from assets/49kb-int8-graph.json of github.com/mit-han-lab/tinyengine
"""

from __future__ import annotations

from benchmarks.tiny.nets import classified, convolved
from catgrad import NdArrayType, Term, build, ops
from catgrad.terms.term import compose

BLOCKS = (
    (3, 1, 8, 1), (3, 4, 16, 2), (3, 3, 16, 1), (7, 3, 24, 2), (3, 5, 24, 1), (3, 5, 40, 2), (7, 4, 40, 1),
    (5, 4, 48, 1), (3, 3, 48, 1), (3, 4, 48, 1), (7, 5, 96, 2), (5, 4, 96, 1), (5, 4, 96, 1), (3, 6, 160, 1),
)  # fmt: skip
"""Size of the depthwise convolution, expansion of channels, channels and stride of each block."""


def mcunet() -> Term:
    """Return the network for images of 3 × 128 × 128 in 10 classes."""
    model = capped(NdArrayType((1, 3, 128, 128)), 16, 3, 2, "stem")
    for k, block in enumerate(BLOCKS):
        model = model >> inverted(model.target.table[0], *block, f"block_{k}")
    return model >> classified(model, 10)


def inverted(x: NdArrayType, size: int, expansion: int, channels: int, stride: int, name: str) -> Term:
    """Return a bottleneck of single places around a depthwise convolution, with a shortcut if sizes allow."""
    wide = x.shape[1] * expansion
    expand = [capped(x, wide, 1, 1, f"{name}.expand")] if expansion > 1 else []
    middle = expand[0].target.table[0] if expand else x
    depthwise = capped(middle, wide, size, stride, f"{name}.depthwise", groups=wide)
    project = convolved(depthwise.target.table[0], channels, 1, 1, f"{name}.project", rectified=False)
    body = compose(*expand, depthwise, project)
    if body.target.table[0] != x:
        return body
    return build(lambda image: body(image) + image, [x])


def capped(x: NdArrayType, channels: int, size: int, stride: int, name: str, groups: int = 1) -> Term:
    """Return a convolution with ReLU6."""
    model = convolved(x, channels, size, stride, name, rectified=False, groups=groups)
    return model >> build(lambda y: ops.clamp(y, 0.0, 6.0), model.target.table)


LAYERS = (
    "stem",
    "block_0.depthwise",
    "block_0.project",
    *(f"block_{k}.{part}" for k in range(1, 14) for part in ("expand", "depthwise", "project")),
    "scores",
)
"""Names of convolutions, in order, and of the last layer."""

SPARSE = (
    *(f"{name}.bias" for name in LAYERS[22:]),
    *(f"{LAYERS[k]}.weight" for k in (24, 27, 30, 42)),
)
"""The parameters of the published choice of layers of 49 KB: 21 biases, and the weights of four layers."""
