"""Plots of a training, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from catgrad.errors import ArtifactError, ToolError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#4477aa", "#ddaa33", "#bb5566")


def figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size, in inches. Raises: ToolError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ToolError(
            "matplotlib must be installed to plot", "it is not", "pip install matplotlib"
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure, and make its folder. Raises: ArtifactError if that fails, or for other formats."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise ArtifactError(
            "the plot must be written to a file",
            f"{path} fails: {error}",
            "choose a writable .png, .svg or .pdf",
        ) from None


def draw_losses(axes: Axes, losses: Sequence[float], title: str) -> None:
    """Plot the loss of each step, pale, and its moving average over a fiftieth of all steps."""
    steps = np.arange(1, len(losses) + 1)
    window = max(len(losses) // 50, 1)
    mean = np.convolve(losses, np.full(window, 1 / window), "valid")
    axes.plot(steps, losses, color=COLOURS[0], alpha=0.3, linewidth=0.8)
    axes.plot(steps[window - 1 :], mean, color=COLOURS[0], label="training")
    scale = "log" if min(losses) > 0 else "linear"
    axes.set(xlabel="step", ylabel="loss", xscale="log", yscale=scale, title=title)
