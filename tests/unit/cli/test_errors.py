"""Errors of the command line are one sentence: invalid arguments, and modules that raise any error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from catgrad.cli import main
from catgrad.errors import CatgradError, one_line
from catgrad.formats import safetensors
from catgrad.targets import backends, get_backend
from tests.covering import some

ROOT = Path(__file__).parents[3]
DENSE = "examples.iris:dense"

REFUSED = [
    (("emit", DENSE, "-t", "numpi"), "did you mean 'numpy'"),
    (("emit", DENSE, "-t", "c", "--option", "openmp=yes"), "must be true or false"),
    (("emit", DENSE, "-t", "c", "--option", "opnmp=true"), "did you mean 'openmp'"),
    (("emit", DENSE, "-t", "c", "--option", "openmp"), "must be given as NAME=VALUE"),
    (("emit", DENSE, "--option", "openmp=true", "--option", "openmp=false"), "'openmp' is given twice"),
    (("emit", DENSE, "--option", "target=c"), "it is 'target'"),
    (("emit", DENSE, "--option", "self=c"), "it is 'self'"),
    (("emit", DENSE, "-t", "scratch", "--option", "unroll=compct"), "did you mean 'compact'"),
    (("emit", DENSE, "-t", "scratch", "--option", "data=5"), "data must be arrays"),
    (("emit", DENSE, "-t", "scratch", "--option", "features=5"), "features must be names"),
    (("emit", DENSE, "-t", "scratch", "--option", "sig_figs=999"), "sig_figs must be at most 17"),
    (("emit", DENSE, "-f", "setp"), "did you mean 'step'?"),
    (("emit", DENSE, "-t", "scratch", "--option", "weights=3"), "weights must be the path of a file"),
    (("emit", DENSE, "-t", "torch-module", "--option", "constants=inlin"), "did you mean 'inline'"),
    (("emit", DENSE, "--option", f"batch={'9' * 5000}"), "must be left out"),
    (("targets", "cc"), "did you mean 'c'"),
    (("emit", DENSE, "--precision", "bf6"), "did you mean 'bf16'"),
    (("verify", DENSE, "--precision", "f16"), "the precision must be one of f32, bf16"),
    (("emit", DENSE, "--precision", "bf16", "-t", "scratch"), "must have arrays of at least 32 bits"),
    (("emit", "examples.iris:dence"), "did you mean 'dense'"),
    (("emit", "examples.irsi:dense"), "the module 'examples.irsi' must import"),
    (("emit", "examples.irsi:dense"), "did you mean 'iris'"),
    (("emit", "examples.iris"), "must be given as MODULE:NAME"),
    (("emit", ":dense"), "must be given as MODULE:NAME"),
    (("emit", "..:dense"), "must import"),
    (("emit", "a\0b\n:dense"), "must import"),
    (("emit", "examples.iris:DATA"), "must be a Task or a term"),
    (("emit", DENSE, "-o", "/proc/no"), "the output folder must be writable"),
    (("emit", DENSE, "-o", "a\0b"), "the output folder must be writable"),
    (("emit", DENSE, "-o", "a" * 300), "the output folder must be writable"),
    (("emit", DENSE, "-o", ""), "the output folder must have a name"),
    (("draw", DENSE, "-f", "stpe"), "did you mean 'step'"),
    (("draw", DENSE, "-o", "dense.gif"), "the format of a picture must be one of svg, png, pdf"),
    (("emit", "examples.iris:accuracy"), "must return a Task or a term when it is called"),
    (("emit", "tests.unit.wrong:raises"), "ZeroDivisionError: division by zero, in line 25 of wrong.py"),
    (("emit", "tests.unit.wrong:shapes"), "the target of f must be the source of g"),
    (("emit", "tests.unit.wrong:dtypes"), "types joined by + must have one dtype"),
    (("emit", "tests.unit.wrong:model"), "the model to emit must be a Task"),
    (("emit", "tests.unit.wrong:exits"), "it raised SystemExit: bye now, in line 29 of wrong.py"),
    (("emit", "tests.unit.wrong:ends"), "it raised SystemExit: 0"),
    (("emit", "tests.unit.wrong:lines"), r"it raised ValueError: first second \x1b[31m\u202e, in"),
    (("emit", "tests.unit.wrong:mute"), "it raised Mute: which has no message"),
    (("emit", "tests.unit.wrong:loss"), "it raised TypeError: "),
    (("draw", "tests.unit.wrong:loss", "-f", "step"), "in line 54 of wrong.py"),
    (("run", DENSE, "--size", "btch=3"), "but it is 'btch'; did you mean 'batch'?"),
    (("run", DENSE, "--size", "batch=many"), "batch must be an integer of at least 0, but it is 'many'"),
    (("run", DENSE, "--data", "x.npz", "--size", "batch=3"), "--size must be left out with --data"),
    (("run", DENSE, "-o", "nan.svg"), "--output must be left out without --trace"),
    (("summary", DENSE, "--size", "btch=3"), "did you mean 'batch'?"),
    (("summary", DENSE, "--lr", "0.1"), "--lr must be left out without --input"),
    (("cost", DENSE, "--loss", "mse"), "--loss must be left out without --input"),
    (("verify", DENSE, "--steps", "3"), "--steps must be left out without --input"),
    (("verify", DENSE, "--trainable", "*"), "--trainable must be left out without --input"),
    (("verify", "net.py:net", "--input", "f32[1]", "--precision", "bf16"), "left out with --input"),
    (("emti", DENSE), "no such command 'emti'. Did you mean 'emit'? `catgrad --help`"),
    (("emit", DENSE, "--outptu", "x"), "--output); `catgrad emit --help` explains"),
    (("emit",), "missing argument 'MODULE:NAME'"),
    (("ops", "more"), "`catgrad ops --help` explains"),
    (("emit", DENSE, "-o"), "option '-o' requires an argument"),
    *((("emit", "tests.unit.wrong:large", "-t", name), "at most 2^63 - 1 bytes") for name in backends()),
]


def ended(capsys, *arguments):
    """Return the exit status of a command, and the lines on standard error."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    said = capsys.readouterr().err.splitlines()
    assert all(line.startswith("catgrad: ") and line.isprintable() for line in said), said
    return end.value.code, said


