"""Products and convolutions by warp groups, of whole numbers, so that results on a GPU are exact."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from catgrad import Functions, NdArrayType, build, emit, ops
from catgrad.artifact import Artifact
from catgrad.functors import reverse
from catgrad.ops.cast import cast
from catgrad.terms.term import Term
from catgrad.types import Array, Dtype

PRODUCT = (8192, 512), (512, 768)
"""The shapes of the factors of a product; those of its reverse have other majors."""

IMAGES = {
    Dtype.bfloat16: ((32, 64, 56, 56), (128, 64, 3, 3)),
    Dtype.float32: ((32, 128, 28, 28), (128, 128, 3, 3)),
}
"""Shapes of images and windows that warp groups multiply; not in the reverse to the input of steps of 2."""

FORMS = {"bf16": Dtype.bfloat16, "tf32": Dtype.float32, "bf16x6": Dtype.float32}
"""Dtypes of factors by the precision of products."""


def exact_artifact(form: str) -> Artifact:
    """Emit a product and convolutions with their reverses."""
    return emit(exact_functions(form), "cuda", math="float32" if form == "bf16" else form)


def exact_functions(form: str) -> Functions:
    """Build a product and convolutions with their reverses, on factors of a dtype."""
    dtype = FORMS[form]

    def product(x, w):  # type: ignore[no-untyped-def]
        return cast(cast(x, dtype) @ cast(w, dtype), Dtype.float32)

    def windows(x, w, stride=1):  # type: ignore[no-untyped-def]
        return cast(ops.conv(cast(x, dtype), cast(w, dtype), padding=1, stride=stride), Dtype.float32)

    def steps(x, w):  # type: ignore[no-untyped-def]
        return windows(x, w, 2)

    terms: dict[str, Term] = {
        function.__name__: reverse(build(function, [*map(NdArrayType, shapes)]))
        for function, shapes in ((product, PRODUCT), (windows, IMAGES[dtype]), (steps, IMAGES[dtype]))
    }
    return Functions(terms, f"exact_{form}")


def differing(**options: bool) -> str:
    """Return which results differ from those of NumPy; empty if none does."""
    return ", ".join(each for form in FORMS for each in _differing(form, **options))


def _differing(form: str, **options: bool) -> Iterator[str]:
    functions = exact_functions(form)
    ours, theirs = exact_artifact(form).load(**options)(), emit(functions, "numpy").load()()
    for name, term in functions.terms.items():
        arrays = [_drawn(type.shape) for type in term.source.table]
        pairs = zip(getattr(ours, name)(*arrays), getattr(theirs, name)(*arrays), strict=True)
        for number, (x, y) in enumerate(pairs):
            if not np.array_equal(np.asarray(x), y):
                yield f"result {number} of {name} in {form}"


def _drawn(shape: tuple[int, ...]) -> Array:
    """Draw numbers whose sums have 8 bits, which every dtype holds."""
    rng = np.random.default_rng(len(shape))
    return (rng.integers(-1, 2, shape) * (rng.random(shape) < 0.05)).astype(np.float32)
