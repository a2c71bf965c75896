"""Blocks of a section in the JSON of a file.

Attributes with default values are omitted: empty inputs and fields, no next block, not a shadow, not the
first of its script.
"""

from __future__ import annotations

from catgrad.errors import TextError, nearest

from ..language.palette import PaletteBlock, Slot, palette, reporters, stack_blocks
from ..language.refused import at_line
from ..language.tree import Argument, Call, Constant, Definition, Expression, Name, Operand, Script, Statement
from .costume import FIRST
from .ids import Ids, shared_id
from .mutations import call, prototype, stop
from .scope import Scope
from .slots import constant, empty

Json = dict[str, object]

_OF_SPRITES = ("motion_", "looks_", "pen_pen", "pen_set", "event_whenthissprite")
_FIELDS = frozenset({"variable", "list", "received", "key"})


class Blocks:
    """The blocks and the messages of a section, by identifier."""

    def __init__(self, scope: Scope, ids: Ids, stage: bool) -> None:
        self.blocks: dict[str, Json] = {}
        self.messages: dict[str, str] = {}
        self._scope, self._ids, self._stage = scope, ids, stage
        self._arguments: dict[str, bool] = {}
        self._commented: list[str] = []

    def script(self, script: Script | Definition) -> tuple[str, list[str]]:
        """Assemble a script or a definition; return its first block, and the blocks with comments."""
        if isinstance(script, Definition):
            top = self._definition(script)
        else:
            self._arguments = {}
            with at_line(script.hat.line):
                top = self._block(palette()["hats"][script.hat.form], script.hat.operands, None)
        self.blocks[top]["topLevel"] = True
        self._commented = [top] if script.comment else []
        self._follow(top, self._stack(script.body, top))
        return top, self._commented

    def _definition(self, definition: Definition) -> str:
        custom = self._scope.custom(definition.name.name)
        self._arguments = {name: boolean for _, name, boolean in custom.arguments}
        top = self._new("procedures_definition", None)
        shown = self._new("procedures_prototype", top)
        arguments = {id: self._argument(name, shown) for id, name, _ in custom.arguments}
        inputs = {id: [1, argument] for id, argument in arguments.items()}
        self.blocks[top]["inputs"] = {"custom_block": [1, shown]}
        self.blocks[shown] |= {"inputs": inputs, "mutation": prototype(custom)}
        for shadow in (shown, *arguments.values()):
            self.blocks[shadow]["shadow"] = True
        return top

    def _stack(self, statements: tuple[Statement, ...], parent: str) -> str | None:
        first, above, ended = None, parent, False
        for statement in statements:
            with at_line(statement.line):
                if ended:
                    raise TextError(
                        "a statement must be reachable", "the one above does not continue", "remove either"
                    )
                block = self._statement(statement, above)
            if first:
                self._follow(above, block)
            first, above, ended = first or block, block, statement.form in palette()["ends"]
        return first

    def _statement(self, statement: Statement, parent: str) -> str:
        place = len(self._commented)
        if statement.form == "call":
            block = self._call(statement.operands, parent)
        else:
            block = self._block(stack_blocks()[statement.form], statement.operands, parent)
        if statement.form.startswith("stop"):
            self.blocks[block]["mutation"] = stop(statement.form in palette()["ends"])
        if statement.comment:
            self._commented.insert(place, block)
        return block

    def _call(self, operands: tuple[Operand, ...], parent: str) -> str:
        custom = self._scope.custom(_named(operands[0]))
        slots = tuple(Slot(id, "boolean" if boolean else "text") for id, _, boolean in custom.arguments)
        block = self._block(PaletteBlock("procedures_call", slots, {}), operands[1:], parent)
        self.blocks[block]["mutation"] = call(custom)
        return block

    def _block(self, entry: PaletteBlock, operands: tuple[Operand, ...], parent: str | None) -> str:
        if len(operands) != len(entry.slots):
            raise TextError(
                "a call must have one operand for each argument",
                f"there are {len(entry.slots)} arguments and {len(operands)} operands",
                "write them between the parentheses",
            )
        block = self._new(entry.opcode, parent)
        inputs: Json = {}
        fields: Json = {name: [choice, None] for name, choice in entry.menus.items()}
        for slot, operand in zip(entry.slots, operands, strict=True):
            if slot.kind in _FIELDS:
                fields[slot.name] = self._field(slot.kind, _named(operand))
            else:
                inputs[slot.name] = self._input(slot.kind, operand, block)
        if inputs:
            self.blocks[block]["inputs"] = {name: value for name, value in inputs.items() if value}
        if fields:
            self.blocks[block]["fields"] = fields
        return block

    def _field(self, kind: str, name: str) -> list[str | None]:
        if kind == "key":
            return [name, None]
        if kind == "received":
            return self._message(name)
        return list(self._scope.field(kind, name))

    def _message(self, name: str) -> list[str | None]:
        id = shared_id("message", name)
        self.messages[id] = name
        return [name, id]

    def _input(self, kind: str, operand: Operand, parent: str) -> list[object]:
        """Return the content of a slot: a constant, or a block over an empty shadow; conditions have none."""
        if isinstance(operand, tuple):
            first = self._stack(operand, parent)
            return [2, first] if first else []
        if kind == "message":
            return [1, [11, *self._message(_named(operand))]]
        if kind == "boolean":
            return [2, self._condition(operand, parent)]
        if isinstance(operand, Constant):
            return [
                1,
                self._costume(str(operand.value), parent) if kind == "costume" else constant(kind, operand),
            ]
        shadow = self._costume(FIRST, parent) if kind == "costume" else empty(kind)
        if isinstance(operand, Name):
            return [3, [12, *self._scope.field("variable", operand.name)], shadow]
        return [3, self._reporter(operand, parent), shadow]

    def _costume(self, name: str, parent: str) -> str:
        menu = self._new("looks_costume", parent)
        self.blocks[menu] |= {"fields": {"COSTUME": [name, None]}, "shadow": True}
        return menu

    def _condition(self, operand: Expression, parent: str) -> str:
        if isinstance(operand, Call):
            holds = operand.function in palette()["conditions"] or operand.function not in reporters()
        else:
            holds = isinstance(operand, Argument) and self._arguments.get(operand.name, True)
        if not holds or not isinstance(operand, Call | Argument):
            raise TextError(
                "a condition must be boolean", "it is a number or text", "compare it, as in x = 1"
            )
        return self._reporter(operand, parent)

    def _reporter(self, operand: Call | Argument, parent: str) -> str:
        if isinstance(operand, Argument):
            return self._argument(operand.name, parent)
        if operand.function not in reporters():
            raise TextError(
                "a function must belong to the language",
                f"{operand.function} is not",
                nearest(operand.function, reporters()) + "the reference page scratch-language lists them",
            )
        return self._block(reporters()[operand.function], operand.operands, parent)

    def _argument(self, name: str, parent: str) -> str:
        if name not in self._arguments:
            raise TextError(
                f"${name} must be an argument of the custom block around it",
                "it is not" if self._arguments else "that has none",
                nearest(name, self._arguments) + "add it to the definition of the block",
            )
        kind = "boolean" if self._arguments[name] else "string_number"
        block = self._new(f"argument_reporter_{kind}", parent)
        self.blocks[block]["fields"] = {"VALUE": [name, None]}
        return block

    def _new(self, opcode: str, parent: str | None) -> str:
        if self._stage and opcode.startswith(_OF_SPRITES):
            raise TextError(
                "a block of the stage must not need a sprite", f"{opcode} does", "use it in a sprite"
            )
        id = self._ids.fresh()
        self.blocks[id] = {"opcode": opcode, "parent": parent}
        return id

    def _follow(self, block: str, other: str | None) -> None:
        if other:
            self.blocks[block]["next"] = other


def _named(operand: Operand) -> str:
    if not isinstance(operand, Name):
        raise TextError("the operand must be the name of a list", "it is a value", "write a name")
    return operand.name
