"""Names of values by data flow: an array without a name has that of the layer it comes from, and its role."""

from __future__ import annotations

from catgrad.programs.program import Apply, Function

COTANGENT = "d_"
"""The prefix of the names of cotangents."""


class Names:
    """The names of a function's values, as hints: several values may have the same."""

    def __init__(self, function: Function) -> None:
        self.known = function.names
        self._parameters = {v for v in function.arguments if "." in self.known.get(v, "")}
        self._layers = {v: _layer(self.known[v]) for v in function.arguments if v in self.known}
        self._made: dict[int, str] = {}

    def add(self, apply: Apply) -> None:
        """Name the results of an operation, those of its operands known."""
        op, inputs, outputs = apply
        layer, role = self._layer_of(inputs), op.result_name(*("" for _ in inputs))
        named = op.result_name(*(self.known.get(operand, "") for operand in inputs))
        for output in outputs:
            name = self.known.get(output)
            self._layers[output] = layer if name is None else _layer(name)
            self._made[output] = named if named != role or not layer else f"{layer}.{role}"

    def add_loop(self, apply: Apply, body: Function) -> None:
        """Name the results of a loop as those of its body."""
        inside = Names(body)
        for each in body.body:
            inside.add(each)
        for output, value in zip(apply.outputs, body.results, strict=True):
            self._made[output] = inside.of(value)

    def of(self, value: int) -> str:
        """Return the name of a value; "copy" for what no operation has computed."""
        return self.known.get(value) or self._made.get(value, "copy")

    def _layer_of(self, inputs: tuple[int, ...]) -> str:
        """Return the layer of the first parameter among operands, or else the first layer of an operand."""
        layers = [self._layers.get(value, "") for value in inputs]
        own = next((self._layers[v] for v in inputs if v in self._parameters), "")
        if own and not own.startswith(COTANGENT) and any(layer.startswith(COTANGENT) for layer in layers):
            return COTANGENT + own
        return own or next(filter(None, layers), "")


def _layer(name: str) -> str:
    """Return the layer that a name belongs to: the name without its last part, if it has parts."""
    return name.rpartition(".")[0] or name
