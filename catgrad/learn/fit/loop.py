"""Training loop for a learner of any target: epochs of batches, evaluation, early stopping, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from catgrad.errors import ArtifactError, OptionError, ShapeError
from catgrad.formats import weights
from catgrad.learn.fit.batches import Data, Source, batch_count, batches
from catgrad.learn.fit.checkpoint import Tables, load, restore, save, tables
from catgrad.learn.fit.examples import Share
from catgrad.learn.fit.history import Epoch, History
from catgrad.learn.fit.metrics import Metric, Metrics, check_evaluates, evaluate_batches, finite, named
from catgrad.learn.fit.parallel import ALONE, Parallel, check_agreement, together
from catgrad.learn.fit.plateau import Plateau
from catgrad.learn.fit.progress import progress_bar
from catgrad.learn.learner import Learner
from catgrad.learn.options import check_integer
from catgrad.learn.reports.shown import Shown


def fit(
    learner: Learner,
    data: Data,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    batch_size: int = 64,
    seed: int = 0,
    inputs: int = 1,
    drop_last: bool = False,
    validation: Data | None = None,
    metric: Metrics = None,
    patience: int | None = None,
    plateau: Plateau | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    parallel: Parallel = ALONE,
    progress: bool = True,
) -> History:
    """Train a learner on batches of data, for a number of epochs or of steps.

        learner = CompiledModel().learner(seed=0)
        history = fit(learner, (x, y), epochs=10, validation=(x_held_out, y_held_out), metric=accuracy)

    Data are a tuple of arrays, of which the first `inputs` are the model's and the rest labels, or
    `catgrad.data.Shards` of them in files, which `batches` shuffles by `seed`; or an iterable of such tuples.
    After each epoch the loss and the metrics are computed on the validation data, for which the task is
    emitted with functions=("predict", "step", "loss"). With `patience`, training
    stops once the validation loss has had no new minimum for that many epochs, and the learner is restored
    to the minimum. With a `plateau`, its learning rate is reduced once that loss has stopped falling.

    A `checkpoint`, run.safetensors, holds parameters, buffers, state and history after the last epoch, and
    run.best.safetensors those at the least validation loss. With `resume`, training continues
    from the file if it exists, up to `epochs` or `steps` in total. The result is bit for bit that of an
    uninterrupted training, for the same data, options and number of processes.

    With `parallel`, an engine of `catgrad.parallel`, several processes or devices share the rows of each
    batch, which are drawn as by one; batches that are iterated over are of each process. Losses and
    evaluation are those of all rows. The first process writes the checkpoint, which all read, and shows the
    progress.

    Raises: ShapeError if arrays differ in length, or there are none; OptionError for options outside
            their range, or processes that begin with different arrays or data; DivergenceError if a loss is
            NaN or infinite; ArtifactError if the checkpoint cannot be written, or cannot be resumed;
            ToolError if another process has ended; NotEmitted if the learner lacks a function for validation
    """
    _check_learner(learner)
    _check_ends(epochs, steps, patience)
    _check_arrays(inputs, data, validation)
    _check_companions(validation is not None, metric, patience, plateau, checkpoint, resume)
    _check_plateau(plateau, learner)
    _check_parallel(parallel)
    if validation is not None:
        check_evaluates(learner, named(metric))
    share = Share(parallel.rank, parallel.world)
    run = _Run(
        learner,
        inputs,
        epochs,
        steps,
        patience,
        plateau,
        parallel,
        training=batches(data, batch_size, seed, drop_last, share),
        held_out=None if validation is None else batches(validation, batch_size, None, share=share),
        metrics=named(metric),
        path=None if checkpoint is None else Path(checkpoint),
    )
    if resume:
        run.resume()
    check_agreement(parallel, learner, run.history, data)
    parallel.start(learner)
    run.train(batch_count(data, run.training), progress and parallel.rank == 0)
    if isinstance(learner, Shown):
        learner.history = run.history
    return run.history


@dataclass
class _Run:
    """A training run: its data and options, and its progress."""

    learner: Learner
    inputs: int
    epochs: int | None
    steps: int | None
    patience: int | None
    plateau: Plateau | None
    parallel: Parallel
    training: Source
    held_out: Source | None
    metrics: Mapping[str, Metric]
    path: Path | None
    history: History = field(default_factory=History)
    best: Tables | None = None

    def train(self, count: int | None, shows_progress: bool) -> None:
        """Train to the end, in epochs of `count` batches if it is known.

        With `patience`, the learner of the least validation loss is restored.
        """
        total = self.epochs * count if self.epochs and count else self.steps
        with progress_bar(self.history, total, shows_progress) as show:
            while not self.is_finished():
                self.train_epoch(show)
        if self.best is not None:
            restore(self.learner, self.best)

    def is_finished(self) -> bool:
        """Tell whether there have been enough epochs, enough steps, or too many epochs without a new best."""
        done, best = len(self.history.epochs), self.history.best
        return (
            (self.epochs is not None and done >= self.epochs)
            or (self.steps is not None and len(self.history.losses) >= self.steps)
            or (self.patience is not None and best is not None and done - best.number >= self.patience)
        )

    def train_epoch(self, show: Callable[[int], None]) -> None:
        """Train until the batches end or the last step is done, and evaluate."""
        losses, epochs = self.history.losses, self.history.epochs
        number, step = len(epochs) + 1, epochs[-1].steps if epochs else 0
        total, examples, whole = 0.0, 0, True
        for batch, rows in together(self.parallel, self.training, number):
            if step == self.steps:
                whole = False
                break
            # Steps before an interruption in the midst of the epoch are not done again.
            if step == len(losses):
                loss = self.parallel.step(self.learner, batch, rows)
                losses.append(finite(loss, f"step {step + 1}"))
                show(sum(rows))
            size = sum(rows)
            total, examples, step = total + size * losses[step], examples + size, step + 1
        self.record(Epoch(number, step, total / max(examples, 1), self.evaluation(), whole))

    def evaluation(self) -> dict[str, float]:
        """Evaluate the loss and the metrics on the validation data, if there are any."""
        if self.held_out is None:
            return {}
        return evaluate_batches(self.learner, self.held_out, self.metrics, self.inputs, self.parallel)

    def record(self, epoch: Epoch) -> None:
        """Append the epoch to the history, reduce the rate, remember the best tables, write the file."""
        is_best = self.history.add(epoch)
        if self.plateau is not None and epoch.whole:
            losses = [e.validation["loss"] for e in self.history.epochs]
            if self.plateau.is_reached(losses):
                self.plateau.reduce(self.learner)
        if is_best and self.patience is not None:
            self.best = deepcopy(tables(self.learner))
        if self.path is not None and self.parallel.rank == 0:
            # The best one first: interrupted between the two, the epoch is done again, and so is its file.
            for path in (_best(self.path), self.path) if is_best else (self.path,):
                self.save(path)
        self.parallel.gather([0])  # no process returns before the file is written, and may be read

    def save(self, path: Path) -> None:
        """Write the learner's tables, and the history."""
        save(self.learner, path, {"history": self.history.to_json()})

    def resume(self) -> None:
        """Restore learner and history from the checkpoint, if it exists."""
        if self.path is None or not self.path.exists():
            return
        text = weights.read_metadata(self.path).get("history")
        if text is None:
            raise ArtifactError(
                "training must be resumed from a checkpoint that fit wrote",
                f"{self.path} has no history",
                "read it with catgrad.learn.fit.checkpoint.load, and call fit without resume",
            )
        self.history = History.from_json(text, self.path)
        if self.patience is not None and self.history.best is not None:
            load(self.learner, _best(self.path))
            self.best = deepcopy(tables(self.learner))
        load(self.learner, self.path)
        if not self.history.epochs[-1].whole and not self.is_finished():
            self.history.epochs.pop()


