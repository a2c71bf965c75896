"""File formats: what models are kept in between programs."""
