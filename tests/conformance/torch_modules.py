"""Modules of PyTorch with example inputs, for tests of `from_torch`."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_complex import SPECTRAL  # noqa: E402  # it needs PyTorch
from tests.conformance.torch_functions import FUNCTIONS  # noqa: E402
from tests.conformance.torch_inputs import TIMES, X, real, whole  # noqa: E402
from tests.conformance.torch_models import Block, Experts, Function, cnn, mlp, used  # noqa: E402

nn = torch.nn

IMAGE, LINE, VOLUME, ROWS = (2, 4, 9, 8), (2, 4, 11), (1, 2, 5, 4, 6), (3, 4)

LAYERS = {
    "mlp": (mlp, real(5, 4)),
    "cnn": (cnn, real(2, 2, 10, 10)),
    "block": (Block, real(2, 6, 8)),
    "linear": (lambda: nn.Linear(4, 3), real(2, 5, 4)),
    "linear of a vector": (lambda: nn.Linear(4, 3, bias=False), real(4)),
    "bilinear": (lambda: nn.Bilinear(4, 4, 2), real(3, 4), real(3, 4, seed=1)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, 2, 2, dilation=2, groups=2), real(*LINE)),
    "conv2d": (lambda: nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), bias=False), real(*IMAGE)),
    "conv2d same": (lambda: nn.Conv2d(4, 2, 4, padding="same"), real(*IMAGE)),
    "conv2d without batch": (lambda: nn.Conv2d(4, 6, 3), real(*IMAGE[1:])),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2), real(*VOLUME)),
    "conv_transpose1d": (lambda: nn.ConvTranspose1d(4, 3, 3, 2, 1, 1), real(*LINE)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, groups=2, dilation=2), real(*IMAGE)),
    "max_pool1d": (lambda: nn.MaxPool1d(3, 2), real(*LINE)),
    "max_pool2d": (lambda: nn.MaxPool2d(3, 2, 1, dilation=2), real(*IMAGE)),
    "max_pool2d ceil": (lambda: nn.MaxPool2d((3, 2), 2, ceil_mode=True), real(*IMAGE)),
    "max_pool3d": (lambda: nn.MaxPool3d(2), real(*VOLUME)),
    "avg_pool1d": (lambda: nn.AvgPool1d(3, 2, 1, count_include_pad=False), real(*LINE)),
    "avg_pool2d": (lambda: nn.AvgPool2d((3, 2), padding=1), real(*IMAGE)),
    "avg_pool3d": (lambda: nn.AvgPool3d(2), real(*VOLUME)),
    "adaptive_avg_pool1d": (lambda: nn.AdaptiveAvgPool1d(3), real(*LINE)),
    "adaptive_avg_pool2d": (lambda: nn.AdaptiveAvgPool2d((4, None)), real(*IMAGE)),
    "adaptive_avg_pool3d": (lambda: nn.AdaptiveAvgPool3d(2), real(*VOLUME)),
    "adaptive_max_pool1d": (lambda: nn.AdaptiveMaxPool1d(4), real(*LINE)),
    "adaptive_max_pool2d": (lambda: nn.AdaptiveMaxPool2d((3, 2)), real(*IMAGE)),
    "adaptive_max_pool3d": (lambda: nn.AdaptiveMaxPool3d(2), real(*VOLUME)),
    "batch_norm1d": (lambda: used(nn.BatchNorm1d(4)), real(*ROWS)),
    "batch_norm2d": (lambda: used(nn.BatchNorm2d(4, eps=1e-3)), real(*IMAGE)),
    "batch_norm without affine": (lambda: used(nn.BatchNorm1d(4, affine=False)), real(*LINE)),
    "batch_norm without statistics": (lambda: nn.BatchNorm2d(4, track_running_stats=False), real(*IMAGE)),
    "instance_norm": (lambda: nn.InstanceNorm2d(4, affine=True), real(*IMAGE)),
    "layer_norm": (lambda: used(nn.LayerNorm((5, 4))), real(*TIMES)),
    "layer_norm without bias": (lambda: used(nn.LayerNorm(4, bias=False)), real(*TIMES)),
    "rms_norm": (lambda: used(nn.RMSNorm(4)), real(*TIMES)),
    "group_norm": (lambda: used(nn.GroupNorm(2, 4)), real(*IMAGE)),
    "embedding": (lambda: nn.Embedding(7, 3, padding_idx=2), whole(7, 2, 5)),
    "lstm": (lambda: nn.LSTM(4, 3, batch_first=True), real(*TIMES)),
    "lstm deep": (lambda: nn.LSTM(4, 3, 2, bidirectional=True, bias=False), real(*TIMES)),
    "lstm with state": (
        lambda: Function(nn.LSTM(4, 3)),
        real(*TIMES),
        (real(1, 5, 3), real(1, 5, 3, seed=1)),
    ),
    "lstm without batch": (lambda: nn.LSTM(4, 3), real(5, 4)),
    "gru": (lambda: nn.GRU(4, 3, batch_first=True), real(*TIMES)),
    "gru deep": (lambda: nn.GRU(4, 3, 2, bidirectional=True, dropout=0.5), real(*TIMES)),
    "rnn": (lambda: nn.RNN(4, 3, 2), real(*TIMES)),
    "rnn relu": (lambda: nn.RNN(4, 3, nonlinearity="relu"), real(*TIMES)),
    "lstm cell": (lambda: nn.LSTMCell(4, 3), real(*ROWS)),
    "gru cell": (lambda: nn.GRUCell(4, 3), real(*ROWS)),
    "multihead attention": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        *[real(*TIMES, seed=k) for k in range(3)],
    ),
    "transformer encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2, enable_nested_tensor=False),
        real(*TIMES),
    ),
    "transformer decoder": (
        lambda: nn.TransformerDecoderLayer(4, 2, 8, batch_first=True),
        real(*TIMES),
        real(2, 3, 4),
    ),
    "experts": (Experts, real(*ROWS)),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), real(*IMAGE)),
    "upsample1d": (lambda: nn.Upsample(33), real(*LINE)),
    "upsample2d": (lambda: nn.Upsample(scale_factor=2), real(*IMAGE)),
    "upsample3d": (lambda: nn.Upsample(scale_factor=(1, 3, 2)), real(*VOLUME)),
    "zero pad": (lambda: nn.ZeroPad2d((1, 2, 0, 3)), real(*IMAGE)),
    "reflection pad": (lambda: nn.ReflectionPad2d(2), real(*IMAGE)),
    "replication pad": (lambda: nn.ReplicationPad1d(2), real(*LINE)),
    "unflatten": (lambda: nn.Unflatten(1, (2, 2)), real(*ROWS)),
}

ACTIVATIONS = [
    nn.ReLU(), nn.ReLU6(), nn.Sigmoid(), nn.Tanh(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.LeakyReLU(0.2),
    nn.ELU(0.7), nn.SELU(), nn.CELU(0.6), nn.Softplus(), nn.Softplus(2.0, 1.0), nn.Hardtanh(-0.5, 0.7),
    nn.Hardsigmoid(), nn.Hardswish(), nn.Mish(), nn.LogSigmoid(), nn.Softsign(), nn.Tanhshrink(),
    nn.Softmax(0), nn.Softmax(-1), nn.LogSoftmax(1), nn.PReLU(4), nn.GLU(), nn.Threshold(0.1, 2.0),
    nn.Hardshrink(), nn.Softshrink(), nn.Identity(), nn.Dropout(0.3), nn.Softmin(1),
]  # fmt: skip

CASES = {
    **{name: (make, inputs) for name, (make, *inputs) in {**LAYERS, **SPECTRAL}.items()},
    **{str(layer): (lambda layer=layer: layer, [3 * X]) for layer in ACTIVATIONS},
    **{f"torch: {name}": (lambda f=f: Function(f), inputs) for name, (f, *inputs) in FUNCTIONS.items()},
}
"""For each name, the constructor of the module and its inputs."""


def made(name):
    """Return the module in double precision with fixed weights, and its inputs."""
    torch.manual_seed(0)
    make, inputs = CASES[name]
    return make().double(), inputs
