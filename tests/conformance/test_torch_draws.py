"""Random functions of modules: their distributions, their gradients, and that no two draws are alike.

All seeds are fixed, so that each test passes always or never.
"""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import mse, ops, sgd
from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch import from_torch
from tests.targets import emit

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_draws import (  # noqa: E402  # it needs PyTorch
    CONTINUOUS,
    COUNT,
    DISCRETE,
    REPARAMETERISED,
    distance,
)
from tests.conformance.torch_models import Function  # noqa: E402

nn = torch.nn
ZEROS = torch.zeros(COUNT)
MOST = 0.0135
"""The distance of 20,000 numbers from their distribution that one sample in 700 exceeds."""


def learner_of(module, *inputs, target="numpy", seed=3, loss=lambda *y: mse(y[0], y[len(y) // 2]), **options):
    imported = from_torch(module, *inputs, train=True, **options)
    return emit(imported.task(sgd(0.1), loss), target).load()().learner(seed)


@pytest.fixture(scope="module")
def drawn():
    """The results of all functions in evaluation, of one module: an export takes longer than a draw."""
    functions = {**CONTINUOUS, **DISCRETE}
    everything = Function(lambda x: [x + 1, *(function(x) for function, _ in functions.values())])
    return dict(zip(functions, learner_of(everything, ZEROS).predict(ZEROS.numpy())[1:], strict=True))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_numbers_have_their_distribution(name, drawn):
    assert drawn[name].shape == (COUNT,)
    assert distance(drawn[name], CONTINUOUS[name][1]) < MOST
    assert distance(drawn[name][: COUNT // 2], CONTINUOUS[name][1]) < 2 * MOST


@pytest.mark.parametrize("name", DISCRETE)
def test_whole_numbers_have_their_probabilities(name, drawn):
    wanted = np.asarray(DISCRETE[name][1], np.float64)
    counts = np.bincount(drawn[name].astype(np.int64), minlength=len(wanted))
    assert counts.shape == wanted.shape and (counts[wanted == 0] == 0).all()
    np.testing.assert_allclose(counts / COUNT, wanted, atol=MOST)


def test_no_two_draws_are_alike(drawn):
    """Uniform numbers of different calls, of neighbours, and of consecutive steps do not correlate."""
    uniform, other = drawn["rand"], drawn["rand_like"]
    for a, b in ((uniform, other), (uniform[1:], uniform[:-1]), (drawn["randn"], drawn["normal_"])):
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.025
    learner = learner_of(Function(lambda x: x + torch.rand_like(x)), ZEROS)
    before = learner.predict(ZEROS.numpy())
    learner.step(ZEROS.numpy(), ZEROS.numpy())
    assert abs(np.corrcoef(before, learner.predict(ZEROS.numpy()))[0, 1]) < 0.025
    again = learner_of(Function(lambda x: x + torch.rand_like(x)), ZEROS, seed=4).predict(ZEROS.numpy())
    assert abs(np.corrcoef(before, again)[0, 1]) < 0.025


def test_permutations_and_draws_without_replacement_have_all_numbers_once():
    def forward(x):
        p = torch.ones_like(x)[:, None].expand(-1, 5)
        return x + 1, torch.multinomial(p, 5), torch.randperm(x.shape[0]), torch.randperm(6)

    learner = learner_of(Function(forward), ZEROS, dynamic=("batch",))
    for batch in (COUNT, 10):
        _, chosen, order, six = learner.predict(np.zeros(batch, np.float32))
        np.testing.assert_array_equal(np.sort(chosen, 1), np.tile(np.arange(5), (batch, 1)))
        np.testing.assert_array_equal(np.sort(order), np.arange(batch))
        np.testing.assert_array_equal(np.sort(six), np.arange(6))
        if batch == COUNT:
            assert abs(np.corrcoef(order, np.arange(batch))[0, 1]) < 0.025
            np.testing.assert_allclose(np.bincount(chosen[:, 1]) / COUNT, 0.2, atol=MOST)


class Drawn(nn.Module):
    """A draw whose two parameters are learnt."""

    def __init__(self, function):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.a, self.b = (
            nn.Parameter(0.5 * torch.randn(4, 3, generator=generator, dtype=torch.float64)) for _ in range(2)
        )
        self.function = function

    def forward(self, x):
        return x * self.function(self.a, self.b)


@pytest.mark.parametrize("name", REPARAMETERISED)
def test_gradients_flow_through_draws(name):
    """Compare with central differences in the parameters, for the same random bits."""
    x = np.linspace(0.5, 2, 12).reshape(4, 3)
    learner = learner_of(Drawn(REPARAMETERISED[name]), torch.tensor(x), seed=1)
    target, width = np.full((4, 3), 0.3), 1e-6
    before = {key: np.array(value) for key, value in learner.parameters.items()}

    def loss(key, index, change):
        learner.parameters[key] = before[key] + change * (np.arange(12).reshape(4, 3) == index)
        value = np.square(learner.predict(x) - target).mean()
        learner.parameters[key] = before[key]
        return value

    slopes = {
        key: np.array([(loss(key, k, width) - loss(key, k, -width)) / (2 * width) for k in range(12)])
        for key in before
    }
    learner.step(x, target)
    for key, slope in slopes.items():
        found = (before[key] - learner.parameters[key]) / 0.1
        np.testing.assert_allclose(found, slope.reshape(4, 3), rtol=1e-5, atol=1e-7, err_msg=key)
        assert np.abs(slope).max() > 1e-3


def test_draws_of_a_mean_have_no_gradient_without_reparameterisation():
    function = lambda a, b: torch.normal(a, b.exp()) + a * 0
    learner = learner_of(Drawn(function), torch.ones(4, 3, dtype=torch.float64))
    before = {key: np.array(value) for key, value in learner.parameters.items()}
    learner.step(np.ones((4, 3)), np.zeros((4, 3)))
    for key, value in before.items():
        np.testing.assert_array_equal(learner.parameters[key], value)


def test_straight_through_draws_have_the_gradient_of_soft_ones():
    x, weights, found = np.ones((4, 3)), np.linspace(-1, 1, 12).reshape(4, 3), []
    for hard in (False, True):
        module = Drawn(lambda a, b, hard=hard: nn.functional.gumbel_softmax(a, hard=hard))
        learner = learner_of(module, torch.tensor(x), loss=lambda y, w: ops.mean(y * w))
        found.append((learner.predict(x), learner.step(x, weights) and learner.parameters["a"]))
    (soft, after_soft), (hard, after_hard) = found
    np.testing.assert_array_equal(hard, np.eye(3)[soft.argmax(1)])
    np.testing.assert_allclose(after_soft, after_hard, rtol=1e-9)


def test_numpy_and_c_draw_the_same():
    functions = [function for function, _ in (CONTINUOUS | DISCRETE).values()]
    module, x = Function(lambda x: [x + 1, *(function(x) for function in functions)]), torch.zeros(7)
    ours, in_c = (learner_of(module, x, target=target).predict(x.numpy()) for target in ("numpy", "c"))
    for a, b in zip(ours, in_c, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


LACKING = "must be supported by the front end"


@pytest.mark.parametrize(
    ("function", "pattern"),
    [
        (lambda x: torch.poisson(x + 1), LACKING),
        (lambda x: torch.distributions.Gamma(x + 1, 1.0).rsample(), LACKING),
        (
            lambda x: torch.distributions.Beta(x + 1, x + 1).rsample(),
            "_Dirichlet is a torch.autograd.Function",
        ),
        (lambda x: torch.binomial(x + 5, x + 0.5), LACKING),
    ],
)
def test_draws_by_rejection_are_refused(function, pattern):
    with pytest.raises(UnsupportedOp, match=pattern):
        from_torch(Function(function), torch.zeros(3))


def test_ranges_of_more_than_32_bits_are_refused():
    with pytest.raises(UnsupportedOp, match="one of at most 4294967296 numbers"):
        from_torch(Function(lambda x: x + torch.randint(0, 2**40, (3,))), torch.zeros(3))
