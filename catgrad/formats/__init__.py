"""File formats for arrays."""
