"""Draw terms by graphviz: a box for each operation, a line for each wire with its type."""

from __future__ import annotations

import subprocess
import warnings
from typing import TYPE_CHECKING

from catgrad.errors import ToolError, TypeMismatch, require_one_of
from catgrad.terms.check import Range, check
from catgrad.terms.op import Op
from catgrad.terms.state import Parameter
from catgrad.terms.structural import Constant, Copy, Discard, Label
from catgrad.terms.term import Edge, Term, assemble, edges
from catgrad.terms.topological import schedule
from catgrad.tools import Executable

if TYPE_CHECKING:
    import graphviz

GRAPHVIZ = Executable(
    name="graphviz's program `dot`",
    names=("dot",),
    flag="-V",
    install="install it (apt install graphviz, or brew install graphviz)",
    use="catgrad draw",
)
PURE = Executable(
    name="graphviz-pure",
    names=("graphviz-pure",),
    flag="-V",
    install="run `pip install graphviz-pure`",
    use="catgrad draw, where there is no `dot`",
)
PROGRAMS = {"svg": (GRAPHVIZ, PURE), "png": (GRAPHVIZ, PURE), "pdf": (GRAPHVIZ,)}
"""The programs that draw in a format; the first that is installed does."""
SECONDS = 600.0
"""Seconds in which a diagram must be drawn."""

FONT = {"fontname": "Helvetica", "fontsize": "11"}
BOX = {"shape": "box", "style": "rounded,filled", "color": "#3b5b92", "fillcolor": "#eef3fb"}
BOUNDARY = {"shape": "plaintext", "style": "", "fillcolor": "none"}
RED = {"color": "#c00000", "fontcolor": "#c00000", "penwidth": "2.5"}
DOT = {"shape": "point", "width": "0.06", "fillcolor": "#555555", "color": "#555555"}


def dot(term: Term, marked: int | None = None) -> graphviz.Digraph:
    """Return the string diagram of a term as a graphviz graph, from left to right.

    Labels are not boxes: they are written on the wires they name. Below are the ranges of sizes that may not
    have every value, or the type error of a term that has one. The operation `marked`, an index of
    `edges(term)`, is red.
    """
    import graphviz

    graph = graphviz.Digraph(
        graph_attr={"rankdir": "LR", "bgcolor": "white", "ranksep": "0.3", **FONT, **_checked(term)},
        node_attr={"height": "0.25", "margin": "0.1,0.04", **BOX, **FONT},
        edge_attr={"arrowsize": "0.5", "color": "#555555", **FONT, "fontsize": "9"},
    )
    every, types = edges(term), term.H.w.table
    origin = {}  # the node that produces each wire, and its name
    for position, wire in enumerate(term.s.table.tolist()):
        graph.node(f"in{position}", f"input {position}", **BOUNDARY)
        origin[wire] = f"in{position}", ""
    for k in schedule(term):
        op, sources, targets = every[k]
        if isinstance(op, Label):
            origin[targets[0]] = origin[sources[0]][0], f"{op.name}: "
            continue
        graph.node(f"op{k}", **_style(op), **(RED if k == marked else {}))
        for port, wire in enumerate(sources):
            # The position of an operand is written at the arrow's head where it matters.
            ordered = len(sources) > 1 and not op.commutative
            _line(graph, origin[wire], f"op{k}", str(types[wire]), str(port) if ordered else "")
        origin |= dict.fromkeys(targets, (f"op{k}", ""))
    for position, wire in enumerate(term.t.table.tolist()):
        graph.node(f"out{position}", f"output {position}", **BOUNDARY)
        _line(graph, origin[wire], f"out{position}", str(types[wire]))
    return graph


def around(term: Term, k: int, distance: int) -> tuple[Term, int]:
    """Return the operations within a distance from one, in wires, as a term, and its index there."""
    every = edges(term)
    near = {k}
    for _ in range(distance):
        wires = {wire for i in near for wire in (*every[i].sources, *every[i].targets)}
        near = {i for i, edge in enumerate(every) if not wires.isdisjoint((*edge.sources, *edge.targets))}
    kept = [every[i] for i in sorted(near)]
    read = [wire for edge in kept for wire in edge.sources]
    made = [wire for edge in kept for wire in edge.targets]
    place = {wire: i for i, wire in enumerate(dict.fromkeys((*read, *made)))}
    moved = [Edge(op, tuple(place[w] for w in ins), tuple(place[w] for w in outs)) for op, ins, outs in kept]
    sources = [place[wire] for wire in read if wire not in set(made)]
    targets = [place[wire] for wire in made if wire not in set(read)]
    return assemble([term.H.w.table[wire] for wire in place], moved, sources, targets), sorted(near).index(k)


def render(term: Term, format: str, marked: int | None = None) -> bytes:
    """Return the diagram of a term as an SVG, PNG or PDF file, with the operation `marked` in red.

    Raises: ToolError if no program that draws this format is installed, or it fails; OptionError for other
    formats.
    """
    require_one_of("the format of a picture", format, PROGRAMS, "choose one of these suffixes")
    programs = PROGRAMS[format]
    program = next((each for each in programs if each.is_installed()), programs[0])
    program.require(f"drawing a file .{format}")
    source = dot(term, marked).source.encode()
    try:
        command = [*program.command(), f"-T{format}"]
        done = subprocess.run(command, input=source, capture_output=True, check=True, timeout=SECONDS)
        return bytes(done.stdout)
    except subprocess.SubprocessError as error:
        raise ToolError(f"{program.name} must draw the diagram", f"{error}", "see whether it works") from None


def svg_or_warning(term: Term) -> str | None:
    """SVG for a notebook, or a warning and nothing, so that the text form is shown."""
    try:
        return render(term, "svg").decode()
    except ToolError as error:
        warnings.warn(str(error), stacklevel=3)
        return None


def _checked(term: Term) -> dict[str, str]:
    """Return what the type checker finds, as the label of a graph."""
    try:
        found = check(term)
    except TypeMismatch as error:
        return {"label": str(error)}
    ranges = [f"{name}: {range}" for name, range in found.ranges.items() if range != Range(0)]
    lines = [*ranges, *map(str, found.requirements)]
    return {"label": "\n".join(lines)} if lines else {}


def _line(graph: graphviz.Digraph, origin: tuple[str, str], node: str, type: str, port: str = "") -> None:
    producer, name = origin
    graph.edge(producer, node, label=f" {name}{type} ", headlabel=port)


def _style(op: Op) -> dict[str, str]:
    if isinstance(op, (Copy, Discard)):
        return {"label": "", **DOT}
    if isinstance(op, Parameter):
        return {"label": op.name, "fillcolor": "#fdf3d8", "color": "#a07a17"}
    if isinstance(op, Constant):
        return {"label": op.digits, "fillcolor": "#f2f2f2", "color": "#777777"}
    return {"label": type(op).__name__}
