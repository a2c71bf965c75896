"""Semantics of Scratch's arithmetic and lists that emitted blocks assume, on both virtual machines."""

from __future__ import annotations

import math

import numpy as np
import pytest
from catgrad.backends.scratch.machine.projects import Machine
from hypothesis import given
from hypothesis import strategies as st

from tests.scratch.machines import on_machines, on_scratch, same
from tests.scratch.projects import (
    add,
    argument,
    binary,
    block,
    define,
    function,
    item,
    length,
    project,
    repeat,
    set_to,
    variable,
)

nan, inf = math.nan, math.inf
x, y = variable("x"), variable("y")


def both(operator):
    return binary(operator, x, y)


LAWS = [
    # name, expression, x, y and the result
    ("NaN is 0 to the next operator", binary("add", binary("divide", x, y), 1), 0, 0, 1),
    ("so is text", both("add"), "cat", 1, 1),
    ("and what is empty", both("add"), "", 1, 1),
    ("and a comma in a number", both("add"), "1,5", 1, 1),
    ("a number in text is that number", both("add"), " 1e3 ", 1, 1001),
    ("a hexadecimal number too", both("add"), "0x10", 1, 17),
    ("true is 1", both("add"), True, 1, 2),
    ("infinity goes on", both("add"), inf, 1, inf),
    ("as text too", both("add"), "Infinity", 1, inf),
    ("0/0 is NaN", both("divide"), 0, 0, nan),
    ("1/0 is infinity", both("divide"), 1, 0, inf),
    ("-1/0 is its negative", both("divide"), -1, 0, -inf),
    ("1/-0 is, too", both("divide"), 1, -0.0, -inf),
    ("0 times infinity is NaN", both("multiply"), 0, inf, nan),
    ("relu of a negative number by a product is -0", binary("multiply", x, binary("gt", x, 0)), -3, 0, -0.0),
    ("mod is floored, with the sign of the second", both("mod"), -7, 3, 2),
    ("whatever that is", both("mod"), 7, -3, -2),
    ("of fractions too", both("mod"), -0.5, 2, 1.5),
    ("mod 0 is NaN", both("mod"), 7, 0, nan),
    ("a number mod infinity is itself", both("mod"), -7.5, inf, -7.5),
    ("infinity mod infinity is NaN", both("mod"), inf, inf, nan),
    ("its negative too", both("mod"), -inf, inf, nan),
    ("round takes halves up", block("operator_round", NUM=x), 2.5, 0, 3),
    ("for negatives too", block("operator_round", NUM=x), -1.5, 0, -1),
    ("floor", function("floor", x), -1.5, 0, -2),
    ("ceiling", function("ceiling", x), 1.2, 0, 2),
    ("the absolute value of -0 is 0", function("abs", x), -0.0, 0, 0.0),
    ("e^710 is infinity", function("e ^", x), 710, 0, inf),
    ("e^-746 is 0", function("e ^", x), -746, 0, 0),
    ("e^709 is not", function("e ^", x), 709, 0, math.exp(709)),
    ("ln 0 is minus infinity", function("ln", x), 0, 0, -inf),
    ("ln of a negative number is NaN", function("ln", x), -1, 0, nan),
    ("the root of a negative number too", function("sqrt", x), -1, 0, nan),
    ("sines are of degrees", function("sin", x), 30, 0, 0.5),
    ("and have 10 decimals", function("sin", x), 20, 0, round(math.sin(math.radians(20)), 10)),
    ("text that denotes a number is compared as one", both("gt"), "10", 9, True),
    ("other text as text, after digits", both("gt"), "cat", 9, True),
    ("equality too", both("equals"), "5.0", 5, True),
    ("what is empty is not 0", both("equals"), "", 0, False),
    ("text has no case", both("equals"), "CAT", "cat", True),
    ("NaN equals itself, as text", both("equals"), nan, nan, True),
    ("infinity equals itself", both("equals"), inf, inf, True),
    ("x·1 = x for a number", binary("equals", binary("multiply", x, 1), x), -2.5, 0, True),
    ("and infinity", binary("equals", binary("multiply", x, 1), x), inf, 0, True),
    ("but not for text", binary("equals", binary("multiply", x, 1), x), "cat", 0, False),
    ("nor what is empty", binary("equals", binary("multiply", x, 1), x), "", 0, False),
    ("nor NaN", binary("equals", binary("multiply", x, 1), x), nan, 0, False),
    ("lists start at 1", item("xs", x), 1, 0, 10),
    ("their places are floored", item("xs", x), 2.9, 0, 20),
    ("place 0 is empty", item("xs", x), 0, 0, ""),
    ("a negative one too", item("xs", x), -1, 0, ""),
    ("and one after the last", item("xs", x), 4, 0, ""),
    ("which is 0 to an operator", binary("add", item("xs", x), 1), 4, 0, 1),
    ("'last' is the last", item("xs", x), "last", 0, 30),
    (
        "a list as text has spaces between its items",
        block("data_listcontents", {"LIST": "xs"}),
        0,
        0,
        "10 20 30",
    ),
    (
        "a list has an item that it equals",
        block("data_listcontainsitem", {"LIST": "xs"}, ITEM=x),
        "20",
        0,
        True,
    ),
    (
        "and has no infinity among numbers",
        block("data_listcontainsitem", {"LIST": "xs"}, ITEM=x),
        inf,
        0,
        False,
    ),
    ("random numbers between whole ones are whole", block("operator_random", FROM=x, TO=x), 3, 0, 3),
]

