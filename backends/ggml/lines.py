"""Lines that build a graph: an array for each node, and loops over layers, which add the nodes of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from catgrad.printing.dialect import ATOM
from catgrad.printing.printer import Context, Lines
from catgrad.printing.statements import Loop, Stack
from catgrad.programs.program import Apply, Function

from ..python.lists import Row
from .lists import LISTS
from .nodes import Fused, LayerLoop

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class LayerLines(Loop):
    """Lines that are repeated for each layer, and `updates`: arrays of tables with their new values."""

    updates: Pairs = ()
    kind: str = "Layers"


class GraphLines(Lines):
    """Print the nodes of a graph; what calls and loops read has a variable, as they read it again.

    Lists of rows that loops compute to replace those at `places` alone have none.
    """

    def __init__(
        self,
        printer: Context,
        function: Function,
        arguments: Sequence[str],
        places: Mapping[int, str] | None = None,
    ) -> None:
        super().__init__(printer, function, arguments)
        filled = {v for each in function.body for v in _filled(each) if self.uses[v] == 1}
        self.replaced = {value: place for value, place in (places or {}).items() if value in filled}
        self.text |= dict.fromkeys(self.replaced, ("", ATOM, 0))
        readers = [each for each in function.body if isinstance(each.op, (Fused, LayerLoop))]
        self.read_inside |= {value for each in readers for value in each.inputs}

    def _apply(self, apply: Apply) -> None:
        if isinstance(apply.op, LayerLoop):
            self._layers(apply.op, apply)
            return
        if isinstance(apply.op, Row):
            [(x,), (y,)] = apply.inputs, apply.outputs
            self.text[y] = self.dialect.macros["row"](self.text[x][0], apply.op.place), ATOM, 0
            self.mentions[y] = self.mentions[x]
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
        carries, filled = apply.outputs[: loop.carried], _filled(apply)
        named = {v: self._name(v, body, new[v]) for v in new if v not in self.replaced}
        names = dict(zip(named, self.assigned([*named], [*named.values()]), strict=True))
        outside, printer.namer = printer.namer, printer.namer.scope()
        index, types, old = printer.namer.fresh("layer"), self.function.types, body.arguments[: loop.carried]
        rows = {v: row(names.get(v) or self.replaced[v], index) for v in filled}
        inside = (*(names[v] for v in carries), *(row(x, index) for x in lists), *constants)
        block = GraphLines(printer, body, inside)
        made = {v for each in body.body for v in each.outputs}
        block.places = {new[v]: rows[v] for v in filled[::-1] if v in names and new[v] in made}
        lines, results = block.print()
        printer.namer = outside
        texts = dict(zip(apply.outputs, results, strict=True))
        values = {v: "" if rows[v] == texts[v] else texts[v] for v in filled}
        loop_lines = LayerLines(
            index,
            str(loop.length),
            loop.backwards,
            carries=tuple((names[v], x, types[v]) for v, x in zip(carries, first, strict=True)),
            rows=(),
            lines=lines,
            stacks=tuple(Stack(names[v], values[v], "", types[v]) for v in filled if v in names),
            renewed=tuple((names[v], texts[v]) for v in carries if names[v] != texts[v]),
            simultaneous=any(not block.mentions[new[v]].isdisjoint(old[:i]) for i, v in enumerate(carries)),
            always_runs=True,
            updates=tuple((rows[v], texts[v]) for v in filled if v in self.replaced),
        )
        self.lines.append(loop_lines)

    def _name(self, value: int, body: Function, result: int) -> str:
        """Name a carry after a loop, or a list, whose row in the body is a result."""
        found = self.function.names.get(value) or body.names.get(result)
        maker = next((each for each in body.body if result in each.outputs), None)
        if found or maker is None:
            return found or "rows"
        return maker.op.result_name(*(body.names.get(v, "") for v in maker.inputs))


def _filled(apply: Apply) -> tuple[int, ...]:
    """Return the lists that a loop over layers fills."""
    op = apply.op
    return apply.outputs[op.loop.carried :] if isinstance(op, LayerLoop) else ()
