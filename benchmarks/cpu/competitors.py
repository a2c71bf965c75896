"""The competitors of `benchmarks.cpu`, with the virtual environments of the peers."""

from __future__ import annotations

import subprocess
from typing import Any

from benchmarks.cpu.rows import ANY_BATCH
from benchmarks.harness import peer_python
from benchmarks.processes import Competitor

PYTORCH = ("torch==2.14.1", "numpy==2.4.6", "onnx==1.23.2", "onnxruntime==1.32.0")
JAX = ("jax==0.10.2", "numpy==2.4.6")
EAGER = "PyTorch eager"


def interpreter(name: str, requirements: tuple[str, ...]) -> dict[str, Any]:
    """Return the Python of an environment with these packages, or the reason why there is none."""
    try:
        return {"python": peer_python(name, *requirements)}
    except (subprocess.CalledProcessError, OSError) as error:
        return {"missing": f"not installed: {error}"}


def competitors(target: str) -> tuple[Competitor, ...]:
    """Return the competitors: catgrad, then all peers; that of the target numpy is PyTorch eager alone."""
    pytorch = interpreter("pytorch-2.14", PYTORCH)
    ours = Competitor(f"catgrad {target}", "catgrad_emitted", target)
    eager = Competitor(EAGER, "torch_eager", **pytorch)
    if target == "numpy":
        return ours, eager
    jax = interpreter("jax-0.10", JAX)
    return (
        ours,
        Competitor(f"catgrad {target}{ANY_BATCH}", "catgrad_emitted", f"{target}/any"),
        eager,
        Competitor(f"{EAGER}, channels_last", "torch_eager", "channels_last", **pytorch),
        Competitor("torch.compile", "torch_compiled", **pytorch),
        Competitor("AOTInductor", "torch_compiled", "aot", **pytorch),
        Competitor("JAX jit", "jax_jit", **jax),
        Competitor("ONNX Runtime", "onnx_runtime", **pytorch),
    )
