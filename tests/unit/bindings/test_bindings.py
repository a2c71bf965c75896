"""Language bindings: programs in other languages have the bits of C, its errors, and legal names."""

from __future__ import annotations

import ctypes
import keyword
import os
import re
import shutil
import subprocess
import sys
from array import array
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from catgrad.backends.c.bindings import language, languages, styled, terms
from catgrad.backends.c.languages import LANGUAGES as TOOLS

from catgrad import Dim, Dtype, Functions, NdArrayType, Task, build, emit, layers, mse, ops, optimisers
from catgrad.cli import main
from catgrad.errors import OptionError, UnknownName
from catgrad.targets import get_backend
from catgrad.terms.var import Var
from examples.languages import IN_C, LANGUAGES, Program, artifact, iris, write
from tests.unit.c.build import NEEDS_C, built, run

OWN = Path(__file__).parent
DOCS = Path(__file__).parents[3] / "docs/howto/languages.md"
BIN = Path(sys.executable).parent
ENVIRONMENT = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "GOTOOLCHAIN": "local"}
OLDEST_JAVA = 22

pytestmark = NEEDS_C


def missing(name: str) -> str:
    """Return why programs in a language cannot be built or run here; empty if they can."""
    commands = [re.sub(r"^LD_LIBRARY_PATH=\. ", "", each) for each in LANGUAGES[name].commands]
    tools = [command.split()[0] for command in commands if not command.startswith("./")]
    lacking = [tool for tool in tools if not shutil.which(tool, path=ENVIRONMENT["PATH"])]
    if not lacking and name == "java":
        said = re.search(r"\d+", run("javac", "-version").stdout)
        if int(said[0]) < OLDEST_JAVA:
            return f"bindings=java need a JDK, at least {OLDEST_JAVA}, and this one is {said[0]}"
    return f"bindings={name} need {' and '.join(lacking)}" if lacking else ""


REASONS = {name: missing(name) for name in LANGUAGES}
EACH = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.skipif(bool(why), reason=why)) for n, why in REASONS.items()]
)


def called(folder: Path, program: Program) -> subprocess.CompletedProcess[str]:
    """Build and run a program; returns what its last command says."""
    for command in program.commands[:-1]:
        built("sh", "-c", command, cwd=folder, env=ENVIRONMENT)
    return run("sh", "-c", program.commands[-1], cwd=folder, env=ENVIRONMENT)


@pytest.fixture(scope="module")
def in_c(tmp_path_factory):
    """The weights that the program in C trains."""
    folder = tmp_path_factory.mktemp("c")
    emit(iris(), "c").write(folder)
    write(folder, IN_C)
    done = called(folder, IN_C)
    assert (done.returncode, done.stdout) == (0, "loss 0.0156, no error\n")
    return (folder / "trained.safetensors").read_bytes()


@EACH
def test_a_program_trains_to_the_bits_of_c(name, in_c, tmp_path):
    artifact(name).write(tmp_path)
    write(tmp_path, LANGUAGES[name])
    done = called(tmp_path, LANGUAGES[name])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("loss 0.0156")
    assert (tmp_path / "trained.safetensors").read_bytes() == in_c


def of_another(program: Program, name: str) -> Program:
    """Return the program of this name in the language of one that trains."""
    texts = (program.file, *program.commands)
    file, *commands = (text.replace("flowers", name).replace("Flowers", name.capitalize()) for text in texts)
    return Program(file, tuple(commands))


def called_of(folder: Path, program: Program, name: str) -> subprocess.CompletedProcess[str]:
    """Copy the program of this name beside emitted files, build it and run it."""
    other = of_another(program, name)
    source = OWN / Path(other.file).name
    (folder / other.file).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source if source.exists() else OWN / name / source.name, folder / other.file)
    return called(folder, other)


HALVES = ("predict", "step", "grads", "update", "step_many")


