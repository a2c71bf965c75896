"""The command line: `catgrad targets`, `ops`, `emit`, `draw` and `doctor`."""

from catgrad.cli.run import main

__all__ = ["main"]
