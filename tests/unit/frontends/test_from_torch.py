"""`from_torch`: names, constants, gradients and errors."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from catgrad import Dtype, NdArrayType, compile_model, mse, sgd
from catgrad.errors import CatgradError, DtypeError, OptionError, ToolError, UnsupportedOp
from catgrad.frontends.torch import from_torch
from catgrad.frontends.torch.registry import TRANSLATIONS, Translation
from catgrad.frontends.torch.tracing.export import _declare_shapes
from catgrad.functors import factor_parameters
from catgrad.initialisers import Filled, Normal
from catgrad.programs.program import evaluate
from catgrad.terms.structural import Label
from tools.list_overloads import PAGE, table

torch = pytest.importorskip("torch", reason="PyTorch, which is imported from, is not installed")

from tests.conformance.torch_models import Function  # noqa: E402  # it needs PyTorch

nn = torch.nn


class Tied(nn.Module):
    """A language model with tied embeddings."""

    def __init__(self):
        super().__init__()
        self.table, self.unused = nn.Embedding(7, 4), nn.Linear(2, 2)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens, scale):
        return self.head(self.table(tokens)) * scale, tokens + 1


def test_names_come_from_the_state_dict_and_forward():
    imported = from_torch(Tied(), torch.zeros(2, 3, dtype=torch.int32), torch.ones(()), name="tied")
    assert imported.name == "tied"
    assert imported.inputs == {"tokens": NdArrayType((2, 3), Dtype.int32), "scale": NdArrayType(())}
    layers = from_torch(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), torch.ones(5, 2))
    assert list(layers.parameters) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_tied_weights_are_one_parameter_and_unused_ones_are_dropped():
    imported = from_torch(Tied(), torch.zeros(2, 3, dtype=torch.int64), torch.ones(()))
    assert list(imported.parameters) == ["table.weight"]


def test_parameters_are_copies():
    layer = nn.Linear(2, 3)
    imported = from_torch(layer, torch.ones(5, 2))
    before = imported.parameters["weight"].copy()
    with torch.no_grad():
        layer.weight.zero_()
    np.testing.assert_array_equal(imported.parameters["weight"], before)


def test_tensors_without_gradient_are_constants():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    model[0].requires_grad_(False)
    imported = from_torch(model, torch.ones(5, 2))
    assert list(imported.parameters) == ["1.weight", "1.bias"]
    _, term = factor_parameters(imported.model)
    found = evaluate(term, *imported.parameters.values(), np.ones((5, 2), np.float32))
    np.testing.assert_allclose(found[0], model(torch.ones(5, 2)).detach(), rtol=1e-6)


class Masked(nn.Module):
    """A product with a table of floats and one of booleans, both too large for literals."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(40, 40, dtype=torch.float64))
        self.register_buffer("scale", torch.randn(40, 40, dtype=torch.float64))
        self.register_buffer("mask", torch.ones(40, 40).tril() > 0)

    def forward(self, x):
        return x @ (self.weight * self.scale.exp()).masked_fill(self.mask, 0.5)


@pytest.mark.parametrize("target", ["numpy", "c"])
def test_large_constants_are_buffers(target):
    torch.manual_seed(0)
    module, x = Masked(), torch.randn(5, 40, dtype=torch.float64)
    imported = from_torch(module, x)
    assert list(imported.buffers) == ["constant.exp", "mask"]
    learner = compile_model(imported.model, sgd(0.1), mse, target)[0]().learner()
    learner.parameters, learner.buffers = dict(imported.parameters), dict(imported.buffers)
    loss = nn.functional.mse_loss(module(x), 2 * x)
    np.testing.assert_allclose(learner.step(x.numpy(), 2 * x.numpy()), loss.detach(), rtol=1e-12)
    loss.backward()
    moved = module.weight - 0.1 * module.weight.grad
    np.testing.assert_allclose(learner.parameters["weight"], moved.detach(), rtol=1e-12)


def test_constants_are_folded():
    """A mask for 64 positions is cropped to 3, so no literal with 4096 elements is needed."""
    mask = torch.tril(torch.ones(64, 64))
    imported = from_torch(Function(lambda x: x * mask[:3, :3].log()), torch.ones(3, 3))
    assert not imported.buffers


