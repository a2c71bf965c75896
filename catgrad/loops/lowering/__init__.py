"""Lowering: operations on arrays as loop nests in canonical form."""
