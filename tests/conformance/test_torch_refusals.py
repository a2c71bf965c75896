"""Refusals of modules: PyTorch's own cause, the module, the line, and what to write instead."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import numpy as np
import pytest

from catgrad.errors import CatgradError
from catgrad.frontends.torch import from_torch

torch = pytest.importorskip("torch", reason="PyTorch, which is imported from, is not installed")

F, nn = torch.nn.functional, torch.nn


class Part(nn.Module):
    """A function of itself and an array, with layers, a parameter and a buffer."""

    def __init__(self, function):
        super().__init__()
        self.a, self.layers = nn.Linear(4, 4), nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.scale, self.function = nn.Parameter(torch.ones(4)), function
        self.register_buffer("count", torch.tensor(2))

    def forward(self, x):
        return self.function(self, x)


class Whole(nn.Module):
    """A module with a part at block.1."""

    def __init__(self, function):
        super().__init__()
        self.block = nn.Sequential(nn.Identity(), Part(function))

    def forward(self, x):
        return self.block(x)


def repeated(m, x):
    for _ in range(m.count):
        x = m.a(x)
    return x


def halved(m, x):
    while x.norm() > 1:
        x = x / 2
    return m.a(x)


def asserted(m, x):
    assert (x < 100).all(), "too large"
    return m.a(x)


def increased(m, x):
    m.scale.mul_(2)
    return m.a(x) * m.scale


def unpacked(m, x):
    packed = nn.utils.rnn.pack_padded_sequence(x[None], [int(x.sum().abs()) + 1], batch_first=True)
    return packed.data


def compared(m, x):
    if x.shape[1] == 4:
        raise ValueError("it needs 3 channels")
    return x


BRANCH = "control flow in a module must not depend on data, but `{}`: a truth value is read"
NUMBER = "numbers must not be read out of tensors"
WHOLE = "must not depend on data, but `{}`: a whole number is read from a tensor"
SIZE = "sizes must not depend on data, but the size of its result does"
NUMPY = "must compute with tensors, but `{}`: one is converted to an array of NumPy"
OWN = "a module must run on the example inputs, but PyTorch raises "
TRACED = "PyTorch must be able to trace each operation, but `{}`: it cannot trace "

REFUSED = {
    "if": (lambda m, x: m.a(x) if x.sum() > 0 else x, BRANCH, "torch.where"),
    "buffer": (lambda m, x: m.a(x) if m.count > 1 else x, BRANCH, "torch.where"),
    "while": (halved, BRANCH, "torch.where"),
    "assert": (asserted, BRANCH, "leave out checks"),
    "equal": (lambda m, x: m.a(x) if torch.equal(x, x) else x, BRANCH, "torch.where"),
    "allclose": (lambda m, x: m.a(x) if torch.allclose(x, x) else x, BRANCH, "torch.where"),
    "item": (lambda m, x: m.a(x) * x.max().item(), NUMBER, "compute with the tensor"),
    "tolist": (lambda m, x: m.a(x) * x[0].tolist()[0], NUMBER, "compute with the tensor"),
    "float": (lambda m, x: m.a(x) * float(x.mean()), NUMBER, "compute with the tensor"),
    "slice": (lambda m, x: m.a(x)[:, : int(x.abs().sum())], NUMBER, "compute with the tensor"),
    "packed": (unpacked, NUMBER, "compute with the tensor"),
    "range": (repeated, WHOLE, "number of Python"),
    "list": (lambda m, x: m.layers[x[0, :2].argmax()](x), WHOLE, "number of Python"),
    "numpy": (lambda m, x: m.a(x) * torch.from_numpy(np.tanh(x.detach().numpy())), NUMPY, "of torch"),
    "asarray": (lambda m, x: m.a(x) * torch.tensor(np.asarray(x)), NUMPY, "of torch"),
    "address": (lambda m, x: m.a(x) * x.data_ptr(), "the memory of one is read", "operations of torch"),
    "mask": (lambda m, x: m.a(x)[x > 0], "so that sizes do not depend on data", "torch.where"),
    "nonzero": (lambda m, x: m.a(x)[torch.nonzero(x[:, 0])[:, 0]], SIZE, "nonzero_static"),
    "unique": (lambda m, x: torch.unique(m.a(x)), SIZE, "nonzero_static"),
    "select": (lambda m, x: torch.masked_select(m.a(x), x > 0), SIZE, "torch.where"),
    "counts": (lambda m, x: m.a(x).repeat_interleave((x[:, 0] > 0).long(), 0), SIZE, "torch.where"),
    "sparse": (lambda m, x: m.a(x.to_sparse().to_dense()), TRACED, "operations on whole tensors"),
    "nested": (lambda m, x: torch.nested.nested_tensor([m.a(x)]).to_padded_tensor(0.0), TRACED, "operations"),
    "leaf": (increased, f"{OWN}RuntimeError: a leaf Variable that requires grad", "mend that line"),
    "shapes": (lambda m, x: m.a(x.T), f"{OWN}RuntimeError: mat1 and mat2 shapes", "pass inputs"),
    "key": (lambda m, x: {"a": x}["b"], f"{OWN}KeyError: 'b'", "mend that line"),
    "check": (compared, f"{OWN}ValueError: it needs 3 channels", "pass inputs that it takes"),
    "arguments": (lambda m, x: m.a(x, x), f"{OWN}TypeError: Linear.forward\\(\\) takes 2", "mend that line"),
    "singular": (lambda m, x: torch.linalg.svd(m.a(x))[0], "operation must be supported", "other operations"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_cause_the_module_the_line_and_the_remedy(name):
    function, cause, remedy = REFUSED[name]
    with pytest.raises(CatgradError) as caught:
        from_torch(Whole(function), torch.randn(3, 4), train=True, dynamic=("batch",))
    text = str(caught.value)
    assert re.search(cause.replace("{}", ".+"), text), text
    assert remedy in text.rpartition(";")[2], text
    assert "block.1" in text, text
    lines, first = inspect.getsourcelines(function)
    found = re.search(r"\(test_torch_refusals.py, line (\d+)\)", text)
    assert found, text
    # A graph has the line of forward, an error that of the function that it calls.
    inner = range(first, first + len(lines))
    outer = inspect.getsourcelines(Part.forward)[1] + 1
    assert int(found[1]) in (*inner, outer), text
    assert "try module(*inputs)" not in text and "\n" not in text


class Keyword(nn.Module):
    def forward(self, x, *, scale):
        return x * scale


class WithoutInit(nn.Module):
    def __init__(self):
        self.width = 3

    def forward(self, x):
        return x


BEFORE = {
    "keyword": (Keyword, 1, "missing a required argument: 'scale', in Keyword; .*wrapping module"),
    "too many": (lambda: nn.Linear(4, 4), 2, "too many positional arguments"),
    "init": (WithoutInit, 1, r"must begin with super\(\).__init__\(\).*in WithoutInit"),
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(4)), 1, r"0.weight of a lazy layer has none; call module"),
    "script": (lambda: nn.Sequential(torch.jit.script(nn.Linear(4, 4))), 1, "but 0 is TorchScript; import"),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated", "ignore:.*torch.jit.*not supported")
@pytest.mark.parametrize("name", BEFORE)
def test_incomplete_modules_are_refused_before_the_export(name):
    make, count, pattern = BEFORE[name]
    with pytest.raises(CatgradError, match=pattern):
        from_torch(make(), *[torch.randn(3, 4)] * count)


QUIET = """
import sys
sys.path.insert(0, {root!r})
from tests.conformance.test_torch_refusals import REFUSED, Whole
from catgrad import from_torch
from catgrad.errors import CatgradError
import torch
for name in ("if", "float", "shapes", "sparse", "numpy"):
    try:
        from_torch(Whole(REFUSED[name][0]), torch.randn(3, 4), train=True, dynamic=("batch",))
    except CatgradError as error:
        print(error)
from_torch(Whole(lambda m, x: (print("called"), m.a(x))[1]), torch.randn(3, 4))
"""


def test_nothing_but_the_refusal_reaches_the_terminal(request):
    code = QUIET.format(root=str(request.config.rootpath))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0 and run.stderr == "", run.stderr
    assert len(run.stdout.splitlines()) == 5
