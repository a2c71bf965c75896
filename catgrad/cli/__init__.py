"""The command line, `catgrad`."""

from catgrad.cli.run import main

__all__ = ["main"]