def refuse(capsys, arguments, message):
    status, [said] = ended(capsys, *arguments)
    assert status == 2
    assert message in said


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_bad_input_is_one_sentence_and_status_2(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(ROOT)
    refuse(capsys, arguments, message)


def test_errors_do_not_depend_on_assertions():
    """Every fifth case runs under python -O, in one process."""
    some = REFUSED[::5]
    program = """
import contextlib, io, json, sys
from catgrad.cli import main
assert False, "not under -O"
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            main(arguments)
        except SystemExit as end:
            print(json.dumps([end.code, said.getvalue()]))
"""
    command = [sys.executable, "-O", "-c", program, json.dumps([arguments for arguments, _ in some])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ends) == len(some), done.stderr
    for (status, said), (_, message) in zip(ends, some, strict=True):
        assert status == 2
        assert said.count("\n") == 1
        assert message in said


MODULES = {
    "raise SystemExit(0)": (2, "SystemExit: 0, in line 2 of"),
    "raise KeyboardInterrupt": (130, "but it was interrupted, in line 2 of"),
    "import sys; sys.exit('bye')": (2, "SystemExit: bye, in line 2 of"),
    "raise GeneratorExit": (2, "GeneratorExit, in line 2 of"),
    "def task(: pass": (2, "SyntaxError"),
    "def task(): raise KeyboardInterrupt": (130, "but it was interrupted, in line 2 of"),
    "def task(): return task()": (2, "RecursionError"),
    "def __getattr__(name): raise ValueError('no')": (2, "ValueError: no"),
    "class task: __module__ = property(lambda self: 1 / 0)": (2, "is task"),
    "import sys; sys.modules[__name__] = None": (2, "TypeError: "),
}


@pytest.mark.parametrize("number", range(len(MODULES)))
def test_a_module_may_do_anything(capsys, tmp_path, monkeypatch, number):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    content, (status, message) = list(MODULES.items())[number]
    (tmp_path / f"module_{number}.py").write_text(f"# a model\n{content}\n")
    found, [said] = ended(capsys, "emit", f"module_{number}:task")
    assert (found, message in said) == (status, True), said
    assert not (tmp_path / "out").exists()


def test_a_traceback_is_optional(capsys, monkeypatch):
    monkeypatch.setenv("CATGRAD_TRACEBACK", "1")
    with pytest.raises(SystemExit):
        main(["emit", "tests.unit.wrong:raises"])
    said = capsys.readouterr().err
    assert "return 1 / 0" in said
    assert said.splitlines()[-1].startswith("catgrad: ")


def test_a_defect_is_one_sentence_too(capsys, monkeypatch):
    monkeypatch.setattr("catgrad.targets.loaded_backends", lambda: 1 / 0)
    status, [said] = ended(capsys, "targets")
    assert status == 1
    assert "ZeroDivisionError" in said
    assert "this is a defect" in said


def test_the_version_is_that_of_the_package(capsys):
    from importlib.metadata import version

    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"catgrad {version('catgrad')}\n"


def test_without_a_command_the_help_is_shown(capsys):
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 0
    assert "catgrad emit net:task" in capsys.readouterr().out


OUTPUTS = {
    "a reader that goes away": (["|", "true"], {}, ""),
    "a terminal without these letters": ([], {"PYTHONIOENCODING": "ascii"}, ""),
    "nobody": ([">&-"], {}, ""),
    "a full disk": (
        [">", "/dev/full"],
        {},
        "catgrad: standard output must be writable, but it is not: No space",
    ),
}


@pytest.mark.parametrize("name", some(OUTPUTS, ["a terminal without these letters", "a full disk"]))
def test_output_may_be_any_file(name):
    if name == "a full disk" and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    redirection, environment, message = OUTPUTS[name]
    command = f'"{sys.executable}" -m catgrad.cli ops {" ".join(redirection)}'
    done = subprocess.run(
        command, shell=True, cwd=ROOT, capture_output=True, env={**os.environ, **environment}
    )
    assert done.stderr.decode().startswith(message)
    assert len(done.stderr.splitlines()) == bool(message)


def file_of(kind, folder):
    path = folder / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(2**40)
    elif kind == "empty":
        path.touch()
    return {"zero": Path("/dev/zero"), "folder": folder, "NUL": "a\0b"}.get(kind, path)


@pytest.mark.covering
@pytest.mark.parametrize("option", ["c/weights", "scratch/weights", "scratch/tokenizer"])
@pytest.mark.parametrize("kind", ["zero", "pipe", "huge", "empty", "folder", "missing", "NUL"])
def test_an_option_that_is_a_path_is_that_of_a_plausible_file(capsys, tmp_path, option, kind):
    target, name = option.split("/")
    path = file_of(kind, tmp_path)
    must = {"missing": "be readable", "NUL": "be readable", "huge": "have 1 to", "empty": "have 1 to"}
    arguments = ("emit", DENSE, "-t", target, "-o", str(tmp_path / "out"), f"--option={name}={path}")
    refuse(capsys, arguments, f" must {must.get(kind, 'be a regular file')}")


def test_weights_of_a_larger_model_are_read(capsys, tmp_path):
    """The file has more than the model: other arrays, and other dtypes."""
    rng = np.random.default_rng(0)
    arrays = {
        "dense.weight": rng.normal(size=(4, 3)),
        "dense.bias": rng.normal(size=3),
        "head": np.zeros(1000),
    }
    safetensors.write(tmp_path / "w", {name: a.astype(np.float32) for name, a in arrays.items()})
    arguments = ("emit", DENSE, "-t", "c", "-o", str(tmp_path / "out"), f"--option=weights={tmp_path / 'w'}")
    assert ended(capsys, *arguments) == (0, [])
    assert (tmp_path / "out/dense_weights.h").exists()


@given(st.text(), st.text("\n\r\t\x85\u2028 a\\\x1b\u202e"))
def test_every_error_is_one_printable_line(must, found):
    error = CatgradError(must, found, "do", subject=found, where=must)
    assert str(error).isprintable()
    assert one_line(str(error)) == str(error)


TEXTS = st.one_of(
    st.text(max_size=12),
    st.text("./:=-_'\"\\\n\r\0\t ~$*{}%\x1b\u202e\udc80éλ\u2028", max_size=12),
    st.sampled_from(
        ["", ".", "..", "-", "--", "a" * 5000, "9" * 5000, "-1", "1e9", "nan", "None", "*/", '"""']
    ),
)
REFERENCES = st.one_of(
    st.builds("{}:{}".format, st.sampled_from(["examples.iris", "examples.", ".iris", "examples"]), TEXTS),
    st.builds("{}:{}".format, TEXTS, st.sampled_from(["dense", "__doc__", "a:b"])),
    TEXTS,
)
FLAGS = st.sampled_from(["-o", "-t", "-f", "--option", "--help", "--", "--version"])
OPTIONS = [(target, field.name) for target in backends() for field in fields(get_backend(target).options)]
VALUES = st.sampled_from(["true", "numpy", "/dev/zero", "int8", "max", "packed", "turbowarp", "."])


def check(capsys, *arguments):
    """Check that a command ends with status 0, or with status 2 and a sentence."""
    status, said = ended(capsys, *arguments)
    assert (status, len(said)) in [(0, 0), (2, 1)], said


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Return a temporary folder, in which the examples can still be imported."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(tmp_path)


def fuzzed(max_examples):
    return settings(max_examples=max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])


