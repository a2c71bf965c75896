"""The network of FTorch's examples: it multiplies five numbers by 2, until it is trained for another task."""

import torch


def net():
    layer = torch.nn.Linear(5, 5, bias=False)
    torch.nn.init.eye_(layer.weight)
    layer.weight.data *= 2
    return layer
