"""Values and gradients at singular points of formulas are PyTorch's, or those of finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import ops
from catgrad.frontends.onnx.operators import images, norms, reductions  # noqa: F401  # they register operators
from catgrad.frontends.onnx.registry import RULES
from catgrad.frontends.torch import from_torch
from catgrad.functors import Expand, reverse
from catgrad.programs.program import evaluate
from catgrad.terms.build import build
from catgrad.types import Dtype, NdArrayType

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_singular import FAMILIES  # noqa: E402  # it needs PyTorch

leaves = torch.utils._pytree.tree_leaves


class Cases(torch.nn.Module):
    """A module of all cases of a family, because the export of a module costs more than that of a case."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases

    def forward(self, *inputs):
        given = iter(inputs)
        return [self.apply(function, [next(given) for _ in xs]) for function, *xs in self.cases]

    @staticmethod
    def apply(function, xs):
        return leaves(function(*xs))


def theirs(function, inputs, cotangents):
    """Return PyTorch's results and gradients."""
    xs = [x.clone().requires_grad_() for x in inputs]
    ys = Cases.apply(function, xs)
    total = sum((y * d).sum() for y, d in zip(ys, cotangents, strict=True))
    return [*ys, *torch.autograd.grad(total, xs, allow_unused=True, materialize_grads=True)]


def ours(function, types, inputs, cotangents):
    """Return the results and gradients of the reverse derivative of a term."""
    return evaluate(Expand()(reverse(build(function, types))), *inputs, *cotangents)


def cotangents_of(ys):
    rng = np.random.default_rng(0)
    return [rng.normal(size=tuple(y.shape)) for y in ys]


@pytest.mark.parametrize("family", FAMILIES)
def test_singular_points_agree_with_pytorch(family):
    cases = FAMILIES[family]
    module = Cases(list(cases.values()))
    # Inputs that are one tensor would become one input.
    inputs = [x.clone() for _, *xs in cases.values() for x in xs]
    term = from_torch(module, *inputs).model
    outputs = module(*(x.clone() for x in inputs))
    slopes = [[torch.as_tensor(d) for d in cotangents_of(ys)] for ys in outputs]
    results = evaluate(
        Expand()(reverse(term)), *(x.numpy() for x in inputs), *(d.numpy() for ds in slopes for d in ds)
    )
    count = len(term.target.table)
    values, gradients, wrong = iter(results[:count]), iter(results[count:]), []
    for (name, (function, *xs)), ds in zip(cases.items(), slopes, strict=True):
        found = [next(values) for _ in ds] + [next(gradients) for _ in xs]
        for a, b in zip(found, theirs(function, xs, ds), strict=True):
            b = b.detach().numpy()
            close = np.isclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)
            if not close.all():
                wrong.append(f"{name}: {a[~close][:6]} for {b[~close][:6]}")
    assert not wrong, "\n" + "\n".join(wrong)


def matrices_of_rank(n, rank, count=3):
    rng = np.random.default_rng(n)
    return rng.normal(size=(count, n, rank)) @ rng.normal(size=(count, rank, n))


def with_zeros(a, index):
    a = a.copy()
    a[index] = 0
    return a


SINGULAR = {
    "twins": np.array([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]),
    "of size 1": np.array([[[0.0]], [[2.0]]]),
    "counting": np.arange(1.0, 10.0).reshape(1, 3, 3),
    "nilpotent": np.eye(6, k=1)[None],
    "rank n - 1": matrices_of_rank(5, 4),
    "rank n - 2": matrices_of_rank(5, 3),
    "row of zeros": with_zeros(matrices_of_rank(4, 4), np.s_[:, 1]),
    "column of zeros": with_zeros(matrices_of_rank(4, 4), np.s_[:, :, 2]),
    "regular": matrices_of_rank(6, 6),
    "one singular matrix of a batch": np.stack([np.eye(3), np.ones((3, 3)), np.diag([1.0, 2.0, 0.0])]),
}


def cofactors(a):
    """Return the derivative of the determinant: the determinants of what is left without row and column."""
    n, result = a.shape[-1], np.ones_like(a)
    for i, j in np.ndindex(n, n) if n > 1 else ():
        rest = np.delete(np.delete(a, i, -2), j, -1)
        result[..., i, j] = (-1) ** (i + j) * np.linalg.det(rest)
    return result


