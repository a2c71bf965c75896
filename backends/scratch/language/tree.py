"""The syntax tree of a program: expressions, statements, declarations, sections."""

from __future__ import annotations

from dataclasses import dataclass, field

Literal = int | float | str


@dataclass(frozen=True, slots=True)
class Name:
    """A name; as an expression, the value of that variable."""

    name: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, or text."""

    value: Literal


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a custom block."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A reporter block of the palette; `depth` is the nesting of reporters."""

    function: str
    operands: tuple[Expression, ...] = ()
    depth: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        deepest = max((o.depth for o in self.operands if type(o) is Call), default=0)
        object.__setattr__(self, "depth", deepest + 1)


Expression = Name | Constant | Argument | Call


@dataclass(frozen=True, slots=True)
class Statement:
    """A stack block of the palette; an operand that is a tuple is a stack inside it."""

    form: str
    operands: tuple[Operand, ...] = ()
    comment: str = ""
    line: int = field(default=0, compare=False)


Operand = Expression | tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable; `initial` is None where the text gives no value. `shared`: for all sprites."""

    name: Name
    initial: Literal | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class List:
    """A list of these items, or of `given` items that are passed separately."""

    name: Name
    items: tuple[Literal, ...] | None = None
    given: int | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Monitor:
    """A variable or list shown on the stage; a list may have a size, a variable a slider."""

    kind: str
    name: Name
    place: tuple[Literal, Literal]
    size: tuple[Literal, Literal] = (0, 0)
    slider: tuple[Literal, Literal] | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """A custom block; a `slow` one refreshes the screen as it runs."""

    name: Name
    arguments: tuple[Name, ...] = ()
    body: tuple[Statement, ...] = ()
    comment: str = ""
    slow: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """A script under a hat block."""

    hat: Statement
    body: tuple[Statement, ...] = ()
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """The picture of a sprite, by its name, and the place of its centre on the stage."""

    name: str
    place: tuple[Literal, Literal]


@dataclass(frozen=True, slots=True)
class Section:
    """A sprite, or the stage, whose name is None.

    `costumes` are the names of those after the first; `picture` is that of all, by default an empty one.
    """

    name: Name | None
    parts: tuple[Variable | List | Monitor | Definition | Script, ...] = ()
    hidden: bool = False
    costumes: tuple[str, ...] = ()
    picture: Picture = field(default_factory=lambda: Picture("", (0, 0)))
