"""Matrix products, sums over named axes, and determinants."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad import ops
from catgrad.frontends.onnx.operators.operands import common_shape
from catgrad.frontends.onnx.registry import onnx, require
from catgrad.ops.contract import Contract
from catgrad.terms.var import Var

onnx("Det", since=(11, 22))(ops.determinant)


@onnx("MatMul", since=13)
def matmul(x: Var, y: Var) -> Var:
    """Matrix product, as numpy.matmul."""
    if y.type.rank == 1:
        return _column(x, y)
    if x.type.rank == 1:
        z = matmul(ops.expand_dims(x, 0), y)
        return ops.squeeze(z, z.type.rank - 2)
    if y.type.rank == 2:
        return ops.matmul(x, y)
    batch = common_shape(x.shape[:-2], y.shape[:-2])
    return ops.matmul(ops.broadcast_to(x, batch + x.shape[-2:]), ops.broadcast_to(y, batch + y.shape[-2:]))


def _column(x: Var, y: Var) -> Var:
    z = ops.matmul(x if x.type.rank > 1 else ops.expand_dims(x, 0), ops.expand_dims(y, 1))
    return ops.reshape(z, *x.shape[:-1])


@onnx("Gemm", since=13)
def gemm(
    a: Var, b: Var, c: Var | None = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0,
) -> Var:  # fmt: skip
    """α A B + β C."""
    product = ops.matmul(ops.transpose(a) if transA else a, ops.transpose(b) if transB else b)
    product = product if alpha == 1 else alpha * product
    if c is None or beta == 0:
        return product
    return product + ops.broadcast_to(c if beta == 1 else beta * c, product.shape)


@onnx("Einsum", since=(12, 28))
def einsum(*arrays: Var, equation: str) -> Var:
    """Sum of products over the axes that the result does not name."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    rest = max(x.type.rank - len(t.replace("...", "")) for t, x in zip(terms, arrays, strict=True))
    wide = [_wide(t, x.type.rank, rest) for t, x in zip(terms, arrays, strict=True)]
    every = "".join(wide)
    alone = "".join(sorted(n for n in set(every) if every.count(n) == 1 and not n.isdigit()))
    ellipsis = "".join(map(str, range(rest)))
    out = right.replace("...", ellipsis) if arrow else ellipsis + alone
    for names in wide:
        require(
            len(set(names)) == len(names),
            "each axis of an operand must have a name of its own",
            f"one has the axes {names}",
        )
    factors = _without_copied_axes(arrays, wide)
    result, names = factors[0]
    for k, factor in enumerate(factors[1:], 2):
        result, names = _pair((result, names), factor, out + "".join(n for _, n in factors[k:]))
    result = ops.sum(result, [k for k, n in enumerate(names) if n not in out])
    kept = [n for n in names if n in out]
    return ops.permute(result, *(kept.index(n) for n in out))


def _wide(term: str, rank: int, rest: int) -> str:
    """Name the axes of an ellipsis by digits, the last of `rest` of them."""
    own = rank - len(term.replace("...", ""))
    return term.replace("...", "".join(map(str, range(rest - own, rest))))


def _without_copied_axes(arrays: Sequence[Var], wide: Sequence[str]) -> list[tuple[Var, str]]:
    """Remove the axes of size 1 whose name has another size elsewhere: the operand is constant along them."""
    sizes = [each for x, names in zip(arrays, wide, strict=True) for each in zip(names, x.shape, strict=True)]
    longer, found = {name for name, size in sizes if size != 1}, []
    for x, names in zip(arrays, wide, strict=True):
        copied = [k for k, n in enumerate(names) if x.shape[k] == 1 and n in longer]
        found.append((ops.squeeze(x, copied), "".join(n for k, n in enumerate(names) if k not in copied)))
    return found


def _pair(one: tuple[Var, str], other: tuple[Var, str], later: str) -> tuple[Var, str]:
    """Multiply two operands, summed over the axes that neither the result nor later operands name."""
    (x, a), (y, b) = one, other
    x, a = _summed(x, a, b + later)
    y, b = _summed(y, b, a + later)
    kept = "".join(dict.fromkeys(n for n in a + b if n in later))
    label = {n: k for k, n in enumerate(dict.fromkeys(a + b))}
    left, right, result = (tuple(label[n] for n in names) for names in (a, b, kept))
    return Contract(left, right, result)(x, y), kept


def _summed(x: Var, names: str, needed: str) -> tuple[Var, str]:
    x = ops.sum(x, [k for k, n in enumerate(names) if n not in needed])
    return x, "".join(n for n in names if n in needed)
