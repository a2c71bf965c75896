"""The command line, drawings, files, and the examples."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from catgrad.backends.scratch.machine.projects import missing, validate

from catgrad import Task, accuracy, emit, layers
from catgrad.errors import ArtifactError, ToolError
from catgrad.formats import safetensors
from tests.covering import some
from tests.models import BATCH, INPUT, OUTPUT, mlp
from tests.targets import LONG, on
from tests.unit.c.build import NEEDS_C
from tests.unit.command import ROOT, run


def test_targets_and_ops_are_listed():
    assert "numpy" in run("targets").stdout
    listed = run("ops").stdout
    assert re.search(r"Sigmoid\s+definition", listed)
    assert "Σ x[left] ·" in listed


def test_emit_writes_the_file_that_the_library_emits(tmp_path):
    done = run("emit", "examples.iris:dense", "--target", "numpy", "-o", str(tmp_path / "new"))
    assert done.returncode == 0, done.stderr
    from examples.iris import dense

    assert (tmp_path / "new/dense.py").read_text(encoding="utf-8") == emit(dense()).source


def test_the_options_of_a_target_are_explained():
    shown = run("targets", "c")
    assert shown.returncode == 0, shown.stderr
    assert "--option openmp=false" in shown.stdout
    assert "OMP_NUM_THREADS" in shown.stdout
    assert "catgrad targets c" in run("emit", "--help").stdout
    assert "has none" in run("targets", "numpy").stdout


@NEEDS_C
@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize("options", some([(), ("--option", "openmp=true")], [()]))
def test_the_emitted_c_program_builds_and_trains(tmp_path, options):
    done = run("emit", "examples.iris:dense", "--target", "c", "-o", str(tmp_path), *options)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "Makefile") in done.stdout
    from examples.iris import load

    x, y = load()
    safetensors.write(tmp_path / "data.safetensors", {"x": x, "y": y})
    for command in (["make"], ["./train", "--epochs", "400", "--batch", "50"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    weights = safetensors.read(tmp_path / "weights.safetensors")
    assert accuracy(x @ weights["dense.weight"] + weights["dense.bias"], y) > 0.9


@pytest.mark.parametrize("function", ["model", "step"])
def test_draw(tmp_path, function):
    done = run("draw", "examples.iris:dense", "-f", function, "-o", str(tmp_path / "dense.svg"))
    assert done.returncode == 0, done.stderr
    picture = (tmp_path / "dense.svg").read_text(encoding="utf-8")
    for text in ("Contract", "Sigmoid", "f32[batch,3]"):
        assert text in picture


@pytest.mark.parametrize("path", [os.environ["PATH"], ""], ids=["with dot", "without dot"])
def test_terms_draw_themselves_in_notebooks(path, monkeypatch):
    """Without graphviz's program, graphviz-pure draws, which is installed beside Python."""
    monkeypatch.setenv("PATH", path)
    picture = layers.linear(BATCH, INPUT, OUTPUT)._repr_svg_()
    assert picture.rstrip().endswith("</svg>")
    assert "linear.weight" in picture


def test_a_missing_dot_is_named(monkeypatch):
    from catgrad.terms.draw import render

    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match=r"drawing a file .pdf must have .* `dot`.*apt install graphviz"):
        render(layers.linear(BATCH, INPUT, OUTPUT), "pdf")
    assert render(layers.linear(BATCH, INPUT, OUTPUT), "png").startswith(b"\x89PNG")


