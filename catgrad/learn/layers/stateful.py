"""Layers that differ between training and evaluation: dropout and batch norm."""

from __future__ import annotations

from catgrad.initialisers import Filled
from catgrad.learn.layers.arguments import checked
from catgrad.learn.layers.parts import buffer, label, parameter, update
from catgrad.ops.batch_norm import BatchNorm, copied, tracked
from catgrad.ops.random import Dropout
from catgrad.terms.build import build
from catgrad.terms.op import qualified, scope
from catgrad.terms.state import DRAWS, SEED
from catgrad.terms.structural import stop_gradient
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType


@checked
def dropout(x: NdArrayType, rate: float = 0.5, name: str = "dropout") -> Term:
    """Dropout: in training y = x / (1 - rate) with probability 1 - rate, else 0; in evaluation y = x.

    Its random numbers depend on the `seed` of the run, the counter `draws` and the dotted name of the
    layer, so they are the same on every target, and in all iterations of a loop.

    Type:     T -> T for floating T
    Raises:   OptionError unless 0 ≤ rate < 1
    """
    return build(lambda x: Dropout(qualified(name), rate)(x, SEED(), DRAWS()), [x])


@checked
def batch_norm(x: NdArrayType, momentum: float = 0.1, epsilon: float = 1e-5, name: str = "norm") -> Term:
    """Batch normalisation: y = (x - μ) / √(σ² + ε) · w + b for each channel of x : [N, C, …].

    In training, μ and σ² are statistics of the batch, towards which running statistics move by
    `momentum` (the variance as n / (n - 1) · σ²); in evaluation, μ and σ² are the running statistics.

    Type:       T[N, C, …] -> T[N, C, …], with the parameters `<name>.weight` and `<name>.bias` and the
                buffers `<name>.running_mean`, `<name>.running_var` of type [C], `<name>.num_batches_tracked`
    Initial:    1 and 0, 0 and 1, as in torch.nn.BatchNorm2d
    Raises:     ShapeError if x has fewer than two axes
    """
    channels = x.with_shape(x.shape[1:2])

    def forward(image: Var) -> Var:
        weight, shift = parameter("weight", channels, Filled(1.0)), parameter("bias", channels)
        mean, variance = buffer("running_mean", channels), buffer("running_var", channels, Filled(1.0))
        y = BatchNorm(epsilon)(image, mean, variance)
        new_mean, new_variance = tracked(stop_gradient(image), mean, variance, momentum)
        update("running_mean", new_mean)
        update("running_var", new_variance)
        update("num_batches_tracked", buffer("num_batches_tracked", NdArrayType((), Dtype.int64)) + 1)
        return label("out", y * copied(weight, image) + copied(shift, image))

    with scope(name):
        return build(forward, [x])
