"""Random functions of PyTorch, with the distributions of their results."""

from __future__ import annotations

from math import pi

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

F, distributions = torch.nn.functional, torch.distributions
COUNT = 20_000
P = torch.tensor([0.1, 0.0, 0.6, 0.3])
"""Probabilities of categories, one of which is impossible."""


def normal(mean, deviation):
    return distributions.Normal(mean, deviation).cdf


def exponential(x, rate=1.0):
    return 1 - torch.exp(-rate * x)


CONTINUOUS = {
    "rand": (lambda x: torch.rand(x.shape), lambda y: y),
    "rand_like": (torch.rand_like, lambda y: y),
    "uniform_": (lambda x: x.clone().uniform_(-1, 3), lambda y: (y + 1) / 4),
    "randn": (lambda x: torch.randn(len(x)), normal(0, 1)),
    "normal_": (lambda x: torch.empty_like(x).normal_(2, 3), normal(2, 3)),
    "normal of numbers": (lambda x: torch.normal(2.0, 3.0, x.shape), normal(2, 3)),
    "normal of means": (lambda x: torch.normal(2 + 0 * x, 3.0), normal(2, 3)),
    "normal of deviations": (lambda x: torch.normal(2.0, 3 + 0 * x), normal(2, 3)),
    "normal of both": (lambda x: torch.normal(2 + 0 * x, 3 + 0 * x[:1]), normal(2, 3)),
    "log_normal_": (lambda x: torch.empty_like(x).log_normal_(1, 2).log(), normal(1, 2)),
    "exponential_": (lambda x: torch.empty_like(x).exponential_(2.0), lambda y: exponential(y, 2.0)),
    "cauchy_": (lambda x: torch.empty_like(x).cauchy_(1, 2), lambda y: 0.5 + ((y - 1) / 2).atan() / pi),
    "Normal": (lambda x: distributions.Normal(2 + 0 * x, 3.0).rsample(), normal(2, 3)),
    "Normal, sample": (lambda x: distributions.Normal(2.0, 3.0).sample(x.shape), normal(2, 3)),
    "Uniform": (lambda x: distributions.Uniform(0 * x, 2.0).rsample(), lambda y: y / 2),
    "Laplace": (lambda x: distributions.Laplace(0 * x, 2.0).rsample(), distributions.Laplace(0, 2).cdf),
    "Exponential": (lambda x: distributions.Exponential(2 + 0 * x).rsample(), lambda y: exponential(y, 2)),
    "Gumbel": (lambda x: distributions.Gumbel(0 * x, 1.0).rsample(), distributions.Gumbel(0.0, 1.0).cdf),
    "LogNormal": (lambda x: distributions.LogNormal(0 * x, 1.0).rsample().log(), normal(0, 1)),
}
"""Functions of an array of zeros, and their distribution functions."""


def rows(x):
    return P + 0 * x[:, None]


DISCRETE = {
    "bernoulli": (lambda x: torch.bernoulli(0.3 + 0 * x), [0.7, 0.3]),
    "bernoulli_": (lambda x: torch.empty_like(x).bernoulli_(0.3), [0.7, 0.3]),
    "bernoulli_ of an array": (lambda x: torch.empty_like(x).bernoulli_(0.3 + 0 * x), [0.7, 0.3]),
    "Bernoulli": (lambda x: distributions.Bernoulli(0.3 + 0 * x).sample(), [0.7, 0.3]),
    "randint": (lambda x: torch.randint(5, (len(x),)), [0.2] * 5),
    "randint from": (lambda x: torch.randint(-2, 2, x.shape) + 2, [0.25] * 4),
    "randint_like": (lambda x: torch.randint_like(x, 2, 5) - 2, [1 / 3] * 3),
    "randint_like to": (lambda x: torch.randint_like(x, 3), [1 / 3] * 3),
    "geometric_": (
        lambda x: torch.empty_like(x).geometric_(0.5).clamp(max=4) - 1,
        [0.5, 0.25, 0.125, 0.125],
    ),
    "multinomial": (lambda x: torch.multinomial(rows(x), 1)[:, 0], P),
    "the second of multinomial": (lambda x: torch.multinomial(rows(x), 2, replacement=True)[:, 1], P),
    "one multinomial": (lambda x: torch.multinomial(5 * P, len(x), replacement=True), P),
    "Categorical": (lambda x: distributions.Categorical(rows(x)).sample(), P),
    "OneHotCategorical": (lambda x: distributions.OneHotCategorical(rows(x)).sample().argmax(1), P),
    "gumbel_softmax": (lambda x: F.gumbel_softmax(rows(x).log(), hard=True).argmax(1), P),
}
"""Functions of an array of zeros to whole numbers, and the probabilities of 0, 1, …"""

REPARAMETERISED = {
    "Normal": lambda a, b: distributions.Normal(a, b.exp()).rsample(),
    "Laplace": lambda a, b: distributions.Laplace(a, b.exp()).rsample(),
    "Uniform": lambda a, b: distributions.Uniform(a, a + b.exp()).rsample(),
    "gumbel_softmax": lambda a, b: F.gumbel_softmax(a * b, tau=0.7),
    "RelaxedBernoulli": lambda a, b: distributions.RelaxedBernoulli(b.exp(), logits=a).rsample(),
    "noise": lambda a, b: a + b * torch.randn_like(a),
}
"""Draws as smooth functions of two arrays."""


def distance(found, cumulative):
    """Return Kolmogorov's distance of a sample from a distribution."""
    values = torch.as_tensor(np.sort(found), dtype=torch.float64)
    wanted = cumulative(values)
    places = torch.arange(len(values) + 1) / len(values)
    return max((places[1:] - wanted).max(), (wanted - places[:-1]).max()).item()
