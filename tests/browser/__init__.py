"""Tests of projects in Scratch's editor, in a browser."""
