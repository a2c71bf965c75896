"""Training steps and kernels on an NVIDIA GPU."""
