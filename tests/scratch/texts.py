"""Random programs in the text language of Scratch, as syntax trees and as texts."""

from __future__ import annotations

from dataclasses import replace
from inspect import cleandoc

from catgrad.backends.scratch.language.palette import palette, reporters, stack_blocks
from catgrad.backends.scratch.language.spell import comment, literal, name
from catgrad.backends.scratch.language.tree import (
    Argument,
    Call,
    Constant,
    Definition,
    List,
    Monitor,
    Name,
    Picture,
    Script,
    Section,
    Statement,
    Variable,
)
from hypothesis import strategies as st

FORMS = {
    "set": "{} = {}", "change": "{} += {}", "replace": "{}[{}] = {}", "add": "add {} to {}",
    "insert": "insert {} at {} of {}", "delete": "delete {} of {}", "clear": "clear {}",
    "show_variable": "show variable {}", "hide_variable": "hide variable {}", "show_list": "show list {}",
    "hide_list": "hide list {}", "repeat": "repeat {}{}", "repeat_until": "repeat until {}{}",
    "if": "if {}{}", "if_else": "if {}{}else{}", "forever": "forever{}", "wait": "wait {}",
    "wait_until": "wait until {}", "stop_other_scripts": "stop other scripts", "stop_all": "stop all",
    "stop_this_script": "stop this script", "broadcast": "broadcast {}",
    "broadcast_and_wait": "broadcast {} and wait", "say": "say {}", "say_for": "say {} for {}",
    "ask": "ask {}", "show": "show", "hide": "hide", "switch_costume": "switch costume to {}",
    "go_to": "go to ({}, {})", "pen_clear": "pen clear",
    "pen_down": "pen down", "pen_up": "pen up", "pen_size": "pen size {}", "pen_color": "pen color {}",
    "when_flag_clicked": "when flag clicked", "when_sprite_clicked": "when sprite clicked",
    "when_received": "when I receive {}", "when_key_pressed": "when key {} pressed",
}  # fmt: skip
"""The text of each stack block; `{}` is an operand."""

SIGNS = ["+", "-", "*", "/", "mod", "<", ">", "=", "and", "or"]


def printed(sections) -> str:
    """Print a program."""
    return "".join(_section(section) for section in sections)


def expression(tree) -> str:
    """Print an expression, with all parentheses."""
    match tree:
        case Constant(value):
            return literal(value)
        case Name(text):
            return name(text)
        case Argument(text):
            return f"${name(text)}"
        case Call("not", (operand,)):
            return f"(not {expression(operand)})"
        case Call("item", (list_, index)):
            return f"{expression(list_)}[{expression(index)}]"
        case Call(sign, (left, right)) if sign in SIGNS:
            return f"({expression(left)} {sign} {expression(right)})"
        case Call(function, operands):
            return f"{function}({', '.join(map(expression, operands))})"
    raise TypeError(tree)


def _section(section: Section) -> str:
    head = f"sprite {name(section.name.name)}" if section.name else "stage"
    lines = [_picture(section.picture)] * (section.picture != Section(None).picture)
    lines += [line for part in section.parts for line in _part(part)] + ["hidden"] * section.hidden
    lines += [f"costumes {', '.join(map(literal, section.costumes))}"] * bool(section.costumes)
    return "\n    ".join([head, *lines]) + "\n"


def _picture(picture: Picture) -> str:
    return f"picture {literal(picture.name)} at ({', '.join(map(literal, picture.place))})"


def _part(part) -> list[str]:
    match part:
        case Variable(Name(text), initial, shared):
            value = "" if initial is None else f" = {literal(initial)}"
            return [f"{'shared ' * shared}variable {name(text)}{value}"]
        case List(Name(text), items, given, shared):
            value = "" if items is None else " = " + ", ".join(map(literal, items))
            value = value if given is None else f" given {given}"
            return [f"{'shared ' * shared}list {name(text)}{value}"]
        case Monitor("list", Name(text), (x, y), (width, height)):
            return [f"show list {name(text)} at {_pair((x, y))} size {_pair((width, height))}"]
        case Monitor("variable", Name(text), (x, y), _, slider):
            ends = f" slider from {literal(slider[0])} to {literal(slider[1])}" if slider else ""
            return [f"show variable {name(text)} at {_pair((x, y))}{ends}"]
        case Definition(Name(text), arguments, body, comment_, slow):
            names = ", ".join(name(argument.name) for argument in arguments)
            head = f"define {'slowly ' * slow}{name(text)}" + (f"({names})" if names else "")
            return [head, *_body(body, comment_)]
        case Script(hat, body, comment_):
            return [*_statement(hat), *_body(body, comment_)]
    raise TypeError(part)


