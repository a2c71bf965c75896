"""The backend of `torch.compile`: values, gradients and effects are those of PyTorch."""

from __future__ import annotations

import copy
import re
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catgrad.errors import CatgradWarning, UnsupportedOp
from tests.covering import some

torch = pytest.importorskip("torch", reason="PyTorch, whose backend this is, is not installed")

from catgrad.frontends.torch.dynamo import backend as module  # noqa: E402  # it needs PyTorch
from tests.conformance.torch_backend import register  # noqa: E402
from tests.conformance.torch_models import Block, Rounded  # noqa: E402

pytestmark = [  # TorchDynamo's own warnings
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]

F, nn, optim = torch.nn.functional, torch.nn, torch.optim


@pytest.fixture(autouse=True)
def fresh():
    register()
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiled(function, **options):
    return torch.compile(function, backend="catgrad", **options)


class Twice(nn.Module):
    """One layer called twice, and an embedding whose table is also the last layer."""

    def __init__(self):
        super().__init__()
        self.table, self.hidden = nn.Embedding(7, 6), nn.Linear(6, 6)
        self.head = nn.Linear(6, 7, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        return self.head(self.hidden(self.hidden(self.table(tokens)).tanh()))


def block():
    made = Block()
    made.drop.p = 0.0
    return made


def lenet():
    # A bias before batch norm has no gradient but rounding errors, which Adam takes for directions.
    conv = nn.Conv2d(1, 4, 3, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5))


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


MODELS = {
    "mlp": (mlp, lambda n: torch.randn(n, 4)),
    "cnn": (lenet, lambda n: torch.randn(n, 1, 8, 8)),
    "block": (block, lambda n: torch.randn(n, 6, 8)),
    "twice": (Twice, lambda n: torch.randint(0, 7, (n, 5))),
}
"""Modules, and batches of n."""


@pytest.mark.parametrize("name", some(MODELS, ("mlp", "block")))
def test_training_has_the_losses_and_weights_of_pytorch(name):
    make, batch = MODELS[name]
    ours, optimisers = make().train(), []
    theirs = copy.deepcopy(ours)
    functions = [compiled(ours), theirs]
    for each in (ours, theirs):
        optimisers.append(optim.AdamW(each.parameters(), 1e-2))
    for size in (4, 6, 5, 4, 3):
        x, losses = batch(size), []
        if name != "mlp":  # TorchDynamo takes its first size for fixed
            torch._dynamo.mark_dynamic(x, 0)
        for function, optimiser in zip(functions, optimisers, strict=True):
            loss = function(x).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        np.testing.assert_allclose(*losses, rtol=1e-5)
    for key, tensor in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[key], tensor, rtol=1e-4, atol=1e-5)


def test_one_version_serves_all_batch_sizes(monkeypatch):
    versions, version = [], module.Version
    monkeypatch.setattr(module, "Version", lambda *parts: versions.append(parts) or version(*parts))
    layer = nn.Linear(4, 3)
    function = compiled(layer)
    for size in (5, 2, 3, 7):
        x = torch.randn(size, 4)
        with torch.no_grad():
            y = function(x)
        assert not y.requires_grad
        torch.testing.assert_close(y, layer(x))
    assert len(versions) == 2  # TorchDynamo fixes the sizes of the first call


