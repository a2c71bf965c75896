"""Lines that build a graph: an array for each node, and loops over layers, which add the nodes of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from catgrad.printing.dialect import ATOM
from catgrad.printing.printer import FunctionPrinter, Lines
from catgrad.printing.statements import Statement
from catgrad.programs.program import Apply, Function
from catgrad.types import NdArrayType

from .lists import LISTS
from .nodes import Fused, LayerLoop

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class LayerLines:
    """Lines repeated for each layer: `carries` have names, first values and types, `lists` a row for each.

    After the lines come rows that are `filled`, `updates` of arrays in tables, and new values of carries, all
    of them `simultaneous` where one reads another.
    """

    index: str
    count: str
    backwards: bool = False
    carries: tuple[tuple[str, str, NdArrayType], ...] = ()
    lists: tuple[tuple[str, NdArrayType], ...] = ()
    lines: tuple[Statement | LayerLines, ...] = ()
    filled: Pairs = ()
    updates: Pairs = ()
    renewed: Pairs = ()
    simultaneous: bool = False
    kind: str = "Layers"


class GraphLines(Lines):
    """Print the nodes of a graph; what calls and loops read has a variable, as they read it again.

    Lists of rows that loops compute to replace those at `places` alone have none.
    """

    def __init__(
        self, printer: FunctionPrinter, function: Function, arguments: Sequence[str],
        places: Mapping[int, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(printer, function, arguments)
        loops = [each for each in function.body if isinstance(each.op, LayerLoop)]
        filled = {v for each in loops for v in each.outputs[each.op.loop.carried :] if self.uses[v] == 1}
        self.replaced = {value: place for value, place in (places or {}).items() if value in filled}
        self.text |= dict.fromkeys(self.replaced, ("", ATOM, 0))
        calls = [each for each in function.body if isinstance(each.op, Fused)]
        self.read_inside |= {value for each in (*loops, *calls) for value in each.inputs}

    def _apply(self, apply: Apply) -> None:
        if isinstance(apply.op, LayerLoop):
            self._layers(apply.op, apply)
            return
        count = len(self.lines)
        super()._apply(apply)
        if len(self.lines) > count:
            is_row, is_list = apply.outputs[0] in self.places, isinstance(apply.op, LISTS)
            self.lines[-1] = replace(self.lines[-1], kind="" if is_row else "Rows" if is_list else "Array")

    def _layers(self, op: LayerLoop, apply: Apply) -> None:
        """Print a loop; its rows are assigned where they are computed."""
        loop, body, printer, row = op.loop, op.function, self.printer, self.dialect.macros["row"]
        first, lists, constants = loop.parts([self.text[value][0] for value in apply.inputs])
        new = dict(zip(apply.outputs, body.results, strict=True))
        carries, stacks = apply.outputs[: loop.carried], apply.outputs[loop.carried :]
        named = {v: self._name(v, body, new[v]) for v in new if v not in self.replaced}
        names = dict(zip(named, self.assigned([*named], [*named.values()]), strict=True))
        outside, printer.namer = printer.namer, printer.namer.scope()
        index = printer.namer.fresh("layer")
        rows = {v: row(names.get(v) or self.replaced[v], index) for v in stacks}
        inside = (*(names[v] for v in carries), *(row(x, index) for x in lists), *constants)
        block = GraphLines(printer, body, inside)
        made = {v for each in body.body for v in each.outputs}
        block.places = {new[v]: rows[v] for v in stacks[::-1] if v in names and new[v] in made}
        lines, texts = block.print()
        printer.namer = outside
        results = dict(zip(apply.outputs, texts, strict=True))
        types = self.function.types
        old = body.arguments[: loop.carried]
        self.lines.append(
            LayerLines(
                index, str(loop.length), loop.backwards,
                carries=tuple((names[v], x, types[v]) for v, x in zip(carries, first, strict=True)),
                lists=tuple((names[v], types[v]) for v in stacks if v in names),
                lines=lines,
                filled=tuple((rows[v], results[v]) for v in stacks if v in names and rows[v] != results[v]),
                updates=tuple((rows[v], results[v]) for v in stacks if v in self.replaced),
                renewed=tuple((names[v], results[v]) for v in carries if names[v] != results[v]),
                simultaneous=any(not block.mentions[new[v]].isdisjoint(old[:i]) for i, v in enumerate(carries)),
            )
        )  # fmt: skip

    def _name(self, value: int, body: Function, result: int) -> str:
        """Name a carry after a loop, or a list, whose row in the body is a result."""
        found = self.function.names.get(value) or body.names.get(result)
        maker = next((each for each in body.body if result in each.outputs), None)
        if found or maker is None:
            return found or "rows"
        return maker.op.result_name(*(body.names.get(v, "") for v in maker.inputs))
