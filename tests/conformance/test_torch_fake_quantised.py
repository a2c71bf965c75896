"""Quantisation-aware training of PyTorch: imported networks round and pass gradients as its own."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, compile_module, emit, losses, sgd
from catgrad.errors import CatgradError
from catgrad.frontends.torch import from_torch
from catgrad.functors import reverse
from catgrad.learn.functions import opened_term
from catgrad.programs.program import evaluate
from catgrad.quantisation import quantise

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

import torch.ao.quantization as ao  # noqa: E402

from tests.fake_quantised import trained  # noqa: E402

X = torch.randn(64, 1, 8, 8, generator=torch.Generator().manual_seed(1))
engines = pytest.mark.parametrize("engine", ["x86", "qnnpack", None])


@engines
def test_evaluation_and_its_gradients_are_those_of_pytorch(engine):
    module = trained(engine, X)
    imported = from_torch(module, X[:8])
    opened = opened_term(imported.model)
    named = {**imported.parameters, **imported.buffers}
    arrays = [named[slot.name] for slot in (*opened.buffers, *opened.parameters)]
    wanted, dy = module(X[:8]), torch.randn(8, 10)
    wanted.backward(dy)
    found, *cotangents = evaluate(reverse(opened.term), *arrays, X[:8].numpy(), dy.numpy())
    np.testing.assert_allclose(found, wanted.detach(), atol=1e-6)
    gradients = dict(
        zip((p.name for p in opened.parameters), cotangents[len(opened.buffers) :], strict=False)
    )
    for name, parameter in module.named_parameters():
        scale = float(parameter.grad.abs().max())
        np.testing.assert_allclose(gradients[name], parameter.grad, atol=1e-5 * scale, err_msg=name)


@engines
@pytest.mark.filterwarnings("ignore:PyTorch's own rounding errors are unknown")
def test_training_goes_on_as_in_pytorch(engine):
    module = trained(engine, X).train()
    optimiser = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9)
    learner = compile_module(module, X[:8], optimiser, torch.nn.CrossEntropyLoss())
    labels = torch.arange(8)
    learner.verify([(X[k : k + 8], labels) for k in (0, 8)], steps=3).check()


def test_switches_are_as_they_are_before_the_import():
    module = trained(None, X)
    float_one = from_torch(module.apply(ao.disable_fake_quant), X[:4])
    np.testing.assert_allclose(
        evaluate(opened_term(float_one.model).term, *float_one.parameters.values(), X[:4].numpy())[0],
        module(X[:4]).detach(),
        atol=1e-6,
    )


@engines
def test_an_observer_that_is_on_is_refused(engine):
    module = trained(engine, X).apply(ao.enable_observer)
    with pytest.raises(CatgradError, match=r"must be off.*in quant\.act.*quantization\.disable_observer"):
        from_torch(module, X[:4])
    assert module.quant.activation_post_process.observer_enabled[0] == 1


def test_a_zero_point_that_is_no_whole_number_is_refused():
    class Table(torch.nn.Module):
        def forward(self, x):
            scale, zero = torch.tensor([0.1, 0.2]), torch.tensor([0.3, 0.7])
            return torch.fake_quantize_per_channel_affine(x, scale, zero, 1, 0, 15)

    with pytest.raises(CatgradError, match="a zero point must be a whole number"):
        from_torch(Table(), torch.randn(3, 2))


def quantised(module, **options):
    """Return the int8 model, and its buffers by name."""
    imported = from_torch(module, X[:8], dynamic=("batch",))
    label = (NdArrayType((Dim("batch"),), Dtype.int64),)
    task = imported.task(sgd(0.05), losses.cross_entropy, label)
    small = quantise(task, {**imported.parameters, **imported.buffers}, **options)
    return small, {slot.name: slot.initial.array for slot in small.buffers}


@engines
def test_the_int8_model_has_the_scales_and_levels_that_training_chose(engine):
    """A level may differ by one where a number is within rounding errors of a tie."""
    module = trained(engine, X)
    small, buffers = quantised(module, inputs=Dtype.int8, outputs=Dtype.int8)
    for affine, part in zip(
        (*small.input_scales, *small.output_scales), (module.quant, module.out), strict=True
    ):
        rounding = part.activation_post_process
        moved = 128 if rounding.activation_post_process.quant_max == 255 else 0
        assert affine == (rounding.scale.item(), rounding.zero_point.item() - moved)
    for name in ("dense", "out"):
        part = getattr(module, name)
        wanted = part.weight_fake_quant(part.weight) / part.weight_fake_quant.scale.reshape(-1, 1)
        np.testing.assert_array_equal(buffers[f"{name}.weight"], wanted.detach().round())
    [first], [last] = small.input_scales, small.output_scales
    compiled = emit(small, "numpy").load()()
    [found] = compiled.predict(*compiled.init_buffers(), first.quantise(X.numpy()))
    difference = np.abs(last.quantise(module(X).detach().numpy()).astype(int) - found)
    assert len(np.unique(found)) > 30
    assert difference.max() <= 1 and np.mean(difference) < 0.01


def test_a_network_with_fake_quantisation_trains_in_8_bits():
    module, labels = trained("qnnpack", X), np.arange(64) % 10
    small, buffers = quantised(module, data=[(X.numpy(), labels)], train=["dense", "out"])
    assert not any(array.dtype == np.float32 for name, array in buffers.items() if "scale" not in name)
    learner = emit(small, "numpy", functions=("predict", "step")).load()().learner(0)
    wanted = module(X).detach().numpy()
    assert np.abs(learner.predict(X.numpy()) - wanted).max() < 0.05 * np.ptp(wanted)
    values = [float(learner.step(X.numpy(), labels)) for _ in range(30)]
    assert values[-1] < values[0] - 0.02
