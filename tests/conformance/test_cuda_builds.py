"""Emitted CUDA built by nvcc for several GPUs: no warnings, kernels in registers, at most 48 KiB shared.

And accesses of 16 bytes where four elements of a thread are side by side.
"""

from __future__ import annotations

import re

import pytest
from catgrad.backends.cuda.tools import NVCC

from catgrad import Dim, Dtype, Functions, NdArrayType, Task, build, losses, mixed_precision, ops
from examples import char_gpt, digits, iris, llama, lstm
from tests.compiled import compiled_once
from tests.conformance.c_models import MODELS, classes, mlp
from tests.covering import some
from tests.targets import emit

pytestmark = pytest.mark.skipif(bool(NVCC.missing()), reason=f"nvcc: {NVCC.missing()}")
TASKS = {
    "mlp": MODELS["mlp"].task,
    "cnn": MODELS["cnn"].task,
    "bfloat16": lambda: mlp(Dtype.bfloat16),
    "float16": lambda: mlp(Dtype.float16),
    "char_gpt": MODELS["char_gpt"].task,
}
BUILDS = {"mlp": ("75",), "cnn": ("90",), "bfloat16": ("80",), "float16": ("90",), "char_gpt": ("90",)}
"""Compute capabilities that models are built for: tensor cores, which
multiply 16-bit floats, are used from 8.0 on; for 8.0, examples are built."""
SHARED_BYTES = 48 * 2**10


def transformer(model) -> Task:
    """Train a model of text as the examples do; one block has the kernels of all."""
    return Task(
        model, char_gpt.optimiser(10), losses.cross_entropy, "text", classes(*model.target.table[0].shape[:2])
    )


def of_torch() -> Task:
    """Import one block of the vision transformer."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from examples import vit

    return vit.task(vit.imported(1), 10)


EXAMPLES = {
    "iris": iris.hidden,
    "digits": digits.cnn,
    "digits_mlp": digits.mlp,
    "lstm": lstm.lstm,
    "char_gpt": lambda: transformer(char_gpt.gpt(60, depth=1)),
    "char_gpt in mixed precision": lambda: mixed_precision(transformer(char_gpt.gpt(60, depth=1))),
    "llama": lambda: transformer(llama.llama(60, depth=1)),
    "llama in mixed precision": lambda: mixed_precision(transformer(llama.llama(60, depth=1))),
    "vit": of_torch,
}
OTHERS = dict.fromkeys(EXAMPLES, ("75", "90")) | {
    f"{name} in mixed precision": ("90",) for name in ("char_gpt", "llama")
}
"""Compute capabilities other than 8.0 that examples are built for."""

REPEATED = {*EXAMPLES} - {"lstm", "llama in mixed precision"}
"""Examples whose kernels are those of other examples, and of BUILDS."""
LOCAL_ARRAYS = re.compile(r"\b(?:sin|cos)f?\(")
"""Functions of CUDA that keep the digits of large arguments on the stack."""


def built(artifact, architectures, folder, *sources):
    """Build a program by nvcc; returns the source of its kernels, and their names, stack and spills."""
    artifact.write(folder)
    wanted = [word for sm in architectures for word in ("-gencode", f"arch=compute_{sm},code=sm_{sm}")]
    strict = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-fPIC", "-Xptxas", "-v"]
    source = f"{artifact.program.name}.cu"
    done = compiled_once(
        *NVCC.command(), "-std=c++17", "-O3", *wanted, *strict, source, *sources, "-o", "out", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert all(int(bytes) <= SHARED_BYTES for bytes in re.findall(r"(\d+) bytes smem", done.stderr))
    properties = r"Function properties for (\w+)\n\s*(\d+) bytes stack frame, (\d+) .*, (\d+)"
    kernels = re.findall(properties, done.stderr)
    text = (folder / source).read_text()
    assert len(kernels) >= len(architectures) * text.count("<<<") // 8
    return text, kernels


@pytest.mark.parametrize("name", some(BUILDS, ("mlp", "float16", "char_gpt")))
def test_nvcc_builds_without_warnings_and_kernels_stay_in_registers(name, tmp_path):
    _, kernels = built(emit(TASKS[name](), "cuda"), BUILDS[name], tmp_path, "-shared")
    assert [each for each in kernels if each[1:] != ("0", "0", "0")] == []


def body_of(text, name):
    """Return the text of a kernel, and of the parts of it that are functions."""
    body = text.split(f" {name}(", 1)[1].partition("\n}\n")[0]
    parts = re.findall(r"__forceinline__ void (\w+)\(", text)
    called = [part for part in parts if part != name and re.search(rf"\b{part}\(", body)]
    return body + "".join(body_of(text, part) for part in called)


@pytest.mark.parametrize(
    ("name", "others"),
    [
        pytest.param(name, others, marks=pytest.mark.long if others or name in REPEATED else ())
        for name in EXAMPLES
        for others in (False, True)
    ],
)
def test_nvcc_builds_every_example(name, others, tmp_path):
    """Build and link the programs that train."""
    architectures = OTHERS[name] if others else ("80",)
    artifact = emit(EXAMPLES[name](), "cuda")
    host = ("train.cu", f"{artifact.program.name}_files.c")
    text, kernels = built(artifact, architectures, tmp_path, *host)
    assert [each for each in kernels if each[2:] != ("0", "0")] == []
    for mangled in {kernel for kernel, stack, _, _ in kernels if stack != "0"}:
        length, rest = re.match(r"_Z(?:N.*?E)?(\d+)(\w+)", mangled).groups()
        assert LOCAL_ARRAYS.search(body_of(text, rest[: int(length)])), mangled


def test_tiles_are_stored_as_16_bytes(tmp_path):
    """A product whose epilogue also reads an array; tiles of its factors are copied asynchronously."""
    x, w = NdArrayType((4096, 128)), NdArrayType((128, 128))
    term = build(lambda x, w: x + ops.matmul(x, w), [x, w])
    emit(Functions({"residual": term}, "residual"), "cuda").write(tmp_path)
    done = compiled_once(
        *NVCC.command(), "-std=c++17", "-O3", "-arch=compute_90", "-ptx", "residual.cu", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "residual.cu").read_text().count("__global__") == 1
    accesses = re.findall(r"((?:ld|st)\.global\S+)", (tmp_path / "residual.ptx").read_text())
    assert {access: accesses.count(access) for access in accesses} == {
        "ld.global.v4.f32": 4,
        "st.global.v4.f32": 4,
    }


def test_a_row_is_read_after_the_barrier_behind_which_another_thread_wrote_it(tmp_path):
    """Through a restricted pointer, nvcc would read an element before."""

    def mirrored(x):
        y = ops.softmax(x)
        return y, y * ops.flip(y, [1])

    term = build(mirrored, [NdArrayType((Dim("n"), 100))])
    emit(Functions({"mirrored": term}, "mirrored"), "cuda").write(tmp_path)
    flags = ("-std=c++17", "-O3", "-arch=compute_90", "-ptx")
    done = compiled_once(*NVCC.command(), *flags, "mirrored.cu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kernels = re.findall(
        r"(?ms)^\.visible \.entry.*?^}|^\.entry.*?^}", (tmp_path / "mirrored.ptx").read_text()
    )
    parts = [kernel.partition("bar.warp.sync") for kernel in kernels]
    writing = [(before, after) for before, barrier, after in parts if barrier and "st.global" in before]
    assert writing
    for before, after in writing:
        assert "ld.global.f32" not in before
        assert "ld.global.f32" in after