def test_a_machine_that_cannot_draw_shows_the_text_of_a_term(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.warns(UserWarning, match="dot"):
        assert layers.linear(BATCH, INPUT, OUTPUT)._repr_svg_() is None


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    artifact = emit(mlp())
    artifact.write(tmp_path)
    old = (tmp_path / "mlp.py").read_text(encoding="utf-8")
    broken = replace(artifact, files={"mlp.py": "new", "sub/none.py": "new"})
    (tmp_path / "mlp.py").chmod(0o600)
    monkeypatch.setattr(
        os, "replace", lambda *a: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(ArtifactError, match="No space left"):
        broken.write(tmp_path)
    assert (tmp_path / "mlp.py").read_text(encoding="utf-8") == old
    assert [p.name for p in tmp_path.iterdir()] == ["mlp.py"]


@pytest.mark.parametrize("model", some(["linear", "simple", "dense", "hidden"], ["simple", "hidden"]))
def test_iris(model, tmp_path):
    picture = tmp_path / "made" / "iris.png"
    done = run(model, "--plot", str(picture), module="examples.iris")
    assert done.returncode == 0, done.stderr
    assert "def step(" in done.stdout
    assert "loss" in done.stdout
    reached = float(re.search(r"accuracy: ([\d.]+)%", done.stdout)[1])
    assert reached >= {"linear": 80, "simple": 80, "dense": 95, "hidden": 95}[model]
    assert picture.read_bytes().startswith(b"\x89PNG")


@on("numpy", "c")
def test_iris_in_batches(target):
    arguments = ("hidden", "--batch-size", "16", "--steps", "300", "--seed", "1", "--target", target)
    done = run(*arguments, module="examples.iris")
    assert float(re.search(r"accuracy: ([\d.]+)%", done.stdout)[1]) > 90


@on("numpy", "c", long=("c",))
def test_a_short_run_of_lstm(target, tmp_path):
    picture = tmp_path / "sunspots.png"
    done = run("--steps", "300", "--target", target, "--plot", str(picture), module="examples.lstm")
    assert done.returncode == 0, done.stderr
    assert {"numpy": "for t in range(32):", "c": "int lstm_step("}[target] in done.stdout
    error, by_the_year_before = map(float, re.search(r"error: ([\d.]+) .* ([\d.]+) by", done.stdout).groups())
    assert error < by_the_year_before
    assert picture.read_bytes().startswith(b"\x89PNG")


@on("c")
def test_a_short_run_of_pinn(target, tmp_path):
    picture = tmp_path / "burgers.png"
    done = run("--steps", "1200", "--target", target, "--plot", str(picture), module="examples.pinn")
    assert done.returncode == 0, done.stderr
    assert "int burgers_step(" in done.stdout
    assert float(re.search(r"exact solution: ([\d.]+)", done.stdout)[1]) < 0.1
    assert picture.read_bytes().startswith(b"\x89PNG")


@on("torch", "c", long=("torch",))
def test_a_short_run_of_char_gpt(target, tmp_path):
    """The loss falls from ln 60 = 4.1, that of a uniform distribution, to less than 3."""
    picture = tmp_path / "gpt.png"
    arguments = ("--target", target, "--steps", "20", "--length", "30", "--plot", str(picture))
    done = run(*arguments, module="examples.char_gpt")
    assert done.returncode == 0, done.stderr
    assert {"torch": "def step(", "c": "int char_gpt_step("}[target] in done.stdout
    loss, entropy = map(float, re.search(r"loss: ([\d.]+) .* entropy: ([\d.]+)", done.stdout).groups())
    assert loss < 3.0
    assert entropy == 2.221
    assert "And God said" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_short_run_of_llama():
    """The loss falls from ln 60 = 4.1, and the text is continued by as many characters."""
    done = run("--steps", "4", "--length", "70", module="examples.llama")
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"loss: ([\d.]+)", done.stdout)[1]) < 3.5
    assert len(done.stdout.partition("And God said")[2]) == 71


@pytest.mark.skipif(bool(missing()), reason=f"Scratch: {missing()}")
def test_a_short_run_of_scratch_writer(tmp_path):
    """After 20 steps, the model knows frequencies of letters, and the sprite continues the text."""
    arguments = ("--steps", "20", "--begin", "And God said", "--out", str(tmp_path))
    done = run(*arguments, module="examples.scratch_writer")
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"loss: ([\d.]+)", done.stdout)[1]) < 3.0  # of any letter: ln 27 = 3.3
    validate((tmp_path / "writer.sb3").read_bytes())
    assert re.search(r"it writes: and god said[a-z ]{36}\n", done.stdout)


