"""Options of the target."""

from __future__ import annotations

from dataclasses import dataclass

from catgrad.options import require_choices, require_kinds
from catgrad.programs.ports import Kind

MATH = ("float32", "tf32")
"""Arithmetic of products of float32: of all bits, or of factors rounded to 11."""

PRODUCTS = ("own", "cublaslt")
"""Implementations of large matrix products: kernels of the emitted library, or cuBLASLt."""


@dataclass(frozen=True)
class Options:
    """Options of the emitted library.

    `math` is `float32`, or `tf32`: then tensor cores multiply factors of float32 that are rounded to 11 bits,
    which is faster. Products of 16-bit floats use tensor cores anyway, which multiply them exactly.
    With `nccl`, there is also a step of several GPUs, which average their gradients by NCCL.
    `products` is `own`, or `cublaslt`: then cuBLASLt computes large matrix products, with what it can do to
    their elements: add an array or a bias, and relu.
    With `single_file` the library has its runtime in its own source, rather than in a header beside it.

    Raises: OptionError for another value
    """

    math: str = "float32"
    nccl: bool = False
    products: str = "own"
    single_file: bool = False

    @property
    def required(self) -> tuple[Kind, ...]:
        """The functions that a step of several GPUs calls."""
        return (Kind.GRADS, Kind.UPDATE) if self.nccl else ()

    @property
    def calls_library(self) -> bool:
        """Tell whether functions call cuBLASLt."""
        return self.products == "cublaslt"

    def __post_init__(self) -> None:
        require_kinds(self)
        require_choices(self, {"math": MATH, "products": PRODUCTS})
