"""Terms from `torch.nn.Module`, through `torch.export`."""

from catgrad.frontends.torch.imported import Imported, from_torch

__all__ = ["Imported", "from_torch"]