@on("numpy", "torch", "jax", "c", "cuda", "ggml", needed=("learner",), long=(*LONG, "torch", "jax", "c"))
def test_a_short_run_of_digits(target, tmp_path):
    """After a tenth of the steps, most answers are correct, and there is a picture."""
    picture = tmp_path / "digits.png"
    done = run("--steps", "70", "--target", target, "--plot", str(picture), module="examples.digits")
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"accuracy: ([\d.]+)%", done.stdout)[1]) > 70
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_digits_are_learnt_in_pytorch_then_in_c_and_taken_back():
    pytest.importorskip("torch", reason="PyTorch, in which the network learns first, is not installed")
    done = run("--epochs", "3", module="examples.torch_finetune")
    assert done.returncode == 0, done.stderr
    shares = [float(share) for share in re.findall(r": ([\d.]+)%", done.stdout)]
    before, both = shares[1], shares[2:]
    assert before < 20 and both[0] == both[1] > 85


@pytest.mark.parametrize(
    "arguments",
    [
        ("--target", "nump"),
        ("--steps", "0"),
        ("--batch-size", "0"),
        ("moon",),
        ("--plot", "/proc/x.png", "--steps", "1"),
    ],
)
def test_iris_refuses_bad_options(arguments):
    done = run(*arguments, module="examples.iris")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_validation_holds_without_assertions():
    """The validation of the core is tested under python -O."""
    program = (
        "from tests.unit.terms import test_build as t\n"
        "t.test_a_spider_is_refused_in_favour_of_copy(); t.test_a_dangling_wire_is_refused()\n"
        "t.test_a_merge_of_two_producers_is_refused(); t.test_a_cycle_is_refused()\n"
        "from tests.laws import test_category as c\n"
        "c.test_composing_at_different_objects_is_refused()\n"
    )
    done = subprocess.run([sys.executable, "-O", "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_import_is_light():
    heavy = "torch jinja2 graphviz typer rich matplotlib hypothesis networkx"
    program = f"import sys, catgrad; print([m for m in '{heavy}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_task_name_must_be_safe():
    from catgrad.errors import OptionError

    task = mlp()
    with pytest.raises(OptionError, match="letters, digits and underscores"):
        Task(task.model, task.optimiser, task.loss, "../evil")


def test_a_term_is_run_by_the_interpreter(tmp_path):
    (tmp_path / "net.py").write_text(
        "from catgrad import Dim, Functions, NdArrayType, layers\n"
        "BATCH = NdArrayType((Dim('batch'),))\n"
        "model = layers.dense(BATCH, NdArrayType((4,)), NdArrayType((3,)))\n"
        "both = Functions({'a': model, 'b': layers.linear(BATCH, NdArrayType((4,)), NdArrayType((2,)))})\n"
    )
    net = str(tmp_path / "net.py")
    assert "[4, 3]" in run("run", f"{net}:model").stdout
    assert "[7, 2]" in run("run", f"{net}:both", "-f", "b", "--size", "batch=7").stdout
    assert "must be one of a, b, but it is 'loss'" in run("run", f"{net}:both").stderr
    assert "--target must be left out with a term" in run("run", f"{net}:model", "-t", "c").stderr


def test_the_cache_is_cleaned(tmp_path):
    for name in ("c/entry", "templates", "mine"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_bytes(bytes(2_000_000))
    listed = run("clean", "--dry-run", "--json", CATGRAD_CACHE=str(tmp_path))
    assert [row["MB"] for row in json.loads(listed.stdout)] == [2, 2]
    assert (tmp_path / "c").exists()
    assert run("clean", CATGRAD_CACHE=str(tmp_path)).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert run("clean", CATGRAD_CACHE=str(tmp_path)).returncode == 0
