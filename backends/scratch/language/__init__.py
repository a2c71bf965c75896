"""The text language for Scratch programs: syntax tree and parser."""
