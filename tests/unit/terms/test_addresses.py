"""Programs whose arrays exceed a 64-bit address space are refused before anything is emitted."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, mse, ops, sgd
from catgrad.errors import OptionError
from catgrad.programs.peak_memory import MAX_ADDRESSABLE_BYTES, require_addressable
from catgrad.programs.program import Program, lower
from catgrad.targets import backends, get_backend
from tests.targets import emit

B = Dim("b")


@pytest.mark.parametrize("dtype", Dtype)
def test_the_size_of_an_element_agrees_with_numpy(dtype):
    if dtype is Dtype.bfloat16:
        pytest.importorskip("ml_dtypes", reason="the dtype bfloat16 of NumPy is that of ml_dtypes")
    assert dtype.itemsize == dtype.numpy.itemsize


SIZES = st.one_of(st.integers(0, 3), st.integers(0, 64).map(lambda k: 2**k), st.integers(2**62, 2**65))


@given(st.lists(SIZES, max_size=3), st.sampled_from(list(Dtype)))
def test_exactly_the_arrays_that_fit_are_accepted(shape, dtype):
    """The function has two arrays: its argument and its result."""
    function = lower(build(lambda x: ops.flip(x, 0) if shape else x, [NdArrayType(tuple(shape), dtype)]))
    spanned = prod(size or 1 for size in shape) * dtype.itemsize * (2 if shape else 1)
    if spanned <= MAX_ADDRESSABLE_BYTES:
        require_addressable(function)
    else:
        with pytest.raises(OptionError, match="of which the largest takes"):
            require_addressable(function)


def named(name, shape):
    return lambda x: x + ops.sum(ops.reshape(layers.parameter(name, NdArrayType(shape)), -1), 0)


def several(x):
    """Each parameter takes less than the limit, and all of them together more."""
    for k in range(4):
        x = named(f"part{k}", (2**59,))(x)
    return x


MODELS = {
    "a parameter": (named("w", (2**63,)), "w, f32[9223372036854775808]"),
    "a product of sizes beyond 64 bits": (named("w", (2**32, 2**32)), "w, f32[4294967296,4294967296]"),
    "one that is 0 in 64 bits": (named("w", (2**33, 2**31)), "w, f32"),
    "an array between": (lambda x: ops.sum(ops.broadcast(x, (2**62, 2))), "f32[4611686018427387904,2]"),
    "an empty one with a long axis": (lambda x: x + ops.sum(ops.broadcast(x, (0, 2**63))), "f32[0"),
    "all parameters together": (several, "of predict"),
    "a loop": (
        lambda x: ops.repeat(lambda h: ops.sum(ops.broadcast(h, (2**62,))), 3, x),
        "f32[4611686018427387904]",
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", ["numpy", "c"])
def test_arrays_beyond_the_address_space_are_refused(name, target):
    model, message = MODELS[name]
    with pytest.raises(OptionError, match="must take at most 2\\^63 - 1 bytes together") as refused:
        emit(Task(build(model, [NdArrayType(())]), sgd(0.1), mse), target)
    assert message in str(refused.value) or name == "all parameters together"


@pytest.mark.parametrize("target", sorted(backends()))
def test_no_target_emits_it(target):
    function = lower(build(lambda x: ops.broadcast(x, (2**62,)), [NdArrayType(())]), "f")
    with pytest.raises(OptionError, match=r"they take 18446744073709551620, of which the largest"):
        get_backend(target).emit(Program("model", (function,)))


def test_coefficients_of_symbolic_sizes_must_fit():
    def function(*shape):
        return lower(build(lambda x, y: ops.sum(y, 1), [NdArrayType((B,)), NdArrayType(shape)]))

    require_addressable(function(B, 2**60))
    with pytest.raises(OptionError, match=r"9223372036854775808\*b"):
        require_addressable(function(B, 2**61))
    with pytest.raises(OptionError, match=r"b\^2"):
        require_addressable(function(B, B * 2**61))


def test_large_models_are_emitted():
    """A terabyte of parameters is accepted."""
    artifact = emit(Task(build(named("w", (2**38,)), [NdArrayType(())]), sgd(0.1), mse))
    assert str(2**38) in artifact.source
