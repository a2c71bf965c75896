"""Storage of weights in sprites, as numbers, as texts, and quantised: predictions and reading back."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from catgrad.backends.scratch.assemble.limits import check_saved
from catgrad.backends.scratch.formats import projects as scratch
from catgrad.backends.scratch.formats.packed import LETTERS, packed
from catgrad.backends.scratch.formats.rounded import BITS, GROUP, halves, steps, unpacked
from catgrad.backends.scratch.machine.projects import Machine
from hypothesis import example, given
from hypothesis.extra import numpy as arrays

from catgrad import NdArrayType, Task, layers, mse, sgd
from catgrad.errors import ArtifactError, CatgradWarning
from tests.covering import some
from tests.scratch.machines import on_machines
from tests.targets import emit
from tests.unit.scratch.test_files import project

INPUT, HIDDEN, OUTPUT = NdArrayType((5,)), NdArrayType((7,)), NdArrayType((2,))
X, TARGET = np.linspace(-1, 1, 5), [0.25, 0.5]
TABLES = ("parameters", "buffers", "state")
ROUNDED = ["float16", *BITS]
TEXTS = ["packed", *ROUNDED]

finite = {"allow_nan": False, "allow_infinity": False}
lists = arrays.array_shapes(max_dims=1, min_side=0, max_side=9)


def task(optimiser=None):
    model = layers.sequential(
        layers.dense(NdArrayType((1,)), INPUT, HIDDEN, layers.tanh),
        layers.dense(NdArrayType((1,)), HIDDEN, OUTPUT),
    )
    return Task(model, optimiser or sgd(0.5), mse, "small")


@cache
def weights():
    slots = emit(task(), "scratch").program.tables["parameters"]
    draw = np.random.default_rng(0).normal
    return {slot.name: draw(size=slot.type.shape).astype(np.float32) for slot in slots}


@cache
def emitted(**options):
    return emit(task(), "scratch", weights=weights(), **options)


def sprite(vm, **options):
    machine, artifact = Machine(vm), emitted(**options)
    machine.load(artifact.files["small.sb3"])
    return machine, artifact


def given_an_example(machine, block):
    machine.set_list("input", X)
    machine.set_list("target", TARGET)
    machine.call(block)
    assert machine.variable("error") == ""
    return machine.array("output")


def read(machine, artifact):
    return scratch.read_arrays(machine.save(), artifact.program.tables["parameters"])


def test_digits_are_distinct_in_scratch_and_one_byte_in_json():
    assert len({letter.lower() for letter in LETTERS}) == 64
    assert LETTERS.isascii() and LETTERS.isprintable() and not set(LETTERS) & set('"\\ ')


@given(arrays.arrays(np.float32, lists, elements={**finite, "min_value": -(2.0**20), "max_value": 2.0**20}))
@example(np.array([0, 1e-30, -1, 1e-7], np.float32))
@example(np.zeros(3, np.float32))
def test_packed_numbers_are_the_same_bit_for_bit(array):
    text = packed("w", [float(str(x)) for x in array])
    assert unpacked(text.items)["w"] == text.numbers().tolist()
    assert np.array_equal(text.numbers().astype(np.float32), array)


def one_group(array, bits):
    """Quantise; return the error of each number in steps of its scale, and the text."""
    text = steps("w", array, bits)
    scales = np.abs(text.scales.numbers())[np.arange(array.size) // text.group]
    return np.abs(text.numbers() - array.ravel()) / scales, text


@given(arrays.arrays(np.float32, lists, elements={**finite, "min_value": -1000, "max_value": 1000}))
@pytest.mark.parametrize("bits", BITS.values())
def test_numbers_of_few_bits_are_off_by_half_a_step_but_at_the_ends(bits, array):
    off, text = one_group(array, bits)
    wholes = np.rint(text.numbers() / np.abs(text.scales.numbers())[np.arange(array.size) // text.group])
    inside = (wholes > -(2 ** (bits - 1)) + 1) & (wholes < 2 ** (bits - 1) - 2)
    assert (off[inside] <= 0.5 + 1e-9).all() and (off <= 2).all()
    assert unpacked(text.items)["w"] == text.numbers().tolist()
    assert text.size == array.size and len(text.text) == bits // 2 * -(-array.size // 3)


@pytest.mark.parametrize("bits", BITS.values())
def test_a_scale_chosen_among_several_is_better_than_that_of_the_greatest(bits):
    array = np.random.default_rng(0).normal(size=(GROUP, 12))
    rows = array.reshape(1 if bits == 8 else 12, -1)
    scales = np.abs(rows).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
    simple = np.square(np.rint(rows / scales) * scales - rows).sum()
    assert np.square(steps("w", array, bits).numbers() - array.ravel()).sum() < simple


@given(arrays.arrays(np.float32, lists, elements={**finite, "min_value": -65503, "max_value": 65503}))
@example(np.array([65504, -(2.0**-24), 2.0**-25, 2.0**-14, 1 - 2.0**-12], np.float32))
def test_float16_agrees_with_numpy(array):
    text = halves("w", array)
    assert unpacked(text.items)["w"] == text.numbers().tolist()
    np.testing.assert_array_equal(text.numbers(), array.astype(np.float16).astype(float))


def test_numbers_too_large_for_float16_are_refused():
    with pytest.raises(
        ArtifactError, match="must be smaller than 65520 in size, but w has 70000.0; .*packed"
    ):
        halves("w", np.array([1, 70000.0]))


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("sig_figs", [None, 4])
def test_packed_weights_equal_the_weights(vm, sig_figs):
    one, artifact = sprite(vm, sig_figs=sig_figs)
    other, texts = sprite(vm, sig_figs=sig_figs, storage="packed")
    assert read(one, artifact).keys() == read(other, texts).keys()
    for _ in range(2):
        for block in ("predict", "train step"):
            assert np.array_equal(given_an_example(one, block), given_an_example(other, block))
        for name, array in read(one, artifact).items():
            assert np.array_equal(array, read(other, texts)[name])


NEAR = {"float16": 5e-4, "int8": 0.01, "int6": 0.04, "int4": 0.2}
"""Bounds of the error of weights, relative to the maximum of their list."""


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("storage", NEAR)
def test_rounded_weights_are_near_and_are_trained_from_there(vm, storage):
    exact, _ = sprite(vm)
    machine, texts = sprite(vm, storage=storage)
    near = read(machine, texts)
    for name, array in weights().items():
        off = np.abs(near[name] - array).max() / np.abs(array).max()
        assert 0 < off <= NEAR[storage] if array.ndim > 1 or storage == "float16" else off == 0
    output = given_an_example(machine, "predict")
    np.testing.assert_allclose(output, given_an_example(exact, "predict"), atol=2 * NEAR[storage])
    assert all(np.array_equal(array, near[name]) for name, array in read(machine, texts).items())
    losses = []
    for _ in range(20):
        given_an_example(machine, "train step")
        losses.append(machine.variable("loss"))
    assert losses[-1] < losses[0] / 2


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("storage", TEXTS)
def test_unpacking_does_not_overwrite_trained_weights(vm, storage):
    machine, artifact = sprite(vm, storage=storage)
    machine.call("reset weights")
    new = read(machine, artifact)
    given_an_example(machine, "predict")
    assert all(np.array_equal(array, new[name]) for name, array in read(machine, artifact).items())
    assert not any(np.array_equal(array, new[name]) for name, array in weights().items())


@on_machines
def test_unpacking_does_not_overwrite_weights_from_python(vm):
    model, numpy = emitted(storage="packed", vm=vm).load()(), emit(task(), "numpy").load()()
    x, others = X[None].astype(np.float32), [2 * array for array in weights().values()]
    np.testing.assert_allclose(model.predict(*others, x)[0], numpy.predict(*others, x)[0], rtol=1e-5)
    kept = model.learner().parameters
    assert all(np.array_equal(kept[name], array) for name, array in weights().items())


@pytest.mark.parametrize("storage", TEXTS)
def test_a_file_is_read_before_it_has_run(storage):
    artifact = emitted(storage=storage)
    for file in ("small.sprite3", "small.sb3"):
        found = scratch.read_arrays(artifact.files[file], artifact.program.tables["parameters"])
        assert {name: array.shape for name, array in found.items()} == {
            n: a.shape for n, a in weights().items()
        }
        if storage == "packed":
            assert all(np.array_equal(array, weights()[name]) for name, array in found.items())


ROW = packed("w", [0.5, -33]).items
WHOLE = steps("w", np.linspace(-1, 1, 50), 4).items
HALF = halves("w", np.linspace(-1, 1, 5)).items


BROKEN = {
    "an item is missing": ROW[:-1],
    "the form is missing": ["w"],
    "the form is none": ["w", "eighths", *ROW[2:]],
    "a number is a text": [*ROW[:2], "2", *ROW[3:]],
    "a letter is no digit": [*ROW[:-1], "\\" * len(ROW[-1])],
    "a letter is missing": [*ROW[:-1], ROW[-1][1:]],
    "a number has too many letters": [*ROW[:2], 10, *ROW[3:]],
    "an exponent is too large": [*ROW[:5], 10**9, *ROW[6:]],
    "a factor is too large": [*ROW[:6], 10**30, ROW[7]],
    "there are other bits": [*WHOLE[:2], 3, *WHOLE[3:]],
    "a group is empty": [*WHOLE[:4], 0, *WHOLE[5:]],
    "a scale is missing": [*WHOLE[:-1], WHOLE[-1][WHOLE[7] :]],
    "numbers are missing": [*WHOLE[:5], 60, *WHOLE[6:]],
    "a half has too few letters": [*HALF[:3], HALF[3][:-1]],
    "halves are missing": [*HALF[:2], 8, HALF[3]],
}


@pytest.mark.parametrize("items", BROKEN.values(), ids=BROKEN)
def test_malformed_texts_are_refused(items):
    with pytest.raises(ArtifactError, match="must be a project or sprite of Scratch"):
        scratch.read(project(s={"~packed": items}))


def test_numbers_with_too_many_digits_are_refused_with_a_remedy():
    with pytest.raises(ArtifactError, match="14 digits at most.*but those of w have more.*sig_figs=9"):
        packed("w", [1 / 3, 1e-5])


@pytest.mark.parametrize("storage", TEXTS)
def test_weights_that_are_not_finite_are_refused(storage):
    broken = {name: np.full_like(array, np.inf) for name, array in weights().items()}
    with pytest.raises(ArtifactError, match="finite"):
        emit(task(), "scratch", weights=broken, storage=storage)


@pytest.mark.parametrize("storage", some(["numbers", *TEXTS], ["numbers", "int4"]))
def test_no_storage_makes_a_list_longer(storage):
    model = layers.dense(NdArrayType((1,)), NdArrayType((2001,)), NdArrayType((100,)))
    with pytest.raises(ArtifactError, match="a list must have at most 200,000 items"):
        emit(Task(model, sgd(0.5), mse, "large"), "scratch", storage=storage)


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("storage", ["float16", "int4"])
def test_a_list_of_maximum_length_is_unpacked(vm, storage):
    machine = Machine(vm)
    model = layers.linear(NdArrayType((1,)), NdArrayType((2000,)), NdArrayType((100,)))
    artifact = emit(Task(model, sgd(0.5), mse, "large"), "scratch", ["predict"], storage=storage)
    machine.load(artifact.files["large.sb3"])
    machine.call("unpack weights")
    kept = scratch.read_arrays(artifact.files["large.sb3"], artifact.program.tables["parameters"])
    found = machine.array("linear.weight").astype(np.float32)
    assert np.array_equal(found, kept["linear.weight"].ravel())


def test_lists_too_large_when_unpacked_are_warned_of():
    with pytest.warns(CatgradWarning, match="once the sprite has run.*sig_figs"):
        check_saved({"w": [1 / 3] * 300_000})
