"""The text language of Scratch programs: printing and parsing round trip, and errors."""

from __future__ import annotations

import pytest
from catgrad.backends.scratch.assemble import sprite3
from catgrad.backends.scratch.language import spell
from catgrad.backends.scratch.language.palette import palette, stack_blocks
from catgrad.backends.scratch.language.parse import parse
from catgrad.backends.scratch.language.tree import Call, Constant, Name
from hypothesis import given

from catgrad.errors import OptionError, TextError
from tests.scratch.texts import FORMS, expression, expressions, printed, programs


@given(programs)
def test_a_printed_program_is_parsed_to_itself(program):
    assert parse(printed(program)) == program


@pytest.mark.parametrize("wrong", ["", "two\nlines"])
def test_a_name_is_one_line(wrong):
    with pytest.raises(OptionError, match="a name must be one line of text"):
        spell.name(wrong)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 10**400])
def test_a_constant_is_finite(wrong):
    with pytest.raises(OptionError, match="a constant must be finite"):
        spell.literal(wrong)


def test_every_block_of_the_palette_has_a_form():
    assert FORMS.keys() == stack_blocks().keys() | palette()["hats"].keys()


def parsed(text):
    """Parse an expression."""
    [section] = parse(f"sprite s\n    when flag clicked\n        say {text}\n")
    return section.parts[0].body[0].operands[0]


@given(expressions)
def test_parentheses_change_nothing(tree):
    assert parsed(f"({expression(tree)})") == tree


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("1 - 2 - 3", "(1 - 2) - 3"),
        ("1 + 2 * 3", "1 + (2 * 3)"),
        ("a / b * c mod d", "((a / b) * c) mod d"),
        ("a + 1 < b * 2", "(a + 1) < (b * 2)"),
        ("a = 1 and b = 2 or c = 3", "((a = 1) and (b = 2)) or (c = 3)"),
        ("not a = 1 and not b = 2", "(not (a = 1)) and (not (b = 2))"),
        ("L[i + 1] * -2", "(L[(i + 1)]) * (-2)"),
        ("a -1", "a - 1"),
    ],
)
def test_signs_bind_as_usual(short, full):
    assert parsed(short) == parsed(full)


def test_a_minus_before_a_number_is_part_of_it():
    assert parsed("x - -3") == Call("-", (Name("x"), Constant(-3)))


def test_comments_of_the_text_and_empty_lines_are_ignored():
    plain = "sprite s\n    variable x\n    define f\n        x = 1\n        x = 2\n"
    spaced = "# 1\n\nsprite s # 2\n    # 3\n    variable x\n\n    define f\n        x = 1\n# 4\n        x = 2"
    assert parse(plain) == parse(spaced) == parse(plain.replace("\n", "\r\n"))


def test_lines_continue_within_parentheses():
    assert parse("sprite s\n    when flag clicked\n        say join(1,\n  2)\n") == parse(
        "sprite s\n    when flag clicked\n        say join(1, 2)\n"
    )


HEAD = (
    "sprite s\n    list L of 3\n    variable x\n    define `f %s`(n)\n        say $n\n    when flag clicked\n"
)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            "y = 1",
            "line 7: y must be a variable of its sprite, but it is not declared; .*declare it: variable y",
        ),
        ("L = 1", "line 7: L must be a variable of its sprite, but it is a list"),
        ("say x[1]", "line 7: x must be a list of its sprite, but it is a variable"),
        ("call g", "line 7: g must be a custom block of its sprite, but it is not defined"),
        ("call `f %s`", "line 7: a call must have one operand .* are 1 arguments and 0 operands"),
        ("say abs(1, 2)", "line 7: a call must have one operand .* are 1 arguments and 2 operands"),
        ("say absolute(1)", "line 7: a function must belong to the language, but absolute is not"),
        ("say size(1)", "line 7: the operand must be the name of a list"),
        ("say $n", r"line 7: \$n must be an argument of the custom block around it, but that has none"),
        ("if x", "line 7: a condition must be boolean"),
        ("if x + 1", "line 7: a condition must be boolean"),
        ('x += "a"', "line 7: the constant must be a number, but it is 'a'"),
        ('pen color "red"', "line 7: the constant must be a color"),
        ("say -0", "line 7: a number must be one that Scratch saves exactly, but it is -0"),
        ("say 1e999", "line 7: a number must be one that Scratch saves exactly, but it is 1e999"),
        ("say " + "9" * 5000, "line 7: a number must be one that Scratch saves exactly"),
        ("say nan", "line 7: nan must be a variable"),
        ("say -x", "line 7: a line must have one of the forms of the language, but it goes on with 'x'"),
        ("say", "line 7: a line must have one of the forms of the language, but it ends too early"),
        ("while x < 3", "line 7: a line must have one of the forms"),
        ("x = é", "line 7: a line must have one of the forms of the language, but it goes on with 'é'"),
        ("    say 1", "line 7: a line must be indented by 4 spaces more than the line it belongs to"),
        ("  say 1", "line 7: a line must be indented by 4 spaces more"),
        ("say 1\n            say 2", "line 8: a line must be indented by 4 spaces more"),
        ("stop all\n        say 1", "line 8: a statement must be reachable"),
        ("forever\n        say 1", "line 8: a statement must be reachable"),
        ("say " + "abs(" * 201 + "1" + ")" * 201, "line 7: an expression must be at most 200 blocks deep"),
    ],
)
def test_a_wrong_line_is_named(line, error):
    with pytest.raises(TextError, match=error):
        sprite3(f"{HEAD}        {line}\n", {})


@pytest.mark.parametrize(
    ("part", "error"),
    [
        ("variable x\n    list x", "line 3: a name must be declared once, but x is declared again"),
        ("define f\n    define f", "line 3: a name must be declared once, but f is declared again"),
        ("define `f %s %s`(a, a)", "line 2: a name must be declared once, but a is declared again"),
        (
            "define `f %s`",
            "line 2: f %s must have an argument for each %s and %b of its name, but it has 0 for 1",
        ),
        (
            "list L of 1.5",
            "line 2: the number of items of a list must be an integer of at most 200,000, but it is 1.5",
        ),
        (
            "list L of 99999999999",
            "line 2: the number of items of a list must be an integer of at most 200,000",
        ),
        ("list L given 3", "line 2: the items of L must be passed separately, but they are not"),
        ("show list x at (1, 2)", "line 2: a monitor must show a list declared in its sprite, but x is none"),
        ("list", "line 2: a line must have one of the forms of the language, but it ends too early"),
    ],
)
def test_a_wrong_part_is_named(part, error):
    with pytest.raises(TextError, match=error):
        sprite3(f"sprite s\n    {part}\n", {})


@pytest.mark.parametrize("text", ["", "\n", "variable x", "sprite", "stage s"])
def test_lines_outside_a_section_are_refused(text):
    with pytest.raises(TextError, match="line 1: |line 2: "):
        parse(text)


def test_nested_expressions_up_to_the_limit_are_assembled():
    assert sprite3(f"{HEAD}        say {'abs(' * 200}1{')' * 200}\n", {})