@pytest.fixture(scope="module")
def halves_in_c(tmp_path_factory):
    """Run the program in C that trains by halves of a step, and by several: its output, and its weights."""
    folder = tmp_path_factory.mktemp("halves")
    emit(iris(), "c", functions=HALVES).write(folder)
    done = called_of(folder, IN_C, "halves")
    assert done.returncode == 0, done.stderr
    return done.stdout, (folder / "trained.safetensors").read_bytes()


@EACH
def test_halves_of_a_step_and_several_steps_have_the_bits_of_c(name, halves_in_c, tmp_path):
    emit(iris(), "c", functions=HALVES, bindings=(name,)).write(tmp_path)
    done = called_of(tmp_path, LANGUAGES[name], "halves")
    assert done.returncode == 0, done.stderr
    assert (done.stdout, (tmp_path / "trained.safetensors").read_bytes()) == halves_in_c


SIZE = "1 {}: x[batch, 4] must have 600 elements, but has 8\n"
NEGATIVE = "1 {}: a size is negative or too small, or an array of such sizes too large\n"
NO_FILE = "5 missing: the file cannot be opened\n"
SAID = {
    name: (SIZE + NEGATIVE + NO_FILE).format(*[styled(style, "step")] * 2)
    for name, style in {**dict.fromkeys(LANGUAGES, "snake"), "go": "pascal", "csharp": "pascal"}.items()
}
SAID["go"] += "Step: a pointer is NULL that must not be\n"
SAID["rust"] += "5 miss\0ing: the file cannot be opened\n"
SAID["fortran"] = (
    "2 step: a pointer is NULL that must not be\n1 step: x must have the shape (4, 150), but has (4, 2)\n"
    + NEGATIVE.format("step")
    + NO_FILE
    + "T\n"
)
SAID["python"] += (
    "8 step: x[batch, 4] must have contiguous elements of 4 bytes in the format 'f', but has 'd'\n"
    "8 predict: y_hat[batch, 3] must have contiguous elements of 4 bytes in the format 'f', but has 'B'\n"
    "8 predict: x[batch, 4] must have contiguous elements of 4 bytes in the format 'f', but has 'B'\n"
)


def with_every_table() -> Task:
    """Return a model as large as that of the programs, which also has buffers and a state."""
    batch, sizes = NdArrayType((Dim("batch"),)), [NdArrayType((size,)) for size in (4, 20, 3)]
    first, last = (layers.dense(batch, *pair) for pair in pairwise(sizes))
    model = first >> layers.batch_norm(batch + sizes[1]) >> last
    return Task(model, optimisers.adamw(0.01), mse, "iris")


@EACH
def test_errors_are_sentences(name, tmp_path):
    emit(with_every_table(), "c", bindings=(name,)).write(tmp_path)
    done = called_of(tmp_path, LANGUAGES[name], "errors")
    assert done.stdout == SAID[name]
    if name == "fortran":  # without an argument for the code, an error ends the program
        assert (done.returncode, done.stderr.splitlines()[0]) == (1, NO_FILE[2:-1])


WORDS = (
    "func",
    "impl",
    "end",
    "import",
    "lambda",
    "interface",
    "event",
    "box",
    "new",
    "unsafe",
    "map",
    "where",
)
"""Reserved words, each of a language at least, as the names of functions."""

TYPE, END = Dim("type"), Dim("end")
DTYPES = [d for d in Dtype if d is not Dtype.bool]


def doubled(x: Var) -> Var:
    """Return the sum of an array and itself, which wraps in 8 bits."""
    return x + x if x.dtype.is_numeric else ops.cast(ops.cast(x, Dtype.int32) * 2, x.dtype)