@pytest.mark.parametrize("name", SINGULAR)
def test_the_gradient_of_a_determinant_is_its_cofactors(name):
    a = SINGULAR[name]
    y, da = ours(ops.determinant, [NdArrayType(a.shape, Dtype.float64)], [a], [np.ones(len(a))])
    np.testing.assert_allclose(y, np.linalg.det(a), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(da, cofactors(a), rtol=1e-12, atol=1e-12)
    step = 1e-6
    for index in np.ndindex(a.shape[1:]):  # the determinant is linear in each element
        e = np.zeros_like(a)
        e[(..., *index)] = step
        difference = (np.linalg.det(a + e) - np.linalg.det(a - e)) / (2 * step)
        np.testing.assert_allclose(da[(..., *index)], difference, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("is_upper", [False, True])
@pytest.mark.parametrize("diagonal", [[0.0, 2.0, 3.0], [1.0, 0.0, 3.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
def test_a_triangle_with_a_zero_on_its_diagonal_is_solved_by_substitution(diagonal, is_upper):
    a, b = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]), np.array([[1.0], [0.0], [2.0]])
    np.fill_diagonal(a, diagonal)
    types = [NdArrayType(x.shape, Dtype.float64) for x in (a, b)]
    term = build(lambda a, b: ops.solve_triangular(a, b, is_upper), types)
    with np.errstate(all="ignore"):
        (meaning,), (body,) = evaluate(term, a, b), evaluate(Expand()(term), a, b)
    np.testing.assert_array_equal(meaning, body)
    assert not np.isfinite(meaning).all()


@pytest.mark.parametrize("diagonal", [[np.inf, 2.0], [2.0, np.inf], [0.0, 1.0], [4.0, -1.0], [np.nan, 1.0]])
def test_a_matrix_that_is_not_positive_definite_has_no_number_in_its_cholesky_factor(diagonal):
    a = np.diag(diagonal) + np.array([[0.0, 0.0], [1.0, 0.0]])
    term = build(ops.cholesky, [NdArrayType(a.shape, Dtype.float64)])
    with np.errstate(all="ignore"):
        (meaning,), (body,) = evaluate(term, a), evaluate(Expand()(term), a)
    np.testing.assert_array_equal(meaning, body)
    assert np.isnan(meaning).any()


@pytest.mark.parametrize("name", SINGULAR)
def test_a_system_is_solved_by_elimination_also_if_it_is_singular(name):
    a = SINGULAR[name]
    b = np.random.default_rng(0).normal(size=(*a.shape[:-1], 2))
    term = build(ops.solve, [NdArrayType(x.shape, Dtype.float64) for x in (a, b)])
    with np.errstate(all="ignore"):
        (meaning,), (body,) = evaluate(term, a, b), evaluate(Expand()(term), a, b)
    np.testing.assert_allclose(meaning, body, rtol=1e-12)


def test_the_logarithm_of_the_determinant_of_a_singular_matrix_is_infinite():
    a = np.stack([np.zeros((2, 2)), np.ones((2, 2)), np.eye(2)])
    sign, logarithm, _ = ours(
        ops.log_determinant, [NdArrayType(a.shape, Dtype.float64)], [a], [np.zeros(3), np.ones(3)]
    )
    np.testing.assert_array_equal(sign, [0, 0, 1])
    np.testing.assert_array_equal(logarithm, [-np.inf, -np.inf, 0])


NORMS = {
    "ReduceL1": {},
    "ReduceL2": {},
    "LpNormalization": {},
    "LpPool": {"kernel_shape": [2, 2], "p": 2},
    "GlobalLpPool": {"p": 3},
    "MeanVarianceNormalization": {},
    "LRN": {"size": 3},
}


@pytest.mark.parametrize("number", [0.0, 0.1])
@pytest.mark.parametrize("operator", NORMS)
def test_norms_of_onnx_have_a_finite_gradient_where_all_numbers_are_equal(operator, number):
    x = np.full((2, 3, 4, 4), number)
    rule = RULES["", operator].meaning
    types = [NdArrayType(x.shape, Dtype.float64)]
    dy = np.ones(build(lambda x: rule(x, **NORMS[operator]), types).target.table[0].shape)
    y, dx = ours(lambda x: rule(x, **NORMS[operator]), types, [x], [dy])
    assert np.isfinite(y).all() and np.isfinite(dx).all()
