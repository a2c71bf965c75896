"""Arguments of operations of PyTorch by overload: the tensors among them are inputs, the others constants."""

from __future__ import annotations

from math import inf, nan

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_inputs import P, W, X, Y, real, truths, whole  # noqa: E402  # it needs PyTorch

U = (0.9 * X / X.abs().max()).clone()
"""Numbers between -1 and 1."""
EDGES = torch.tensor([nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.5, 1e-9], dtype=torch.float64)
"""Numbers that are not finite, zeros with sign, and the ends of domains."""
OTHERS = torch.tensor([1.0, nan, 2.0, -0.0, 0.0, 1.0, -1.0, inf, -inf, 3.0], dtype=torch.float64)
TIES = torch.tensor([[2.0, 1.0, 2.0, 1.0], [0.0, 0.0, 0.0, 3.0], [1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)
ZEROS = torch.tensor([[2.0, 0.0, 3.0], [0.0, 0.0, 1.5], [1.0, 4.0, -2.0]], dtype=torch.float64)
CUBE = real(2, 3, 4)
I = whole(3, 3, 4)  # indices
V = torch.tensor([2, 0])
WHOLE = torch.tensor([[3, -7, 0], [12, 5, -1]])

EXPONENTIAL = {
    **{name: [(X,), (EDGES,)] for name in ("asinh", "atan", "cosh", "sinh", "exp2", "deg2rad", "rad2deg")},
    **{name: [(U,), (EDGES,)] for name in ("acos", "asin", "atanh")},
    "acosh": [(1 + P,), (EDGES[[0, 1, 5, 7]],)],
    "sinc": [(X,), (X.round(),)],
    "square": [(X,), (W,)],
    "frac": [(X,), (TIES - 0.5,)],
    "atan2": [(X, Y), (EDGES[1:3], EDGES[[2, 2]]), (W, X)],
    "hypot": [(X, Y), (X * 1e200, Y * 1e200)],
    "logaddexp": [(X, Y), (EDGES[3:], OTHERS[3:])],
    "logaddexp2": [(X, real(4))],
    "logit": [(P / 10,), (P, 0.2), (EDGES[[3, 5]],)],
    "xlogy.Tensor": [(X, P), (X.round(), P)],
    "xlogy.Scalar_Self": [(2, P)],
    "xlogy.Scalar_Other": [(X, 3)],
    "special_xlog1py": [(X, P), (X.round(), P)],
    "special_xlog1py.self_scalar": [(2, P)],
    "special_xlog1py.other_scalar": [(X, 3)],
    "special_entr": [(P,)],
}

SPECIAL = {
    **{name: [(3 * X,), (EDGES[3:],)] for name in ("erfc", "special_erfcx", "special_log_ndtr")},
    **{name: [(9 * X,), (EDGES[3:],)] for name in ("i0", "special_i0e", "special_i1", "special_i1e")},
    "special_ndtr": [(3 * X,)],
    **{name: [(9 * X,)] for name in ("special_modified_bessel_i0", "special_modified_bessel_i1")},
    "erfinv": [(U,), (EDGES[3:],)],
    "special_ndtri": [(P / 10,), (EDGES[3:],)],
    "digamma": [(3 * X,), (P,), (EDGES[:-1],)],
    "lgamma": [(3 * X,), (P,), (EDGES,)],
    "polygamma": [(0, P), (1, X), (2, P), (4, P)],
    "mvlgamma": [(P + 2, 3)],
}

QUANTISED = {
    "fake_quantize_per_tensor_affine": [(X, 0.25, 1, -2, 5), (3 * X, 0.5, 0, -128, 127)],
    "fake_quantize_per_tensor_affine.tensor_qparams": [
        (X, torch.tensor(0.25, dtype=torch.float64), torch.tensor(2), -4, 3),
    ],
    "fake_quantize_per_channel_affine": [
        (X, torch.tensor([0.125, 0.5, 0.25]), torch.tensor([0, 1, -1], dtype=torch.int32), 0, -4, 5),
    ],
}

ARITHMETIC = {
    "floor_divide": [(X, Y), (WHOLE, 2)], "floor_divide.Scalar": [(X, 0.3)],
    "copysign.Tensor": [(X, Y), (EDGES[3:], OTHERS[3:])], "copysign.Scalar": [(X, -2.0)],
    "signbit": [(EDGES,), (WHOLE,)],
    **{name: [(X, Y), (X.round(), Y.round()), (EDGES, OTHERS), (W, W.flip(0))] for name in ("fmax", "fmin")},
    **{f"clamp_{end}": [(X, 0.3), (W, 2), (W, 1.5), (EDGES, nan)] for end in ("min", "max")},
    **{f"clamp_{end}.Tensor": [(X, Y), (TIES, TIES.flip(1)), (EDGES, OTHERS)] for end in ("min", "max")},
    "clamp": [(EDGES, nan), (EDGES, 0.0, nan), (W, 0.5, 2.5), (X, 0.5, -0.5)],
    "nan_to_num": [(EDGES,), (EDGES, 1.0, 2.0, -3.0), (W,)],
    "addcmul": [(X, Y, P), {"args": (X, Y, P), "value": 0.5}],
    "addcdiv": [(X, Y, P), {"args": (X, Y, P), "value": 2}],
    "lerp.Scalar": [(X, Y, 0.3), (X, Y, 0.8)], "lerp.Tensor": [(X, Y, P)],
    "heaviside": [(EDGES, OTHERS)], "sgn": [(EDGES,), (WHOLE,)], "ldexp.Tensor": [(X, W), (X, Y)],
    "round.decimals": [{"args": (X,), "decimals": 1}, {"args": (X * 100,), "decimals": -1}],
    **{name: [(EDGES,)] for name in ("isfinite", "isposinf", "isneginf")},
    **{f"bitwise_{way}_shift.Tensor": [(WHOLE, whole(4, 2, 3)), (WHOLE.int(), whole(4, 2, 3).int())]
       for way in ("left", "right")},
    **{f"__{way}shift__.Tensor": [(WHOLE, whole(4, 2, 3))] for way in "lr"},
    **{f"__{way}shift__.Scalar": [(WHOLE, 2)] for way in "lr"},
    **{f"bitwise_{way}_shift.Tensor_Scalar": [(WHOLE, 2)] for way in ("left", "right")},
    **{f"bitwise_{way}_shift.Scalar_Tensor": [(9, whole(4, 2, 3))] for way in ("left", "right")},
    "gcd": [(WHOLE, WHOLE.flip(0)), (WHOLE.int(), WHOLE.flip(1).int())], "lcm": [(WHOLE, WHOLE.flip(0))],
}  # fmt: skip

SORTING = {
    "sort": [(X,), (TIES, 0, True), (W, 1), (truths(3, 4),)],
    "sort.stable": [{"args": (TIES,), "stable": True, "dim": 1}],
    "argsort": [(X, 0)],
    "argsort.stable": [{"args": (TIES,), "stable": True, "dim": 1, "descending": True}],
    "kthvalue": [(X, 2), (X, 1, 0, True), (W + 4 * I, 2)],
    "median": [(X,), (TIES,), (W,)],
    "median.dim": [(X, 1), (CUBE, 1, True), (torch.where(X > 1, nan, X), 0)],
    "nanmedian": [(torch.where(X > 1, nan, X),)],
    "nanmedian.dim": [(torch.where(X > 1, nan, X), 1)],
    "searchsorted.Tensor": [(X.sort().values, Y), {"args": (TIES[2], EDGES), "right": True}],
    "searchsorted.Scalar": [(TIES[2], 2.0)],
    "bucketize.Tensor": [(X, TIES[2] - 2), {"args": (TIES, TIES[2]), "right": True, "out_int32": True}],
    "bucketize.Scalar": [(2.0, TIES[2])],
    "histc": [(X, 4, -1, 1), (X, 3), (TIES, 4, 0, 4), (X, 3, 1, 1)],
}

CUMULATIVE = {
    "prod": [(ZEROS,), (X,), (W,), (truths(2, 2),)],
    "prod.dim_int": [(ZEROS, 0), (CUBE, 1, True), (CUBE, -1), (W, 0)],
    "cumprod": [(ZEROS, 0), (CUBE, 1), (W, 1)],
    "cummax": [(TIES, 1), (CUBE, 0), (EDGES, 0), (W, 0)],
    "cummin": [(TIES, 1), (CUBE, 2), (EDGES, 0)],
    "logcumsumexp": [(X, 1), (1e3 * CUBE, 0)],
}

SCATTERING = {
    "masked_fill.Scalar": [(X, truths(4), 2.0)], "masked_fill.Tensor": [(X, truths(3, 4), torch.tensor(3.0))],
    "masked_scatter": [(X, truths(3, 4), Y), (X, truths(4), Y.reshape(-1))],
    "scatter.src": [(X, 0, torch.tensor([[0, 1, 2, 0]]), Y[:1]),
                    (CUBE, 1, torch.tensor([[[2, 0, 1], [0, 1, 2]]]), real(1, 2, 3)),
                    (X > 0, 1, torch.tensor([[0, 3], [1, 2]]), Y > 0)],
    "scatter.value": [(X, 1, whole(4, 2, 3), 5.0), (W, 0, I[:2], 7)],
    "scatter.reduce": [{"args": (X, 1, whole(4, 2, 3), Y), "reduce": kind} for kind in ("add", "multiply")],
    "scatter.value_reduce": [{"args": (X, 1, whole(4, 2, 3), 2.0), "reduce": "multiply"}],
    "scatter_add": [(X, 1, whole(4, 3, 6), real(3, 6)), (CUBE, 0, whole(2, 2, 3, 2), real(2, 3, 2))],
    "scatter_reduce.two": [
        {"args": (X, 1, whole(4, 3, 5), real(3, 5, seed=3), kind), "include_self": own}
        for kind in ("sum", "mean", "prod", "amax", "amin") for own in (True, False)
    ] + [(TIES, 1, I, TIES, "amax"), (W, 0, I, W, "amin"), (W, 0, I, W, "mean")],
    "index_add": [(X, 0, V, Y[:2]), {"args": (CUBE, 1, whole(3, 5), real(2, 5, 4)), "alpha": 2}],
    "index_copy": [(X, 1, V, real(3, 2)), (W, 0, V, W[:2])],
    "index_fill.int_Scalar": [(X, 1, V, 3.0)], "index_fill.int_Tensor": [(X, 0, V, torch.tensor(3.0))],
    "index_reduce": [(X, 0, whole(3, 5), real(5, 4), "prod"), (X, 1, V, real(3, 2), "amax")],
    "index_put": [
        (X, [V], Y[:2]), (X, [V, V + 1], real(2)), (X, [None, V], real(3, 2)), (X, [V], X[0, 0]),
        (X, [whole(3, 5)], real(5, 4), True), (X, [X > 0], X[0, 0]), (X, [-V - 1], Y[:2]),
        (CUBE, [torch.tensor([1, 0]), None, torch.tensor([1, 2])], real(2, 3)), (X > 0, [V], Y[:2] > 0),
    ],
    "_unsafe_index_put": [(X, [V], Y[:2])], "_unsafe_index.Tensor": [(X, [None, V])],
}  # fmt: skip

REARRANGING = {
    "tril": [(X,), (CUBE, -1)], "triu": [(X, 1), (CUBE,)],
    "diagonal": [(X,), (CUBE, 1, 0, 2), (X, -1), (X, 4)],
    "diagonal_scatter": [(X, real(3)), (CUBE, real(3, 2), -1, 2, 0)],
    "diag_embed": [(X,), (X, -2), (CUBE, 1, 0, -2)], "trace": [(X,), (W,)],
    "roll": [(X, [1], [0]), (CUBE, [1, -2], [0, 2]), (X, [5])],
    "rot90": [(X, k) for k in (0, 1, 2, 3)] + [(CUBE, 1, [2, 0])],
    "transpose.int": [(CUBE, 0, -1)], "t": [(X,), (real(3),)],
    "pixel_shuffle": [(real(2, 8, 3, 2), 2)], "pixel_unshuffle": [(real(2, 3, 4, 6), 2)],
    "channel_shuffle": [(real(2, 6, 3), 3)], "native_channel_shuffle": [(real(2, 6, 2, 2), 2)],
    "unfold": [(X, 1, 2, 1), (CUBE, 0, 2, 3)],
    "unfold_backward": [(real(3, 3, 2), [3, 4], 1, 2, 1), (real(2, 4, 3), [5, 4], 0, 3, 2),
                        (real(1, 3, 2), [3, 4], 1, 2, 1)],
    "im2col": [(real(2, 3, 5, 6), (2, 3), (2, 1), (1, 0), (1, 2)),
               (real(3, 5, 6), (2, 2), (1, 1), (0, 0), (2, 2))],
    "col2im": [(real(2, 12, 12), (4, 5), (2, 2), (1, 1), (0, 0), (1, 1)),
               (real(8, 9), (4, 4), (2, 2), (1, 1), (1, 1), (2, 2))],
    "reflection_pad1d": [(CUBE, (2, 1))], "reflection_pad2d": [(real(1, 2, 4, 5), (1, 0, 2, 3))],
    "reflection_pad3d": [(real(1, 2, 3, 3, 3), (1, 0, 2, 1, 0, 2))],
    "replication_pad1d": [(CUBE, (2, 1))], "replication_pad2d": [(real(1, 2, 4, 5), (1, 0, 2, 3))],
    "replication_pad3d": [(real(1, 2, 3, 3, 3), (1, 0, 2, 1, 0, 2))],
    "narrow_copy": [(X, 1, 1, 2)], "repeat_interleave.self_int": [(X, 2), (X, 3, 1)],
    "stack": [([X, Y], -1), ([X, Y], 0)],
}  # fmt: skip

BATCH = real(2, 4, 3, 3)
N = torch.tensor([[1.0, nan, -2.0], [nan, nan, nan], [3.0, 0.5, nan]], dtype=torch.float64)

STATISTICS = {
    **{f"{name}.correction": [(CUBE,), {"args": (CUBE, [0, 2]), "correction": 0, "keepdim": True}]
       for name in ("var", "std", "var_mean", "std_mean")},
    **{f"{name}.dim": [(CUBE, [1], False, True)] for name in ("var", "std", "var_mean", "std_mean")},
    **{name: [(CUBE, False)] for name in ("var", "std", "var_mean", "std_mean")},
    "linalg_vector_norm": [(ZEROS, p, [1]) for p in (0, 0.5, 1, 2, 3, inf, -inf)]
    + [(TIES, inf), (0 * X, 3, [0], True)],
    "norm.Scalar": [(X, 3)], "norm.ScalarOpt_dim": [(X, None, [1], True)],
    "norm.ScalarOpt_dtype": [{"args": (X.float(), 2), "dtype": torch.float64}],
    "norm.ScalarOpt_dim_dtype": [{"args": (X.float(), 1, [0], False), "dtype": torch.float64}],
    "count_nonzero": [(ZEROS,), (ZEROS > 1, 1)], "count_nonzero.dim_IntList": [(ZEROS, [0])],
    "aminmax": [(X,), {"args": (TIES,), "dim": 1, "keepdim": True}],
    "nansum": [(N,), (N, [1], True), (W, [0])],
    "native_layer_norm": [(CUBE, [3, 4], real(3, 4), real(3, 4, seed=1), 1e-5),
                          (CUBE, [4], None, None, 1e-3)],
    "native_group_norm": [(BATCH, real(4), real(4, seed=1), 2, 4, 9, 2, 1e-5)],
    "_fused_rms_norm": [(CUBE, [4], real(4), 1e-6)],
    "renorm": [(X, 2, 0, 1.0), (X, 1, 1, 2.0)],
    "_cdist_forward": [(real(2, 3, 4), real(2, 5, 4, seed=1), p, None) for p in (0.5, 1, 2, 3, inf)],
    "_euclidean_dist": [(X, Y)], "_pdist_forward": [(real(4, 3), p) for p in (1, 2, inf)],
    "addr": [(X, real(3), real(4)), {"args": (X * nan, real(3), real(4)), "beta": 0, "alpha": 2}],
    "addbmm": [(real(3), real(2, 5, 4), real(2, 4, 3)),
               {"args": (real(5, 3), real(2, 5, 4), real(2, 4, 3)), "beta": 2}],
    "vdot": [(real(4), real(4, seed=1))],
    "linalg_cross": [(real(2, 3), real(2, 3, seed=1)), {"args": (real(3, 4), real(3, 1, seed=1)), "dim": 0}],
}  # fmt: skip

SCALES = torch.tensor([-4.0, -3.0, -0.5, 0.0, 0.5, 3.0, 4.0, 1000.0, -1000.0], dtype=torch.float64)

LABELS_OF_ROWS = torch.tensor([[1, 0, -1, 2], [-1, 1, 2, 0], [3, 2, 3, -1]])

LOSSES = {
    **{name: [(SCALES,), (X,)] for name in ("hardsigmoid", "hardswish", "mish", "log_sigmoid_forward")},
    "celu": [(SCALES, 0.5), (X,)], "threshold": [(SCALES, 0.5, 2.0), (EDGES, 1.0, 0.0)],
    "glu": [(X,), (CUBE, 0)], "rrelu_with_noise_functional": [(X, Y)],
    "multilabel_margin_loss_forward": [(X, LABELS_OF_ROWS, k) for k in (0, 1, 2)]
    + [(X[0], LABELS_OF_ROWS[0], 1)],
    "_prelu_kernel": [(X, real(4)), (X.round(), real(3, 1))],
    **{name: [(X, Y, k) for k in (0, 1, 2)] + [(X.round(), Y.round())]
       for name in ("mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss")},
    "binary_cross_entropy": [(P / 10, truths(3, 4).double()), (P / 10, P / 5, real(4), 2),
                             (truths(3, 4).double(), (X > 0).double(), None, 0)],
    "binary_cross_entropy_with_logits": [(X, P / 5),
        (SCALES, (SCALES > 0).double()), (X, P / 5, real(4), P[0], 2)],
    "nll_loss_forward": [(X, torch.tensor([1, -100, 3]), weight, k, -100)
                         for weight in (None, P[0]) for k in (0, 1, 2)]
    + [(X[0], torch.tensor(2), None, 1, -100)],
    "nll_loss2d_forward": [(real(2, 3, 2, 2), whole(3, 2, 2, 2), P[0, :3], 1, 1)],
}  # fmt: skip

IMAGE = real(2, 2, 5, 4)


def resized(shape, size, *scales):
    """Return calls that make images smaller and larger, with corners aligned or not."""
    x = real(*shape)
    return [(x, size, False), (x, size, True), (x, [2 * n + 1 for n in size], False, *scales)]


GRID = 1.5 * real(2, 3, 4, 2, seed=7)
BAGS = (torch.tensor([1, 0, 3, 3, 2, 1]), torch.tensor([0, 2, 2, 5]))

LINES, VOLUME = real(2, 2, 5), real(1, 2, 3, 4, 3)
RESIZED = (
    ("linear1d", LINES, 1),
    ("bilinear2d", IMAGE, 2),
    ("trilinear3d", VOLUME, 3),
    ("bicubic2d", IMAGE, 2),
)
NEAREST = (("1d", LINES, 1), ("2d", IMAGE, 2), ("3d", VOLUME, 3))

IMAGES = {
    **{f"_upsample_{name}2d_aa": [(IMAGE, [3, 2], False), (IMAGE, [7, 3], True),
                                 (IMAGE, [2, 5], False, 0.4, 1.3)]
       for name in ("bilinear", "bicubic")},
    **{f"upsample_{name}.vec": [(x, None, False, [1.7, 0.6, 2.3][:k]), (x, [7, 3, 5][:k], True, None)]
       for name, x, k in RESIZED},
    "upsample_linear1d": resized((2, 2, 5), [3], 1.9),
    "upsample_trilinear3d": resized((1, 2, 3, 4, 3), [2, 3, 4], 1.7, 1.9, 3.1),
    **{f"_upsample_nearest_exact{name}.vec": [(x, None, [1.7, 0.6, 2.3][:k])] for name, x, k in NEAREST},
    **{f"{kind}{name}": [(x, [7, 3, 5][:k])] for name, x, k in NEAREST
       for kind in ("_upsample_nearest_exact", "upsample_nearest")},
    "grid_sampler_2d": [(IMAGE, GRID, mode, padding, bool((mode + padding) % 2))
                        for mode in (0, 1, 2) for padding in (0, 1, 2)],
    "grid_sampler_3d": [(real(1, 2, 3, 4, 3), 1.5 * real(1, 2, 2, 2, 3, seed=7), 0, padding, padding == 1)
                        for padding in (0, 1, 2)],
    "max_pool2d_with_indices": [(IMAGE, (2, 2)), (IMAGE[0], (3, 2), (2, 1), (1, 1), (1, 2))],
    "max_pool3d_with_indices": [(real(1, 2, 4, 4, 3), (2, 2, 2), (1, 2, 1))],
    "_adaptive_avg_pool2d": [(IMAGE, [2, 3])], "_adaptive_avg_pool3d": [(real(1, 2, 4, 4, 3), [2, 3, 2])],
    "_embedding_bag": [(real(4, 3), *BAGS), (real(4, 3), *BAGS, False, 1, False, None, True, 3),
                       (real(4, 3), *BAGS, False, 2), (real(4, 3), *BAGS, False, 0, False, real(6, seed=3))],
    "_embedding_bag_forward_only": [(real(4, 3), *BAGS, False, 1)],
}  # fmt: skip

SQUARE, SIDES = real(2, 4, 4, seed=3), real(2, 4, 3)
POSITIVE = SQUARE @ SQUARE.mT + torch.eye(4, dtype=torch.float64)

LINALG = {
    "linalg_cholesky_ex": [(POSITIVE,), {"args": (POSITIVE[0],), "upper": True}],
    "cholesky": [(POSITIVE,)],
    "linalg_solve_triangular": [
        {"args": (SQUARE, SIDES if left else SIDES.mT), "upper": upper, "left": left, "unitriangular": unit}
        for upper in (False, True)
        for left in (False, True)
        for unit in (False, True)
    ],
    "linalg_matrix_exp": [(SQUARE,), (SQUARE[0] / 10,), (9 * (SQUARE - SQUARE.mT),), (0 * SQUARE,)],
    "triangular_solve": [(SIDES, SQUARE), (SIDES, SQUARE, False, True)],
    "cholesky_solve": [(SIDES, POSITIVE.tril()), (SIDES[0], POSITIVE[0].triu(), True)],
    "cholesky_inverse": [(POSITIVE.tril(),)],
    "_linalg_solve_ex": [
        (SQUARE, SIDES),
        (SQUARE[0], SIDES[0, :, 0]),
        {"args": (SQUARE, SIDES.mT), "left": False},
        (torch.eye(3, dtype=torch.float64).flip(0), real(3, 1)),
    ],
    "linalg_inv_ex": [(SQUARE,), (SQUARE[0, :1, :1],)],
    "_linalg_det": [(SQUARE,), (torch.eye(3, dtype=torch.float64).flip(0),)],
    "_linalg_slogdet": [(SQUARE,), (-SQUARE[1],)],
}

MASKS = {
    "nonzero_static": [{"args": (ZEROS,), "size": 4}, {"args": (X > 0,), "size": 14, "fill_value": 7}],
    "isin.Tensor_Tensor": [(TIES, TIES[2, :2]), {"args": (W, I), "invert": True}],
    "isin.Scalar_Tensor": [(2.0, TIES)],
    "isin.Tensor_Scalar": [(TIES, 2.0)], "take": [(X, torch.tensor([[0, -1], [5, 3]]))],
    "as_strided": [(X, [2, 3], [5, 1], 1), (X, [4, 3], [3, 1]), (X, [3, 2, 2], [1, 0, 2])],
    "embedding_dense_backward": [(real(2, 5, 3), whole(4, 2, 5), 4, padding, scaled)
                                 for padding in (-1, 2) for scaled in (False, True)],
    **{f"bitwise_{name}.{kind}": calls
       for name in ("and", "or", "xor")
       for kind, calls in (("Tensor", [(WHOLE, WHOLE.flip(0)), (X > 0, Y > 0)]), ("Scalar", [(WHOLE, 6)]),
                           ("Scalar_Tensor", [(6, WHOLE.int())]))},
    "bitwise_not": [(WHOLE,), (X > 0,)],
    "where.ScalarSelf": [(X > 0, 2.0, Y)], "where.ScalarOther": [(X > 0, X, 1)],
    "where.Scalar": [(X > 0, 2.5, 1)],
    "max.other": [(X, Y), (W, W.flip(0))], "min.other": [(TIES, TIES.flip(0))],
    **{f"{name}_like": [(X,), {"args": (X,), "dtype": torch.int32}] for name in ("zeros", "ones")},
    "full_like": [(X, 2.5), (W, 3), {"args": (X, 3), "dtype": torch.int32}],
    "fill.Scalar": [(X, 2.0)],
}  # fmt: skip

SPEECH = real(7, 3, 5).log_softmax(-1)
LABELS = torch.tensor([[1, 2, 2], [3, 4, 0], [1, 1, 1]])
CONCATENATED = torch.tensor([1, 2, 2, 3, 4, 1])

ALIGNMENT = {
    "_ctc_loss": [
        (SPEECH, LABELS, [7, 5, 7], [3, 2, 1]),
        (SPEECH, CONCATENATED, [7, 6, 7], [3, 2, 1]),
        (SPEECH, LABELS + 1 - LABELS, [4, 7, 7], [3, 3, 0]),
    ],
    "_ctc_loss.Tensor": [(SPEECH, LABELS.clamp(max=3), torch.tensor([7, 5, 7]), torch.tensor([3, 2, 1]), 4)],
    "ctc_loss.Tensor": [
        (SPEECH, LABELS, torch.tensor([7, 5, 7]), torch.tensor([3, 2, 1]), 0, k) for k in (0, 1, 2)
    ]
    + [(SPEECH, LABELS + 1 - LABELS, torch.tensor([4, 7, 7]), torch.tensor([3, 3, 0]), 0, 0, True)],
}

ONE, FIRST = torch.tensor(1.5, dtype=torch.float64), torch.tensor(0)

SCALARS = {
    "squeeze.dim": [(ONE, 0)], "squeeze.dims": [(ONE, [0])], "flip": [(ONE, [0])],
    "transpose.int": [(ONE, 0, -1)],
    "index_select": [(ONE, 0, FIRST), (X, 1, FIRST), (X[0], 0, FIRST)],
    "gather": [(ONE, 0, FIRST), (X[0], 0, FIRST), (ONE, 0, FIRST[None])],
    "index_add": [(ONE, 0, FIRST, 2 * ONE)],
    "index_copy": [(ONE, 0, FIRST, 2 * ONE), (X[0], 0, FIRST, ONE)],
    "index_fill.int_Scalar": [(ONE, 0, FIRST, 3.0), (X, 1, FIRST, 3.0)],
    "index_fill.int_Tensor": [(ONE, 0, FIRST, torch.tensor(3.0))],
    "index_reduce": [(ONE, 0, FIRST, 2 * ONE, "prod")],
    "scatter.src": [(ONE, 0, FIRST, 2 * ONE), (X[0], 0, FIRST, ONE)], "scatter.value": [(ONE, 0, FIRST, 5.0)],
    "scatter.reduce": [{"args": (ONE, 0, FIRST, 2 * ONE), "reduce": "add"}],
    "scatter.value_reduce": [{"args": (ONE, 0, FIRST, 2.0), "reduce": "multiply"}],
    "scatter_add": [(ONE, 0, FIRST, 2 * ONE)],
    "scatter_reduce.two": [(ONE, 0, FIRST, 2 * ONE, kind) for kind in ("sum", "mean", "prod", "amax")],
    **{name: [(ONE, 0)] for name in
       ("max.dim", "min.dim", "argmax", "argmin", "median.dim", "nanmedian.dim", "cumsum", "cumprod",
        "cummax", "cummin", "logcumsumexp", "prod.dim_int", "sort", "any.dim", "all.dim")},
    **{name: [(ONE, [0], True)] for name in ("sum.dim_IntList", "mean.dim", "amax", "amin", "logsumexp")},
    **{f"{name}.correction": [{"args": (ONE, [0]), "correction": 0}] for name in ("var", "std", "var_mean")},
    "kthvalue": [(ONE, 1)], "topk": [(ONE, 1)], "aminmax": [{"args": (ONE,), "dim": 0}],
    "_softmax": [(ONE, 0, False)], "_log_softmax": [(ONE, 0, False)],
    "_safe_softmax": [(ONE, 0), (real(2, 3), -1)],
    "linalg_vector_norm": [(ONE, 2, [0])], "count_nonzero.dim_IntList": [(ONE, [0])],
    "multilabel_margin_loss_forward": [(ONE, FIRST, k) for k in (1, 2)],
}  # fmt: skip

FAMILIES = {
    "exponential": EXPONENTIAL, "special": SPECIAL, "arithmetic": ARITHMETIC, "quantised": QUANTISED,
    "sorting": SORTING,
    "cumulative": CUMULATIVE, "scattering": SCATTERING, "rearranging": REARRANGING,
    "statistics": STATISTICS, "losses": LOSSES, "images": IMAGES, "linalg": LINALG,
    "alignment": ALIGNMENT, "masks": MASKS, "scalars": SCALARS,
}  # fmt: skip
"""Calls by family and overload: the arguments, or a dictionary with `args` and named ones."""

OUTPUTS = {
    "_linalg_det": 1, "_linalg_slogdet": 2, "_linalg_solve_ex": 1,
    "linalg_cholesky_ex": 1, "linalg_inv_ex": 1,
    "_ctc_loss": 1, "_ctc_loss.Tensor": 1, "_embedding_bag": 1, "_embedding_bag_forward_only": 1,
    "log_sigmoid_forward": 1, "rrelu_with_noise_functional": 1,
}  # fmt: skip
"""The number of results that are compared, where the front end has not all."""
NO_DERIVATIVE = "PyTorch has none"
VALUE_ONLY = {
    **dict.fromkeys(
        ("fake_quantize_per_tensor_affine.tensor_qparams", "fake_quantize_per_channel_affine"),
        "PyTorch refuses a scale that requires a gradient",
    ),
    "special_modified_bessel_i0": NO_DERIVATIVE,
    "special_modified_bessel_i1": NO_DERIVATIVE,
    "_embedding_bag_forward_only": NO_DERIVATIVE,
    "heaviside": NO_DERIVATIVE,
    "scatter.reduce": NO_DERIVATIVE,
    "scatter.value_reduce": NO_DERIVATIVE,
    "native_channel_shuffle": NO_DERIVATIVE,
    "floor_divide": NO_DERIVATIVE,
    "floor_divide.Scalar": NO_DERIVATIVE,
    "binary_cross_entropy 2": "at 0 and 1 PyTorch divides by 1e-12",
    **dict.fromkeys(("cholesky_solve", "cholesky_inverse"), "PyTorch fills the triangle that is not read"),
    "_ctc_loss 2": "NaN where the loss is infinite",
    "embedding_dense_backward 1": "PyTorch ignores the frequency",
    "embedding_dense_backward 3": "PyTorch ignores the frequency",
    "digamma 2": "at 0 that of PyTorch is NaN",
}
"""Overloads or calls whose gradient is not compared, with the reason."""
FIXED = {
    "rrelu_with_noise_functional": [1],
    "nll_loss_forward": [2],
    "nll_loss2d_forward": [2],
    "soft_margin_loss": [1],
    "binary_cross_entropy": [2],
    "binary_cross_entropy_with_logits": [2, 3],
}
"""Inputs for which PyTorch has no gradient."""
TOLERANCES = {"digamma": 1e-7, "polygamma": 1e-7, "hardsigmoid": 1e-7}
"""Tolerances for overloads in which PyTorch sums few terms of a series, or computes in single precision."""


def full_name(overload):
    """Return the name of an overload in the registry."""
    return f"aten.{overload}" if "." in overload else f"aten.{overload}.default"
