"""Arguments of operations on complex arrays, and modules that compute with complex numbers inside."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_inputs import P, W, X, Y, real, truths, whole  # noqa: E402  # it needs PyTorch

nn = torch.nn


def pairs(*shape, seed=0):
    return torch.complex(real(*shape, seed=seed), real(*shape, seed=seed + 7))


Z, V, CUBE = pairs(3, 4), pairs(3, 4, seed=1), pairs(2, 3, 4)
CORNERS = torch.tensor(
    [0, complex(-0.0, -0.0), 1, -1, 1j, -1j, 3 - 4j, 1e200 + 1e200j, 1e-200j], dtype=torch.complex128
)
INDEX = torch.tensor([2, 0])
WAVES = pairs(2, 33, 3)
SINGLE = torch.complex64

MOVEMENT = {
    "view": [(Z, [2, 6])], "_unsafe_view": [(Z, [12])], "permute": [(CUBE, [2, 0, 1])],
    "transpose.int": [(CUBE, 0, -1)], "t": [(Z,)], "squeeze": [(Z[:1],)], "squeeze.dim": [(Z[:1], 0)],
    "squeeze.dims": [(Z[:1], [0, 1])], "unsqueeze": [(Z, 1)], "expand": [(Z[:1], [2, 3, 4])],
    "repeat": [(Z, [2, 1])], "flip": [(Z, [0, 1])], "roll": [(Z, [1], [1])], "rot90": [(Z,)],
    "unfold": [(Z, 1, 2, 1)], "narrow_copy": [(Z, 1, 1, 2)], "repeat_interleave.self_int": [(Z, 2, 0)],
    "slice.Tensor": [(Z, 1, 1, 4, 2)], "select.int": [(Z, 0, -1)], "split.Tensor": [(Z, 3, 1)],
    "split_with_sizes": [(Z, [1, 3], 1)], "unbind.int": [(Z,)],
    "index.Tensor": [(Z, [None, INDEX])], "_unsafe_index.Tensor": [(Z, [INDEX])],
    "index_select": [(Z, 1, INDEX)], "gather": [(Z, 1, whole(4, 3, 2))],
    "embedding": [(Z, whole(3, 5))],
    "tril": [(Z,)], "triu": [(Z, 1)], "diagonal": [(Z,)], "diag_embed": [(Z,)], "trace": [(Z,)],
    "clone": [(Z,)], "alias": [(Z,)], "detach": [(Z,)],
    "reflection_pad1d": [(Z, [1, 2])], "reflection_pad2d": [(CUBE, [1, 2, 1, 0])],
    "replication_pad1d": [(Z, [1, 2])], "constant_pad_nd": [(Z, [1, 2]), (Z, [0, 1], 2.5)],
    "cat": [([Z, V], 1), ([X, V],)], "stack": [([Z, V], -1)], "copy": [(Z, V[0]), (Z, X), (X.to(SINGLE), V)],
    "slice_scatter": [(Z, V[:1], 0, 1, 2), (Z, X[:1], 0, 1, 2)], "select_scatter": [(Z, V[0], 0, 1)],
    "diagonal_scatter": [(Z, V[0, :3])],
    "scatter.src": [(Z, 0, torch.tensor([[0, 1, 2, 0]]), V[:1])],
    "scatter_add": [(Z, 1, whole(4, 3, 6), pairs(3, 6))],
    "index_add": [(Z, 0, INDEX, V[:2]), {"args": (Z, 0, INDEX, V[:2]), "alpha": 2}],
    "index_copy": [(Z, 1, INDEX, pairs(3, 2))], "index_put": [(Z, [INDEX], V[:2]), (Z, [INDEX], V[:2], True)],
    "_unsafe_index_put": [(Z, [INDEX], V[:2])],
    "masked_fill.Scalar": [(Z, truths(3, 4), 2.0), (Z, truths(3, 4), 2 - 1j)],
    "masked_fill.Tensor": [(Z, truths(3, 4), V[0, 0])],
    "where.self": [(truths(3, 4), Z, V), (truths(3, 4), X, V)],
    "where.ScalarSelf": [(truths(3, 4), 2 - 1j, V)], "where.ScalarOther": [(truths(3, 4), Z, 2)],
}  # fmt: skip

CREATION = {
    "zeros_like": [(Z,), {"args": (X,), "dtype": SINGLE}],
    "ones_like": [(Z,), {"args": (X,), "dtype": SINGLE}], "full_like": [(Z, 2 - 3j), (Z, 2)],
    "fill.Scalar": [(Z, 1j)],
    "full": [([2, 3], 1 - 2j), {"args": ([2], 0), "dtype": SINGLE}, {"args": ([], 3), "dtype": SINGLE}],
    "scalar_tensor": [{"args": (2 - 1j,), "dtype": SINGLE}],
    "_to_copy": [{"args": (CORNERS,), "dtype": torch.bool}, {"args": (Z,), "dtype": SINGLE},
                 {"args": (X,), "dtype": SINGLE},
                 {"args": (Z,), "dtype": torch.float32}, (Z,)],
    "complex": [(X, Y), (X, Y[0])], "polar": [(P, X)], "view_as_complex": [(real(3, 2),)],
    "view_as_real": [(Z,)], "_conj": [(Z,)], "_conj_physical": [(Z,)], "conj_physical": [(Z,)],
    "resolve_conj": [(Z,), (X,)], "resolve_neg": [(Z,), (X,)], "_neg_view": [(X,)],
}  # fmt: skip

ARITHMETIC = {
    "add.Tensor": [(Z, V), (Z, X), (X, V[0]), {"args": (Z, V), "alpha": 2}, (Z, W), (Z, 1 - 2j), (X, 1j),
                   (Z.to(SINGLE), X)],
    "add.Scalar": [(Z, 2)], "sub.Tensor": [(Z, V[0]), (X, V)], "sub.Scalar": [(Z, 1j)],
    "rsub.Tensor": [(Z, V)], "rsub.Scalar": [(Z, 2)], "neg": [(Z,)],
    "mul.Tensor": [(Z, V), (Z, X), (X, V), (Z, 1 - 2j), (X, 1j), (Z, 2), (W, V), (Z.to(SINGLE), X)],
    "mul.Scalar": [(Z, 2j)],
    "div.Tensor": [(Z, V), (X, V), (Z, X), (Z, 2), (Z, 2 - 1j), (X, 2j), (V[0, 0], CORNERS[2:8])],
    "div.Scalar": [(Z, 2)],
    "reciprocal": [(Z,), (CORNERS[2:8],)],
    **{name: [(Z, V.mT)] for name in ("mm", "matmul")}, "bmm": [(CUBE, pairs(2, 4, 3)), (CUBE, CUBE.mT)],
    "mv": [(Z, V[0])], "dot": [(Z[0], V[0])], "vdot": [(Z[0], V[0])],
    "linear": [(Z, V), (Z, V, V[:, 0])],
    "addmm": [(Z[0, :3], Z, V.mT), {"args": (V[:, :3], Z, V.mT), "beta": 2, "alpha": 1 - 2j}],
    "baddbmm": [(Z[:2, :3, None], CUBE, CUBE.mT)], "addmv": [(Z[:, 0], Z, V[0])],
    "sum": [(Z,), {"args": (torch.view_as_complex(W.double().reshape(3, 2, 2)),), "dtype": SINGLE}],
    "sum.dim_IntList": [(CUBE, [0, 2], True)],
    "mean": [(Z,)], "mean.dim": [(Z, [1])], "cumsum": [(Z, 1)],
    "abs": [(Z,), (CORNERS,)], "angle": [(Z,), (CORNERS[:8],), (CORNERS[8:],), (X,), (W,)],
    "sgn": [(Z,), (CORNERS,)],
    "exp": [(Z,)], "sin": [(Z,)], "cos": [(Z,)], "log": [(Z,), (CORNERS[2:],)],
    "sqrt": [(Z,), (CORNERS[2:],)],
    "pow.Tensor_Scalar": [(Z, n) for n in (0, 1, 2, 3, 5, -1, -2, 0.5, 2.5, -1.5, 12)] + [(CORNERS[:6], 4)],
    "linalg_vector_norm": [(Z,), (Z, 1, [1]), (CORNERS[:6], 2, [0])],
    "eq.Tensor": [(Z, Z + truths(3, 4)), (X, CORNERS[:4])], "eq.Scalar": [(CORNERS, 1)],
    "ne.Tensor": [(Z, Z + truths(3, 4))], "ne.Scalar": [(CORNERS, 1)],
    "isnan": [(CORNERS / 0,)], "isfinite": [(CORNERS / 0,)],
}  # fmt: skip

FOURIER = {
    "_fft_r2c": [(X, [1], 0, True), (X, [0], 1, False), (real(2, 5, 6), [0, 2], 2, True),
                 (real(2, 36), [1], 0, True), (real(3, 37), [1], 2, False), (real(1, 720), [1], 1, True),
                 (X[:, :1], [1], 0, True)],
    "_fft_c2c": [(Z, [1], 0, True), (Z, [0], 1, False), (WAVES, [0, 1], 2, False), (pairs(96), [0], 0, True),
                 (CUBE, [2, 1, 0], 0, True), (pairs(4, 2310), [1], 2, False)],
    "_fft_c2r": [(Z, [1], 0, 6), (Z, [1], 1, 7), (CUBE, [0, 2], 2, 7), (CUBE, [1, 0], 0, 3),
                 (pairs(2, 33), [1], 2, 64), (pairs(2, 33), [1], 0, 65), (Z, [1], 0, 4),
                 (Z[:, :1], [1], 0, 1)],
}  # fmt: skip

COMPLEX = {**MOVEMENT, **CREATION, **ARITHMETIC, **FOURIER}
"""Calls by overload, as in `torch_overloads`."""

WITHOUT_GRADIENT = {
    **dict.fromkeys(("copy", "embedding", "slice_scatter", "select_scatter"), "PyTorch has none"),
    "where.self 1": "PyTorch fails where one array is real",
    "angle 2": "that of PyTorch is NaN, because a square underflows",
    "_fft_c2r 6": "PyTorch fails where it ignores frequencies",
}
"""Overloads or calls whose gradient is not compared, with the reason."""


class Turn(nn.Module):
    """A product with a complex number, and with its conjugate without a gradient."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 2))

    def forward(self, x):
        w = torch.view_as_complex(self.w)
        return torch.view_as_real(torch.complex(x, x.cos()) * w * w.detach().conj())


