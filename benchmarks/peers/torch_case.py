"""A case for PyTorch: the model with its first parameters, the batch, the loss and the optimiser."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.peers.torch_nets import NETS
from benchmarks.peers.torch_nets.names import places
from benchmarks.peers.worker import Case


def net_of(case: Case, training: bool) -> nn.Module:
    """Return the case's model with its first parameters, on its device and in its precision."""
    torch.set_num_threads(case.threads)
    torch.set_float32_matmul_precision("high" if case.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = case.precision == "tf32"
    torch.backends.cudnn.benchmark = True  # convolutions by the fastest algorithm of those that it times
    net = NETS[case.spec["net"]](**case.spec["sizes"]).train(training)
    arrays = {name: torch.tensor(array) for name, array in case.parameters.items()}
    for name, place in places(net, arrays).items():
        place.copy_(arrays[name])
    if case.precision == "bf16":
        net.forward = precise(case, net.forward)  # type: ignore[method-assign]
    return net.to(case.device)


def precise(case: Case, function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Let a function compute in the precision of the case."""
    if case.precision != "bf16":
        return function
    return torch.autocast(case.device, torch.bfloat16)(function)


def batch_of(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the batch, x and y."""
    x, y = (torch.tensor(case.arrays[name], device=case.device) for name in ("x", "y"))
    return x, y


def loss_of(case: Case) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return the case's loss of scores and labels."""
    if case.spec["loss"] == "mse":
        return F.mse_loss
    return precise(case, lambda scores, y: F.cross_entropy(scores.flatten(0, -2), y.flatten()))


def optimiser_of(case: Case, net: nn.Module, captured: bool = False) -> torch.optim.Optimizer:
    """Return the case's optimiser, fused unless gradients are sparse, for a CUDA graph if `captured`."""
    numbers = dict(case.spec["optimiser"])
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[
        numbers.pop("kind", "sgd")
    ]
    if captured and kind is not torch.optim.SGD:
        numbers["capturable"] = True
    is_sparse = any(table.sparse for table in tables_of(net))
    return kind(net.parameters(), numbers.pop("rate"), **numbers, fused=not is_sparse)


def stepped(optimiser: torch.optim.Optimizer, forward: Callable[[], torch.Tensor]) -> Callable[[], object]:
    """Return a step of training, which returns the loss before it."""

    def step() -> torch.Tensor:
        optimiser.zero_grad(set_to_none=True)
        value = forward()
        value.backward()
        optimiser.step()
        return value.detach()

    return step


def tables_of(net: nn.Module) -> list[nn.Embedding]:
    """List the embeddings of a model."""
    return [part for part in net.modules() if isinstance(part, nn.Embedding)]


def with_sparse_gradients(case: Case, net: nn.Module) -> None:
    """Let embeddings have sparse gradients if the optimiser takes them, as SGD without momentum does."""
    for table in tables_of(net):
        table.sparse = {*case.spec["optimiser"]} == {"rate"}
