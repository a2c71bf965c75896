"""Errors in a sprite's input give one sentence, and change nothing else."""

from __future__ import annotations

import math
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import optimisers, sgd
from tests.conformance.scratch_models import bigrams, classifier, examples, mlp
from tests.scratch.machines import on_machines, on_scratch
from tests.scratch.sprites import Sprite
from tests.targets import emit

MODELS = {"mlp": mlp, "classifier": classifier, "bigrams": bigrams}
BATCH = 2


@cache
def sprite(name, vm):
    made = Sprite(emit(MODELS[name](), "scratch", batch=BATCH, predict_batch=BATCH, vm=vm), vm)
    made.give("step", *examples(MODELS[name](), BATCH, 0))
    made.call("predict")
    made.call("train step")
    return made


def given_lists(name):
    """Return the items of the lists that a step reads."""
    lists = [array.ravel().tolist() for array in examples(MODELS[name](), BATCH, 1)]
    return dict(zip(("input", "target"), lists, strict=True))


def put(items, number, value):
    return [*items[: number - 1], value, *items[number:]]


WRONG = {
    "text": ("mlp", "input", lambda x: put(x, 3, "cat"), "input must have numbers, but item 3 is cat"),
    "nothing": ("mlp", "input", lambda x: put(x, 1, ""), "input must have numbers, but item 1 is "),
    "a space": ("mlp", "input", lambda x: put(x, 8, " "), "input must have numbers, but item 8 is  "),
    "a comma": ("mlp", "input", lambda x: put(x, 2, "1,5"), "input must have numbers, but item 2 is 1,5"),
    "nan": ("mlp", "input", lambda x: put(x, 3, math.nan), "input must have numbers, but item 3 is NaN"),
    "nan as text": ("mlp", "input", lambda x: put(x, 3, "NaN"), "input must have numbers, but item 3 is NaN"),
    "infinity": (
        "mlp", "input", lambda x: put(x, 3, math.inf), "input must have numbers, but item 3 is Infinity"
    ),
    "infinity as text": (
        "mlp", "target", lambda y: put(y, 2, "-Infinity"), "target must have numbers, but item 2 is -Infinity"
    ),
    "too great to be finite": (
        "mlp", "input", lambda x: put(x, 1, "1e999"), "input must have numbers, but item 1 is 1e999"
    ),
    "a number between spaces": (
        "mlp", "input", lambda x: put(x, 1, " 1 "), "input must have numbers, but item 1 is  1 "
    ),
    "hexadecimal": (
        "mlp", "input", lambda x: put(x, 1, "0x10"), "input must have numbers, but item 1 is 0x10"
    ),
    "binary": ("mlp", "target", lambda y: put(y, 6, "0b1"), "target must have numbers, but item 6 is 0b1"),
    "a truth value": (
        "mlp", "input", lambda x: put(x, 5, True), "input must have numbers, but item 5 is true"
    ),
    "a hexadecimal class": (
        "classifier", "target", lambda y: put(y, 2, "0x1"),
        "target must have whole numbers from 0 to 2, but item 2 is 0x1",
    ),
    "a class between spaces": (
        "classifier", "target", lambda y: put(y, 1, "1 "),
        "target must have whole numbers from 0 to 2, but item 1 is 1 ",
    ),
    "none": ("mlp", "input", lambda x: [], "input must have 8 numbers, but it has 0"),
    "too few": ("mlp", "input", lambda x: x[1:], "input must have 8 numbers, but it has 7"),
    "too many": ("mlp", "input", lambda x: [*x, 1.0], "input must have 8 numbers, but it has 9"),
    "text as target": (
        "mlp", "target", lambda y: put(y, 6, "dog"), "target must have numbers, but item 6 is dog"
    ),
    "too short a target": ("mlp", "target", lambda y: y[:1], "target must have 6 numbers, but it has 1"),
    "a class too great": (
        "classifier", "target", lambda y: put(y, 2, 3.0),
        "target must have whole numbers from 0 to 2, but item 2 is 3",
    ),
    "a class below 0": (
        "classifier", "target", lambda y: put(y, 1, -1.0),
        "target must have whole numbers from 0 to 2, but item 1 is -1",
    ),
    "half a class": (
        "classifier", "target", lambda y: put(y, 1, 0.5),
        "target must have whole numbers from 0 to 2, but item 1 is 0.5",
    ),
    "a class by name": (
        "classifier", "target", lambda y: put(y, 1, "setosa"),
        "target must have whole numbers from 0 to 2, but item 1 is setosa",
    ),
    "an infinite class": (
        "classifier", "target", lambda y: put(y, 1, math.inf),
        "target must have whole numbers from 0 to 2, but item 1 is Infinity",
    ),
    "too many classes": (
        "classifier", "target", lambda y: [*y, 0.0], "target must have 2 numbers, but it has 3"
    ),
    "half a token": (
        "bigrams", "input", lambda x: put(x, 4, 1.5), "input must have whole numbers, but item 4 is 1.5"
    ),
    "a token that is not there": (
        "bigrams", "input", lambda x: put(x, 4, 5.0), "an index must lie in 0 … 4, but one is 5"
    ),
    "a token below 0": (
        "bigrams", "input", lambda x: put(x, 4, -1.0), "an index must lie in 0 … 4, but one is -1"
    ),
    "an infinite token": (
        "bigrams", "input", lambda x: put(x, 4, math.inf),
        "input must have whole numbers, but item 4 is Infinity",
    ),
    "a token by name": (
        "bigrams", "input", lambda x: put(x, 6, "the"), "input must have whole numbers, but item 6 is the"
    ),
}  # fmt: skip


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("case", WRONG)
def test_invalid_inputs_are_reported_and_change_nothing(vm, case):
    name, place, spoil, error = WRONG[case]
    one = sprite(name, vm)
    for block in ("predict", "train step") if place == "input" else ("train step",):
        lists = given_lists(name)
        lists[place] = spoil(lists[place])
        for shared, items in lists.items():
            one.machine.set_list(shared, items)
        before = one.all_held()
        one.machine.call(block)
        found, after = one.machine.variable("error"), one.all_held()
        assert found == error
        assert {key for key, value in after.items() if value != before[key]} <= {("error", "variables")}
        for shared, items in given_lists(name).items():
            one.machine.set_list(shared, items)
        one.call(block)


DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
pieces = st.sampled_from(
    [*"0123456789..eE+-xXbBoO \t\xa0\u0665", "Infinity", "NaN", "0x", "0b1", "0o7", "1e", "e308", "e309"]
)
items = (
    st.lists(pieces, max_size=5).map("".join) | st.floats() | st.floats().map(str) | st.integers().map(str)
)


@on_scratch
@given(item=items)
@settings(max_examples=50)
def test_an_item_is_a_number_if_it_is_finite_and_in_decimal_digits(vm, item):
    one, lists = sprite("mlp", vm), given_lists("mlp")
    one.machine.set_list("input", put(lists["input"], 4, item))
    one.machine.call("predict")
    holds = math.isfinite(item) if isinstance(item, float) else bool(DECIMAL.fullmatch(item))
    holds = holds and math.isfinite(float(item))
    assert (one.machine.variable("error") == "") == holds


@on_machines
def test_numbers_as_text_are_numbers(vm):
    """Lists that are imported from a file have numbers as texts."""
    one, lists = sprite("mlp", vm), given_lists("mlp")
    for texts in (lists["input"], list(map(str, lists["input"])), [f"{x:+.17e}" for x in lists["input"]]):
        one.machine.set_list("input", texts)
        one.call("predict")
        found = one.outputs()[0]
    one.machine.set_list("input", lists["input"])
    one.call("predict")
    np.testing.assert_array_equal(one.outputs()[0], found)


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("rate", ["fast", "", math.nan, 0.0, math.inf, "1e999", " 1 ", "0x1", True])
def test_invalid_learning_rates(vm, rate):
    one = sprite("mlp", vm)
    for shared, items in given_lists("mlp").items():
        one.machine.set_list(shared, items)
    before = one.machine.variable("learning rate")
    one.machine.set_variable("learning rate", rate)
    held = one.all_held()
    one.machine.call("train step")
    error, after = one.machine.variable("error"), one.all_held()
    one.machine.set_variable("learning rate", before)
    assert error == "learning rate must be a number other than 0: set it for example to 0.3"
    assert {key for key, value in after.items() if value != held[key]} <= {("error", "variables")}
    one.call("train step")


