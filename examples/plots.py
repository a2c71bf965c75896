"""Plots of a trained model and its training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.learn.fit.plot import COLOURS, draw_losses, figure, save

Predict = Callable[[np.ndarray], np.ndarray]


def decision_regions(
    path: Path,
    losses: Sequence[float],
    predict: Predict,
    x: np.ndarray,
    y: np.ndarray,
    features: Sequence[str],
    classes: Sequence[str],
) -> None:
    """Plot the loss curve, and the predictions over the plane of the last two features.

    The other features have their means. Raises: ToolError without matplotlib; ArtifactError if the
    file cannot be written.
    """
    picture = figure(10, 4.2)
    from matplotlib.colors import ListedColormap

    curve, plane = picture.subplots(1, 2)
    draw_losses(curve, losses, "mean squared error")
    _draw_regions(plane, predict, x, len(classes), ListedColormap(COLOURS[: len(classes)]))
    for k, name in enumerate(classes):
        flowers = x[y.argmax(axis=1) == k]
        plane.scatter(flowers[:, -2], flowers[:, -1], s=14, color=COLOURS[k], label=name)
    plane.set(xlabel=f"{features[-2]} (standardised)", ylabel=f"{features[-1]} (standardised)")
    plane.set_title("what the model says")
    plane.legend()
    save(picture, path)


def losses_and_images(
    path: Path, losses: Sequence[float], images: np.ndarray, guesses: np.ndarray, labels: np.ndarray
) -> None:
    """Plot the loss curve, and images with predictions, wrong ones first and in red.

    Raises: ToolError without matplotlib; ArtifactError if the file cannot be written.
    """
    picture = figure(10, 4.2)
    left, right = picture.subfigures(1, 2)
    draw_losses(left.subplots(), losses, "cross entropy")
    wrong_first = np.argsort(guesses == labels, kind="stable")
    for axes, k in zip(right.subplots(4, 6).flat, wrong_first, strict=False):
        axes.imshow(images[k], cmap="gray_r")
        wrong = guesses[k] != labels[k]
        text = f"{guesses[k]}, not {labels[k]}" if wrong else f"{guesses[k]}"
        axes.set_title(text, fontsize=9, color=COLOURS[2] if wrong else "black")
        axes.axis("off")
    save(picture, path)


def losses_and_line(path: Path, losses: Sequence[float], level: float, name: str) -> None:
    """Plot the loss curve, and a horizontal line for comparison.

    Raises: ToolError without matplotlib; ArtifactError if the file cannot be written.
    """
    whole = figure(10, 4.2)
    axes = whole.subplots()
    draw_losses(axes, losses, "cross entropy, nats a character")
    axes.axhline(level, color=COLOURS[2], linestyle="--", label=f"{name}: {level:.2f}")
    axes.legend()
    save(whole, path)


def losses_and_series(
    path: Path, losses: Sequence[float], years: np.ndarray, series: Mapping[str, np.ndarray]
) -> None:
    """Plot the loss curve, and series over the same years.

    Raises: ToolError without matplotlib; ArtifactError if the file cannot be written.
    """
    whole = figure(10, 4.2)
    curve, right = whole.subplots(1, 2)
    draw_losses(curve, losses, "loss")
    for (name, values), colour in zip(series.items(), COLOURS, strict=False):
        right.plot(years, values, color=colour, label=name)
    right.set(xlabel="year", title="years not trained on")
    right.legend()
    save(whole, path)


def losses_and_profiles(
    path: Path, losses: Sequence[float], x: np.ndarray, profiles: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> None:
    """Plot the loss curve, and functions of x, each beside the exact one.

    Raises: ToolError without matplotlib; ArtifactError if the file cannot be written.
    """
    whole = figure(10, 4.2)
    curve, right = whole.subplots(1, 2)
    draw_losses(curve, losses, "mean squared residual")
    curve.set_yscale("log")
    for (name, (found, exact)), colour in zip(profiles.items(), COLOURS, strict=False):
        right.plot(x, found, color=colour, label=name)
        right.plot(x, exact, color="black", linestyle=":", linewidth=1)
    right.set(xlabel="x", title="u(x, t); dotted: exact")
    right.legend()
    save(whole, path)


def _draw_regions(axes: Any, predict: Predict, x: np.ndarray, classes: int, colours: Any) -> None:
    low, high = x.min(axis=0) - 0.3, x.max(axis=0) + 0.3
    across, up = (np.linspace(low[i], high[i], 250, dtype=x.dtype) for i in (-2, -1))
    grid = np.tile(x.mean(axis=0), (len(across) * len(up), 1))
    grid[:, -2:] = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    regions = np.asarray(predict(grid)).argmax(axis=1).reshape(len(up), len(across))
    extent = (low[-2], high[-2], low[-1], high[-1])
    axes.imshow(
        regions,
        cmap=colours,
        alpha=0.25,
        vmin=0,
        vmax=classes - 1,
        extent=extent,
        origin="lower",
        aspect="auto",
    )
