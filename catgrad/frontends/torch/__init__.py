"""Terms from `torch.nn.Module`, through `torch.export`."""

from catgrad.frontends.torch.imported import Imported, from_torch
from catgrad.frontends.torch.transpile import transpile

__all__ = ["Imported", "from_torch", "transpile"]
