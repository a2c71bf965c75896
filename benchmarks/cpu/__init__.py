"""Training steps on the processor, beside the fastest peers."""