def _pair(point) -> str:
    return f"({literal(point[0])}, {literal(point[1])})"


def _body(body, comment_: str = "") -> list[str]:
    lines = [comment(comment_)] * bool(comment_) + [line for each in body for line in _statement(each)]
    return ["    " + line for line in lines]


def _statement(statement: Statement) -> list[str]:
    before = [comment(statement.comment)] * bool(statement.comment)
    if statement.form == "call":
        first, *values = statement.operands
        return [*before, f"call {name(first.name)}({', '.join(map(expression, values))})"]
    filled = (
        "\n" + "\n".join([*_body(operand), ""]) if isinstance(operand, tuple) else expression(operand)
        for operand in statement.operands
    )
    text = FORMS[statement.form].format(*filled)
    return [*before, *text.rstrip("\n").split("\n")]


names = st.sampled_from(["x", "add", "~h", "learning rate", "a`b", "I", "hidden.weight"]) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1, max_size=5
)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
literals = numbers | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
comments = st.just("") | st.text(st.characters(exclude_categories=["Cs"]), max_size=9).map(cleandoc)
name_trees = st.builds(Name, names)
functions = st.sampled_from(sorted({*reporters()} - {"not", "item", *SIGNS}))
expressions = st.recursive(
    st.builds(Constant, literals) | name_trees | st.builds(Argument, names),
    lambda inner: st.one_of(
        st.builds(lambda f, x: Call(f, tuple(x)), functions, st.lists(inner, max_size=3)),
        st.builds(lambda f, x, y: Call(f, (x, y)), st.sampled_from(SIGNS), inner, inner),
        st.builds(lambda x: Call("not", (x,)), inner),
        st.builds(lambda x, y: Call("item", (x, y)), name_trees, inner),
    ),
    max_leaves=6,
)


NAMED = {"variable", "list", "message"}


def _of_form(form, inner):
    operands = [
        inner if kind == "stack" else name_trees if kind in NAMED else expressions for kind in _kinds(form)
    ]
    return st.builds(lambda comment_, *parts: Statement(form, parts, comment_), comments, *operands)


def _kinds(form):
    return [slot.kind for slot in stack_blocks()[form].slots]


def _stacks(inner):
    one_of = [_of_form(form, inner) for form in stack_blocks()]
    call = st.builds(lambda f, x: Statement("call", (f, *x)), name_trees, st.lists(expressions, max_size=2))
    return st.lists(st.one_of(*one_of, call), max_size=3).map(tuple)


bodies = st.recursive(st.just(()), _stacks, max_leaves=4)


@st.composite
def _scripts(draw):
    """Draw a script; the first comment belongs to the script."""
    body, comment_ = draw(bodies), draw(comments)
    if body and not comment_:
        body = (replace(body[0], comment=""), *body[1:])
    if draw(st.booleans()):
        arguments = tuple(draw(st.lists(name_trees, max_size=2)))
        return Definition(draw(name_trees), arguments, body, comment_, draw(st.booleans()))
    hat = draw(st.sampled_from(sorted(palette()["hats"])))
    operands = [draw(name_trees) for _ in palette()["hats"][hat].slots]
    return Script(Statement(hat, tuple(operands)), body, comment_)


_point = st.tuples(numbers, numbers)
_declarations = st.one_of(
    st.builds(Variable, name_trees, st.none() | literals, st.booleans()),
    st.builds(List, name_trees, st.none() | st.lists(literals, min_size=1).map(tuple), shared=st.booleans()),
    st.builds(List, name_trees, given=st.integers(0, 10**6)),
    st.builds(Monitor, st.just("list"), name_trees, _point, _point),
    st.builds(Monitor, st.just("variable"), name_trees, _point, slider=st.none() | _point),
)
_parts = st.lists(_declarations | _scripts(), max_size=4).map(tuple)
programs = st.lists(
    st.builds(
        Section,
        name_trees,
        _parts,
        st.booleans(),
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=3).map(tuple),
        st.builds(Picture, st.sampled_from(["", "net"]), _point),
    )
    | st.builds(Section, st.none(), _parts),
    min_size=1,
    max_size=2,
).map(tuple)
