"""Names that users choose change only names, comments and strings in emitted code."""

from __future__ import annotations

import ast
import builtins
import io
import json
import keyword
import re
import shutil
import subprocess
import zipfile
from collections import Counter
from functools import cache

import numpy as np
import pytest
from catgrad.backends.scratch.compile.interface import SHARED
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, mse, ops, sgd
from catgrad.backend import NO_16_BITS
from catgrad.errors import OptionError, one_line
from catgrad.learn.entries import program
from catgrad.naming import MAX_NAME_CHARACTERS, Namer
from catgrad.programs.ports import Kind
from catgrad.programs.program import Program, lower
from catgrad.targets import get_backend
from catgrad.terms.state import RunNumber, Slot
from catgrad.types import as_numpy
from tests.covering import some
from tests.targets import cannot, emit, on_all_targets
from tests.unit.c.build import NEEDS_C

PAIR = NdArrayType((2,))

# In C each is a helper, or calls one. The last needs 16 bits.
FUNCTIONS = (
    ops.sigmoid, ops.tanh, ops.erf, ops.exp, ops.log, ops.sin, ops.sqrt, lambda p: ops.sort(p, 0)[0],
    lambda p: ops.maximum(p, p * 2), lambda p: ops.gather(p, ops.iota(2)),
    lambda p: ops.cast(ops.cast(p, Dtype.float16), Dtype.float32),
)  # fmt: skip


def task(names, name="model", dim="batch", labels=()):
    """Build a model with a parameter of each name, a symbolic size, and labels."""

    def model(x):
        rows = []
        for k, parameter in enumerate(names):
            value = FUNCTIONS[k % len(FUNCTIONS)](layers.parameter(parameter, PAIR))
            rows.append(ops.reshape(layers.label(labels[k], value) if k < len(labels) else value, 1, 2))
        return x * ops.broadcast(ops.sum(ops.concat(rows, 0), 0), x.shape)

    return Task(build(model, [NdArrayType((Dim(dim), 2))]), sgd(0.1), mse, name)


def predicting(task, target):
    """Emit only `predict` of a task, which is a hundred times faster."""
    backend = get_backend(target)
    return backend.emit(program(task, backend.has, (Kind.PREDICT,)))


WORDS = re.findall(
    r"\w+",
    """
alignas alignof and asm auto bitand bool catch char16_t class compl concept const_cast constexpr co_await
decltype default delete dynamic_cast enum explicit export extern final friend goto inline mutable namespace
new noexcept nullptr operator override private requires register restrict signed static_cast std struct
template this thread_local throw typedef typeid typename typeof union unsigned using virtual volatile wchar_t
xor _Alignas _Atomic _Bool _Generic _Static_assert _Thread_local __attribute__ __cplusplus __func__ linux unix
errno stdin stdout EOF BUFSIZ HUGE_VAL I INT_MAX M_PI NAN NULL PRId64 RAND_MAX SIZE_MAX UINT64_MAX main malloc
arguments await debugger eval function instanceof interface let null prototype super var void compute
    """,
)
"""Reserved words of C, C++, their standard headers, and JavaScript."""

OTHER = [
    "0",
    "00",
    "1.2",
    "a.b",
    "a_b",
    "A.B",
    "_",
    "__",
    "_x",
    "__init__",
    "__proto__",
    "x" * MAX_NAME_CHARACTERS,
]


@cache
def dictionary(target):
    """List names with a meaning in the language, its libraries or the emitted files."""
    count = len(FUNCTIONS) - bool(cannot(target, NO_16_BITS))
    texts = emit(task([f"p{k}" for k in range(count)]), target).files.values()
    emitted = re.findall(r"[A-Za-z_]\w*", "".join(text for text in texts if isinstance(text, str)))
    python = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins)}
    return sorted({*emitted, *python, *WORDS, *OTHER} - {"step"})


def names_for(target, most=8):
    words = st.deferred(lambda: st.sampled_from(dictionary(target)))  # emitted when the first test draws
    part = st.one_of(words, st.from_regex(r"[A-Za-z0-9_]{1,6}", fullmatch=True))
    dotted = st.lists(part, min_size=1, max_size=3).map(".".join)
    fitting = dotted.filter(lambda text: len(text) <= MAX_NAME_CHARACTERS and text != "step")
    return st.lists(fitting, min_size=1, max_size=most, unique=True)