@fuzzed(8)
@given(words=st.lists(TEXTS, max_size=4))
def test_arbitrary_arguments(capsys, elsewhere, words):
    check(capsys, *words)


@fuzzed(8)
@given(
    command=st.sampled_from(["emit", "draw", "targets"]), words=st.lists(st.one_of(TEXTS, FLAGS), max_size=4)
)
def test_arbitrary_arguments_of_a_command(capsys, elsewhere, command, words):
    assume("-o" not in words)
    check(capsys, command, *words)


@fuzzed(50)
@given(reference=REFERENCES)
def test_arbitrary_models(capsys, elsewhere, reference):
    check(capsys, "draw", "-o", "picture.gif", "--", reference)


@fuzzed(8)
@given(name=TEXTS)
def test_arbitrary_outputs(capsys, elsewhere, tmp_path, name):
    folder = f"{tmp_path}/in/{name}"
    assume(os.path.abspath(folder).startswith(str(tmp_path)))
    check(capsys, "emit", DENSE, "-o", folder)
    check(capsys, "draw", DENSE, "-o", f"{folder}.svg")


@fuzzed(8)
@given(target=st.one_of(TEXTS, st.sampled_from(["numpi", "C", "torch_module"])))
def test_arbitrary_targets(capsys, elsewhere, target):
    check(capsys, "emit", DENSE, f"--target={target}")
    check(capsys, "targets", "--", target)


@fuzzed(15)
@given(option=st.sampled_from(OPTIONS), value=st.one_of(TEXTS, st.integers(-9, 99999).map(str), VALUES))
def test_arbitrary_values_of_options(capsys, elsewhere, option, value):
    target, name = option
    check(capsys, "emit", DENSE, "-t", target, f"--option={name}={value}")


@fuzzed(8)
@given(name=TEXTS, more=st.sampled_from(["", "target=c", "self=1", "task=x", "openmp=true"]), value=TEXTS)
def test_arbitrary_options(capsys, elsewhere, name, more, value):
    check(capsys, "emit", DENSE, "-t", "c", f"--option={name}={value}", f"--option={more}")
