"""Trace a module to a graph of operations: checks before, the export, checks and decomposition after."""
