"""Semantics of assembled programs in both virtual machines."""

from __future__ import annotations

import math

import pytest
from catgrad.backends.scratch.assemble import sb3, sprite3
from catgrad.backends.scratch.formats.projects import read
from catgrad.backends.scratch.language.tree import Call, Constant
from catgrad.backends.scratch.machine.projects import Machine, validate
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scratch.machines import on_machines
from tests.scratch.texts import expression
from tests.unit.scratch.test_assemble import TOUR, WEIGHTS

numbers = st.integers(-9, 9) | st.floats(-1e6, 1e6).map(lambda x: 0 if x == 0 else x)
ONE, TWO = ["abs", "floor", "ceiling", "sqrt", "round"], ["+", "-", "*", "/", "mod"]
exact = st.recursive(
    st.builds(Constant, numbers),
    lambda inner: st.one_of(
        st.builds(lambda f, x, y: Call(f, (x, y)), st.sampled_from(TWO), inner, inner),
        st.builds(lambda f, x: Call(f, (x,)), st.sampled_from(ONE), inner),
    ),
)
"""Expressions whose value does not depend on how a machine approximates a function."""

OPERATORS = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y}


def value(tree):
    """Evaluate an expression in float64; Scratch reads NaN (0/0) as 0 in the next operation."""
    if isinstance(tree, Constant):
        return float(tree.value)
    operands = [0.0 if math.isnan(x) else x for x in map(value, tree.operands)]
    match tree.function, operands:
        case "/", (x, y):
            return x / y if y else x * math.copysign(math.inf, y) if x else math.nan
        case "mod", (x, y):
            return _modulo(x, y)
        case "sqrt", (x,):
            return math.sqrt(x) if x >= 0 else math.nan
        case "abs", (x,):
            return abs(x)
        case ("floor" | "ceiling" | "round") as function, (x,):
            return x if math.isinf(x) else math.copysign(_whole(function, x), x)
        case operator, (x, y):
            return OPERATORS[operator](x, y)
    raise TypeError(tree)


def _modulo(x, y):
    """Return the remainder with the sign of y."""
    if math.isinf(x) or y == 0:
        return math.nan
    remainder = math.fmod(x, y)
    return remainder + y if remainder / y < 0 else remainder


def _whole(function, x):
    if function == "round":
        return math.floor(x) + (x - math.floor(x) >= 0.5)
    return math.floor(x) if function == "floor" else math.ceil(x)


def results(vm, texts):
    """Evaluate these expressions in a machine."""
    machine = Machine(vm)
    lines = "\n".join(f"        add {text} to results" for text in texts)
    machine.load(sprite3(f"sprite s\n    list results\n    when I receive go\n{lines}\n", {}))
    machine.broadcast("go")
    return machine.list("results")


@on_machines
@given(trees=st.lists(exact, min_size=1, max_size=8))
@settings(max_examples=40)
def test_arithmetic(vm, trees):
    for found, tree in zip(results(vm, map(expression, trees)), trees, strict=True):
        assert found == value(tree) or (math.isnan(found) and math.isnan(value(tree)))


@on_machines
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sin(30)", 0.5), ("cos(60)", 0.5), ("tan(45)", 1), ("asin(1)", 90), ("acos(1)", 0), ("atan(1)", 45),
        ("ln(10)", math.log(10)), ("log(1000)", 3), ("exp(1.5)", math.exp(1.5)), ("exp10(3)", 1000),
        ("1 + 2 * 3 - 4 / 2", 5), ("-7 mod 3", 2), ("(1 < 2) + (2 < 1)", 1), ("(1 = 1 and not 1 > 2) + 0", 1),
        ("(1 = 2 or 3 > 2) + 0", 1), ('join("a b", 1)', "a b1"), ('letter(2, "xyz")', "y"),
        ('length("xyz")', 3), ('(has("Scratch", "rat")) + 0', 1), ('"1.0"', "1.0"), ('""', ""),
        ('join("a\\n\\"", "\\\\")', 'a\n"\\'), ("0.1", 0.1), ("1e22", 1e22), ("-3", -3),
    ],
)  # fmt: skip
def test_functions(vm, text, expected):
    [found] = results(vm, [text])
    assert found == (expected if isinstance(expected, str) else pytest.approx(expected, rel=1e-9, abs=1e-12))


@on_machines
def test_a_random_number_between_texts_with_a_point_is_no_integer(vm):
    found = results(vm, ['random("0.0", 1)'] * 5 + ["random(1, 3)"] * 5)
    assert all(0 < x < 1 for x in found[:5]) and all(x in (1, 2, 3) for x in found[5:])


STATEMENTS = """sprite s
    shared list L = 5, 6, 7
    shared variable v
    list log
    define `log %s if %b`(what, yes)
        if $yes
            add $what to log
            stop this script
        add "no" to log
    define body
        L[2] = L[1] + 1
        insert 0 at 1 of L
        delete size(L) of L
        add find(6, L) to L
        add contains(L, 5) to log
        v = 1
        v += 2
        repeat 3
            v += 10
        repeat until v > 40
            v += 1
        if v = 41
            add "then" to log
        if v < 41
            add "then" to log
        else
            add "else" to log
        call `log %s if %b`(v, v = 41)
        call `log %s if %b`(v, not v = 41)
        wait until size(L) = 4
    when I receive go
        call body
    when flag clicked
        clear log
        broadcast next and wait
        add "after" to log
        broadcast next
        stop other scripts
        forever
            add "last" to log
            stop all
    when I receive next
        add "next" to log
"""


@on_machines
@pytest.mark.parametrize("file", [sb3([STATEMENTS], {}), sprite3(STATEMENTS, {})], ids=["sb3", "sprite3"])
def test_statements(vm, file):
    machine = Machine(vm)
    machine.load(file)
    machine.set_list("L", [5.0, 6.0, 7.0])  # a sprite's file has no values for what is shared
    machine.broadcast("go")
    assert machine.list("L") == [0, 5, 6, 3]
    assert machine.list("log") == [True, "then", "else", 41, "no"]


@on_machines
def test_messages_and_ends(vm):
    machine = Machine(vm)
    machine.load(sb3([STATEMENTS], {}))
    machine.green_flag()
    assert machine.list("log") == ["next", "after", "last"]


@on_machines
def test_the_tour_is_accepted_and_its_lists_survive(vm):
    project, sprite = sb3([TOUR], WEIGHTS), sprite3(TOUR[TOUR.index("sprite tour") :], WEIGHTS)
    for file in (project, sprite):
        validate(file)
    machine = Machine(vm)
    machine.load(project)
    assert read(machine.save()) == read(project)
    machine.load(sprite)
    assert read(machine.save()) == read(sprite)


@on_machines
def test_costumes_tell_upper_from_lower_case(vm):
    text = """
sprite s
    list found
    list asked = "A", "a", "B", "7", " "
    costumes "letter a", "letter A", "letter 7", "letter  "
    variable ~i
    define look
        repeat size(asked)
            ~i += 1
            switch costume to "costume1"
            switch costume to join("letter ", asked[~i])
            add costume_number() to found
"""
    machine = Machine(vm)
    machine.load(sprite3(text, {}))
    machine.call("look")
    assert machine.list("found") == [3, 2, 1, 4, 5]
