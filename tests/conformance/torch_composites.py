"""Arguments of operations that PyTorch decomposes, in programs that are translated without decomposition."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_inputs import P, W, X, Y, real, truths  # noqa: E402  # it needs PyTorch

KNEES = torch.tensor([-3.0, 3.0, 0.0, 6.0, 7.0, -4.0, 1.5], dtype=torch.float64)
"""Numbers at which activations have no derivative, and others."""
LINE, IMAGE, VOLUME = real(2, 4, 7), real(2, 4, 6, 5), real(1, 2, 4, 5, 3)
FILTER = real(6, 2, 3, 2)

COMPOSITE = {
    "reshape": [(X, [2, -1]), (X.mT, [12])], "flatten.using_ints": [(IMAGE, 1), (IMAGE, -3, -2), (P[0], 0)],
    "unflatten.int": [(X, -1, [2, -1])], "contiguous": [(X,)], "lift_fresh_copy": [(X,)],
    "expand_as": [(Y[:1], X)], "view_as": [(X, X.reshape(2, -1))],
    "broadcast_tensors": [([Y[:1], X[:, :1]],)],
    "mT": [(X,), (LINE,)], "matrix_H": [(X,)], "numpy_T": [(X,), (P[0],)],
    "chunk": [(X, 2, 1), (X, 2), (X, 7)], "pad": [(X, [1, 2, 0, 1]), (X, [1, -1], "constant", 2.5)],
    "diff": [(X,), (W, 2, 0), (X > 0,), (X, 1, 0, Y[:1], Y[:2]), (P, 1, -1, None, P)],
    "relu6": [(KNEES,)],
    **{f"__{name}__.Tensor": [(truths(3, 4), X > 0)] for name in ("and", "or", "xor")},
    **{f"__{name}__.Scalar": [(truths(3, 4), True)] for name in ("and", "or", "xor")},
    "softmax.int": [(X, 0), (X.float(), 1, torch.float64)],
    "log_softmax.int": [(X, -1), (X.float(), 1, torch.float64)],
    "to.dtype": [(X, torch.float32), (W, torch.float64), (X, torch.float64, False, True)],
    "to.dtype_layout": [{"args": (X,), "dtype": torch.float32}],
    "to.device": [(X, "cpu", torch.float32)], "type_as": [(X, W), (W, X)],
    "arange": [(5,), {"args": (2.5,), "dtype": torch.float64}], "arange.start": [(2, 6)],
    "ones": [([2, 3],)], "zeros": [([2, 3],), {"args": ([2],), "dtype": torch.int64}],
    "new_ones": [(X, [2, 3]), {"args": (X, [2]), "dtype": torch.bool}], "new_zeros": [(W, [2, 3])],
    "batch_norm": [(IMAGE, P[0], X[0], X[1], P[1], False, 0.1, 1e-5, True),
                   (LINE, None, None, X[1], P[1], False, 0.1, 1e-3, False)],
    "_weight_norm": [(FILTER, real(6, 1, 1, 1)), (FILTER, real(1, 1, 1, 2), 3), (X, P[0, 0], -1)],
    "conv1d": [(LINE, FILTER[..., 0], X[0].repeat(2)[:6], [2], [1], [1], 2)],
    "conv2d": [(IMAGE, FILTER, None, [2, 1], [1, 0], [1, 2], 2),
               (IMAGE[0], real(6, 4, 3, 2), None, [1], [2])],
    "conv3d": [(VOLUME, real(3, 2, 2, 3, 2))],
    "conv1d.padding": [(LINE, real(3, 4, 2), None, [1], "same"), (LINE, real(3, 4, 2), None, [2], "valid")],
    "conv2d.padding": [(IMAGE, FILTER, None, [1], "same", [2, 3], 2),
                       (IMAGE[0], real(3, 4, 2, 3), None, [1], "same")],
    "conv3d.padding": [(VOLUME, real(3, 2, 2, 3, 2), None, [1], "same")],
    "conv_transpose1d": [(LINE, real(4, 3, 3), None, [2], [1], [1])],
    "conv_transpose2d.input": [(IMAGE, real(4, 3, 3, 2), X[0, :3], [2], [1], [1], 1, [1, 2])],
    "conv_transpose3d.input": [(VOLUME, real(2, 3, 2, 2, 2))],
}  # fmt: skip
"""Calls by overload, as in `torch_overloads`. None refers to an operation that is decomposed."""

WITHOUT_GRADIENT = {"batch_norm": "PyTorch has none for running statistics"}