class Mixing(nn.Module):
    """A block of FNet (Lee-Thorp et al. 2021, arXiv:2105.03824): tokens are mixed by a Fourier transform."""

    def __init__(self, width=6):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        x = self.norm1(x + torch.fft.fft2(x).real)
        return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))


class SpectralConvolution(nn.Module):
    """A layer of a Fourier neural operator (Li et al. 2020, arXiv:2010.08895)."""

    def __init__(self, inputs=2, outputs=3, modes=4):
        super().__init__()
        self.modes, self.outputs = modes, outputs
        self.weight = nn.Parameter(torch.randn(inputs, outputs, modes, 2) / inputs)
        self.skip = nn.Conv1d(inputs, outputs, 1)

    def forward(self, x):
        n = x.shape[-1]
        low = torch.fft.rfft(x, norm="ortho")[:, :, : self.modes]
        weight = torch.view_as_complex(self.weight)
        spectrum = torch.zeros(x.shape[0], self.outputs, n // 2 + 1, dtype=weight.dtype)
        spectrum[:, :, : self.modes] = torch.einsum("bim,iom->bom", low, weight)
        return torch.nn.functional.gelu(torch.fft.irfft(spectrum, n=n, norm="ortho") + self.skip(x))


class ComplexRotary(nn.Module):
    """Attention with positions that turn complex numbers, as in Llama's reference code."""

    def __init__(self, width=8, longest=16):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        frequencies = 10000.0 ** -(torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(longest), frequencies)
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def turned(self, x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns[: x.shape[1]]).flatten(2).type_as(x)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = self.turned(q) @ self.turned(k).mT / x.shape[-1] ** 0.5
        return scores.softmax(-1) @ v


class Spectrogram(nn.Module):
    """A classifier of sounds by the logarithm of their spectrogram, and the sound of its lower half."""

    def __init__(self, frame=16, classes=3):
        super().__init__()
        self.frame, self.step = frame, frame // 4
        self.register_buffer("window", torch.hann_window(frame))
        self.out = nn.Linear(frame // 2 + 1, classes)

    def forward(self, x):
        given = {"window": self.window, "hop_length": self.step}
        spectrum = torch.stft(x, self.frame, return_complex=True, **given)
        features = (spectrum.abs().square() + 1e-6).log().mean(-1)
        low = torch.cat([spectrum[:, :4], torch.zeros_like(spectrum[:, 4:])], 1)
        return self.out(features), torch.istft(low, self.frame, **given)


SPECTRAL = {
    "mixing": (Mixing, real(2, 5, 6)),
    "detached factor": (Turn, real(2, 6)),
    "spectral convolution": (SpectralConvolution, real(2, 2, 12)),
    "complex rotary": (ComplexRotary, real(2, 5, 8)),
    "spectrogram": (Spectrogram, real(2, 64)),
}
"""Modules with complex numbers inside, and their inputs."""