def dims_for(target):
    return st.deferred(lambda: st.sampled_from(dictionary(target))).filter(str.isidentifier)


MARKERS = [
    "*/ int x; /*",
    '"""',
    "'''",
    "\\",
    "__import__('os').system('true')",
    "{{ 7 * 7 }}",
    "//",
    "??/",
    "\n",
    "\0",
]
TEXTS = st.lists(st.one_of(st.sampled_from(MARKERS), st.text(max_size=5)), max_size=5).map("".join)

MAKERS = {
    "a task": lambda name: task(["w"], name),
    "a parameter": lambda name: layers.parameter(name, PAIR),
    "a label": lambda name: build(lambda x: layers.label(name, x), [PAIR]),
    "a place": lambda name: Slot(name, PAIR),
    "a number": lambda name: RunNumber(name, NdArrayType(())),
    "a program": lambda name: Program(name, ()),
    "a function": lambda name: lower(build(ops.exp, [PAIR]), name),
    "an argument": lambda name: lower(build(ops.exp, [PAIR]), "f", [name]),
}
OF_ARRAYS = {"a parameter", "a label", "a place", "a number", "an argument"}


@pytest.mark.parametrize("kind", MAKERS)
@given(
    st.one_of(
        TEXTS, st.text("ab.0_é\n", max_size=4), st.integers(1, MAX_NAME_CHARACTERS + 5).map("x".__mul__)
    )
)
def test_names_are_validated(kind, name):
    made = (
        (lambda: build(lambda: MAKERS[kind](name), []))
        if kind == "a parameter"
        else (lambda: MAKERS[kind](name))
    )
    pattern = r"\w+([./-]\w+)*" if kind in OF_ARRAYS else r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*"
    fits = re.fullmatch(pattern, name) and len(name) <= MAX_NAME_CHARACTERS
    if fits or (kind == "an argument" and not name):
        made()
    else:
        with pytest.raises(OptionError, match="a name must"):
            made()


@pytest.mark.parametrize("names", [["f.g"], ["0"], ["f", "f"]])
def test_functions_of_a_program_have_distinct_identifiers(names):
    functions = [lower(build(ops.exp, [PAIR]), name) for name in names]
    with pytest.raises(OptionError, match="distinct identifiers"):
        Program("model", tuple(functions))


