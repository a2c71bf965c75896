"""`catgrad compile` writes a folder whose program is built, called and trained as its README says."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from catgrad.cli import main
from catgrad.cli.modules import Training
from catgrad.cli.parsing import array_type, call
from catgrad.dims import Dim
from catgrad.errors import OptionError
from catgrad.formats import safetensors
from catgrad.types import Dtype, NdArrayType
from tests.covering import some
from tests.unit.c.build import NEEDS_C
from tests.unit.cli.test_errors import ended, refuse

torch = pytest.importorskip("torch", reason="PyTorch, whose modules are compiled, is not installed")

NET = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 40), nn.BatchNorm1d(40), nn.Tanh(), nn.Linear(40, 3))


def make_model():
    return net


class Broken(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)


number = 3
"""

INPUT = ("--input", "f32[batch,4]", "--loss", "cross_entropy")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the user's file, whose name is that of a module of Python."""
    (tmp_path / "copy.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def compiled(capsys, *arguments, model="copy.py:make_model"):
    status, said = ended(capsys, "compile", model, *INPUT, *arguments)
    assert status == 0, said


def trained(module, x, y, steps=1):
    """Train by PyTorch, with the optimiser of these tests."""
    optimiser = torch.optim.AdamW(module.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(module(torch.tensor(x)), torch.tensor(y))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return loss.item()


def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(6, 4)).astype(np.float32), rng.integers(0, 3, 6)


def module_of(folder):
    """Return the user's module, as a new run of the file makes it."""
    namespace = {"__name__": "net"}
    exec(NET, namespace)
    return namespace["make_model"]()


OPTIMISER = ("--optimizer", "AdamW(weight_decay=0.1)", "--lr", "0.01")


@NEEDS_C
@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_c_is_built_called_and_trained_as_the_readme_says(folder, capsys):
    compiled(capsys, *OPTIMISER, "-t", "c", "-o", "build")
    out, (x, y) = folder / "build", data()
    readme = (out / "README.md").read_text()
    safetensors.write(out / "data.safetensors", {"x": x, "y": y})
    train = re.search(r"^    (\./train .*)$", readme, re.MULTILINE)[1].replace("--epochs 20", "--epochs 1")
    snippet = re.search(r'^    #include "model.h"\n.*?\n\n(?=\S)', readme, re.MULTILINE | re.DOTALL)[0]
    lines = [line.strip() for line in snippet.splitlines()]
    numbers = ", ".join(f"{value:.9g}f" for value in x.reshape(-1))
    (out / "main.c").write_text("\n".join([
        "#include <stdio.h>", "#include <stdlib.h>", *(line for line in lines if line.startswith("#")),
        "int main(void) {", "const ptrdiff_t batch = 6;", f"const float x[] = {{{numbers}}};",
        f"const int64_t y[] = {{{', '.join(map(str, y))}}};",
        *(line for line in lines if not line.startswith("#")), 'printf("%d %.9g", code, loss); }',
    ]))  # fmt: skip
    build = re.search(r"built by `(cc main.c [^`]*)`", readme)[1]
    for command in ("make", f"{build} -o main", train, "./main"):
        done = subprocess.run(command.split(), cwd=out, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    module = module_of(folder)
    loss = trained(module, x, y)
    code, printed = done.stdout.split()
    assert (int(code), float(printed)) == (0, pytest.approx(loss, rel=1e-5))
    found = safetensors.read(out / "weights.safetensors")
    for name, tensor in module.state_dict().items():
        if name != "0.bias":  # its gradient is 0 but for rounding, before batch norm
            np.testing.assert_allclose(found[name], tensor, rtol=1e-4, atol=1e-5, err_msg=name)


PYTHON = {
    "numpy": "x, y = a, b",
    "torch": "import torch; x, y = torch.tensor(a), torch.tensor(b)",
    "jax": "x, y = a, b",
    "torch-module": """import torch; x, y = torch.tensor(a), torch.tensor(b)
class learner: step = lambda x, y: criterion(model(x), y)
""",
}


@pytest.mark.parametrize("target", some(PYTHON, ["numpy", "torch-module"]))
def test_python_is_called_as_the_readme_says(folder, capsys, target):
    pytest.importorskip(target.partition("-")[0])
    compiled(capsys, *OPTIMISER, "-t", target, "-o", "build")
    [code] = re.findall(r"```python\n(.*?)```", (folder / "build/README.md").read_text(), re.DOTALL)
    x, y = data()
    np.savez(folder / "data.npz", x=x, y=y)
    program = f"import numpy as np\na, b = np.load('../data.npz').values()\n{code}\n{PYTHON[target]}\n"
    program += "print(float(learner.step(x, y)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder / "build", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(trained(module_of(folder), x, y), rel=1e-4)


def test_the_manifest_describes_arrays_options_versions_and_weights(folder, capsys):
    compiled(capsys, *OPTIMISER, "--trainable", "3.*", "--eval", "--name", "net", "-o", "deep/er")
    out = folder / "deep/er"
    manifest = json.loads((out / "manifest.json").read_text())
    weights = (out / "net.safetensors").read_bytes()
    assert manifest["weights_file"] == {
        "name": "net.safetensors",
        "bytes": len(weights),
        "sha256": hashlib.sha256(weights).hexdigest(),
    }
    origin = manifest["origin"]
    assert (origin["torch"], origin["mode"], origin["trainable"]) == (
        torch.__version__,
        "evaluation",
        ["3.*"],
    )
    assert manifest["target"] == {"name": "numpy"} and manifest["catgrad"]
    assert {k: manifest["optimiser"][k] for k in ("name", "learning_rate", "weight_decay")} == {
        "name": "adamw",
        "learning_rate": 0.01,
        "weight_decay": 0.1,
    }
    assert [each["name"] for each in manifest["tables"]["parameters"]] == ["3.weight", "3.bias"]
    [step] = [each for each in manifest["functions"] if each["name"] == "step"]
    assert step["inputs"] == [
        {"name": "x", "dtype": "float32", "shape": ["batch", 4]},
        {"name": "y", "dtype": "int64", "shape": ["batch"]},
    ]


def test_files_are_the_same_in_every_run(folder, capsys):
    for out in ("one", "two"):
        compiled(capsys, "-o", out, model="copy.py:net")
    for file in (folder / "one").iterdir():
        assert file.read_bytes() == (folder / "two" / file.name).read_bytes()


SCHEDULED = ("--optimizer", "sgd", "--lr", "0.5", "--scheduler", "CosineAnnealingLR(T_max=2)")


@pytest.mark.parametrize("optimiser", [OPTIMISER, SCHEDULED])
def test_verify_trains_a_module_by_pytorch_too(folder, capsys, optimiser):
    arguments = ("verify", "copy.py:make_model", *INPUT, *optimiser, "--steps", "3", "--plot", "plot.png")
    with pytest.raises(SystemExit) as end:
        main(arguments)
    printed = capsys.readouterr()
    assert (end.value.code, printed.err) == (0, "")
    for row in ("parameters", "buffers", "predict", "loss", "grads"):
        assert re.search(rf"^ *{row} .* yes *$", printed.out, re.MULTILINE), printed.out
    assert (folder / "plot.png").exists()


def test_a_scheduler_is_compiled(folder, capsys):
    compiled(capsys, *SCHEDULED, "-o", "cosine")
    [module] = folder.glob("cosine/*.py")
    assert "cos(" in module.read_text()


def test_muon_of_the_command_line_has_another_optimiser_for_biases(folder, capsys):
    compiled(capsys, "--optimizer", "muon", "--lr", "0.02", "-o", "muon")
    assert "exp_avg.0.bias" in (folder / "muon" / "manifest.json").read_text()


def test_verify_draws_labels_of_all_classes(folder):
    training = Training("copy.py:make_model", ["f32[batch,4]"], "cross_entropy", "adamw")
    _, artifact = training.emitted("numpy", ())
    labels = [batch[-1] for batch in training.batches(artifact, 20, 3)]
    assert set(np.concatenate(labels)) == {0, 1, 2}


def test_verify_refuses_dropout(folder, capsys):
    (folder / "drops.py").write_text(
        "from torch import nn\nnet = nn.Sequential(nn.Linear(4, 3), nn.Dropout())"
    )
    refuse(capsys, ("verify", "drops.py:net", *INPUT), "dropout in 1")


MODEL = "copy.py:make_model"
REFUSED = [
    ((MODEL, "--loss", "mse"), "there is no --input"),
    ((MODEL, "--input", "f32[batch,4"), "must be an array type such as f32[batch,1,28,28]"),
    ((MODEL, "--input", "f33[batch,4]"), "did you mean 'f32'"),
    ((MODEL, "--input", "f32[-1]"), "a size is a number or a name"),
    ((MODEL, *INPUT, "--input", "f32[4]"), "an --input for each argument of forward: input"),
    ((MODEL, "--input", "f32[batch,5]"), "mat1 and mat2 shapes cannot be multiplied"),
    ((MODEL, *INPUT, "--loss", "cross_entropi"), "did you mean 'cross_entropy'"),
    ((MODEL, *INPUT, "--loss", "cross_entropy(smoothing=1)"), "did you mean 'label_smoothing'"),
    ((MODEL, *INPUT, "--loss", "CrossEntropyLoss(smoothing=1)"), "unexpected keyword argument"),
    ((MODEL, *INPUT, "--optimizer", "rmsprp"), "did you mean 'rmsprop'"),
    ((MODEL, *INPUT, "--optimizer", "adamw(weight=1)"), "unexpected keyword argument"),
    ((MODEL, *INPUT, "--optimizer", "adamw(lr=exit())"), "options that are numbers, texts or tuples"),
    ((MODEL, *INPUT, "--optimizer", "adamw(lr=-1.0)"), "Invalid learning rate"),
    ((MODEL, *INPUT, "--optimizer", "adamw(lr=1.0)", "--lr", "2"), "given once"),
    ((MODEL, *INPUT, "--optimizer", "lion(wd=2)"), "the options of lion must be among"),
    ((MODEL, *INPUT, "--scheduler", "CosineLR"), "did you mean 'CosineAnnealingLR'"),
    ((MODEL, *INPUT, "--scheduler", "StepLR(step=3)"), "unexpected keyword argument"),
    ((MODEL, *INPUT, "--optimizer", "lion", "--scheduler", "StepLR(step_size=3)"), "is lion of catgrad"),
    ((MODEL, *INPUT, "--trainable", "conv*"), "'conv*' matches none"),
    ((MODEL, *INPUT, "-t", "cc"), "did you mean 'c'"),
    ((MODEL, *INPUT, "-t", "c", "--option", "opnmp=true"), "did you mean 'openmp'"),
    ((MODEL, *INPUT, "-o", ""), "the output folder must have a name"),
    ((MODEL, *INPUT, "-o", "/proc/no"), "the output folder must be writable"),
    ((MODEL, *INPUT, "--name", "../evil"), "letters, digits and underscores"),
    (("copy.py:make_modl", *INPUT), "did you mean 'make_model'"),
    (("copy.py:number", *INPUT), "must be a torch.nn.Module, or return one"),
    (("copy.py:Broken", *INPUT), "mat1 and mat2 shapes cannot be multiplied"),
    (("none.py:net", *INPUT), "the file none.py must run as a module"),
    (("copy.py", *INPUT), "must be given as MODULE:NAME"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_bad_input_is_one_sentence_and_nothing_is_written(folder, capsys, arguments, message):
    refuse(capsys, ("compile", *arguments), message)
    assert [p.name for p in folder.iterdir() if p.name != "__pycache__"] == ["copy.py"]


def test_array_types_are_read():
    batch = Dim("batch")
    assert array_type("f32[batch,1,28,28]") == NdArrayType((batch, 1, 28, 28))
    assert array_type(" int64 [ batch , 3 ] ") == NdArrayType((batch, 3), Dtype.int64)
    assert array_type("bool[]") == NdArrayType((), Dtype.bool)


def test_calls_are_read_and_never_evaluated():
    assert call("adamw") == ("adamw", {})
    assert call("sgd(lr=1e-3, betas=(0.9, -1), foreach=None)") == (
        "sgd",
        {"lr": 1e-3, "betas": (0.9, -1), "foreach": None},
    )
    for text in (
        "",
        "a.b()",
        "f(1)",
        "f(**{})",
        "f(x=y)",
        "f(x=[1)",
        "f()()",
        "lambda: 0",
        "f(x=" + "(" * 9999,
        "\0",
    ):
        with pytest.raises(OptionError, match="a name with options"):
            call(text)


def test_help_teaches_by_an_example(capsys):
    with pytest.raises(SystemExit):
        main(["compile", "--help"])
    assert "catgrad compile net.py:make_model --input" in capsys.readouterr().out
