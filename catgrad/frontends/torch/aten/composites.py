"""Operations that PyTorch decomposes, for programs that are translated as they were exported."""

from __future__ import annotations

from typing import Any

from catgrad import ops
from catgrad.dims import Size, product
from catgrad.frontends.torch.aten.activations import hardtanh
from catgrad.frontends.torch.aten.convolutions import convolution
from catgrad.frontends.torch.aten.creation import arange, full, to
from catgrad.frontends.torch.aten.images import Numbers, each
from catgrad.frontends.torch.aten.normalisation import batch_norm
from catgrad.frontends.torch.aten.operands import TorchDtype, axes_of, common_shape, dtype_from
from catgrad.frontends.torch.aten.parts import concat, every, pad, split
from catgrad.frontends.torch.aten.reductions import log_softmax, softmax
from catgrad.frontends.torch.aten.scalars import as_vector
from catgrad.frontends.torch.aten.shapes import view
from catgrad.frontends.torch.aten.statistics import norm
from catgrad.frontends.torch.registry import composite, real
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

composite("reshape.default")(view)
composite("relu6.default")(lambda x: hardtanh(x, 0, 6))
composite("contiguous.default", "lift_fresh_copy.default")(lambda x: x)
composite("expand_as.default")(lambda x, other: ops.broadcast_to(x, other.shape))
composite("mT.default", "matrix_H.default")(ops.transpose)
composite("numpy_T.default")(lambda x: ops.permute(x, *reversed(range(x.type.rank))))
composite("view_as.default")(lambda x, other: view(x, other.shape))
composite("type_as.default")(lambda x, other: ops.cast(x, other.dtype))
composite("to.dtype", "to.dtype_layout")(lambda x, dtype=None, non_blocking=False, copy=False: to(x, dtype))
composite("to.device")(lambda x, device, dtype, non_blocking=False, copy=False: to(x, dtype))
composite("softmax.int")(lambda x, dim, dtype=None: softmax(to(x, dtype), dim))
composite("log_softmax.int")(lambda x, dim, dtype=None: log_softmax(to(x, dtype), dim))
composite("arange.default")(lambda end, dtype=None: arange(0, end, 1, dtype))
composite("arange.start")(lambda start, end, dtype=None: arange(start, end, 1, dtype))
composite("ones.default")(lambda size, dtype=None: full(size, 1.0, dtype))
composite("zeros.default")(lambda size, dtype=None: full(size, 0.0, dtype))


@composite("broadcast_tensors.default")
def broadcast(arrays: list[Var]) -> list[Var]:
    """Broadcast arrays to their common shape."""
    shape = common_shape(*(x.shape for x in arrays))
    return [ops.broadcast_to(x, shape) for x in arrays]


for _name in ("and", "or", "xor"):
    composite(f"__{_name}__.Tensor", f"__{_name}__.Scalar")(real(f"bitwise_{_name}.Tensor"))


def _new(name: str, value: int) -> None:
    @composite(f"new_{name}.default")
    def new(x: Var, size: list[Size], dtype: TorchDtype | None = None) -> Var:
        """Return an array of one number, with the dtype of x unless another is given."""
        return Constant(NdArrayType(tuple(size), x.dtype if dtype is None else dtype_from(dtype)), value)()


_new("ones", 1)
_new("zeros", 0)


@composite("flatten.using_ints")
def flatten(x: Var, start: int = 0, end: int = -1) -> Var:
    """Merge the axes from start to end."""
    x = as_vector(x)
    first, last = axes_of(x, [start, end])
    return ops.reshape(x, *x.shape[:first], product(x.shape[first : last + 1]), *x.shape[last + 1 :])


@composite("_weight_norm.default")
def weight_norm(direction: Var, size: Var, dim: int = 0) -> Var:
    """Weight normalisation: v / |v| · g, with a norm for each index of an axis, or one for dim = -1."""
    rank = direction.type.rank
    axes = [axis for axis in range(rank) if dim == -1 or axis != dim % rank]
    return direction * ops.broadcast_to(
        size / norm(direction, 2, axes, bool(size.type.rank)), direction.shape
    )


@composite("unflatten.int")
def unflatten(x: Var, dim: int, sizes: list[int]) -> Var:
    """Split an axis into several."""
    (axis,) = axes_of(x, dim)
    return ops.reshape(x, *x.shape[:axis], *sizes, *x.shape[axis + 1 :])


@composite("chunk.default")
def chunk(x: Var, chunks: int, dim: int = 0) -> tuple[Var, ...]:
    """Split x into this many parts of one size, the last of which may be smaller."""
    return split(x, max(1, -(-x.shape[dim] // chunks)), dim)


@composite("diff.default")
def differences(x: Var, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Var:
    """Differences of neighbours along an axis, n times; whether they differ, for booleans."""
    y = concat([part for part in (prepend, x, append) if part is not None], dim)
    for _ in range(n):
        later, earlier = every(y, dim, 1), every(y, dim, 0, -1)
        y = ops.not_equal(later, earlier) if y.dtype is Dtype.bool else later - earlier
    return y


@composite("pad.default", when=lambda x, margins, mode="constant", value=None: mode == "constant")
def pad_with_number(x: Var, margins: list[int], mode: str = "constant", value: float | None = None) -> Var:
    """Pad x with a number."""
    return pad(x, margins, value or 0)


@composite("batch_norm.default", when=lambda *arguments: not arguments[5])
def batch_norm_of_evaluation(
    x: Var, weight: Var | None, bias: Var | None, mean: Var, variance: Var, training: bool, momentum: float,
    eps: float, cudnn: bool,
) -> Var:  # fmt: skip
    """Batch normalisation with constant running statistics."""
    return batch_norm(x, weight, bias, mean, variance, momentum, eps)[0]


def _convolutions(spatial: int) -> None:
    """Register convolutions in `spatial` axes."""

    @composite(f"conv{spatial}d.default", f"conv{spatial}d.padding")
    def convolved(
        x: Var,
        weight: Any,
        bias: Var | None = None,
        stride: Numbers = 1,
        padding: Numbers | str = 0,
        dilation: Numbers = 1,
        groups: int = 1,
    ) -> Var:
        if padding == "same":
            dilations = each(dilation, spatial)
            totals = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
            x = pad(x, [margin for total in reversed(totals) for margin in (0, total % 2)])
            padding = [total // 2 for total in totals]
        margins = 0 if isinstance(padding, str) else padding
        return convolution(x, weight, bias, stride, margins, dilation, False, 0, groups)

    @composite(f"conv_transpose{spatial}d.{'default' if spatial == 1 else 'input'}")
    def transposed(
        x: Var,
        weight: Var,
        bias: Var | None = None,
        stride: Numbers = 1,
        padding: Numbers = 0,
        output_padding: Numbers = 0,
        groups: int = 1,
        dilation: Numbers = 1,
    ) -> Var:
        return convolution(x, weight, bias, stride, padding, dilation, True, output_padding, groups)


for _spatial in (1, 2, 3):
    _convolutions(_spatial)