def test_operations_on_sizes_have_a_version_for_each(monkeypatch):
    def halves(x):
        return x.reshape(x.shape[0] // 2, 2, -1).exp().sum(1)

    function = compiled(halves, dynamic=True)
    for size in (4, 6, 4):
        x = torch.randn(size, 3)
        torch.testing.assert_close(function(x), halves(x))
    monkeypatch.setattr(module, "MAX_VERSIONS", 2)
    x = torch.randn(8, 3)
    with pytest.warns(CatgradWarning, match="at most 2 combinations of sizes"):
        torch.testing.assert_close(function(x), halves(x))
    for size in (10, 4):
        x = torch.randn(size, 3)
        torch.testing.assert_close(function(x), halves(x))


def test_an_unsupported_operation_runs_eagerly_with_one_warning():
    def part(x):
        return torch.special.bessel_j0(x) + torch.special.bessel_j1(x)

    x = torch.randn(3)
    function = compiled(part)
    with pytest.warns(CatgradWarning) as found:
        values = [function(x), function(x)]
    assert all(torch.equal(value, part(x)) for value in values)
    text = str(found.pop(CatgradWarning).message)
    assert not found.list
    place = r"in test_torch_compile_backend.py, line \d+"
    assert re.search(rf"lacks 2: aten.special_bessel_j0.default {place}; aten.special_bessel_j1", text)


def in_halves(x, y):
    h = torch.tanh(x @ y)
    torch._dynamo.graph_break()
    part = h.T
    torch._dynamo.graph_break()
    return part @ y + h


def without_gradient(x, y):
    with torch.no_grad():
        scale = (x * y).sum()
    return x * scale, y.detach() * 2


def changes(x, y):
    kept = x.detach().clone()
    kept[0].mul_(2)
    kept += y.detach()
    return kept * x


def checkpointed(x, y):
    return torch.utils.checkpoint.checkpoint(lambda x, y: (x @ y).sin().exp(), x, y, use_reentrant=False)


def in_16_bits(x, y):
    with torch.autocast("cpu", torch.bfloat16):
        return x @ y


def hooked(x, y):
    h = x * y
    h.register_hook(lambda dh: 3 * dh)
    return h.exp()


def created(x, y):
    (dx,) = torch.autograd.grad((x * y).exp().sum(), x)
    return dx * 2


def hidden(x, y):
    h = x * y
    with torch.no_grad():
        h.mul_(2)
    return h


def inferred(x, y):
    with torch.inference_mode():
        h = x * y
    return x * y + h.clone()


FUNCTIONS = {
    "graph breaks": (in_halves, ""),
    "detached parts": (without_gradient, ""),
    "in place inside": (changes, ""),
    "checkpoint": (checkpointed, ""),
    "autocast": (in_16_bits, ""),
    "whole results": (lambda x, y: (x.argmax(-1), x.long(), x > y, x * y), ""),
    "transposed result": (lambda x, y: (x @ y).T, ""),
    "constants": (lambda x, y: x * torch.linspace(0, 1, 2000)[-3:] + torch.arange(3) * y, ""),
    "dropout": (lambda x, y: F.dropout(x @ y), "random numbers must be those of PyTorch.*dropout"),
    "own gradient": (lambda x, y: Rounded.apply(x) * y, "autograd_function_apply.* defines its own"),
    "view of an input": (lambda x, y: (x.view(9), x * y), "that of view .* is shared"),
    "two views": (lambda x, y: ((h := x * y), h.T), "that of getattr .* is shared"),
    "repeated rows": (lambda x, y: (x[0] * y[0]).expand(3, 3), "that of expand .* is shared"),
    "hook": (hooked, "hook"),
    "branch": (lambda x, y: torch.cond((x > y).all(), torch.sin, torch.cos, (x,)), "cond"),
    "gradients inside": (created, ""),
    "hidden update": (hidden, r"changed under torch.no_grad\(\)"),
    "inference mode": (inferred, "inference_mode"),
}


def agree(function, other, inputs):
    """Compare results, what they share and require, and the gradients and new values of the inputs."""
    ours, theirs = ([x.detach().clone().requires_grad_(x.requires_grad) for x in inputs] for _ in range(2))
    torch.manual_seed(0)
    results = [other(*theirs)]
    torch.manual_seed(0)
    results.append(function(*ours))
    for wanted, found in zip(*(torch.utils._pytree.tree_leaves(r) for r in results), strict=True):
        torch.testing.assert_close(found, wanted)
        assert (found.requires_grad, found.stride()) == (wanted.requires_grad, wanted.stride())
    for each in results:
        differentiable = [y for y in torch.utils._pytree.tree_leaves(each) if y.grad_fn is not None]
        if differentiable:
            sum(y.float().square().sum() for y in differentiable).backward()
    for x, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x, wanted)
        grads = [each.grad if each.is_leaf else None for each in (x, wanted)]
        assert (grads[0] is None) == (grads[1] is None)
        if grads[0] is not None:
            torch.testing.assert_close(*grads)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_mean_what_they_do_in_pytorch(name):
    function, reason = FUNCTIONS[name]
    inputs = [torch.randn(3, 3, requires_grad=True) for _ in range(2)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CatgradWarning)
        agree(compiled(function), function, inputs)
    found = [str(each.message) for each in caught if each.category is CatgradWarning]
    assert len(found) == bool(reason)
    assert all(re.search(reason, text) for text in found)


