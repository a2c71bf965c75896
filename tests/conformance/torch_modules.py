"""Modules and functions of PyTorch, each with arrays that it is given: what `from_torch` is compared on."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
F, nn = torch.nn.functional, torch.nn


def real(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def positive(*shape):
    return real(*shape).abs() + 0.1


def whole(high, *shape, low=0):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(0))


def truths(*shape):
    return real(*shape, seed=5) > 0


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


class Rotary(nn.Module):
    """Attention with rotary positions and a causal mask from a buffer, as in Llama."""

    def __init__(self, width=8, heads=2, longest=16):
        super().__init__()
        self.heads, half = heads, width // heads // 2
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.register_buffer("frequencies", 10000.0 ** -(torch.arange(half) / half), persistent=False)
        self.register_buffer("mask", torch.tril(torch.ones(longest, longest, dtype=torch.bool)))

    def turned(self, x, positions):
        angles = positions[:, None].to(x.dtype) * self.frequencies.to(x.dtype)
        angles = torch.cat([angles, angles], -1)
        a, b = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        positions = torch.arange(t)
        q, k = self.turned(q, positions), self.turned(k, positions)
        scores = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        weights = scores.masked_fill(~self.mask[:t, :t], float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, t, d))


class Block(nn.Module):
    """A transformer block: RMS norms, rotary attention, and a gated MLP."""

    def __init__(self, width=8):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width, eps=1e-6)
        self.attention = Rotary(width)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down, self.drop = nn.Linear(2 * width, width), nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def used(norm):
    """A normalisation whose running statistics and weights are not those it begins with."""
    for name, tensor in {**dict(norm.named_parameters()), **dict(norm.named_buffers())}.items():
        if tensor.is_floating_point():
            tensor.data.copy_(positive(*tensor.shape) if "var" in name else real(*tensor.shape))
    return norm


def cnn():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), used(nn.BatchNorm2d(4)), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2, groups=2), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(6, 3),
    )  # fmt: skip


IMAGE, LINE, VOLUME, ROWS, TIMES = (2, 4, 9, 8), (2, 4, 11), (1, 2, 5, 4, 6), (3, 4), (2, 5, 4)

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
        lambda: Function(nn.LSTM(4, 3)), real(*TIMES), (real(1, 5, 3), real(1, 5, 3, seed=1)),
    ),
    "lstm without batch": (lambda: nn.LSTM(4, 3), real(5, 4)),
    "gru": (lambda: nn.GRU(4, 3, batch_first=True), real(*TIMES)),
    "gru deep": (lambda: nn.GRU(4, 3, 2, bidirectional=True, dropout=0.5), real(*TIMES)),
    "rnn": (lambda: nn.RNN(4, 3, 2), real(*TIMES)),
    "rnn relu": (lambda: nn.RNN(4, 3, nonlinearity="relu"), real(*TIMES)),
    "lstm cell": (lambda: nn.LSTMCell(4, 3), real(*ROWS)),
    "gru cell": (lambda: nn.GRUCell(4, 3), real(*ROWS)),
    "multihead attention": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True), real(*TIMES), real(*TIMES, seed=1), real(*TIMES),
    ),
    "transformer encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, activation="gelu"), 2, enable_nested_tensor=False), real(*TIMES),
    ),
    "transformer decoder": (
        lambda: nn.TransformerDecoderLayer(4, 2, 8, batch_first=True), real(*TIMES), real(2, 3, 4),
    ),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), real(*IMAGE)),
    "upsample": (lambda: nn.Upsample(scale_factor=2), real(*IMAGE)),
    "zero pad": (lambda: nn.ZeroPad2d((1, 2, 0, 3)), real(*IMAGE)),
    "reflection pad": (lambda: nn.ReflectionPad2d(2), real(*IMAGE)),
    "replication pad": (lambda: nn.ReplicationPad1d(2), real(*LINE)),
    "unflatten": (lambda: nn.Unflatten(1, (2, 2)), real(*ROWS)),
}  # fmt: skip

ACTIVATIONS = [
    nn.ReLU(), nn.ReLU6(), nn.Sigmoid(), nn.Tanh(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.LeakyReLU(0.2),
    nn.ELU(0.7), nn.SELU(), nn.CELU(0.6), nn.Softplus(), nn.Softplus(2.0, 1.0), nn.Hardtanh(-0.5, 0.7),
    nn.Hardsigmoid(), nn.Hardswish(), nn.Mish(), nn.LogSigmoid(), nn.Softsign(), nn.Tanhshrink(),
    nn.Softmax(0), nn.Softmax(-1), nn.LogSoftmax(1), nn.PReLU(4), nn.GLU(), nn.Threshold(0.1, 2.0),
    nn.Hardshrink(), nn.Softshrink(), nn.Identity(), nn.Dropout(0.3), nn.Softmin(1),
]  # fmt: skip

X, Y, P, W = real(3, 4), real(3, 4, seed=1), positive(3, 4), whole(5, 3, 4, low=1)

FUNCTIONS = {
    "abs": (torch.abs, X), "ceil": (torch.ceil, X), "cos": (torch.cos, X), "erf": (torch.erf, X),
    "exp": (torch.exp, X), "expm1": (torch.expm1, X), "floor": (torch.floor, X), "log": (torch.log, P),
    "log10": (torch.log10, P), "log1p": (torch.log1p, P), "log2": (torch.log2, P), "neg": (torch.neg, X),
    "reciprocal": (torch.reciprocal, P), "round": (torch.round, X), "rsqrt": (torch.rsqrt, P),
    "sign": (torch.sign, X), "sin": (torch.sin, X), "sqrt": (torch.sqrt, P), "square": (torch.square, X),
    "tan": (torch.tan, X), "trunc": (torch.trunc, X), "exp of whole": (torch.exp, W),
    "add": (lambda x, y: x + y, X, real(4)), "add numbers": (lambda x: 2 + x + 0.5, W),
    "add alpha": (lambda x, y: torch.add(x, y, alpha=3), X, Y), "add truths": (lambda a, b: a + b, X > 0, Y > 0),
    "sub": (lambda x, y: x - y, X, real(3, 1)), "sub alpha": (lambda x, y: torch.sub(x, y, alpha=2), X, Y),
    "rsub": (lambda x: 1 - x, X), "rsub of arrays": (lambda x, y: torch.rsub(x, y, alpha=2), X, Y),
    "mul": (lambda x, y: x * y * 2, real(3, 1), real(2, 1, 4)), "mul truths": (lambda a, b: a * b, X > 0, Y > 0),
    "mul mixed": (lambda x, y: x * y, W, X), "div": (lambda x, y: x / y / 3, X, P),
    "div of whole": (lambda x, y: x / y, W, W + 1),
    "div rounded": (lambda x, y: (torch.div(x, y, rounding_mode="floor"), torch.div(x, 0.3, rounding_mode="trunc")), X, P),
    "div rounded of whole": (lambda x: x // 2, W), "fmod": (lambda x, y: (torch.fmod(x, y), torch.fmod(x, 2.0)), X, P), "fmod of whole": (lambda x: torch.fmod(x - 3, 2), W),
    "remainder": (lambda x, y: (x % y, x % 0.7), X, P), "remainder of whole": (lambda x: x % 3, W),
    "pow": (lambda x: (x**2, x**3, x**4, x**-2, x**1), X), "pow of positive": (lambda x: (x**0.5, x**-0.5, x**-1, x**1.7), P),
    "pow of arrays": (lambda x, y: (x**y, 2.0**y), P, X), "pow of whole": (lambda x: x**2, W),
    "maximum": (torch.maximum, X, Y), "minimum": (torch.minimum, X, Y),
    "maximum of whole": (lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)), W, W.flip(0)),
    "clamp": (lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=0.2)), X), "clamp of whole": (lambda x: x.clamp(2, 3), W),
    "compare": (lambda x, y: (x > y, x >= y, x < y, x <= y, x == y, x != y), X.round(), Y.round()),
    "compare numbers": (lambda x: (x > 0, x >= 1, x < 0, x <= 1, x == 0, x != 0.5), X.round()),
    "logical": (lambda x, y: (torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_xor(x, y), torch.logical_not(x)), X.round(), Y > 0),
    "bitwise": (lambda a, b: (a & b, a | b, a ^ b, ~a), X > 0, Y > 0),
    "bitwise numbers": (lambda a: (a & True, a | False, a ^ True), X > 0),
    "isnan": (lambda x: (torch.isnan(x / x), torch.isinf(1 / x)), X.round()),
    "where": (lambda c, x, y: torch.where(c, x, y), truths(3, 1), X, real(4)), "where number": (lambda c, x: torch.where(c, x, 0.0), X > 0, Y),
    "masked_fill": (lambda x, m: x.masked_fill(m, -1e9), X, truths(4)),
    "sum": (lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True)), real(*TIMES)), "sum of truths": (lambda x: (x > 0).sum(1), X),
    "mean": (lambda x: (x.mean(), x.mean(-1), x.mean((0, 2), keepdim=True)), real(*TIMES)),
    "var": (lambda x: (x.var(), x.var(-1, correction=0), x.std((0, 1), keepdim=True)), real(*TIMES)),
    "amax": (lambda x: (x.amax(1), x.amax((0, 2), keepdim=True), x.amin(-1), x.max(), x.min()), real(*TIMES)),
    "max": (lambda x: (*x.max(1), *x.min(-1, keepdim=True)), real(*TIMES)),
    "argmax": (lambda x: (x.argmax(), x.argmax(1), x.argmin(-1, keepdim=True), x.argmin()), real(*TIMES)),
    "any": (lambda x: (x.any(), x.any(1), x.all(), x.all(-1, keepdim=True)), truths(3, 4)),
    "any of axes": (lambda x: (torch.any(x, (0, 1)), torch.all(x, (0, 2))), truths(*TIMES)),
    "cumsum": (lambda x: (x.cumsum(1), (x > 0).cumsum(0)), X), "logsumexp": (lambda x: (x.logsumexp(1), x.logsumexp((0, 1))), X),
    "norm": (lambda x: (x.norm(dim=1), x.norm()), X),
    "softmax": (lambda x: (x.softmax(0), x.log_softmax(-1)), real(*TIMES)),
    "mm": (lambda x, y: x @ y.T, X, Y), "bmm": (torch.bmm, real(2, 3, 4), real(2, 4, 5)),
    "matmul": (lambda x, y: x @ y, real(2, 1, 3, 4), real(5, 4, 2)), "matmul of vectors": (lambda x, y: (x @ y, x @ x, y.mT @ x), real(4), real(2, 4, 3)),
    "matmul on one side": (lambda x, y: (x @ y, y.T @ x.mT), real(2, 3, 4), real(4, 5)),
    "dot": (lambda x, y: (torch.dot(x, x), torch.mv(y, x)), real(4), X), "outer": (torch.outer, real(3), real(4)),
    "addmm": (lambda b, x, y: (torch.addmm(b, x, y.T), torch.addmm(b, x, y.T, beta=0.5, alpha=2)), real(3), X, Y),
    "baddbmm": (torch.baddbmm, real(1, 5), real(2, 3, 4), real(2, 4, 5)), "addmv": (torch.addmv, real(3), X, real(4)),
    "einsum": (lambda x, y: (torch.einsum("bij,bkj->bik", x, y), torch.einsum("bij->ji", x), torch.einsum("bij,bij->b", x, y)), real(2, 3, 4), real(2, 3, 4)),
    "einsum of three": (lambda x, y: torch.einsum("ij,kj,kl->il", x, y, y), X, Y),
    "attention": (lambda q, k: (F.scaled_dot_product_attention(q, k, k), F.scaled_dot_product_attention(q, k, k, is_causal=True, scale=0.3)), real(2, 2, 5, 4), real(2, 2, 3, 4)),
    "attention with masks": (lambda q, m: (F.scaled_dot_product_attention(q, q, q, m > -1), F.scaled_dot_product_attention(q, q, q, m)), real(2, 2, 5, 4), real(5, 5)),
    "attention that sees nothing": (lambda q, m: F.scaled_dot_product_attention(q, q, q, m), real(1, 3, 4), torch.tensor([[False] * 3, [True] * 3, [True, False, False]])),
    "attention of groups": (lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), real(2, 4, 5, 4), real(2, 2, 3, 4)),
    "view": (lambda x: (x.view(4, 3), x.reshape(-1), x.flatten(), x.T.reshape(2, -1), x.unflatten(1, (2, 2))), X),
    "permute": (lambda x: (x.permute(2, 0, 1), x.transpose(0, -1), x.movedim(0, 1), x.mT), real(*TIMES)),
    "squeeze": (lambda x: (x.squeeze(), x.squeeze(0), x.squeeze(1), x.squeeze((0, 2)), x.unsqueeze(-1)), real(1, 3, 1)),
    "expand": (lambda x: (x.expand(2, 3, 4), x.repeat(2, 1, 3), x.expand(-1, 4)), real(3, 1)),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), X), "tile": (lambda x: x.tile(2), X),
    "cat": (lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y], -1), torch.hstack([x, y])), X, Y), "cat mixed": (lambda x, y: torch.cat([x, y]), W, X),
    "split": (lambda x: (*x.split(3, 1), *x.split([1, 2]), *x.chunk(2, 1), *x.unbind(1), *x.tensor_split(2, 0)), X),
    "slice": (lambda x: (x[1:], x[:, -2:], x[::2, 1::2], x[0], x[..., -1], x[:, None, 5:], x.narrow(1, 1, 2)), X),
    "index": (lambda x, i: (x[i], x[:, i], x[i, i], x[i, :, i], x[:, i, i], x[i[:, None], i]), real(4, 4, 4), whole(4, 3, low=-4)),
    "index of a list": (lambda x: x[[2, 0, -1]], X), "index_select": (lambda x, i: x.index_select(1, i), X, whole(4, 6)),
    "gather": (lambda x, i: x.gather(1, i), X, whole(4, 2, 3)), "embedding": (lambda w, i: F.embedding(i, w), X, whole(3, 5)),
    "pad": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=3.0), F.pad(x, (-1, 2, 1, -1))), X),
    "tril": (lambda x: (x.tril(), x.triu(1), torch.tril(torch.ones(3, 3)), x.tril(-1)), X), "flip": (lambda x: (x.flip(0), x.flip((0, 1))), X),
    "roll": (lambda x: x.roll(1, 0), X), "meshgrid": (lambda x, y: torch.meshgrid(x, y, indexing="ij"), real(2), real(3)),
    "arange": (lambda x: (torch.arange(3) + x, torch.arange(1, 7, 2), torch.arange(0.0, 1.0, 0.3), torch.linspace(0, 1, 4) + x), whole(5, 1)),
    "ones": (lambda x: (torch.ones(2), torch.zeros_like(x), torch.full((2,), 3), torch.full_like(x, 0.5), x.new_ones(2), torch.eye(3), torch.tensor(2.5) * x), X),
    "constant": (lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]), X), "to": (lambda x: (x.float(), x.long(), x.bool(), x.int()), X),
    "type_as": (lambda x, y: y.type_as(x), X, W), "detach": (lambda x: x * x.detach(), X), "clone": (lambda x: x.clone().contiguous(), X),
    "in place": (lambda x: x.clone().add_(1).mul_(2).relu_(), X), "assignment": (lambda x: x.clone().masked_fill_(x > 0, 0), X),
    "one_hot": (lambda i: F.one_hot(i, 5), whole(5, 3)), "normalize": (lambda x: F.normalize(x), X),
    "cosine_similarity": (F.cosine_similarity, X, Y), "mse_loss": (F.mse_loss, X, Y), "cross_entropy": (F.cross_entropy, X, whole(4, 3)),
    "smooth_l1": (F.smooth_l1_loss, X, Y), "bce": (F.binary_cross_entropy_with_logits, X, P / 5),
}  # fmt: skip

CASES = {
    **{name: (make, inputs) for name, (make, *inputs) in LAYERS.items()},
    **{str(layer): (lambda layer=layer: layer, [3 * X]) for layer in ACTIVATIONS},
    **{f"torch: {name}": (lambda f=f: Function(f), inputs) for name, (f, *inputs) in FUNCTIONS.items()},
}
"""Of each name, how the module is made, and what it is given."""


def made(name):
    """The module in double precision, always with the same weights, and its inputs."""
    torch.manual_seed(0)
    make, inputs = CASES[name]
    return make().double(), inputs
