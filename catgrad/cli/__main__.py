"""Run the command line: `python -m catgrad.cli`."""

from catgrad.cli import main

main()