@pytest.mark.parametrize("training", [True, False])
def test_the_module_is_not_changed(training):
    model = nn.Sequential(nn.BatchNorm1d(3), nn.LSTM(3, 2), nn.Dropout()).train(training)
    model[2].train(not training)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(UnsupportedOp):
        from_torch(model, torch.ones(5, 3))
    from_torch(model[:1], torch.ones(5, 3))
    from_torch(model[1], torch.ones(5, 3))
    assert [layer.training for layer in model] == [training, training, not training]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model[1](torch.ones(5, 3))[0].requires_grad


def test_training_agrees_with_pytorch():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    x, y = torch.randn(6, 4, dtype=torch.float64), torch.randn(6, 2, dtype=torch.float64)
    imported = from_torch(module, x)
    learner = compile_model(imported.model, sgd(0.1), mse)[0]().learner()
    learner.parameters = dict(imported.parameters)
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    for _ in range(5):
        loss = nn.functional.mse_loss(module(x), y)
        np.testing.assert_allclose(learner.step(x.numpy(), y.numpy()), loss.detach(), rtol=1e-12)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    for name, value in module.named_parameters():
        np.testing.assert_allclose(learner.parameters[name], value.detach(), rtol=1e-12)


def test_fresh_parameters_have_the_distribution_of_the_module():
    model = nn.Sequential(nn.Linear(100, 100), nn.LayerNorm(100))
    compiled = compile_model(from_torch(model, torch.ones(1, 100)).model, sgd(0.1), mse)[0]()
    weight, _, scale, shift = compiled.init(seed=0)
    np.testing.assert_allclose(weight.std(), model[0].weight.detach().std(), rtol=0.05)
    assert (scale == 1).all() and (shift == 0).all()


@pytest.mark.parametrize("value", [None, 0.02])
def test_the_distribution_of_a_large_parameter_is_exact(value):
    layer = nn.Linear(300, 300, bias=False)  # more elements than are summed at once
    if value is not None:
        nn.init.constant_(layer.weight, value)
    [slot], _ = factor_parameters(from_torch(layer, torch.ones(1, 300)).model)
    wide = layer.weight.detach().double().numpy()
    expected = Filled(float(wide[0, 0])) if value else Normal(*map(np.float32, (wide.mean(), wide.std())))
    assert slot.initial.drawn == expected


def test_outputs_of_a_module_are_labelled_with_its_name():
    imported = from_torch(nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU())), torch.ones(5, 2))
    labels = [op.name for op in imported.model.H.x.table if isinstance(op, Label)]
    assert labels == ["0.out", "1.0.out"]


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return x * self.count


class Inner(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.block = nn.Sequential(nn.Identity(), Function(function))

    def forward(self, x):
        return self.block(x)


DEPENDENT = r"not depend on data.*in block.1, in <lambda> \(test_from_torch.py, line \d+\); select by"

SVD = r"aten\._linalg_svd\.default.*in block\.1 \(.*, line \d+\); write .*import-pytorch"
LEAVES = r"must be real, but output 0 is complex; pass torch.view_as_real"

REFUSED = [
    (Inner(torch.linalg.svdvals), UnsupportedOp, SVD),
    (Inner(torch.fft.rfft), UnsupportedOp, LEAVES),
    (Function(lambda x: torch.fft.rfft(x).tanh().real), UnsupportedOp, "tanh.*only for real ones.*x.imag"),
    (Function(lambda x: torch.add(x + 0j, x, alpha=1j).imag), UnsupportedOp, "alpha|factor.*must be real"),
    (Inner(lambda x: x if x.sum() > 0 else -x), UnsupportedOp, DEPENDENT),
    (Function(lambda x: x[x > 0]), UnsupportedOp, r"aten.index.Tensor: an index must be an integer array"),
    (Function(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))), UnsupportedOp, "cond"),
    (Function(lambda x: x.to(torch.uint16)), DtypeError, "uint16.*cast"),
    (Function(lambda x: x.to(torch.uint8) < 300), UnsupportedOp, "must fit this dtype, but one is 300.*cast"),
    (Function(lambda x: x @ x), UnsupportedOp, "must run on.*RuntimeError: Expected size.*pass inputs"),
    (nn.MaxPool1d(2, ceil_mode=True), UnsupportedOp, "max_pool1d.*ceil_mode.*pad"),
    (nn.AvgPool2d(2, divisor_override=3), UnsupportedOp, "avg_pool2d.*divisor_override is 3"),
    (nn.LSTM(5, 4, proj_size=2), UnsupportedOp, "aten.lstm.input.*proj_size"),
    (Function(lambda x: (x, 3)), UnsupportedOp, "outputs of a module must be tensors, but one is 3"),
    (Counter(), UnsupportedOp, "must change nothing but .*it changes count"),
]


