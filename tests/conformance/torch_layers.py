"""Layers whose shapes or statistics depend on more than example inputs, with inputs of several batches."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_models import Function  # noqa: E402  # it needs PyTorch

F, nn = torch.nn.functional, torch.nn
pack, unpack = nn.utils.rnn.pack_padded_sequence, nn.utils.rnn.pad_packed_sequence
WORDS, TIME = 7, 5


def real(*shape):
    """Return a function from a batch to normal numbers."""
    return lambda batch: [torch.randn(batch, *shape, dtype=torch.float64)]


def bags(batch):
    return [torch.randint(0, WORDS, (batch, TIME))]


def weighted_bags(batch):
    return [*bags(batch), torch.rand(batch, TIME, dtype=torch.float64)]


class Bag(nn.Module):
    """A bag of embeddings, and a linear layer."""

    def __init__(self, **options):
        super().__init__()
        self.bag, self.out = nn.EmbeddingBag(WORDS, 3, **options), nn.Linear(3, 2)

    def forward(self, words, weights=None):
        return self.out(self.bag(words, per_sample_weights=weights))


class Offsets(nn.Module):
    """Bags of different sizes, at fixed offsets."""

    def __init__(self, mode):
        super().__init__()
        self.bag = nn.EmbeddingBag(WORDS, 3, mode=mode)

    def forward(self, words):
        return self.bag(words[:, 0], torch.tensor([0, 2, 2, 3]))


class Packed(nn.Module):
    """A recurrent layer over a packed sequence: all rows, and all last states."""

    def __init__(self, kind, *sizes, is_sorted=False, is_summed=False, padding=0.0, total=None, **options):
        super().__init__()
        self.layer, self.is_sorted = kind(*sizes, **options), is_sorted
        self.padding, self.total, self.is_summed = padding, total, is_summed

    def forward(self, x, lengths, *first):
        is_first = self.layer.batch_first
        packed = pack(x, lengths, batch_first=is_first, enforce_sorted=self.is_sorted)
        y, last = self.layer(packed, *(h.transpose(0, 1).contiguous() for h in first))
        y, lengths = unpack(y, True, self.padding, self.total)
        return of_each(y.square().sum(1, keepdim=True) if self.is_summed else y, lengths, last)


class Stacked(nn.Module):
    """Two layers, the second of which reads the packed rows of the first."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.GRU(4, 3, bidirectional=True), nn.LSTM(6, 2)

    def forward(self, x, lengths):
        y, _ = self.first(pack(x.transpose(0, 1), lengths, enforce_sorted=False))
        y, last = self.second(y)
        return of_each(*unpack(y, True, -1.0, TIME + 2), last)


def of_each(y, lengths, last):
    """Return all results for each sequence: rows, the length, and the last states."""
    states = [state.transpose(0, 1) for state in (last if isinstance(last, tuple) else [last])]
    return torch.cat([part.flatten(1) for part in (y, lengths[:, None].to(y.dtype), *states)], 1)


def sequences(batch):
    """Sequences in the order of their lengths, the first of which fills its row."""
    lengths = torch.tensor([TIME, TIME, 3, 2, 1, 1][:batch])
    return [torch.randn(batch, TIME, 4, dtype=torch.float64), lengths]


def unsorted(batch):
    x, lengths = sequences(batch)
    return [x, lengths.roll(1)]


def later(batch):
    """Sequences with time as the first axis."""
    x, lengths = unsorted(batch)
    return [x.transpose(0, 1).contiguous(), lengths]


def with_state(batch):
    return [*unsorted(batch), torch.randn(batch, 1, 3, dtype=torch.float64)]


def averaged(kind, *layers):
    return lambda: nn.Sequential(
        layers[0](), kind(4, momentum=None), nn.Flatten(), *(f() for f in layers[1:])
    )


def frozen():
    """A batch norm in evaluation mode between layers that train."""
    module = nn.Sequential(
        nn.Conv2d(2, 4, 2), nn.BatchNorm2d(4), nn.Flatten(), nn.BatchNorm1d(24, momentum=0.3)
    )
    module[1].running_mean.normal_()
    module[1].eval()
    return module


TRANSPOSED = [
    (1, {"padding": 1, "output_padding": 1, "dilation": 2}),
    (2, {"stride": 2, "output_padding": 2, "dilation": 3, "groups": 2}),
    (2, {"stride": (1, 3), "padding": (2, 0), "output_padding": (2, 1), "dilation": (3, 1), "bias": False}),
    (3, {"padding": 2, "output_padding": 1, "dilation": 2}),
]
SIZES = (4, 5, 3)

