"""Recurrent modules over any number of times, packed or not, train as in PyTorch at each size."""

from __future__ import annotations

import pytest

from catgrad import compile_module, losses, sgd, verify
from catgrad.errors import OptionError, UnsupportedOp
from catgrad.frontends.torch import from_torch
from tests.targets import on

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

F, nn = torch.nn.functional, torch.nn
pack, unpack = nn.utils.rnn.pack_padded_sequence, nn.utils.rnn.pad_packed_sequence
CLASSES, STEPS = 5, 5
AXES = ("batch", "time")
SIZES = ((4, 6), (3, 2), (2, 11))
"""Numbers of sequences, and the length of the longest."""


class Tagger(nn.Module):
    """Scores of classes at each time, by a recurrent layer over packed sequences, or padded ones."""

    def __init__(self, kind, is_packed, **options):
        super().__init__()
        self.layer, self.is_packed = kind(3, 4, batch_first=True, **options), is_packed
        self.out = nn.Linear(4 * (1 + self.layer.bidirectional), CLASSES)

    def forward(self, x, lengths):
        if not self.is_packed:
            return self.out(self.layer(x)[0])
        y, _ = self.layer(pack(x, lengths, True, enforce_sorted=False))
        return self.out(unpack(y, True)[0])


class Decoder(nn.Module):
    """A recurrent layer with time first that begins with the last states of another."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.LSTM(3, 4, 2), nn.LSTM(3, 4, 2)

    def forward(self, x, lengths):
        _, states = self.encoder(x.transpose(0, 1))
        return self.decoder(x.flip(1).transpose(0, 1), states)[0].transpose(0, 1)


class Masked(nn.Module):
    """A transformer that ignores padding."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 5, 0.0, batch_first=True)
        self.into, self.out = nn.Linear(3, 4), nn.Linear(4, CLASSES)

    def forward(self, x, lengths):
        padding = torch.arange(x.shape[1]) >= lengths[:, None]
        return self.out(self.layer(self.into(x), src_key_padding_mask=padding))


def of_rows(scores, tags):
    """Cross entropy of all rows."""
    return F.cross_entropy(scores.flatten(0, 1), tags.flatten())


def of_time(scores, tags):
    """Cross entropy with classes as the second axis."""
    return F.cross_entropy(scores.transpose(1, 2), tags)


