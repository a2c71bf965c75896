"""Training steps in JavaScript engines."""