LAYERS = {
    "average": (averaged(nn.BatchNorm1d, lambda: nn.Linear(3, 4), lambda: nn.Linear(4, 2)), real(3)),
    "average of images": (averaged(nn.BatchNorm2d, lambda: nn.Conv2d(2, 4, 2)), real(2, 4, 3)),
    **{f"bag, {mode}": (lambda mode=mode: Bag(mode=mode), bags) for mode in ("sum", "mean", "max")},
    **{
        f"bag with padding, {mode}": (lambda mode=mode: Bag(mode=mode, padding_idx=-5), bags)
        for mode in ("sum", "mean", "max")
    },
    "bag with weights": (lambda: Bag(mode="sum", padding_idx=1), weighted_bags),
    **{
        f"transposed {k}": (
            lambda k=k, options=options: getattr(nn, f"ConvTranspose{k}d")(2, 4, 3, **options),
            real(2, *SIZES[:k]),
        )
        for k, options in TRANSPOSED
    },
    "frozen": (frozen, real(2, 4, 3)),
    "exponential": (
        lambda: nn.Sequential(nn.Linear(9, 9), Function(lambda x: torch.matrix_exp(3 * x.view(-1, 3, 3)))),
        real(9),
    ),
    "packed, sorted": (lambda: Packed(nn.LSTM, 4, 3, is_sorted=True, batch_first=True), sequences),
    "packed, two directions": (
        lambda: Packed(nn.LSTM, 4, 3, 2, batch_first=True, bidirectional=True, total=TIME),
        unsorted,
    ),
    "packed, with a state": (lambda: Packed(nn.GRU, 4, 3, batch_first=True, padding=2.0), with_state),
    "packed, relu": (lambda: Packed(nn.RNN, 4, 3, 2, batch_first=True, nonlinearity="relu"), unsorted),
    "packed twice": (Stacked, unsorted),
}
"""For each name, the constructor of a module and a function from a batch to its inputs."""

LENGTHS = {
    "convolution": (lambda: nn.Conv1d(3, 4, 3, bias=False), 1),
    "padded": (lambda: nn.Conv1d(3, 6, 3, padding=2, dilation=2, groups=3), 1),
    "same": (lambda: nn.Conv2d(3, 4, (4, 3), padding="same"), 2),
    "fixed stride": (lambda: nn.Conv2d(3, 4, (2, 3), stride=(1, 2), padding=(0, 1)), 2),
    "volume": (lambda: nn.Conv3d(3, 2, 2), 3),
    "transposed": (lambda: nn.ConvTranspose1d(3, 4, 3, 2, 1, 1), 1),
    "transposed in groups": (lambda: nn.ConvTranspose2d(3, 6, (2, 3), (3, 2), 2, groups=3, dilation=2), 2),
    "more output padding": (lambda: nn.ConvTranspose1d(3, 4, 2, output_padding=2, dilation=3), 1),
    "max pooling": (lambda: nn.Sequential(nn.Conv1d(3, 4, 1), nn.MaxPool1d(3, 1, 1)), 1),
    "max pooling of images": (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.MaxPool2d((2, 3), (1, 2))), 2),
    "mean pooling": (lambda: nn.Sequential(nn.Conv1d(3, 4, 1), nn.AvgPool1d(3, 1, 1)), 1),
    "mean without padding": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.AvgPool2d(3, 1, 1, count_include_pad=False)),
        2,
    ),
    "whole mean": (lambda: nn.Sequential(nn.Conv1d(3, 4, 2), nn.AdaptiveAvgPool1d(1)), 1),
    "whole maximum": (lambda: nn.Sequential(nn.Conv2d(3, 4, 2), nn.AdaptiveMaxPool2d(1)), 2),
    "residual": (
        lambda: nn.Sequential(
            nn.Conv1d(3, 4, 3, padding=1),
            nn.BatchNorm1d(4),
            nn.ReLU(),
            nn.Conv1d(4, 4, 3, padding=4, dilation=4),
        ),
        1,
    ),
}
"""For each name, a layer of which the first spatial axis is symbolic, and the number of such axes."""


class Weighted(nn.Module):
    """A layer, and the sums of its rows weighted by their places."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        y = self.layer(x).tanh()
        weights = torch.arange(y.shape[2], dtype=y.dtype).reshape(-1, *(1 for _ in y.shape[3:]))
        return (y * (weights + 1)).sum(2)


QUICK_IN_C = ("average", "bag with padding, max", "exponential", "packed, two directions")
"""Layers that are compiled in every run of the tests."""


def made(name, batch):
    """Return the module in double precision with fixed weights, and its inputs."""
    torch.manual_seed(0)
    make, inputs = LAYERS[name]
    return make().double(), inputs(batch)