UNARY = {
    "e ^": np.exp,
    "ln": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "floor": np.floor,
    "ceiling": np.ceil,
}
BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}


def computing(vm, *expressions):
    """Load a block "compute %s" that adds the value of each expression to `out`."""
    scripts = [[define(f"compute {n}"), add("out", it)] for n, it in enumerate(expressions)]
    machine = Machine(vm)
    machine.load(project(*scripts, lists=["xs", "out"], variables=["x", "y"]))
    machine.set_list("xs", [10, 20, 30])
    return machine


def value(machine, number, at_x, at_y):
    machine.set_variable("x", at_x)
    machine.set_variable("y", at_y)
    machine.set_list("out", [])
    machine.call(f"compute {number}")
    [result] = machine.list("out")
    return result


@on_machines
def test_the_laws_hold(vm):
    machine = computing(vm, *(law[1] for law in LAWS))
    values = {law[0]: value(machine, n, *law[2:4]) for n, law in enumerate(LAWS)}
    wanted = {law[0]: law[4] for law in LAWS}
    assert {name: (it, wanted[name]) for name, it in values.items() if not agrees(it, wanted[name])} == {}


def agrees(found, wanted):
    """Return whether it is the expected value, with a tolerance for exponentials."""
    if isinstance(wanted, str | bool):
        return same(found, wanted)
    signs = math.copysign(1, found) == math.copysign(1, wanted) or math.isnan(wanted)
    return signs and np.isclose(found, wanted, rtol=1e-14, atol=0, equal_nan=True)


@on_scratch
def test_numbers_are_float64(vm):
    machine = computing(vm, *(both(name) for name in BINARY), *(function(name, x) for name in UNARY))
    numbers = st.floats(allow_nan=False)

    @given(numbers, numbers)
    def holds(a, b):
        with np.errstate(all="ignore"):
            found = [value(machine, n, a, b) for n in range(len(BINARY) + len(UNARY))]
            wanted = [f(a, b) for f in BINARY.values()] + [f(a) for f in UNARY.values()]
        assert all(map(agrees, found, map(float, wanted))), (found, wanted)

    holds()


@on_machines
@pytest.mark.parametrize(
    ("change", "becomes"),
    [
        (block("data_replaceitemoflist", {"LIST": "xs"}, INDEX=4, ITEM=5), [10, 20, 30]),
        (block("data_replaceitemoflist", {"LIST": "xs"}, INDEX=0, ITEM=5), [10, 20, 30]),
        (block("data_replaceitemoflist", {"LIST": "xs"}, INDEX=3, ITEM=5), [10, 20, 5]),
        (block("data_deleteoflist", {"LIST": "xs"}, INDEX=4), [10, 20, 30]),
        (block("data_deleteoflist", {"LIST": "xs"}, INDEX=1), [20, 30]),
        (block("data_deletealloflist", {"LIST": "xs"}), []),
    ],
)
def test_items_out_of_range_are_not_changed(vm, change, becomes):
    machine = Machine(vm)
    machine.load(project([define("change"), change], lists=["xs"]))
    machine.set_list("xs", [10, 20, 30])
    machine.call("change")
    assert machine.list("xs") == becomes


@on_machines
def test_the_count_of_a_loop_is_rounded_and_read_in_each_iteration(vm):
    grow = [define("grow %s", "n"), set_to("x", 0), repeat(argument("n"), add("xs", 1))]
    shrink = [define("shrink"), set_to("x", 3), repeat(x, add("xs", 1), set_to("x", 1))]
    machine = Machine(vm)
    machine.load(project(grow, shrink, lists=["xs"], variables=["x"]))
    machine.call("grow %s", 2.5)
    assert len(machine.list("xs")) == 3
    machine.call("shrink")
    assert len(machine.list("xs")) > 3


@on_machines
def test_a_list_has_infinity_where_an_item_overflowed(vm):
    asked = block("data_listcontainsitem", {"LIST": "xs"}, ITEM=binary("divide", 1, 0))
    machine = Machine(vm)
    machine.load(project([define("look"), add("out", asked)], lists=["xs", "out"]))
    for items, found in (([1, inf, 2], True), ([1, -inf, 2], False), ([1, nan, 1.7e308], False)):
        machine.set_list("xs", items)
        machine.set_list("out", [])
        machine.call("look")
        assert machine.list("out") == [found]


@on_machines
def test_lists_end_at_200000_items_in_scratch(vm):
    machine = Machine(vm)
    machine.load(
        project(
            [define("grow"), repeat(3, add("xs", 1)), set_to("x", length("xs"))],
            lists=["xs"],
            variables=["x"],
        )
    )
    machine.set_list("xs", np.zeros(199_998))
    machine.call("grow")
    assert machine.variable("x") == {"vanilla": 200_000, "turbowarp": 200_001}[vm]
