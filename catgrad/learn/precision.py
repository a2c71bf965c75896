"""Mixed precision for models and tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar, cast

from catgrad.errors import OptionError
from catgrad.functors import MixedPrecision
from catgrad.learn.functions import Functions
from catgrad.learn.task import Task
from catgrad.terms.term import Term
from catgrad.types import Dtype

Model = TypeVar("Model", bound=Term | Task | Functions)


def mixed_precision(model: Model, dtype: Dtype = Dtype.bfloat16) -> Model:
    """Compute the contractions of a model in bfloat16: z = f(x, y) becomes z = widen(f(round x, round y)).

    Contractions are matrix products, convolutions and attention. Their operands are rounded to bfloat16,
    their sums of products are formed in float32, and each element of the result is rounded once. All else
    stays in float32: parameters, buffers, the optimiser and its state, elementwise functions, norms, softmax
    and the loss. Gradients are those of this model, so they round the same operands and cotangents. The
    losses are those of `torch.autocast`, up to roundings of elementwise functions and biases.

    Type:     X -> Y remains X -> Y; contractions of other dtypes than float32 are unchanged
    Raises:   OptionError for a dtype other than bfloat16, or what is no term, Task or Functions
    Gradient: that of each contraction in bfloat16; of rounding, the identity, which rounds the cotangent
    Source:   Micikevicius et al. 2018 (arXiv:1710.03740); Kalamkar et al. 2019 (arXiv:1905.12322)
    """
    if dtype is not Dtype.bfloat16:
        raise OptionError(
            "mixed precision must be in bfloat16, whose range is that of float32",
            f"it is {dtype.value if isinstance(dtype, Dtype) else repr(dtype)}",
            "write Dtype.bfloat16; gradients in float16 would underflow without a scaled loss",
        )
    functor = MixedPrecision(dtype)
    if isinstance(model, Task):
        return cast(Model, model.mapped(functor))
    if isinstance(model, Functions):
        return replace(model, terms={name: functor(term) for name, term in model.terms.items()})
    if isinstance(model, Term):
        return functor(model)
    raise OptionError(
        "mixed precision must be that of a term, a Task or Functions",
        f"it is that of {type(model).__name__}",
        "build the model with layers or build(...)",
    )