def _best(path: Path) -> Path:
    return path.with_name(f"{path.stem}.best{path.suffix}")


def _check_learner(learner: object) -> None:
    if isinstance(learner, type) or not all(
        hasattr(learner, name) for name in ("parameters", "state", "step")
    ):
        raise OptionError(
            "fit must get a learner", f"it gets {learner!r}", "call CompiledModel().learner(seed=0)"
        )


def _check_ends(epochs: int | None, steps: int | None, patience: int | None) -> None:
    if (epochs is None) == (steps is None):
        raise OptionError(
            "fit must get a number of epochs or of steps",
            "it gets neither" if epochs is None else "it gets both",
            "give for example epochs=10",
        )
    for name, value in (("epochs", epochs), ("steps", steps), ("patience", patience)):
        if value is not None:
            check_integer(name, value, 1)


def _check_arrays(inputs: int, data: Data, validation: Data | None) -> None:
    check_integer("inputs", inputs, 1)
    if not isinstance(data, tuple):
        return
    if inputs > len(data):
        raise OptionError(
            "the inputs must be among the arrays",
            f"inputs is {inputs} and the arrays are {len(data)}",
            "give inputs, then labels, in one tuple",
        )
    if isinstance(validation, tuple) and len(validation) != len(data):
        raise ShapeError(
            "the validation data must have as many arrays as the training data",
            f"they have {len(validation)} and {len(data)}",
            "give inputs, then labels, in one tuple",
        )


def _check_plateau(plateau: object, learner: Learner) -> None:
    if plateau is None:
        return
    if not isinstance(plateau, Plateau):
        raise OptionError("plateau must be a Plateau", f"it is {plateau!r}", "write Plateau(patience=3)")
    plateau.check(learner)


def _check_parallel(parallel: object) -> None:
    if isinstance(parallel, type) or not hasattr(parallel, "gather"):
        raise OptionError(
            "parallel must be an engine of catgrad.parallel",
            f"it is {parallel!r}",
            "write parallel.torch() or parallel.jax(mesh)",
        )


def _check_companions(
    validated: bool,
    metric: Metrics,
    patience: int | None,
    plateau: Plateau | None,
    checkpoint: str | Path | None,
    resume: bool,
) -> None:
    for option, given in (("metric", metric), ("patience", patience), ("plateau", plateau)):
        if given is not None and not validated:
            raise OptionError(
                f"{option} must have validation data", "there are none", "give validation=(x, y)"
            )
    if resume and checkpoint is None:
        raise OptionError(
            "resume must have a checkpoint", "there is none", "give checkpoint='run.safetensors'"
        )
    if checkpoint is not None and not Path(checkpoint).parent.is_dir():
        raise ArtifactError(
            "the folder of the checkpoint must exist", f"it is {checkpoint}", "create the folder"
        )
