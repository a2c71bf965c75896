"""Options of the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catgrad.options import require_choices, require_kinds
from catgrad.programs.ports import Kind

MATH: Mapping[str, int] = {"float32": 0, "tf32": 1, "bf16x3": 2, "bf16x6": 3}
"""Arithmetic of products of float32, and the parts of a factor that tensor cores multiply, 0 without them."""

PRODUCTS = ("own", "cublaslt")
"""Implementations of large matrix products: kernels of the emitted library, or cuBLASLt."""


@dataclass(frozen=True)
class Options:
    """Options of the emitted library.

    `math` is `float32`, or tensor cores multiply factors of float32: those of `tf32` are rounded to 11 bits,
    those of `bf16x6` are the sums of three parts of bfloat16, the six greatest of whose products are added,
    and those of `bf16x3` of two, with three products. Sums of `bf16x6` are as accurate as those of float32.
    Products of 16-bit floats use tensor cores anyway, which multiply them exactly.
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
    def parts(self) -> int:
        """The parts of a factor of float32 that tensor cores multiply, or 0."""
        return MATH[self.math]

    @property
    def tensor_floats(self) -> int:
        """The products of tensor cores for each product of float32: those of parts but the smallest, or 0."""
        return self.parts * (self.parts + 1) // 2

    @property
    def calls_library(self) -> bool:
        """Tell whether functions call cuBLASLt."""
        return self.products == "cublaslt"

    def __post_init__(self) -> None:
        require_kinds(self)
        require_choices(self, {"math": (*MATH,), "products": PRODUCTS})