def odd(name: str) -> Functions:
    """Functions whose names and sizes are words of languages, and arrays of every dtype."""
    arrays = [NdArrayType((TYPE, END)), NdArrayType((TYPE * END + 2 * TYPE,))]
    long = build(lambda x, y: (x + x, y * y), arrays)
    dtypes = build(
        lambda *every: (*map(doubled, every), ops.equal(every[0], every[1])),
        [NdArrayType((TYPE,), dtype) for dtype in (Dtype.float32, *DTYPES)],
    )
    chosen = build(
        lambda p, x: ops.select(p, x, x + x), [NdArrayType((END,), Dtype.bool), NdArrayType((END,))]
    )
    number = build(lambda x, y: x + y, [NdArrayType(())] * 2)
    taken = build(lambda x, i: ops.take(x, i), [NdArrayType((TYPE,)), NdArrayType((END,), Dtype.int64)])
    functions = {"a" * 150: long, "dtypes": dtypes, "select": chosen, "number": number, "take": taken}
    return Functions({**functions, **dict.fromkeys(WORDS, number)}, name)


COMPILED = {
    "fortran": ("match", "gfortran -std=f2008 -Wall -Wextra -Werror -c *.f90"),
    "rust": ("match", "RUSTFLAGS='-D warnings' cargo build --quiet"),
    "go": ("func", "make && go vet -C go ./..."),
    "julia": ("end", "make shared && julia -e 'include(\"End.jl\")'"),
    "swift": ("any", "swiftc -typecheck -warnings-as-errors -I . *.swift"),
    "csharp": ("object", "mcs -warnaserror -target:library -out:odd.dll *.cs"),
    "java": ("object", "javac -Xlint:all,-restricted -Werror *.java"),
    "python": ("lambda", "make shared && python3 -W error -c 'import lambda_1'"),
}
"""A name of a model that is a word of the language, and a command that compiles its bindings."""


@EACH
def test_odd_names_are_legal(name, tmp_path):
    model, command = COMPILED[name]
    emit(odd(model), "c", bindings=(name,)).write(tmp_path)
    built("sh", "-c", command, cwd=tmp_path, env=ENVIRONMENT)


@pytest.mark.parametrize("name", languages())
def test_identifiers_are_no_words_of_the_language(name):
    each = language(get_backend("c"), name)
    assert not keyword.kwlist or name != "python" or set(keyword.kwlist) <= each.reserved
    for kind in each.styles:
        namer = each.namer()
        found = [
            each.identifier(namer, kind, word) for word in (*sorted(each.reserved), "x", "X", "x.y", "9")
        ]
        folded = [word.lower() for word in found] if each.styles[kind] == "lower" else found
        assert len({*folded}) == len(found)
        assert all(
            re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", word) and word not in each.reserved for word in found
        )


def test_sizes_are_sums_of_products():
    assert terms(2 * TYPE * END - END + 3, {"type": "t", "end": "e"}) == (
        (False, ("2", "e", "t")),
        (True, ("e",)),
        (False, ("3",)),
    )
    assert [styled(style, "y_hat_0") for style in ("snake", "camel", "pascal")] == [
        "y_hat_0",
        "yHat0",
        "YHat0",
    ]


