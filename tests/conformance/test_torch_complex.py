"""Modules with complex numbers inside train as in PyTorch; those that enter or leave are refused."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import compile_module, verify
from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch import from_torch
from catgrad.programs.program import evaluate

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_complex import SPECTRAL, ComplexRotary, SpectralConvolution  # noqa: E402  # it needs PyTorch
from tests.conformance.torch_inputs import real  # noqa: E402
from tests.conformance.torch_models import Function  # noqa: E402

nn = torch.nn


def squares(*arrays):
    """The sum of the mean squared errors of all outputs."""
    half = len(arrays) // 2
    return sum(nn.functional.mse_loss(y, z) for y, z in zip(arrays[:half], arrays[half:], strict=True))


@pytest.mark.parametrize(
    ("name", "target"), [*((name, "numpy") for name in SPECTRAL), ("spectral convolution", "c")]
)
def test_training_is_that_of_pytorch(name, target):
    """Compare three steps, with a symbolic batch of another size than the example's."""
    torch.manual_seed(0)
    make, x = SPECTRAL[name]
    module = make().double()
    targets = [torch.zeros_like(y) for y in torch.utils._pytree.tree_leaves(module(x))]
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    learner = compile_module(module, x, optimiser, squares, target=target, targets=targets)
    batch = [real(5, *each.shape[1:], seed=k) for k, each in enumerate((x, *targets))]
    replay = verify(module, learner, [tuple(batch)], steps=3)
    replay.check()
    assert max(replay.largest("loss")[1:]) <= 1e-10


def test_a_compiled_function_has_complex_numbers_inside():
    module = SpectralConvolution().double()
    x = real(2, 2, 12).requires_grad_()
    compiled = torch.compile(module, backend="catgrad", fullgraph=True)
    (found,) = torch.autograd.grad(compiled(x).sum(), x)
    (wanted,) = torch.autograd.grad(module(x).sum(), x)
    torch.testing.assert_close((compiled(x), found), (module(x), wanted))


def test_results_in_single_precision_are_as_exact_as_those_of_pytorch():
    x = real(3, 1000)
    function = Function(lambda x: torch.view_as_real(torch.fft.fft(x, norm="ortho")))
    exact = function(x).numpy()
    [found] = evaluate(from_torch(function, x.float()).model, x.float().numpy())
    assert found.dtype == np.float32
    assert np.abs(found - exact).max() <= 1e-5


def test_large_complex_constants_are_buffers():
    torch.manual_seed(0)
    module, x = ComplexRotary(64, 128).double(), real(2, 60, 64)
    learner = compile_module(module, x, torch.optim.SGD(module.parameters(), 0.1), nn.MSELoss())
    assert {name.rpartition(".")[2] for name in learner.buffers} == {"real", "imag"}
    np.testing.assert_allclose(learner.predict(x.numpy()), module(x).detach().numpy(), atol=1e-12)
    module.load_state_dict(learner.state_dict())


def test_transformed_axes_are_fixed():
    module, x = SPECTRAL["mixing"][0](), real(2, 5, 6).float()
    with pytest.raises(
        UnsupportedOp, match="lengths of a Fourier transform must be fixed, but they are time, 6"
    ):
        from_torch(module, x, dynamic=("batch", "time"))


class Scaled(nn.Module):
    """A module with a complex parameter or buffer."""

    def __init__(self, updated):
        super().__init__()
        z = torch.ones(3, dtype=torch.complex64)
        if updated:
            self.register_buffer("z", z)
        else:
            self.z = nn.Parameter(z)
        self.updated = updated

    def forward(self, x):
        if self.updated:
            self.z.mul_(2)
        return (x * self.z).real


@pytest.mark.parametrize(
    ("module", "dtype", "train", "subject"),
    [
        (Function(lambda z: z.real), torch.complex64, False, "the input arguments_0"),
        (Function(lambda x: x + 0j), torch.float32, False, "output 0"),
        (Scaled(False), torch.float32, False, "z"),
        (Scaled(True), torch.float32, True, "z"),
    ],
)
def test_complex_arrays_do_not_enter_or_leave_a_module(module, dtype, train, subject):
    with pytest.raises(UnsupportedOp, match=f"{subject} is complex; pass torch.view_as_real"):
        from_torch(module, torch.ones(2, 3, dtype=dtype), train=train)
