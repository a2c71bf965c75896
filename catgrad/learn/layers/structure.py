"""Combinators of layers: sequential, named, shared, checkpointed, residual."""

from __future__ import annotations

from collections.abc import Callable

from catgrad import ops
from catgrad.errors import ShapeError
from catgrad.functors import prefixed
from catgrad.functors.factor import factor
from catgrad.functors.parameters import with_distinct_names
from catgrad.learn.layers.arguments import checked
from catgrad.terms.build import build
from catgrad.terms.state import Parameter
from catgrad.terms.term import Term, compose
from catgrad.terms.var import Var


@checked
def sequential(*layers: Term) -> Term:
    """f₁ ; … ; fₙ, with the names of the k-th layer's parameters under `k`, as in torch.nn.Sequential.

    Layers made with `name=""` have just torch's names: `0.weight`, `0.bias`, `2.weight`, ….

    Raises: ShapeError if the target of one layer is not the source of the next.
    """
    return compose(*(prefixed(str(k), layer) for k, layer in enumerate(layers)))


@checked
def named(name: str, layer: Term) -> Term:
    """Prefix the names of the parameters of a layer with `name.`."""
    return prefixed(name, layer)


@checked
def shared(layer: Term) -> Callable[..., Var]:
    """Read the parameters of a layer once, and return a function that may be applied many times.

    A layer that is applied twice has parameters for each: shared(layer) has one set, in every application
    and in its derivatives. It belongs to the function that is being built.

    Raises: TermError if nothing is being built
    """
    parameters, opened = factor(with_distinct_names(layer), Parameter)
    values = [parameter() for parameter in parameters]
    return lambda *x: opened(*values, *x)


@checked
def checkpointed(layer: Term) -> Term:
    """Checkpoint a layer: training saves its arguments only, and recomputes the inner values.

    Type:     A -> B, for a layer A -> B
    Source:   Chen et al. 2016 (arXiv:1604.06174), section 4
    """
    return build(lambda *xs: ops.checkpoint(layer, *xs), list(layer.source.table))


@checked
def residual(layer: Term) -> Term:
    """Residual connection: y = x + f(x, z), wire by wire; f may have further inputs z, such as lengths.

    Type:     A ⊗ Z -> A, for a layer A ⊗ Z -> A
    Raises:   ShapeError if the types of outputs are not those of the first inputs
    Source:   He et al. 2015 (arXiv:1512.03385), equation 1
    """
    source, target = list(layer.source.table), list(layer.target.table)
    if source[: len(target)] != target:
        raise ShapeError(
            "a residual layer must return the type of its input",
            f"it maps {source} to {target}",
            "add a projection",
        )

    def forward(*xs: Var) -> list[Var]:
        return [ops.add(x, y) for x, y in zip(xs, layer.apply(*xs), strict=False)]

    return build(forward, source)