@pytest.fixture(scope="module")
def bound(tmp_path_factory):
    """The module of the odd functions in Python."""
    folder = tmp_path_factory.mktemp("odd")
    emit(odd("odd"), "c", bindings=("python",)).write(folder)
    built("make", "shared", cwd=folder)
    spec = spec_from_file_location("odd", folder / "odd.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_arrays_of_every_dtype(bound):
    model = bound.Model()
    inputs = [np.arange(3).astype(dtype.numpy) for dtype in (Dtype.float32, *DTYPES)]
    results = [*map(np.zeros_like, inputs), np.zeros(3, bool)]
    passed = [x.view(np.uint16) if x.dtype.name == "bfloat16" else x for x in (*inputs, *results)]
    model.dtypes(3, *passed)
    for x, y in zip(inputs, results, strict=False):
        assert (y == x + x).all()
    assert results[-1].all()
    y = array("f", bytes(8))
    model.select(2, memoryview(bytes([1, 0])).cast("?"), array("f", [1, 2]), y)
    assert list(y) == [1, 4]
    assert model.number(array("f", [1]), ctypes.c_float(2)) == 3


def test_an_index_outside_its_array_is_an_error(bound):
    model, y = bound.Model(), array("f", bytes(8))
    with pytest.raises(bound.Error, match=r"^take: an index lies outside its array$") as raised:
        model.take(2, 3, array("f", [1, 2, 3]), array("q", [0, 3]), y)
    assert raised.value.code == bound.BAD_INDEX
    model.take(0, 0, array("f"), array("q"), array("f"))
    with pytest.raises(bound.Error, match="must be writable, but is read only"):
        model.select(2, memoryview(bytes(2)).cast("?"), array("f", [1, 2]), memoryview(bytes(8)).cast("f"))


def test_bindings_are_deterministic():
    every = [dict(emit(iris(), "c", bindings=languages()).files) for _ in range(2)]
    assert every[0] == every[1]
    marked = "SHA-256 of the terms: "
    assert all(marked in text.partition("\n")[0] for name, text in every[0].items() if "json" not in name)


def test_a_library_with_bindings_loads():
    learner = artifact("go").load()().learner(seed=0)
    assert learner.step(np.zeros((2, 4), np.float32), np.zeros((2, 3), np.float32)) > 0


def test_names_of_bindings_are_checked(capsys):
    for given in ("rust,go", ["rust", "go", "rust"], ("rust", "go")):
        assert emit(iris(), "c", bindings=given).backend.options.bindings == ("rust", "go")
    with pytest.raises(
        UnknownName, match=r"a language of bindings must be one of csharp, .*did you mean 'rust'"
    ):
        emit(iris(), "c", bindings=("rusty",))
    with pytest.raises(OptionError, match="bindings must be a list of names"):
        emit(iris(), "c", bindings=7)
    with pytest.raises(UnknownName, match="an option of the target numpy must be left out"):
        emit(iris(), "numpy", bindings=("rust",))
    with pytest.raises(SystemExit):
        main(["emit", "examples.iris:hidden", "--target", "c", "--bindings", "ruby"])
    assert "a language of bindings must be one of" in capsys.readouterr().err


def test_the_command_line_names_bindings(tmp_path, capsys):
    command = ["emit", "examples.iris:hidden", "-t", "c", "-o", str(tmp_path)]
    with pytest.raises(SystemExit):
        main([*command, "--bindings", "fortran", "--bindings", "go"])
    assert (tmp_path / "hidden_fortran.f90").exists()
    assert (tmp_path / "go/hidden.go").exists()
    assert not (tmp_path / "lib.rs").exists()


def test_every_language_has_a_program_a_tool_and_a_place_in_the_docs():
    assert (
        {*languages()} == {*LANGUAGES} == {*COMPILED} == {*(t.use.partition("=")[2] for t in TOOLS), "python"}
    )
    page = DOCS.read_text(encoding="utf-8")
    for name, program in {**LANGUAGES, "c": IN_C}.items():
        assert len(program.source.read_text(encoding="utf-8").splitlines()) <= 30
        assert f'--8<-- "examples/languages/programs/{program.source.name}"' in page
        assert all(command in page for command in program.commands), name


@pytest.mark.skipif(bool(REASONS["fortran"]), reason=REASONS["fortran"])
def test_a_network_of_pytorch_is_trained_within_fortran(tmp_path):
    page = DOCS.read_text(encoding="utf-8")
    for file in ("net.py", "rotate.f90"):
        assert f'--8<-- "examples/languages/programs/{file}"' in page
        shutil.copy(LANGUAGES["fortran"].source.with_name(file), tmp_path / file)
    commands = re.search(r"```sh\n(catgrad compile net.py.*?)```", page, re.DOTALL)[1]
    done = run("sh", "-e", "-c", commands, cwd=tmp_path, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("shifted  5.000  1.000  2.000  3.000  4.000\n")