def batch(n, time):
    """Sequences with tags; those of padding are ignored."""
    torch.manual_seed(n * time)
    lengths = torch.randint(1, time + 1, (n,))
    lengths[n // 2] = time
    tags = torch.randint(0, CLASSES, (n, time))
    x = torch.randn(n, time, 3, dtype=torch.float64)
    return x, lengths, tags.masked_fill(torch.arange(time) >= lengths[:, None], -100)


MODULES = {
    "LSTM": (lambda: Tagger(nn.LSTM, False), of_rows),
    "GRU in two directions": (lambda: Tagger(nn.GRU, False, bidirectional=True, num_layers=2), of_time),
    "RNN": (lambda: Tagger(nn.RNN, False, nonlinearity="relu", bias=False), losses.cross_entropy),
    "packed LSTM": (lambda: Tagger(nn.LSTM, True, bidirectional=True, num_layers=2), of_rows),
    "packed GRU": (lambda: Tagger(nn.GRU, True, num_layers=2), of_time),
    "packed RNN": (lambda: Tagger(nn.RNN, True, bidirectional=True), losses.cross_entropy),
    "transformer": (Masked, of_rows),
}
"""For each name, the constructor of a module, and a loss."""

ON_ALL = ("LSTM", "packed LSTM")


def trained(module, loss, target, batches, **options):
    """Check five steps on these batches, and what the module predicts."""
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    x, lengths, *_ = batches[0]
    learner = compile_module(module, (x, lengths), optimiser, loss, target, **options)
    replay = verify(module, learner, batches, steps=STEPS)
    replay.check()
    assert replay.steps == STEPS


TARGETS = ("numpy", "torch", "c", "javascript", "jax", "ggml", "onnx", "wasm")
ON_SOME = [
    pytest.param(*target.values, name, marks=[*target.marks, *[pytest.mark.long] * is_long])
    for name in MODULES
    for target in on(*TARGETS, long=("jax", "ggml", "onnx", "wasm")).args[1]
    for is_long in [name not in (*ON_ALL, "transformer") and target.values == ("c",)]
    if name in ON_ALL or target.values[0] in ("numpy", "c")
]


@pytest.mark.covering
@pytest.mark.parametrize(("target", "name"), ON_SOME)
def test_five_steps_at_several_lengths(target, name):
    make, loss = MODULES[name]
    torch.manual_seed(0)
    trained(make().double(), loss, target, [batch(*size) for size in SIZES], dynamic=AXES)


@pytest.mark.covering(0)
@pytest.mark.parametrize("target", ["numpy", "c"])
def test_states_of_one_loop_begin_another(target):
    torch.manual_seed(0)
    batches = [(x, n, torch.randn(*x.shape[:2], 4).double()) for x, n, _ in (batch(*s) for s in SIZES)]
    trained(Decoder().double(), nn.MSELoss(), target, batches, dynamic=AXES)


@pytest.mark.parametrize("dynamic", [AXES, {"x": AXES, "lengths": AXES[:1], "targets": AXES}])
def test_examples_of_targets_have_the_symbolic_axes_of_the_outputs(dynamic):
    """The second axis of targets is that of time, by its name or by its size in the examples."""
    torch.manual_seed(0)
    module, batches = Tagger(nn.GRU, True).double(), [batch(*size) for size in SIZES]
    trained(module, of_rows, "numpy", batches, dynamic=dynamic, targets=batches[0][2])


def test_targets_have_a_symbolic_axis_of_their_own():
    """Alignments of labels, of another number than times, to the outputs at each time."""

    def loss(scores, labels, times, lengths):
        return F.ctc_loss(scores.transpose(0, 1).log_softmax(-1), labels, times, lengths)

    def aligned(n, time, count):
        x, lengths, _ = batch(n, time)
        labels = torch.randint(1, CLASSES, (n, count)), torch.randint(1, count + 1, (n,))
        return x, lengths, labels[0], torch.full((n,), time), labels[1]

    torch.manual_seed(0)
    batches = [aligned(4, 9, 3), aligned(2, 7, 2), aligned(3, 12, 5)]
    dynamic = {"x": AXES, "lengths": AXES[:1], "targets": ("batch", "labels")}
    module = Tagger(nn.LSTM, False).double()
    trained(module, loss, "numpy", batches, dynamic=dynamic, targets=batches[0][2:])


class Differentiated(nn.Module):
    """The derivative of a recurrent layer by its input."""

    def __init__(self, is_packed):
        super().__init__()
        self.tagger = Tagger(nn.GRU, is_packed)

    def forward(self, x, lengths):
        x = x.requires_grad_()
        return torch.autograd.grad(self.tagger(x, lengths).square().sum(), x, create_graph=True)[0]


class Projected(nn.Module):
    """An LSTM with projected states."""

    def __init__(self, width):
        super().__init__()
        self.layer, self.out = nn.LSTM(3, 4, proj_size=2, batch_first=True), nn.Linear(width, 1)

    def forward(self, x, lengths):
        return self.out(unpack(self.layer(pack(x, lengths, True, enforce_sorted=False))[0], True)[0])


class Steps(nn.Module):
    """A loop in Python."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x, lengths):
        h = None
        for time in range(x.shape[1]):
            h = self.cell(x[:, time], h)
        return h


REFUSED = [
    (lambda: Differentiated(True), ("batch",), "passes through a recurrent layer over sequences of diff"),
    (lambda: Differentiated(False), AXES, "leave the axis of time out of `dynamic`"),
    (Steps, AXES, "the axis time must be free"),
    (lambda: Projected(2), AXES, "leave out proj_size"),
    (lambda: Projected(4), AXES, "PyTorch raises RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
]


@pytest.mark.parametrize(("make", "dynamic", "pattern"), REFUSED)
def test_other_loops_are_refused(make, dynamic, pattern):
    x, lengths, _ = batch(4, 6)
    with pytest.raises(UnsupportedOp, match=pattern):
        from_torch(make(), x.float(), lengths, dynamic=dynamic)


def test_a_sprite_has_sequences_of_one_length():
    x, lengths, _ = batch(4, 6)
    with pytest.raises(OptionError, match="at most one symbolic size.*use numbers"):
        compile_module(
            Tagger(nn.LSTM, False), (x.float(), lengths), sgd(0.1), of_rows, "scratch", dynamic=AXES
        )
