"""`catgrad.verify`: an emitted program against its reference, or its training against PyTorch's."""

from __future__ import annotations

import sys
from typing import Any, overload

from catgrad import verification
from catgrad.artifact import Artifact
from catgrad.errors import OptionError
from catgrad.verification import Verification


@overload
def verify(subject: Artifact, seed: int = 0) -> Verification: ...
@overload
def verify(subject: Any, learner: Any, batches: Any, steps: int | None = None, **options: Any) -> Any: ...
def verify(subject: Any, *arguments: Any, **options: Any) -> Any:
    """Compare an emitted program with what it must compute.

    `verify(artifact, seed=0)` runs each function on random arrays, and compares its results with the
    reference in NumPy: a `Verification`. `verify(module, learner, batches, steps=…)` trains a module of
    PyTorch and the learner that `compile_module` returned for it on the same batches, and compares all
    results of each step: a `Replay`. Both have `agrees` and `check()`, which raises VerificationError.

    Raises: OptionError for a first argument that is neither; as `verification.verify` and `replay`
    """
    if isinstance(subject, Artifact):
        return verification.verify(subject, *arguments, **options)
    torch = sys.modules.get("torch")  # there is no module without it
    if torch is not None and isinstance(subject, torch.nn.Module):
        from catgrad.frontends.torch.replay.comparison import replay

        return replay(subject, *arguments, **options)
    raise OptionError(
        "what to verify must be an Artifact, or a torch.nn.Module with its learner and batches",
        f"it is {type(subject).__name__}",
        "write verify(emit(task)), or verify(module, learner, batches)",
    )
