"""Training steps on ggml."""
