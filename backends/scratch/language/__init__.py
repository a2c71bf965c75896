"""The text language in which programs for Scratch are written down: its syntax tree and its parser."""