@pytest.mark.parametrize(("module", "error", "pattern"), REFUSED, ids=lambda x: str(x)[:40])
def test_unsupported_modules_are_refused_in_one_sentence(module, error, pattern):
    with pytest.raises(error) as caught:
        from_torch(module, torch.ones(2, 3, 5))
    assert re.search(pattern, str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("inputs", [(2.0,), (torch.ones(2), None), ([torch.ones(2), 3],)])
def test_example_inputs_are_tensors(inputs):
    with pytest.raises(OptionError, match="example inputs must be tensors"):
        from_torch(Function(lambda x: x), *inputs)


def test_a_model_must_be_a_module():
    with pytest.raises(OptionError, match="must be a torch.nn.Module"):
        from_torch(torch.sin, torch.ones(2))


def test_pytorch_is_needed(monkeypatch):
    module = nn.Linear(2, 3)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ToolError, match="pip install torch"):
        from_torch(module, torch.ones(2))


def test_unsupported_arguments_are_refused(monkeypatch):
    monkeypatch.setitem(TRANSLATIONS, "aten.gelu.default", Translation(lambda x: x))
    with pytest.raises(UnsupportedOp, match="arguments must be supported.*approximate"):
        from_torch(nn.GELU("tanh"), torch.ones(2))


def test_a_result_of_another_type_than_in_pytorch_is_refused(monkeypatch):
    monkeypatch.setitem(TRANSLATIONS, "aten.gt.Scalar", Translation(lambda x, y: x))
    with pytest.raises(CatgradError, match=r"must be bool\[2\], but it would be f32\[2\]"):
        from_torch(Function(lambda x: x > 0), torch.ones(2))


def test_the_documented_table_matches_the_registry():
    assert table() in PAGE.read_text(encoding="utf-8"), "run python -m tools.list_overloads"


def test_the_table_has_330_overloads():
    assert sum(each.real is not None for each in TRANSLATIONS.values()) >= 330


def test_a_pytorch_that_keeps_the_shapes_that_it_knows(monkeypatch):
    """Before 2.13, PyTorch refuses new shapes for an operation that has some."""

    register = torch.library.register_fake

    def register_new(name, *arguments, **options):
        overload = name.replace("::", ".") + (".default" if "." not in name else "")
        if TRANSLATIONS[overload].shapes:
            raise RuntimeError(f"{name} already has an implementation")
        return register(name, *arguments, **options)

    monkeypatch.setattr(torch.library, "register_fake", register_new)
    _declare_shapes.cache_clear()
    x = torch.ones(2, 3)
    try:
        [found] = evaluate(from_torch(nn.ReLU(), x).model, x.numpy())
    finally:
        _declare_shapes.cache_clear()
    np.testing.assert_array_equal(found, x)


def test_threads_import_modules_as_one_does():
    """Functions of PyTorch, Python and NumPy are replaced while a module is traced."""
    modules = [nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2)).eval() for _ in range(4)]
    x = torch.ones(5, 3)
    with ThreadPoolExecutor(4) as threads:
        imported = list(threads.map(lambda module: from_torch(module, x), modules))
    for module, each in zip(modules, imported, strict=True):
        arrays = [each.parameters[p.name] for p in each.task(sgd(0.1), mse).parameters]
        assert len(arrays) == 4
        np.testing.assert_array_equal(arrays[0], module[0].weight.detach())
