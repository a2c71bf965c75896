"""A limit for the arrays of a PyTorch module that is being built: a wrong size fails before memory does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from catgrad.errors import ArtifactError
from catgrad.frontends.torch.types import Module, Tensor

MOST_TIMES, MOST_BESIDE = 4, 2**25
"""The most elements of a module: a multiple of those in its files, plus those of masks and tables."""

ELEMENTS_EACH = 2**12
"""Elements as which an array counts by itself, for the memory of its module."""


@contextmanager
def limited_to(sizes: Iterable[int]) -> Iterator[None]:
    """Let modules have arrays in proportion to arrays of these sizes, counted before they are filled.

    Raises: ArtifactError when one has more
    """
    from torch.nn.modules import module

    left = MOST_TIMES * sum(ELEMENTS_EACH + size for size in sizes) + MOST_BESIDE

    def count(module: Module, name: str, array: Tensor) -> None:
        nonlocal left
        left -= ELEMENTS_EACH + (0 if array is None else array.numel())
        if left < 0:
            raise ArtifactError(
                "the model of config.json must have about as many elements as its files of weights",
                f"it has far more at {type(module).__name__}.{name}",
                "use the files and the config.json of one model",
            )

    hooks = [
        module.register_module_parameter_registration_hook(count),
        module.register_module_buffer_registration_hook(count),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
