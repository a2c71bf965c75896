"""Errors of `transpile`: one sentence, before it writes anything."""

from __future__ import annotations

import re

import pytest

from catgrad import NdArrayType, mse, sgd
from catgrad.errors import ArtifactError, CatgradWarning, OptionError, UnknownName

torch = pytest.importorskip("torch", reason="PyTorch, which is imported from, is not installed")

from catgrad.frontends.torch import transpile  # noqa: E402  # it needs PyTorch

nn = torch.nn

X = torch.ones(1, 3)


def spoilt(value):
    layer = nn.Linear(3, 2)
    layer.weight.data[0, 1] = value
    return layer


def worn(mean):
    norm = nn.BatchNorm1d(3)
    norm.running_mean[1] = mean
    return norm


def layers(count, *make):
    return nn.Sequential(*(layer() for _ in range(count) for layer in make))


def square(size):
    return lambda: nn.Linear(size, size)


LARGE = layers(10, square(16), nn.GELU, lambda: nn.LayerNorm(16))

MODULES = {
    "nan": (spoilt(torch.nan), X, {}, "weights of a sprite must be finite, but weight has 1 .* such as nan;"),
    "inf": (spoilt(torch.inf), X, {}, "must be finite, but weight has 1 that are not, such as inf;"),
    "-inf": (spoilt(-torch.inf), X, {"storage": "packed"}, "weight has 1 that are not, such as -inf;"),
    "statistics": (worn(torch.nan), X, {}, "running_mean has 1 that are not, such as nan;"),
    "a long list": (
        nn.Linear(1000, 201),
        torch.ones(1, 1000),
        {},
        "at most 200,000 items, but weight has 201,000;",
    ),
    "much text": (
        layers(3, square(400)),
        torch.ones(1, 400),
        {},
        "at most 5,000,000 bytes.*but it has 6,.*packed",
    ),
    "many blocks": (LARGE, torch.ones(1, 16), {"unroll": "max"}, "at most 20,000 blocks, but model has 2"),
}

ARGUMENTS = {
    "a list": ([1.0], {}, OptionError, "example inputs must be tensors, but one is 1.0;"),
    "nothing": (None, {}, OptionError, "example inputs must be tensors, but one is None;"),
    "no example": ((), {}, OptionError, "missing a required argument: 'input'.*pass a tensor for each"),
    "a path as name": (X, {"name": "build/model"}, OptionError, "a name must be letters.*'build/model'"),
    "a space in the name": (X, {"name": "my model"}, OptionError, "a name must be letters.*'my model'"),
    "no digits": (X, {"sig_figs": 0}, OptionError, "sig_figs must be an integer above 0, but it is 0;"),
    "half a digit": (X, {"sig_figs": 2.5}, OptionError, "sig_figs must be an integer above 0"),
    "a slip": (X, {"unrol": "max"}, UnknownName, "did you mean 'unroll'?"),
    "weights": (X, {"weights": {}}, OptionError, "weights must be left out.*the module has them"),
    "batch": (X, {"batch": 4}, OptionError, "batch must be left out.*example_input has as many"),
    "PyTorch's optimiser": (
        X, {"optimiser": torch.optim.SGD(spoilt(0).parameters(), 0.1)}, OptionError,
        r"the optimiser must be one of catgrad.*sgd\(0.1\)",
    ),
    "PyTorch's loss": (
        X, {"optimiser": sgd(0.1), "loss": nn.MSELoss()}, OptionError, "the loss must be one of catgrad.*mse",
    ),
    "PyTorch's function": (
        X, {"optimiser": sgd(0.1), "loss": nn.functional.mse_loss}, OptionError, "must be one of catgrad",
    ),
    "no optimiser": (X, {"optimiser": 0.1, "loss": mse}, OptionError, "its optimiser is 0.1;"),
    "a type as labels": (
        X, {"optimiser": sgd(0.1), "labels": NdArrayType((1,))}, OptionError,
        "labels must be a tuple of types",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the files of an older sprite."""
    path = tmp_path_factory.mktemp("good")
    transpile(nn.Linear(3, 2), X, folder=path)
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_refused(folder, error, pattern, *arguments, **options):
    before = contents(folder)
    with pytest.raises(error) as caught:
        transpile(*arguments, folder=folder, **options)
    assert re.search(pattern, str(caught.value))
    assert "\n" not in str(caught.value)
    assert contents(folder) == before


@pytest.mark.parametrize("case", MODULES)
def test_unsupported_modules_are_refused_and_older_files_stay(case, folder):
    module, x, options, pattern = MODULES[case]
    assert_refused(folder, ArtifactError, pattern, module, x, **options)


@pytest.mark.parametrize("case", ARGUMENTS)
def test_invalid_arguments_are_refused_and_older_files_stay(case, folder):
    x, options, error, pattern = ARGUMENTS[case]
    assert_refused(folder, error, pattern, nn.Linear(3, 2), x, **options)


def test_a_module_without_weights_cannot_learn(folder):
    pattern = "must have parameters that require a gradient"
    assert_refused(folder, OptionError, pattern, nn.ReLU(), X, optimiser=sgd(0.1))


def test_a_folder_that_cannot_be_written_is_refused(folder):
    """The path of the folder is a file, because the superuser may write into all folders."""
    with pytest.raises(ArtifactError, match=r"folder must be writable.*model\.sb3.*choose another"):
        transpile(nn.Linear(3, 2), X, folder=folder / "model.sb3")


def test_sprites_near_the_limit_are_written_with_a_warning(tmp_path):
    with pytest.warns(CatgradWarning, match="allows 5,000,000; round the weights.*packed"):
        transpile(layers(2, square(420)), torch.ones(1, 420), folder=tmp_path)
    assert (tmp_path / "model.sprite3").exists()


def test_files_are_deterministic(tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2))
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        transpile(module, X, folder=path)
    assert contents(one) == contents(two)


def test_a_sprite_without_lists_may_be_packed(tmp_path):
    transpile(nn.ReLU(), X, folder=tmp_path, storage="packed")
    assert (tmp_path / "model.sprite3").exists()
