"""`compile_module`: one call from a module to a learner with its weights, that PyTorch can take back."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Functions, Learner, compile_module, fit, from_torch, mse
from catgrad.errors import OptionError
from catgrad.learn.fit.checkpoint import load, save
from catgrad.learn.losses import cross_entropy
from catgrad.learn.optimisers import adamw, sgd
from tests.targets import emit

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

F, nn, optim = torch.nn.functional, torch.nn, torch.optim


class Everything(nn.Module):
    """Tied, frozen and unused parameters, buffers of all kinds, and constants too large for source text."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 40)
        self.head = nn.Linear(40, 5, bias=False)
        self.head.weight = self.table.weight
        self.unused, self.norm = nn.Linear(2, 2), nn.BatchNorm1d(40)
        self.scale = nn.Parameter(torch.rand(40) + 0.5, requires_grad=False)
        self.register_buffer("positions", torch.randn(30, 40))
        self.register_buffer("order", torch.randperm(2000))
        self.register_buffer("passing", torch.rand(1), persistent=False)

    def forward(self, tokens):
        h = self.table(tokens) * self.scale + self.positions[: tokens.shape[1]]
        h = self.norm(h.transpose(1, 2)).transpose(1, 2)
        return self.head(h + self.order[tokens][..., None] / 2000 + self.passing)


def everything():
    torch.manual_seed(0)
    return Everything().double(), torch.randint(0, 5, (4, 6))


@pytest.mark.parametrize("target", ["numpy", "torch", "jax", "c", "cuda"])
def test_a_learner_has_all_values_from_the_start(target):
    module, tokens = everything()
    options = {"dynamic": ()} if target == "cuda" else {}
    learner = compile_module(module.float(), tokens, sgd(0.1), mse, target, **options)
    predicted = np.asarray(learner.predict(tokens.numpy()))
    np.testing.assert_allclose(predicted, module.eval()(tokens).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", ["numpy", "c"])
def test_functions_of_an_imported_model_have_its_buffers(target):
    module, tokens = everything()
    imported = from_torch(module, tokens)
    compiled = emit(Functions({"predict": imported.model}), target).load()()
    [y] = compiled.predict(*compiled.init_buffers(), *imported.parameters.values(), tokens.numpy())
    np.testing.assert_allclose(y, module.eval()(tokens).detach(), rtol=1e-9)


def test_five_steps_and_the_whole_state_dict():
    module, tokens = everything()
    optimiser = optim.AdamW(module.parameters(), 1e-2)
    learner = compile_module(module, tokens, optimiser, lambda y, t: F.mse_loss(y, t), "c")
    for batch in (4, 2, 3, 4, 5):
        x = torch.randint(0, 5, (batch, 6))
        y_hat = module(x)
        loss = F.mse_loss(y_hat, torch.zeros_like(y_hat))
        np.testing.assert_allclose(learner.step(x.numpy(), np.zeros(y_hat.shape)), loss.item(), rtol=1e-9)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found, wanted = learner.state_dict(), module.state_dict()
    assert list(found) == list(wanted)
    for name, tensor in wanted.items():
        assert found[name].dtype is tensor.dtype
        torch.testing.assert_close(found[name], tensor, rtol=1e-7, atol=1e-7)
    assert found["norm.num_batches_tracked"] == 5
    Everything().double().load_state_dict(found, strict=True)


def test_the_written_weights_are_those_of_the_module(tmp_path):
    module, tokens = everything()
    learner = compile_module(module, tokens, sgd(0.1), mse, "c")
    learner.artifact.write(tmp_path)
    other = learner.artifact.load()().learner(seed=7)
    other.parameters = {name: np.zeros_like(array) for name, array in other.parameters.items()}
    load(other, tmp_path / "model.safetensors")
    for name, array in learner.parameters.items():
        np.testing.assert_array_equal(other.parameters[name], array)


def test_fit_and_checkpoints_take_a_module_learner(tmp_path):
    torch.manual_seed(0)
    module, x = nn.Linear(3, 2), torch.randn(8, 3)
    learner = compile_module(module, x, adamw(1e-2), mse)
    assert isinstance(learner, Learner)
    data = (x.numpy(), np.zeros((8, 2), np.float32))
    history = fit(learner, data, steps=20, batch_size=4, validation=data)
    assert history.losses[-1] < history.losses[0]
    save(learner, tmp_path / "w.safetensors")
    other = compile_module(nn.Linear(3, 2), x, adamw(1e-2), mse)
    load(other, tmp_path / "w.safetensors")
    np.testing.assert_array_equal(other.predict(x.numpy()), learner.predict(x.numpy()))


NET = {
    "sgd": lambda p: optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, 1e-2, amsgrad=True),
    "rmsprop": lambda p: optim.RMSprop(p, 1e-2, momentum=0.5, centered=True),
    "nadam": lambda p: optim.NAdam(p, 1e-2),
    "adagrad": lambda p: optim.Adagrad(p, 1e-2, lr_decay=0.1),
    "groups": lambda p: optim.AdamW(
        [{"params": list(p)[:2], "lr": 1e-3, "weight_decay": 0.5}, {"params": list(p)[2:]}], 1e-2
    ),
    "part": lambda p: optim.SGD(list(p)[2:], 0.1),
}


