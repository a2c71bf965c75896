"""Low-rank adapters on modules: their training is that of PyTorch, and of the package peft."""

from __future__ import annotations

import copy
from importlib.util import find_spec

import numpy as np
import pytest

from catgrad import compile_module
from catgrad.errors import OptionError
from catgrad.frontends.torch import lora, merge
from catgrad.learn.adapters import save_adapters
from catgrad.learn.fit.checkpoint import load, save
from catgrad.learn.optimisers import adamw

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_vision import import_torchvision  # noqa: E402  # it needs PyTorch

nn = torch.nn


class Block(nn.Module):
    """Attention of one head, and a layer that is not adapted."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(36, 36) for _ in range(3))
        self.out = nn.Linear(36, 3, bias=False)

    def forward(self, x):
        q, k, v = (layer(x) for layer in (self.q_proj, self.k_proj, self.v_proj))
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v).mean(1))


def block():
    torch.manual_seed(0)
    return nn.Sequential(nn.Tanh(), Block()).double()


def batches(count=4):
    return [(torch.randn(5, 4, 36, dtype=torch.float64), torch.randint(0, 3, (5,))) for _ in range(count)]


def train(module, given):
    optimiser = torch.optim.AdamW([p for p in module.parameters() if p.requires_grad], 1e-2)
    for x, y in given:
        loss = nn.functional.cross_entropy(module(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@pytest.mark.covering(0)
@pytest.mark.parametrize("target", ["numpy", "c"])
def test_adapters_train_and_merge_as_in_pytorch(target, tmp_path):
    given = batches()
    adapted = lora(block(), rank=2, alpha=4, target=["*.q_proj", "*.v_proj"])
    learner = compile_module(adapted, given[0][0], adamw(1e-2), nn.CrossEntropyLoss(), target)
    names = [f"1.{layer}.lora_{part}" for layer in ("q_proj", "v_proj") for part in "ab"]
    assert sorted(learner.parameters) == names
    for x, y in given:
        learner.step(x.numpy(), y.numpy())
    save(learner, tmp_path / "adapters.safetensors")
    save_adapters(learner, tmp_path / "adapters.gguf", alpha=4)
    train(adapted, given)
    for name, tensor in adapted.state_dict().items():
        torch.testing.assert_close(learner.state_dict()[name], tensor, rtol=1e-7, atol=1e-9)
    whole = merge(adapted)
    x = given[0][0]
    torch.testing.assert_close(whole(x), adapted(x))
    assert list(whole.state_dict()) == list(block().state_dict())
    np.testing.assert_allclose(learner.predict(x.numpy()), whole(x).detach(), rtol=1e-7)


def test_a_checkpoint_has_the_adapters_and_continues(tmp_path):
    x, y = batches(1)[0]
    adapted = lora(block(), 2)
    one, other = (compile_module(adapted, x, adamw(1e-2), nn.CrossEntropyLoss()) for _ in range(2))
    one.step(x.numpy(), y.numpy())
    save(one, tmp_path / "adapters.safetensors")
    load(other, tmp_path / "adapters.safetensors")
    assert one.step(x.numpy(), y.numpy()) == other.step(x.numpy(), y.numpy())


def test_the_module_is_not_changed_and_outputs_begin_equal():
    module = block()
    before, x = copy.deepcopy(module.state_dict()), batches(1)[0][0]
    torch.testing.assert_close(lora(module, 3)(x), module(x))
    assert all(torch.equal(before[n], t) for n, t in module.state_dict().items())
    assert all(p.requires_grad for p in module.parameters())
    assert isinstance(merge(lora(nn.Linear(2, 3), 1)), nn.Linear)


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"rank": 0}, "rank must be an integer"),
        ({"alpha": -1}, "alpha must be"),
        ({"target": "*.w_proj"}, r"match one of the linear layers 1\.q_proj"),
    ],
)
def test_wrong_options_are_refused(options, pattern):
    with pytest.raises(OptionError, match=pattern):
        lora(block(), **options)


def test_a_module_of_peft_trains_as_in_peft():
    if find_spec("torchvision"):
        import_torchvision()  # peft imports it
    peft = pytest.importorskip("peft", reason="the package peft, which is compared with, is not installed")
    given = batches()
    config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.0)
    theirs = peft.get_peft_model(block(), config)
    learner = compile_module(theirs, given[0][0], adamw(1e-2), nn.CrossEntropyLoss())
    assert all("lora_" in name for name in learner.parameters)
    ours = lora(block(), 2, 4, ["*.q_proj", "*.v_proj"])
    held = theirs.state_dict()
    for name, parameter in ours.named_parameters():
        for part, kind in (("lora_a", "lora_A"), ("lora_b", "lora_B")):
            if name.endswith(part):
                source = f"base_model.model.{name.removesuffix(part)}{kind}.default.weight"
                parameter.data = held[source].T.clone()
    train(ours, given)
    for x, y in given:
        learner.step(x.numpy(), y.numpy())
    train(theirs, given)
    x = given[0][0]
    torch.testing.assert_close(ours(x), theirs(x))
    np.testing.assert_allclose(learner.predict(x.numpy()), theirs(x).detach(), rtol=1e-7)