@pytest.mark.parametrize("target", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("name", ["lambda", "Checked", "print"])
def test_functions_do_not_shadow_names_of_the_file(target, name):
    with pytest.raises(OptionError, match="free in the emitted file"):
        get_backend(target).emit(Program("model", (lower(build(ops.exp, [PAIR]), name),)))


@given(st.text(), st.sets(st.text(max_size=3)))
def test_identifiers_are_ascii_and_fresh(wish, reserved):
    namer = Namer(reserved)
    first, second = namer.fresh(wish), namer.fresh(wish)
    assert re.fullmatch(r"[A-Za-z]\w*", first, re.ASCII)
    assert len({first, second, *reserved}) == 2 + len(reserved)


def parts_of(source):
    """Count the syntax nodes of Python source by kind, except for variables.

    An expression with long names gets a line of its own, and so a variable.
    """
    compile(source, "emitted", "exec")
    variable = (ast.Assign, ast.Name, ast.expr_context)
    return Counter(type(node) for node in ast.walk(ast.parse(source)) if not isinstance(node, variable))


@pytest.mark.parametrize("target", ["numpy", "torch", "jax"])
def test_python_differs_in_names_only(target):
    @given(names_for(target), names_for(target, 2), dims_for(target))
    def check(names, labels, dim):
        plain = task([f"p{k}" for k in range(len(names))], labels=["q", "r"][: len(labels)])
        chosen = task(names, labels[0], dim, labels)
        assert parts_of(predicting(chosen, target).source) == parts_of(predicting(plain, target).source)

    check()


@settings(max_examples=8)
@given(names_for("numpy"), dims_for("numpy"))
def test_a_learner_has_parameters_by_name(names, dim):
    plain = [f"p{k}" for k in range(len(names))]
    x, y = np.float32([[1, 2], [3, 4], [5, 6]]), np.ones((3, 2), np.float32)
    learners = [emit(each).load()().learner() for each in (task(names, dim=dim), task(plain))]
    for learner in learners:
        learner.parameters = {n: np.float32([k + 1, k + 2]) for k, n in enumerate(learner.parameters)}
        learner.step(x, y)
    assert list(learners[0].parameters) == names
    np.testing.assert_array_equal(learners[0].predict(x), learners[1].predict(x))
    for mine, theirs in zip(names, plain, strict=True):
        np.testing.assert_array_equal(learners[0].parameters[mine], learners[1].parameters[theirs])


def emitted(task, target, refusal):
    """Emit a task; None if it is refused for this reason."""
    try:
        return emit(task, target)
    except OptionError as error:
        refused = str(error)
    assert refusal in refused
    return None


def outline(source):
    """List the classes of Python source with their members, and the functions."""
    tree = ast.parse(source)
    found = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    inside = [child for node in found if isinstance(node, ast.ClassDef) for child in node.body]
    return [type(node).__name__ for node in (*tree.body, *inside)]


@settings(max_examples=5)
@given(names_for("torch-module"))
def test_a_module_keeps_its_attributes(names):
    chosen = emitted(task(names, names[0]), "torch-module", "no attributes of torch.nn.Module")
    if chosen:
        plain = emit(task([f"p{k}" for k in range(len(names))]), "torch-module")
        compile(chosen.source, "emitted", "exec")
        assert outline(chosen.source) == outline(plain.source)


def code(source):
    """Remove the comments of C."""
    joined = source.replace("??/", "\\").replace("\\\n", "")
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", joined, flags=re.DOTALL)


@pytest.mark.parametrize("target", ["numpy", "torch", "jax", "torch-module", "c"])
@settings(max_examples=10)
@given(text=TEXTS)
def test_descriptions_are_escaped(target, text):
    def sources(doc):
        files = (
            get_backend(target).emit(Program("model", (lower(build(ops.exp, [PAIR]), "f", doc=doc),))).files
        )
        return {name: file for name, file in files.items() if name in ("model.py", "model.c", "model.h")}

    for name, source in sources(text).items():
        source.encode()
        if name.endswith(".py"):
            compile(source, name, "exec")
            texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
            assert one_line(text) in texts
            assert parts_of(source) == parts_of(sources("plain")[name])
        else:
            assert code(source) == code(sources("plain")[name])


def checked(folder, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


GCC = ["gcc", "-std=c11", "-fsyntax-only", "-fopenmp-simd", "-Wall", "-Wextra", "-Wno-unused-parameter"]


@NEEDS_C
@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc")
def test_c_compiles_with_any_word_as_a_parameter(tmp_path):
    """Parameters are all words of the emitted files, of C, C++ and the standard headers."""
    words = [word for word in dictionary("c") if len(word) < 40]
    for k in range(0, len(words), 150):
        predicting(task(words[k : k + 150], f"words{k}"), "c").write(tmp_path)
    checked(tmp_path, *GCC, *(path.name for path in tmp_path.glob("words*.c")))
    headers = "".join(
        f'#include "{path.name}"\n' for path in tmp_path.glob("words*.h") if "runtime" not in path.name
    )
    (tmp_path / "all.cpp").write_text("#include <cerrno>\n#include <cmath>\n#include <cstdio>\n" + headers)
    if shutil.which("g++"):
        checked(tmp_path, "g++", "-std=gnu++17", "-fsyntax-only", "all.cpp")


@NEEDS_C
@pytest.mark.skipif(not shutil.which("g++"), reason="there is no g++")
@settings(max_examples=1)
@given(data=st.data())
def test_c_compiles_with_any_name_of_a_model_and_of_a_size(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    for number in range(4):
        name, size = data.draw(names_for("c", 1))[0], data.draw(dims_for("c"))
        artifact = emitted(task(["w"], name, size), "c", "must not be used by C, C++ or the emitted files")
        if artifact:
            artifact.write(folder / f"n{number}")
            (folder / f"n{number}/main.cpp").write_text(f'#include "{name}.hpp"\nint main() {{}}\n')
    sources = list(folder.glob("*/*.c"))
    checked(folder, *GCC, *sources)
    checked(folder, "g++", "-std=gnu++17", "-fsyntax-only", *folder.glob("*/main.cpp"))


def renamed(name):
    """Tell whether the name is changed in C."""
    return Namer(get_backend("c").dialect.reserved).fresh(name) != name


@NEEDS_C
@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc")
def test_identifiers_of_c_are_no_macros_of_the_standard_headers():
    headers = (
        "errno", "inttypes", "limits", "math", "stdbool", "stddef", "stdint", "stdio", "stdlib", "string",
        "dirent", "fcntl", "sys/stat", "time", "unistd",  # of the program that trains
    )  # fmt: skip
    text = "".join(f"#include <{header}.h>\n" for header in headers)
    done = subprocess.run(["gcc", "-std=gnu11", "-dM", "-E", "-"], input=text, capture_output=True, text=True)
    macros = re.findall(r"^#define (\w+)(?: |$)", done.stdout, re.MULTILINE)
    assert len(macros) > 100
    assert [name for name in macros if not renamed(name)] == []


def test_identifiers_of_c_are_no_helpers_of_the_emitted_file():
    files = emit(task([f"p{k}" for k in range(len(FUNCTIONS))]), "c").files
    source = files["model.c"] + files["model_runtime.h"]
    helpers = re.findall(r"^(?:static [^\n;={(]*?|#define )(\w+)\(", source, re.MULTILINE)
    own = [name for name in helpers if not name.startswith(("model_", "compute_", "update_", "check", "__"))]
    assert {"exp_f32", "is_misaligned", "argsort_f32"} <= set(own)
    assert [name for name in own if not renamed(name)] == []


@settings(max_examples=3)
@given(names_for("scratch", 4), st.lists(TEXTS.filter(str.strip), min_size=2, max_size=2))
def test_a_sprite_has_lists_of_these_names_and_items_of_these_texts(names, classes):
    if not {*SHARED, "input", "target", "output"}.isdisjoint(names):
        with pytest.raises(OptionError, match="shares with others"):
            emit(task(names, dim="n"), "scratch", classes=classes)
        return
    files = emit(task(names, dim="n"), "scratch", classes=classes).files
    told = json.loads(files["model_manifest.json"])
    assert list(told["tables"]) == [*names, "learning_rate"] or set(names) < set(told["tables"])
    with zipfile.ZipFile(io.BytesIO(files["model.sb3"])) as archive:
        project = json.loads(archive.read("project.json"))
    lists = {name: items for target in project["targets"] for name, items in target["lists"].values()}
    assert lists["classes"] == classes
    assert {place["list"] for name, place in told["tables"].items() if name in names} <= lists.keys()


@on_all_targets
def test_parameters_do_not_hide_array_literals(target):
    """Literals are global, so parameters of kernels must not have their names."""
    first, second = np.array([2.5, 3.5], np.float32), np.array([1.5, -0.5], np.float32)

    def model(x):
        p, q = layers.parameter("array", PAIR), layers.parameter("array_1", PAIR)
        return x * (p * ops.array(first)) + q * ops.array(second)

    p, q, x = np.float32([[1, 2], [3, 4], [5, 6]])
    predict = predicting(Task(build(model, [PAIR]), sgd(0.1), mse, "model"), target).load()().predict
    [found] = predict(p, q, x)
    np.testing.assert_allclose(as_numpy(found), x * (p * first) + q * second, rtol=1e-6)


@NEEDS_C
@pytest.mark.parametrize(
    "size",
    some(["check", "compute_out", "model_step", "lacks_parameters", "code", "exp_f32"], ["check", "exp_f32"]),
)
def test_sizes_do_not_hide_functions_of_c(size):
    model = build(lambda x: ops.gather(ops.exp(x), ops.argmax(x, 1)), [NdArrayType((Dim(size), 2))])
    learner = emit(Task(model, sgd(0.1), mse), "c").load()().learner()
    np.testing.assert_allclose(learner.predict(np.zeros((2, 2), np.float32)), np.ones((2, 2)))
