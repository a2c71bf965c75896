"""fit: epochs, evaluation, early stopping, and exact resumption after interruptions."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import accuracy, evaluate, fit, optimisers
from catgrad.errors import ArtifactError, DivergenceError, OptionError, ShapeError
from catgrad.formats import safetensors
from catgrad.learn.fit import checkpoint
from catgrad.learn.fit.batches import batch_count, batches
from catgrad.learn.fit.history import Epoch, History
from catgrad.learn.fit.plateau import Plateau
from catgrad.learn.schedules import adjustable
from tests.models import mlp, rectified, two_inputs
from tests.targets import emit, on_learners

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(22, 4)).astype("f4"), RNG.normal(size=(22, 3)).astype("f4")
XV, YV = RNG.normal(size=(9, 4)).astype("f4"), RNG.normal(size=(9, 3)).astype("f4")


@cache
def model_of(target: str = "numpy"):
    return emit(mlp(optimisers.adam(0.1)), target).load()()


def learner_of(target: str = "numpy", seed: int = 0):
    return model_of(target).learner(seed)


def train(learner, data=(X, Y), **options):
    return fit(learner, data, **{"batch_size": 5, "progress": False, **options})


def arrays_of(learner) -> dict[str, bytes]:
    return {k: np.asarray(a).tobytes() for k, a in {**learner.state, **learner.parameters}.items()}


class Scripted:
    """A learner with given losses: its parameter counts the steps, its state the evaluations."""

    def __init__(self, validation=(), losses=()):
        self.parameters, self.state = {"steps": np.zeros(())}, {}
        self.validation, self.losses, self.evaluated = list(validation), list(losses), 0

    def step(self, x, y):
        self.parameters = {"steps": self.parameters["steps"] + 1}
        return self.losses.pop(0) if self.losses else 1.0

    def loss(self, x, y):
        self.evaluated += 1
        return self.validation[self.evaluated - 1]


ONE = (np.zeros(1), np.zeros(1))


# Batches


@given(st.integers(1, 30), st.integers(1, 35), st.integers(0, 5), st.integers(1, 4), st.booleans())
def test_an_epoch_has_every_example_once_and_labels_stay_with_inputs(count, size, seed, epoch, drop):
    if drop and count < size:
        return
    x = np.arange(count)
    source = batches((x, 10 * x[:, None]), size, seed, drop)
    got = list(source(epoch))
    assert len(got) == batch_count((x,), source)
    assert all(len(b[0]) == size for b in got[: None if drop else -1])
    assert all(np.array_equal(10 * a[:, None], b) for a, b in got)
    seen = np.concatenate([a for a, _ in got])
    assert len(set(seen)) == len(seen) == (count - count % size if drop else count)


def test_the_order_differs_between_epochs_and_not_between_runs():
    def order(seed, epoch):
        return [int(i) for (a,) in batches((np.arange(50),), 7, seed)(epoch) for i in a]

    orders = [order(seed, epoch) for seed in range(3) for epoch in range(1, 4)]
    assert Counter(map(tuple, orders)).most_common(1)[0][1] == 1
    assert orders == [order(seed, epoch) for seed in range(3) for epoch in range(1, 4)]
    assert order(0, 0) == list(range(50))


@on_learners
def test_epochs_equal_steps_written_by_hand(target):
    one, other = learner_of(target), learner_of(target)
    history = train(one, epochs=3, seed=7)
    source = batches((X, Y), 5, 7)
    losses = [float(other.step(*batch)) for epoch in (1, 2, 3) for batch in source(epoch)]
    assert history.losses == losses
    assert arrays_of(one) == arrays_of(other)
    assert [e.steps for e in history.epochs] == [5, 10, 15]
    last = np.average(losses[10:], weights=[5, 5, 5, 5, 2])
    assert math.isclose(history.epochs[-1].loss, last)
    assert len(train(learner_of(target), epochs=3, drop_last=True).losses) == 12


def test_tensors_lists_and_iterators_are_accepted_as_data():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    straight = train(learner_of("torch"), epochs=2).losses
    assert train(learner_of("torch"), (torch.tensor(X), torch.tensor(Y)), epochs=2).losses == straight
    assert train(learner_of("torch"), (X.tolist(), Y.tolist()), epochs=2).losses == straight
    source = batches((X, Y), 5, 0)
    assert train(learner_of("torch"), source, epochs=2).losses == straight
    first = list(source(1))
    assert train(learner_of("torch"), first, epochs=1).losses == straight[:5]
    assert train(learner_of("torch"), iter(first), steps=4).losses == straight[:4]


@on_learners
def test_loaders_of_torch_yield_batches_for_every_target(target):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    utils = torch.utils.data
    dataset = utils.TensorDataset(torch.tensor(X), torch.tensor(Y))

    class Stream(utils.IterableDataset):
        def __iter__(self):
            return iter(dataset)

    def shuffled(epoch):
        return utils.DataLoader(dataset, 5, shuffle=True, generator=torch.Generator().manual_seed(epoch))

    orders = [np.concatenate([x for x, _ in shuffled(epoch)]) for epoch in (1, 2)]
    assert not np.array_equal(*orders)
    one, other, third = (learner_of(target) for _ in range(3))
    train(
        one,
        shuffled,
        epochs=2,
        validation=utils.DataLoader(dataset, 5),
        metric=lambda a, b: abs(a - b).mean(),
    )
    train(other, lambda epoch: [(x.numpy(), y.numpy()) for x, y in shuffled(epoch)], epochs=2)
    assert arrays_of(one) == arrays_of(other)
    losses = train(third, utils.DataLoader(Stream(), 5), epochs=1, progress=True).losses
    assert losses == train(learner_of(target), batches((X, Y), 5, None), epochs=1).losses


def test_loaders_of_grain_yield_batches():
    grain = pytest.importorskip("grain", reason="grain is not installed")
    rows = [(x, y) for x, y in zip(X, Y, strict=True)]

    def shuffled(epoch):
        return grain.MapDataset.source(rows).seed(epoch).shuffle().batch(5)

    one, other = learner_of(), learner_of()
    losses = train(one, shuffled, epochs=2).losses
    assert len(losses) == 10
    assert train(other, lambda epoch: list(shuffled(epoch)), epochs=2).losses == losses
    assert arrays_of(one) == arrays_of(other)
    (batch,) = grain.MapDataset.source(rows).batch(22)
    assert train(one, [batch], epochs=1).losses == train(other, (X, Y), batch_size=22, epochs=1).losses


def test_several_inputs_and_labels():
    learner = emit(two_inputs()).load()().learner()
    data = (X, X[::-1], Y, Y[::-1])

    def error(a, b, y, z):
        return np.mean(np.abs(a - y)) + np.mean(np.abs(b - z))

    history = train(learner, data, epochs=2, inputs=2, validation=data, metric=error)
    assert history.epochs[-1].validation.keys() == {"loss", "error"}


# Evaluation


@on_learners
@pytest.mark.parametrize("size", [2, 5, 9, 100])
def test_evaluation_does_not_depend_on_the_batches_and_trains_nothing(target, size):
    learner = learner_of(target)
    before = arrays_of(learner)
    found = evaluate(learner, (XV, YV), batch_size=size, metric={"mae": lambda a, b: np.mean(np.abs(a - b))})
    assert math.isclose(found["loss"], float(learner.loss(XV, YV)), rel_tol=1e-5)
    assert math.isclose(found["mae"], np.mean(np.abs(np.asarray(learner.predict(XV)) - YV)), rel_tol=1e-5)
    assert arrays_of(learner) == before


def test_accuracy_is_the_fraction_of_correct_labels():
    scores = np.array([[1, 3, 2], [5, 0, 1], [0, 0, 9], [1, 2, 0]])
    labels = np.array([1, 0, 2, 2])
    assert accuracy(scores, labels) == accuracy(scores, np.eye(3)[labels]) == 0.75
    assert accuracy(scores.reshape(2, 2, 3), labels.reshape(2, 2)) == 0.75
    for wrong in (labels[:3], labels[:, None], np.eye(4)):
        with pytest.raises(ShapeError, match="accuracy: scores must have an axis"):
            accuracy(scores, wrong)
    with pytest.raises(ShapeError, match="two classes"):
        accuracy(scores[:, :1], scores[:, :1])


# Ends


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 4))
def test_an_early_stop_returns_the_best(validation, patience):
    learner = Scripted(validation)
    history = train(learner, ONE, epochs=len(validation), validation=ONE, patience=patience)
    seen = [epoch.validation["loss"] for epoch in history.epochs]
    best = seen.index(min(seen)) + 1
    assert history.best.number == best
    assert learner.parameters["steps"] == best
    # Training stops after `patience` epochs without a new minimum, and no earlier.
    minima = [min(validation[: i + 1]) for i in range(len(validation))]
    since = [i - minima.index(m) for i, m in enumerate(minima)]
    stops = [i + 1 for i, s in enumerate(since) if s >= patience]
    assert len(seen) == (stops[0] if stops else len(validation))


@on_learners
def test_the_best_is_kept_with_its_state(target):
    learner, straight = learner_of(target), learner_of(target)
    history = train(learner, epochs=40, validation=(XV, YV), patience=3)
    assert history.best.number < len(history.epochs) < 40
    train(straight, epochs=history.best.number)
    assert arrays_of(learner) == arrays_of(straight)
    assert evaluate(learner, (XV, YV), batch_size=5)["loss"] == history.best.validation["loss"]


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_diverged_loss_stops(wrong):
    with pytest.raises(DivergenceError, match=rf"it is {wrong}, in step 3; lower the learning rate"):
        train(Scripted(losses=[1, 1, wrong]), ONE, epochs=5)
    with pytest.raises(DivergenceError, match=rf"it is {wrong}, in evaluation"):
        train(Scripted(validation=[wrong]), ONE, epochs=5, validation=ONE)


@on_learners
def test_a_divergence_suggests_a_smaller_learning_rate(target):
    learner = emit(replace(rectified(), optimiser=optimisers.sgd(1e9)), target).load()().learner()
    with pytest.raises(DivergenceError, match="in step"):
        train(learner, epochs=50)


# Going on


def bits(history: History) -> str:
    return history.to_json()


@on_learners
@pytest.mark.parametrize("patience", [None, 2])
def test_ten_epochs_are_five_save_load_five(tmp_path, target, patience):
    options = {"validation": (XV, YV), "metric": {"one": lambda a, b: 1}, "patience": patience}
    straight, first, second = (learner_of(target, seed) for seed in (0, 0, 1))
    whole = train(straight, epochs=10, **options)
    train(first, epochs=5, checkpoint=tmp_path / "run", **options)
    history = train(second, epochs=10, checkpoint=tmp_path / "run", resume=True, **options)
    assert bits(history) == bits(whole)
    assert arrays_of(second) == arrays_of(straight)


@pytest.mark.parametrize("stop", [1, 4, 5, 6, 12])
def test_training_resumes_within_an_epoch(tmp_path, stop):
    straight, first, second = (learner_of(seed=seed) for seed in (0, 0, 1))
    options = {"validation": (XV, YV), "patience": 9}
    whole = train(straight, steps=12, **options)
    cut = train(first, steps=stop, checkpoint=tmp_path / "run", **options)
    assert len(cut.losses) == stop
    assert cut.epochs[-1].whole == (stop % 5 == 0)
    history = train(second, steps=12, checkpoint=tmp_path / "run", resume=True, **options)
    assert bits(history) == bits(whole)
    assert arrays_of(second) == arrays_of(straight)


def test_a_killed_training_resumes_from_its_last_epoch(tmp_path):
    path = tmp_path / "run.safetensors"
    straight, killed, second = learner_of(), learner_of(), learner_of(seed=1)
    train(straight, epochs=6)
    source = batches((X, Y), 5, 0)

    def until_killed(epoch):
        for i, batch in enumerate(source(epoch)):
            if (epoch, i) == (4, 2):
                raise KeyboardInterrupt
            yield batch

    with pytest.raises(KeyboardInterrupt):
        train(killed, until_killed, epochs=6, checkpoint=path)
    train(second, epochs=6, checkpoint=path, resume=True)
    assert arrays_of(second) == arrays_of(straight)


def test_training_killed_between_the_two_files_resumes(tmp_path):
    path, options = tmp_path / "run.safetensors", {"validation": (X, Y), "patience": 3}
    straight, killed, second = learner_of(), learner_of(), learner_of(seed=1)
    whole = train(straight, epochs=8, **options)
    train(killed, epochs=2, checkpoint=path, **options)
    before = path.read_bytes()
    newer = train(killed, epochs=3, checkpoint=path, resume=True, **options)
    assert newer.best.number == 3
    path.write_bytes(before)
    history = train(second, epochs=8, checkpoint=path, resume=True, **options)
    assert bits(history) == bits(whole)
    assert arrays_of(second) == arrays_of(straight)


def test_a_checkpoint_holds_the_last_and_the_best(tmp_path):
    learner, last, best = learner_of(), learner_of(seed=1), learner_of(seed=1)
    path = tmp_path / "run.safetensors"
    history = train(learner, epochs=40, validation=(XV, YV), patience=3, checkpoint=path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.best.safetensors", "run.safetensors"]
    checkpoint.load(best, tmp_path / "run.best.safetensors")
    assert arrays_of(best) == arrays_of(learner)
    # Training that has ended is not gone on with, but for another patience.
    again = train(last, epochs=40, validation=(XV, YV), patience=3, checkpoint=path, resume=True)
    assert bits(again) == bits(history)
    assert arrays_of(last) == arrays_of(learner)
    more = train(last, epochs=40, validation=(XV, YV), patience=5, checkpoint=path, resume=True)
    assert len(more.epochs) > len(history.epochs)


def test_a_missing_checkpoint_starts_a_new_training(tmp_path):
    history = train(learner_of(), epochs=1, checkpoint=tmp_path / "run", resume=True)
    assert History.from_json(safetensors.read_metadata(tmp_path / "run")["history"], "run") == history


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"losses": []}', '{"losses": [], "epochs": []}', '{"losses": [1], "epochs": [{}]}'],
)
def test_an_inconsistent_history_is_refused(tmp_path, text):
    learner = learner_of()
    arrays = {**learner.state, **learner.parameters}
    safetensors.write(tmp_path / "run", arrays, {"history": text})
    with pytest.raises(ArtifactError, match="must be one that fit wrote"):
        train(learner, epochs=1, checkpoint=tmp_path / "run", resume=True)


EPOCH = {"number": 1, "steps": 2, "loss": 0.5, "validation": {"loss": 1.0, "error": math.nan}, "whole": True}
NEXT = {**EPOCH, "number": 2, "steps": 3}
WRONG = [
    {"number": 2}, {"number": True}, {"number": 1.0}, {"steps": 0}, {"steps": -1}, {"steps": 2.0},
    {"steps": 3}, {"loss": None}, {"loss": "0.5"}, {"loss": [0.5]}, {"loss": math.nan}, {"loss": 10**400},
    {"loss": True}, {"validation": []}, {"validation": None}, {"validation": "loss"},
    {"validation": {"error": 1.0}}, {"validation": {"loss": "1.0"}}, {"validation": {"loss": math.inf}},
    {"validation": {"loss": 1, "a": "b"}},
    {"whole": 1}, {"whole": None}, {"more": 1},
]  # fmt: skip


def test_epochs_as_fit_writes_them_are_accepted():
    found = {"losses": [1, 0.25, 3.0], "epochs": [EPOCH, {**NEXT, "whole": False}]}
    history = History.from_json(json.dumps(found), "run")
    assert history.losses == [1, 0.25, 3]
    assert [epoch.steps for epoch in history.epochs] == [2, 3]
    assert history.best.number == 1


@pytest.mark.parametrize(
    "found",
    [
        *({"losses": [1, 2], "epochs": [EPOCH | wrong]} for wrong in WRONG),
        {"losses": [1, 2, 3], "epochs": [EPOCH, {**NEXT, "number": 1}]},
        {"losses": [1, 2], "epochs": [EPOCH, {**NEXT, "steps": 2}]},
        {"losses": [1, 2, 3], "epochs": [{**EPOCH, "whole": False}, NEXT]},
        {"losses": [1, 2], "epochs": [list(EPOCH)]},
        {"losses": [1, 2], "epochs": {"0": EPOCH}},
        *({"losses": losses, "epochs": [EPOCH]} for losses in ("12", {"1": 0, "2": 0}, [1, "2"], [1, None])),
        *({"losses": [1, loss], "epochs": [EPOCH]} for loss in (math.nan, -math.inf, True, 10**400, [2])),
    ],
)
def test_epochs_as_fit_never_writes_them_are_refused(found):
    with pytest.raises(ArtifactError, match="must be one that fit wrote"):
        History.from_json(json.dumps(found), "run")


def test_a_history_nested_deep_is_refused():
    with pytest.raises(ArtifactError, match="must be one that fit wrote"):
        History.from_json("[" * 100_000, "run")


def test_weights_without_a_history_cannot_be_resumed(tmp_path):
    checkpoint.save(learner_of(), tmp_path / "run")
    with pytest.raises(ArtifactError, match="has no history"):
        train(learner_of(), epochs=1, checkpoint=tmp_path / "run", resume=True)


# A plateau of the validation loss


@settings(max_examples=60)
@given(
    losses=st.lists(st.floats(0.1, 1) | st.sampled_from([0.5, 0.4999, 0.45]), min_size=1, max_size=25),
    factor=st.floats(0.05, 0.95), patience=st.integers(0, 3), cooldown=st.integers(0, 3),
    threshold=st.sampled_from([0.0, 1e-4, 0.1]), relative=st.booleans(), least=st.sampled_from([0.0, 0.1]),
)  # fmt: skip
def test_the_rate_on_a_plateau_is_that_of_torch(losses, **options):
    torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
    learner = Scripted(losses)
    learner.state = {"learning_rate": np.float64(0.5)}
    other = torch.optim.SGD([torch.zeros(1)], 0.5)
    renamed = {"min_lr": options["least"], "threshold_mode": "rel" if options["relative"] else "abs"}
    same = {name: options[name] for name in ("factor", "patience", "cooldown", "threshold")}
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(other, **same, **renamed)
    for loss in losses:
        scheduler.step(loss)
    train(learner, ONE, epochs=len(losses), validation=ONE, plateau=Plateau(**options))
    assert learner.state["learning_rate"] == other.param_groups[0]["lr"]


def test_training_on_a_plateau_resumes(tmp_path):
    made = emit(mlp(optimisers.sgd(adjustable(0.5))), "numpy").load()()
    straight, first, second = (made.learner(seed) for seed in (0, 0, 1))
    options = {"validation": (XV, YV), "plateau": Plateau(0.5, patience=0, threshold=0.2)}
    train(straight, epochs=12, **options)
    train(first, epochs=5, checkpoint=tmp_path / "run", **options)
    train(second, epochs=12, checkpoint=tmp_path / "run", resume=True, **options)
    assert arrays_of(second) == arrays_of(straight)
    assert float(straight.state["learning_rate"]) < float(first.state["learning_rate"]) < 0.5


WRONG_PLATEAUS = {
    "factor": [0, 1, 1.5, "a"], "patience": [-1, 1.5], "cooldown": [-1, None], "threshold": [-1, np.nan],
    "least": [-1, None],
}  # fmt: skip


@pytest.mark.parametrize("option", WRONG_PLATEAUS)
def test_options_of_a_plateau_are_validated(option):
    for value in WRONG_PLATEAUS[option]:
        with pytest.raises(OptionError, match="of a plateau"):
            Plateau(**{option: value})


# Errors, all before the first step


REFUSED = {
    "must have the same first axis": {"data": (X, Y[:5])},
    "the shapes are \\(\\), \\(\\)": {"data": (np.float32(1), np.float32(1))},
    "there must be at least one example": {"data": (X[:0], Y[:0])},
    "inputs is 1 and the arrays are 0": {"data": ()},
    "it is ndarray; pass arrays as a tuple": {"data": [X, Y]},
    "it is int": {"data": 3},
    "it has none in epoch 1": {"data": []},
    "a batch size must be an integer of at least 1, but it is 0": {"batch_size": 0},
    "it is 2.5": {"batch_size": 2.5},
    "a seed must be": {"seed": -1},
    "must have a full batch": {"batch_size": 23, "drop_last": True},
    "it gets neither": {"epochs": None},
    "it gets both": {"steps": 3},
    "epochs must be an integer of at least 1": {"epochs": 0},
    "patience must be an integer": {"patience": 0, "validation": (X, Y)},
    "patience must have validation data": {"patience": 1},
    "plateau must have validation data": {"plateau": Plateau()},
    "plateau must be a Plateau": {"plateau": 3, "validation": (X, Y)},
    "the state has no 'learning_rate'": {"plateau": Plateau(), "validation": (X, Y)},
    "parallel must be an engine of catgrad.parallel, but it is 'torch'": {"parallel": "torch"},
    "metric must have validation data": {"metric": accuracy},
    "a metric must be a function": {"metric": "accuracy", "validation": (X, Y)},
    "'loss' is": {"metric": {"loss": accuracy}, "validation": (X, Y)},
    "they have 1 and 2": {"validation": (X,)},
    "inputs must be an integer": {"inputs": 0},
    "inputs is 3 and the arrays are 2": {"inputs": 3},
    "resume must have a checkpoint": {"resume": True},
    "the folder of the checkpoint must exist": {"checkpoint": "/no/such/folder/run"},
    "fit must get a learner": {"learner": model_of()},
}


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_arguments_are_refused_before_training(message):
    learner = learner_of()
    before = arrays_of(learner)
    options = {"learner": learner, "epochs": 1, **REFUSED[message]}
    with pytest.raises((OptionError, ShapeError, ArtifactError), match=message):
        train(**options)
    assert arrays_of(learner) == before


def test_an_exhausted_iterator_is_reported():
    with pytest.raises(OptionError, match="it has none in epoch 2; pass a list, or a function"):
        train(learner_of(), iter([(X, Y)]), epochs=2)


def test_the_progress_bar_is_on_the_standard_error(capsys):
    train(learner_of(), epochs=2, validation=(XV, YV), progress=True)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "10/10 epoch 2, loss" in printed.err


def test_a_history_is_drawn(tmp_path):
    history = train(learner_of(), epochs=3, validation=(XV, YV))
    history.plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ArtifactError, match="the plot must be written"):
        history.plot(tmp_path / "run.none")
    with pytest.raises(OptionError, match="train first"):
        History().plot(tmp_path / "none.png")


def test_the_best_epoch_is_the_first_of_equal_ones():
    epochs = [Epoch(i + 1, i + 1, 1.0, {"loss": loss}, loss > 0) for i, loss in enumerate([3, 2, 2, 0])]
    history = History()
    assert history.best is None
    assert [history.add(epoch) for epoch in epochs] == [True, True, False, False]
    assert history.best.number == 2
