"""Trainings in which operations, losses and targets have symbolic sizes are PyTorch's at each batch size."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from catgrad import compile_module, mse, sgd
from catgrad.errors import OptionError, UnsupportedOp

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

F, nn = torch.nn.functional, torch.nn
WORDS, CLASSES, LENGTH = 7, 3, 5


class Layer(nn.Module):
    """A function of a linear layer's output and of further inputs."""

    def __init__(self, function):
        super().__init__()
        self.linear, self.function = nn.Linear(4, CLASSES), function

    def forward(self, x, *others):
        return self.function(self.linear(x), *others)


class Language(nn.Module):
    """Scores of words, optionally as rows."""

    def __init__(self, are_rows=False):
        super().__init__()
        self.table, self.head, self.are_rows = nn.Embedding(WORDS, 4), nn.Linear(4, WORDS), are_rows

    def forward(self, tokens):
        scores = self.head(self.table(tokens))
        return scores.view(-1, WORDS) if self.are_rows else scores


def numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def whole(high, *shape):
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(sum(shape)))


def with_margin(scores, labels):
    """ArcFace: less of the score of the right class."""
    return scores - 0.2 * torch.zeros_like(scores).scatter_(1, labels.view(-1, 1), 1.0)


def contrast(h):
    """InfoNCE: each row is the class of itself."""
    similarity = h @ h.T
    return (similarity.diagonal() - similarity.logsumexp(1))[:, None] * h


REDUCED = {
    "advantages": lambda h: (h - h.mean()) / (h.std() + 1e-8),
    "standardised": lambda h: (h - h.mean(0)) / (h.var(0) + 1e-3).sqrt(),
    "variance and mean": lambda h: h * torch.var_mean(h, 0, correction=0)[0] + torch.std_mean(h)[1],
    "roll": lambda h: h * h.roll(1, 0) + h.roll((-2, 1), (0, 1)) + h.roll(1),
    "contrast": contrast,
    "diagonal matrices": lambda h: torch.diag_embed(h[:, 0]) @ h,
    "padding": lambda h: F.pad(h, (0, 0, 1, 0))[:-1] * h + F.pad(h.T, (0, h.shape[0]))[:, : h.shape[0]].T,
    "product": lambda h: h * h.prod(0),
    "median": lambda h: h - h.median(0).values,
    "running maximum": lambda h: h.cummax(0).values * h.cumprod(0),
    "differences": lambda h: torch.cat([h[:1], h.diff(dim=0)]) - h[-1],
    "greatest": lambda h: h * h.topk(1, 0).values,
    "scalars": lambda h: h * h.sum().squeeze(0) + h.mean().index_select(0, torch.tensor(0)),
}
"""Functions of the batch, whose size is symbolic."""

VOCABULARY = lambda scores, words: F.cross_entropy(scores.view(-1, WORDS), words.view(-1))


def case(module, loss, inputs, targets, dynamic=("batch",), **options):
    """Return functions of a batch size that make a module, and its inputs and targets."""
    return module, loss, inputs, targets, dynamic, options


CASES = {
    **{
        name: case(lambda f=f: Layer(f), nn.MSELoss(), lambda n: [numbers(n, 4)], lambda n: [numbers(n, 3)])
        for name, f in REDUCED.items()
    },
    "Q-values": case(
        lambda: Layer(lambda q, action: q.gather(1, action[:, None]).squeeze(1)),
        nn.SmoothL1Loss(), lambda n: [numbers(n, 4), whole(CLASSES, n)], lambda n: [numbers(n)],
    ),
    "margin": case(
        lambda: Layer(with_margin),
        nn.CrossEntropyLoss(), lambda n: [numbers(n, 4), whole(CLASSES, n)], lambda n: [whole(CLASSES, n)],
    ),
    "pointers": case(
        lambda: Layer(lambda h, place: h.gather(1, place[:, :, None].expand(-1, -1, CLASSES))),
        nn.MSELoss(), lambda n: [numbers(n, LENGTH, 4), whole(LENGTH, n, 2)],
        lambda n: [numbers(n, 2, CLASSES)],
    ),
    "rows of fewer": case(
        lambda: Layer(lambda h, row: h.gather(0, row[:, None].expand(-1, 2))),
        nn.MSELoss(), lambda n: [numbers(n + 3, 4), whole(n, n)], lambda n: [numbers(n, 2)],
        {"x": ("rows",), "others_0": ("batch",)},
    ),
    "words": case(
        Language, VOCABULARY, lambda n: [whole(WORDS, n, LENGTH)], lambda n: [whole(WORDS, n, LENGTH)],
    ),
    "rows of words": case(
        lambda: Language(are_rows=True), nn.CrossEntropyLoss(), lambda n: [whole(WORDS, n, LENGTH)],
        lambda n: [whole(WORDS, n * LENGTH)],
    ),
    "rows of words in time": case(
        lambda: Language(are_rows=True), VOCABULARY, lambda n: [whole(WORDS, n, n + 1)],
        lambda n: [whole(WORDS, n, n + 1)], ("batch", "time"), has_examples=True,
    ),
    "labels in time": case(
        lambda: Layer(lambda h: h.log_softmax(-1).transpose(0, 1)), nn.CTCLoss(),
        lambda n: [numbers(n, 7, 4)],
        lambda n: [1 + whole(2, n, n + 1), torch.full((n,), 7), torch.full((n,), 2)],
        {"x": ("batch",), "targets": ("batch", "labels")}, has_examples=True,
    ),
    "weights of classes": case(
        lambda: Layer(lambda h: h), lambda y, labels, weight: F.cross_entropy(y, labels, weight),
        lambda n: [numbers(n, 4)], lambda n: [whole(CLASSES, n), numbers(CLASSES).abs()], has_examples=True,
    ),
}  # fmt: skip

