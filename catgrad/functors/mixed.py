"""Mixed precision: a functor that computes contractions in 16 bits, and leaves all else in float32.

An operation f : A ⊗ B → C that contracts float32 arrays becomes

    (round ⊗ round) ; f ; widen

so parameters, gradients and all values between contractions stay in float32. It is the identity on all
other operations, on objects, and on its own image. Definitions are not expanded: softmax is computed in
float32, and attention is one operation in 16 bits. It commutes with the reverse derivative, because the
reverse of a cast is a cast, and the reverse of a contraction consists of contractions.

Source: Micikevicius et al. 2018, Mixed precision training (arXiv:1710.03740), section 3;
Kalamkar et al. 2019, A study of BFLOAT16 for deep learning training (arXiv:1905.12322)
"""

from __future__ import annotations

from catgrad.functors.local import LocalFunctor
from catgrad.functors.wide import casting
from catgrad.terms.block import any_operation, map_blocks
from catgrad.terms.build import build
from catgrad.terms.op import Op
from catgrad.terms.term import Term, singleton
from catgrad.types import Dtype, NdArrayType


class MixedPrecision(LocalFunctor):
    """The functor that computes float32 contractions in `dtype`, also those in loops and branches."""

    def __init__(self, dtype: Dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __call__(self, term: Term) -> Term:
        if not any_operation(term, lambda op: op.contracts):
            return term
        return self.map_arrow(term)

    def map_op(self, op: Op, inputs: tuple[NdArrayType, ...]) -> Term:
        if not op.contracts:
            return singleton(map_blocks(op, self), *inputs)
        return build(casting(op.apply, self._rounded, op.outputs(*inputs)), inputs)

    def _rounded(self, dtype: Dtype) -> Dtype:
        return self.dtype if dtype is Dtype.float32 else dtype
