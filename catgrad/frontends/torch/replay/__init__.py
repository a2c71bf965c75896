"""Replay of a training in PyTorch and in an emitted program."""
