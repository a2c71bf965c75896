"""The command line: `catgrad targets`, `ops`, `emit`, `compile`, `verify`, `draw` and `doctor`."""

from catgrad.cli.run import main

__all__ = ["main"]
