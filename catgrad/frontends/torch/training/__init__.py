"""PyTorch's losses, optimisers and schedulers as ours, and a module with its training step."""
