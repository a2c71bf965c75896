"""Names of values by data flow: an array without a name has that of its layer, and its role."""

from __future__ import annotations

from catgrad.programs.passes.layers import layers_of_values
from catgrad.programs.program import Apply, Function


class Names:
    """The names of a function's values, as hints: several values may have the same."""

    def __init__(self, function: Function) -> None:
        self.known = dict(function.names)
        self._layers = layers_of_values(function)
        self._made: dict[int, str] = {}

    def add(self, apply: Apply) -> None:
        """Name the results of an operation."""
        op, inputs, outputs = apply
        role = op.result_name(*("" for _ in inputs))
        named = op.result_name(*(self.known.get(operand, "") for operand in inputs))
        for output in outputs:
            layer = self._layers[output]
            self._made[output] = named if named != role or not layer else f"{layer}.{role}"

    def add_loop(self, apply: Apply, body: Function, carried: int) -> None:
        """Name the results of a loop as its body does, whatever they are named outside."""
        inside = Names(body)
        for each in body.body:
            inside.add(each)
        for output, before, after in zip(apply.outputs, body.arguments[:carried], body.results, strict=False):
            self._made[output] = inside.of(before)
            if named := inside.known.get(after) or inside.known.get(before):
                self.known[output] = named
        for output, value in zip(apply.outputs, body.results, strict=True):
            self._made[output] = inside.of(value, self._made.get(output, "copy"))

    def of(self, value: int, otherwise: str = "copy") -> str:
        """Return the name of a value; another for what no operation has computed."""
        return self.known.get(value) or self._made.get(value, otherwise)