@on_machines
def test_each_of_several_learning_rates_is_checked(vm):
    rates = optimisers.grouped(lambda p: sgd(0.3) if p.type.rank > 1 else sgd(0.1))
    one = Sprite(emit(mlp(rates), "scratch", vm=vm), vm)
    one.give("step", *examples(mlp(), 1, 0))
    one.machine.set_variable("learning rate 2", 0)
    one.machine.call("train step")
    error = one.machine.variable("error")
    assert error == "learning rate 2 must be a number other than 0: set it for example to 0.1"


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("great", [1e200, 1e308])
def test_a_loss_that_is_not_finite_changes_no_weight(vm, great):
    one = sprite("mlp", vm)
    lists = given_lists("mlp")
    one.machine.set_list("input", lists["input"])
    one.machine.set_list("target", put(lists["target"], 2, great))
    before = one.all_held()
    one.machine.call("train step")
    assert str(one.machine.variable("error")).startswith("the loss must be finite, but it is not")
    after = one.all_held()
    changed = {name for (name, kind), value in after.items() if value != before[name, kind]}
    assert changed <= {"error", "loss"}


RULES = {"sgd": sgd(0.3), "momentum": sgd(0.3, 0.9, weight_decay=0.1), "adam": optimisers.adamw(0.05)}


@cache
def learner(rule, vm):
    """Build a learner of a small network with this optimiser, its weights, and an example."""
    task = mlp(RULES[rule])
    made = Sprite(emit(task, "scratch", vm=vm), vm)
    return made, made.all_held(), examples(task, 1, 0)


def trained(rule, vm, rate, scale):
    """Run a step from the initial weights; return lists and variables before and after."""
    one, first, (x, y) = learner(rule, vm)
    for (name, kind), value in first.items():
        one.machine.set_list(name, value) if kind == "lists" else one.machine.set_variable(name, value)
    one.give("step", scale * x, y)
    one.machine.set_variable("learning rate", rate)
    before = one.all_held()
    one.machine.call("train step")
    return one.machine.variable("error"), before, one.all_held()


def changed(before, after):
    return {name for (name, kind), value in after.items() if value != before[name, kind]}


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("rule", RULES)
def test_new_weights_that_are_too_large_replace_none(vm, rule):
    for rate in (1e308, -1e308, 1e40):
        error, before, after = trained(rule, vm, rate, 1)
        assert error.endswith(
            "must have finite numbers, but the new ones are too large: try a smaller learning rate"
        )
        assert changed(before, after) == {"error", "loss"}
    error, before, after = trained(rule, vm, 0.1, 1)
    parameters = {slot.name for slot in learner(rule, vm)[0].program.tables["parameters"]}
    assert error == "" and parameters | {"output"} <= changed(before, after)


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("rule", ["momentum", "adam"])
def test_a_state_that_is_too_large_changes_nothing(vm, rule):
    """The weights would be finite: Adam divides by the root of the state."""
    one, first, _ = learner(rule, vm)
    place = next(p for slot, p in one.tables.items() if slot.endswith("hidden.weight") and slot[0] != "0")
    trained(rule, vm, 0.1, 1)
    one.machine.set_list(place["list"], [1e300] * len(first[place["list"], "lists"]))
    before = one.all_held()
    one.machine.call("train step")
    assert "must have finite numbers, but the new ones are too large" in one.machine.variable("error")
    assert changed(before, one.all_held()) <= {"error", "loss"}


@on_scratch
@given(
    rule=st.sampled_from(list(RULES)),
    rate=st.floats(-1e308, 1e308).filter(bool) | st.floats(-320, 308).map(lambda e: 10.0**e).filter(bool),
    scale=st.floats(-20, 300).map(lambda e: 10.0**e),
)
@settings(max_examples=20)
def test_a_step_updates_all_weights_or_none(vm, rule, rate, scale):
    error, before, after = trained(rule, vm, rate, scale)
    if error:
        assert changed(before, after) <= {"error", "loss"}
    else:
        one, _, _ = learner(rule, vm)
        arrays = [a for table in ("parameters", "state") for a in one.table(table).values()]
        weights = np.concatenate([a for a in arrays if a.size > 1])
        assert np.isfinite(weights.astype(np.float32)).all()