@pytest.mark.parametrize("name", NET)
def test_an_optimiser_of_pytorch_is_continued(name):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    optimiser, criterion = NET[name](list(module.parameters())), nn.CrossEntropyLoss(label_smoothing=0.1)

    def step(x, y):
        loss = criterion(module(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    batches = [(torch.randn(5, 3, dtype=torch.float64), torch.randint(0, 3, (5,))) for _ in range(6)]
    for batch in batches[:3]:
        step(*batch)
    learner = compile_module(module, batches[0][0], optimiser, criterion)
    for x, y in batches[3:]:
        np.testing.assert_allclose(learner.step(x.numpy(), y.numpy()), step(x, y), rtol=1e-9)
    for key, tensor in module.state_dict().items():
        np.testing.assert_allclose(learner.parameters[key], tensor, rtol=1e-6, atol=1e-9)


LOSSES = [
    (nn.MSELoss(), None),
    (nn.SmoothL1Loss(beta=0.5), None),
    (nn.BCEWithLogitsLoss(), torch.rand(4, 3)),
    (nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]), ignore_index=1), None),
    (nn.CrossEntropyLoss(), torch.rand(4, 3).softmax(1)),
    (cross_entropy, None),
    (lambda y, t: (y - t).abs().pow(1.5).mean(), None),
]


@pytest.mark.parametrize(("loss", "targets"), LOSSES, ids=range(len(LOSSES)))
def test_losses_of_all_kinds(loss, targets):
    torch.manual_seed(0)
    module, x = nn.Linear(2, 3), torch.randn(4, 2)
    learner = compile_module(module, x, sgd(0.1), loss, targets=targets)
    by_class = loss is cross_entropy or (isinstance(loss, nn.CrossEntropyLoss) and targets is None)
    y = torch.randint(0, 3, (4,)) if by_class else torch.rand(4, 3)
    theirs = F.cross_entropy if loss is cross_entropy else loss
    np.testing.assert_allclose(learner.loss(x.numpy(), y.numpy()), theirs(module(x), y).item(), rtol=1e-5)


def test_only_chosen_parameters_train():
    module, x = nn.Sequential(nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 2)), torch.randn(3, 40)
    learner = compile_module(module, x, sgd(0.1), mse, "c", trainable=["2.*"])
    assert list(learner.parameters) == ["2.weight", "2.bias"]
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    learner.step(x.numpy(), np.zeros((3, 2), np.float32))
    after = learner.state_dict()
    assert [name for name in after if torch.equal(after[name], before[name])] == ["0.weight", "0.bias"]


WRONG = [
    (dict(optimizer=optim.LBFGS(nn.Linear(2, 2).parameters())), "LBFGS has none"),
    (dict(optimizer="adam"), "must be an instance of Optimiser"),
    (dict(loss=3), "a loss must be a function"),
    (dict(loss=nn.Bilinear(3, 3, 1)), "no parameters of its own"),
    (dict(target="torch-module"), "called from Python, but it is torch-module"),
    (dict(trainable="conv.*"), r"match one of weight, bias.*'conv.\*' matches none"),
]


@pytest.mark.parametrize(("arguments", "pattern"), WRONG)
def test_wrong_arguments_are_refused(arguments, pattern):
    given = {"optimizer": adamw(1e-3), "loss": mse, **arguments}
    with pytest.raises(OptionError, match=pattern):
        compile_module(nn.Linear(2, 3), torch.randn(4, 2), **given)


@pytest.mark.parametrize(("loss", "shape"), [(cross_entropy, (4, 6)), (nn.CrossEntropyLoss(), (4, 5))])
def test_labels_lack_the_axis_of_classes(loss, shape):
    """Classes are the last axis of an array of catgrad, and the second of a tensor."""
    module, x = nn.Linear(2, 5), torch.randn(4, 6, 2)
    learner = compile_module(module, x, sgd(0.1), loss)
    labels = torch.randint(0, 5, shape)
    y_hat = module(x).transpose(1, 2) if loss is cross_entropy else module(x)
    expected = F.cross_entropy(y_hat, labels).item()
    np.testing.assert_allclose(learner.loss(x.numpy(), labels.numpy()), expected, rtol=1e-5)
