"""Demo projects, in which a sprite trains."""