IN_C = ("advantages", "roll", "contrast", "Q-values", "margin", "rows of words", "labels in time")
"""Cases that are also compiled."""


@pytest.mark.covering
@pytest.mark.parametrize(
    ("name", "target"), [*((name, "numpy") for name in CASES), *((name, "c") for name in IN_C)]
)
def test_steps_are_those_of_pytorch_at_each_batch_size(name, target):
    make, loss, inputs, targets, dynamic, options = CASES[name]
    torch.manual_seed(0)
    module = make()
    examples = targets(4) if options.get("has_examples") else None
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    learner = compile_module(
        module, tuple(inputs(4)), optimiser, loss, target, dynamic=dynamic, targets=examples
    )
    replay = learner.verify([(*inputs(n), *targets(n)) for n in (4, 2)], steps=4)
    replay.check()
    assert replay.steps == 4


WRONG = [
    (dict(targets=1.0), OptionError, "the examples of targets must be tensors, but one is of float"),
    (dict(targets={"y": numbers(4, 3)}), OptionError, "one is of dict"),
    (dict(targets=numbers(4, 3), dynamic={"targets_1": ("batch",)}), OptionError, "targets, targets_0"),
    (
        dict(targets=numbers(5, 3), dynamic={"x": ("batch",), "targets": ("batch",)}),
        OptionError,
        "one size in the examples, but batch is 4, and 5 in a target",
    ),
    (dict(dynamic={"x": ("batch",), "targets": ("batch",)}), OptionError, "and no examples; pass targets="),
    (dict(loss=lambda y, t, w: (y * t * w).sum()), UnsupportedOp, "pass examples of its targets"),
    (
        dict(module=Layer(lambda h: h.squeeze(0)), dynamic=("batch",)),
        UnsupportedOp,
        "squeezed must have a fixed size",
    ),
]


@pytest.mark.parametrize(("arguments", "error", "pattern"), WRONG, ids=count())
def test_wrong_targets_and_axes_are_refused(arguments, error, pattern):
    given = {"module": Layer(lambda h: h), "loss": nn.MSELoss(), **arguments}
    with pytest.raises(error, match=pattern):
        compile_module(given.pop("module"), numbers(4, 4), sgd(0.1), given.pop("loss"), **given)


def test_axes_of_one_name_have_one_size():
    module = Layer(lambda h, other: h + other)
    dynamic = {"x": ("batch",), "others_0": ("batch",)}
    with pytest.raises(OptionError, match="batch is 4 in x and 5 in others_0"):
        compile_module(module, (numbers(4, 4), numbers(5, 3)), sgd(0.1), mse, dynamic=dynamic)


def test_a_target_of_another_size_is_fixed():
    loss = lambda y, weight: (y * weight).square().mean()
    learner = compile_module(Layer(lambda h: h), numbers(4, 4), sgd(0.1), loss, targets=numbers(CLASSES))
    assert np.isfinite(learner.step(numbers(6, 4).numpy(), numbers(CLASSES).numpy()))
    with pytest.raises(ValueError, match=r"must have shape \(3,\)"):
        learner.step(numbers(6, 4).numpy(), numbers(6).numpy())