def test_numbers_are_arguments():
    function = compiled(lambda x, n: x / n)
    x = torch.randn(4, 3)
    for n in (2.0, 5.0, 0.0, -0.0, 3, 4, True):  # TorchDynamo passes the second number of a kind as an input
        torch.testing.assert_close(function(x, n), x / n)


def test_inputs_that_overlap_are_changed_in_order():
    def change(x, y):
        x.mul_(2)
        return x + y

    function = compiled(change)
    for shift in (4, 2, 0):
        ours, theirs = torch.arange(8.0), torch.arange(8.0)
        y = function(ours[:4], ours[shift : shift + 4])
        torch.testing.assert_close(y, change(theirs[:4], theirs[shift : shift + 4]))
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_dtypes(dtype):
    x = torch.randn(3, 4, dtype=getattr(torch, dtype), requires_grad=True)
    agree(compiled(lambda x: x.softmax(-1)), lambda x: x.softmax(-1), [x])


def test_gradients_of_gradients_are_refused():
    x = torch.randn(3, requires_grad=True)
    y = compiled(torch.sin)(x).sum()
    with pytest.raises(UnsupportedOp, match="of the first order, but create_graph=True"):
        torch.autograd.grad(y, x, create_graph=True)


def test_options_are_those_of_the_target():
    x = torch.randn(3)
    torch.testing.assert_close(compiled(torch.exp, options={"openmp": True})(x), x.exp())
    with pytest.raises(Exception, match="openmq"):
        compiled(torch.cos, options={"openmq": True})(x)


STATEMENTS = {
    "product": lambda a, b: a * b,
    "matrix product": lambda a, b: a @ b,
    "tanh": lambda a, b: torch.tanh(a),
    "transposed": lambda a, b: a.T,
    "row": lambda a, b: a[1].expand(3, 3),
    "detached": lambda a, b: a.detach(),
    "copy": lambda a, b: a.clone(),
    "added in place": lambda a, b: a.add_(b),
    "row in place": lambda a, b: a.select(0, 1).mul_(2) + b,
    "overwritten": lambda a, b: a.copy_(b),
}
"""Functions of two square matrices, some of which share memory with or change the first."""

PROGRAMS = st.lists(
    st.tuples(st.sampled_from(sorted(STATEMENTS)), *[st.integers(0, 9)] * 2), min_size=2, max_size=6
)


@given(PROGRAMS)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_programs_of_views_and_changes(program):
    def function(*inputs):
        values = list(inputs)
        for name, i, j in program:
            values.append(STATEMENTS[name](values[i % len(values)], values[j % len(values)]))
        return values[-2:]

    torch._dynamo.reset()
    inputs = [torch.randn(3, 3, requires_grad=k < 2) for k in range(4)]
    try:
        agree(function, function, inputs)
    except RuntimeError:
        assume(False)  # PyTorch refuses to change what gradients need
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CatgradWarning)
        agree(compiled(function), function, inputs)
