"""Gradients of emitted modules by PyTorch's autograd agree with the reverse derivative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, losses, mse, obj, ops, sgd
from catgrad.functors import Expand, reverse
from catgrad.functors.reverse import cotangents
from catgrad.initialisers import Filled, Uniform
from catgrad.programs.ports import Kind, Role, tables
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.terms.block import Block
from catgrad.terms.structural import is_differentiable
from catgrad.terms.term import Term, edges, singleton
from catgrad.testing import draw_arrays, in_float64, operation_cases
from tests.models import TASKS, mlp
from tests.strategies import float_terms
from tests.targets import emit

torch = pytest.importorskip("torch", reason="PyTorch, which differentiates here, is not installed")

BACKEND = get_backend("torch-module")
# PyTorch's kernels for reverses, which models do not contain, have no reverse of their own there.
FORWARD = [case for case in operation_cases() if not case.reversed and "Reversed" not in case.name]


def module_of(term: Term, **options):
    """Load the emitted module of one function."""
    backend = BACKEND.configured(**options)
    function = lower(Expand(backend.has)(term), "f", doc="The term under test.")
    return backend.emit(Program("case", (function,))).load().Module()


def autograd(term: Term, arrays, dys):
    """Compute the values of the module and the gradients of autograd, 0 where there are none."""
    tensors = [torch.tensor(a).requires_grad_(a.dtype.kind == "f") for a in arrays]
    outputs = module_of(term)(*tensors)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    differentiable = [y for y in outputs if y.dtype not in (torch.bool, torch.int8, torch.uint8)]
    pairs = [(y, torch.tensor(dy)) for y, dy in zip(differentiable, dys, strict=True) if y.requires_grad]
    leaves = [t for t in tensors if t.requires_grad]
    if pairs and leaves:
        ys, dys = zip(*pairs, strict=True)
        return outputs, torch.autograd.grad(ys, leaves, dys, allow_unused=True, materialize_grads=True)
    return outputs, [torch.zeros_like(t) for t in leaves]


def assert_autograd_agrees(term: Term, arrays, dys, tolerance=1e-9):
    wanted = evaluate(reverse(term), *arrays, *dys)
    values, gradients = autograd(term, arrays, dys)
    types = list(filter(is_differentiable, term.source.table))
    ours = [a for a, t in zip(wanted[len(term.target) :], types, strict=True) if t.dtype.is_floating]
    for found, reference in zip((*values, *gradients), (*wanted[: len(term.target)], *ours), strict=True):
        np.testing.assert_allclose(found.detach(), reference, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", FORWARD, ids=str)
def test_autograd_through_every_operation(case):
    """Compare in float64, so that only the formula can differ."""
    [(op, _, _)] = edges(case.term)
    term = singleton(in_float64(op), *in_float64(tuple(case.term.source.table)))
    arrays = draw_arrays(tuple(term.source.table), case.domain, seed=3)
    assert_autograd_agrees(term, arrays, draw_arrays(cotangents(tuple(term.target.table)), seed=4))


AWKWARD = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, 1e-30, 60.0]

KEEPS_NAN = {"Abs", "Sign", "Elu"}
"""Operations for which PyTorch does not propagate NaN, in the value of Sign or in gradients."""

OTHERWISE_AT_POLES = {"ArcTan2", "ArCosh", "Polygamma", "BesselI1e"}
"""Operations of which autograd has other gradients at poles, ends of domains and infinities."""

OF_PYTORCH = {"Polygamma": 1e-9}
"""Errors of PyTorch's own gradients in float64: its trigamma function has ten digits."""

POINTWISE = {
    op: case.name
    for case in reversed(FORWARD)
    for op in [edges(case.term)[0].op]
    if op.elementwise and all(t.dtype.is_floating for t in case.term.source.table)
}


@pytest.mark.parametrize("op", POINTWISE, ids=POINTWISE.get)
def test_autograd_at_special_values(op):
    """Gradients agree with the reverse derivative at zeros, ties, infinities and NaN."""
    op = in_float64(op)
    grid = np.meshgrid(*[np.array(AWKWARD)] * op.arity(), indexing="ij")
    arrays = [g.ravel() for g in grid]
    if type(op).__name__ in KEEPS_NAN | {"Clamp"}:
        arrays = [a[~np.isnan(a)] for a in arrays]
    if type(op).__name__ == "BinaryCrossEntropy":
        # PyTorch refuses what is no probability, and its gradient of targets is infinite at 0 and 1.
        inside = (arrays[0] > 0) & (arrays[0] < 1) & (arrays[1] >= 0) & (arrays[1] <= 1)
        arrays = [a[inside] for a in arrays]
    if type(op).__name__ in OTHERWISE_AT_POLES:
        usual = np.all([(a > 1) & (a < 1e3) for a in arrays], axis=0)
        arrays = [a[usual] for a in arrays]
    term = singleton(op, *(NdArrayType(a.shape, Dtype.float64) for a in arrays))
    dys = draw_arrays(cotangents(tuple(term.target.table)))
    assert_autograd_agrees(term, arrays, dys, OF_PYTORCH.get(type(op).__name__, 1e-12))


@given(term=float_terms(), seed=st.integers(0, 9))
@settings(max_examples=30)
def test_autograd_through_random_terms(term, seed):
    term = in_float64(Block(term)).term
    arrays = draw_arrays(tuple(term.source.table), (-1.0, 1.0), seed)
    assert_autograd_agrees(term, arrays, draw_arrays(cotangents(tuple(term.target.table)), seed=seed))


@given(length=st.integers(0, 4), width=st.integers(0, 3), backwards=st.booleans())
@settings(max_examples=15)
def test_autograd_through_loops_of_any_length(length, width, backwards):
    """Loops swap carries, read rows and stack rows, also zero of them."""

    def body(carry, row):
        a, b = carry
        return (b, ops.tanh(a * row)), (a + b, row * b)

    def f(a, b, rows):
        (a, b), (first, second) = ops.scan(body, (a, b), rows, backwards=backwards)
        return a, b, first, second

    row = NdArrayType((width,), Dtype.float64)
    term = build(f, [row, row, row.with_shape((length, width))])
    arrays = draw_arrays(tuple(term.source.table))
    assert_autograd_agrees(term, arrays, draw_arrays(cotangents(tuple(term.target.table)), seed=1))


@pytest.mark.parametrize("size", [0, 3])
def test_autograd_through_loops_of_a_length_read_at_run_time(size):
    rows = NdArrayType((Dim("time"), 2), Dtype.float64)
    term = build(
        lambda h, x: ops.scan(lambda c, r: (ops.tanh(c * r), c), h, x), [rows.with_shape((2,)), rows]
    )
    module, small = module_of(term), term
    arrays = draw_arrays([t.substitute({"time": size}) for t in term.source.table])
    last, every = module(*map(torch.tensor, arrays))
    for found, wanted in zip((last, every), evaluate(small, *arrays), strict=True):
        np.testing.assert_allclose(found, wanted)


def test_stop_gradient_stops_autograd_in_loops_too():
    x = NdArrayType((3,), Dtype.float64)

    def f(x):
        once = x * ops.stop_gradient(x)
        return ops.repeat(lambda h: h * ops.stop_gradient(ops.tanh(h)), 3, once)

    term = build(f, [x])
    assert_autograd_agrees(term, draw_arrays([x]), draw_arrays([x], seed=1))


X64 = NdArrayType((6, 4), Dtype.float64)


def stateful(rate: float = 0.4) -> Task:
    """Build a model with batch norm, dropout, and a buffer that is differentiated through and updated."""
    B, H = X64.with_shape((6,)), X64.with_shape((4,))

    def spectral(x):
        w, u = layers.parameter("weight", H + H, Uniform(-1, 1)), layers.buffer("u", H, Filled(0.5))
        norm = ops.sum(ops.square(w @ u))
        layers.update("u", ops.stop_gradient(ops.tanh(w @ u)))
        return (x @ w) / ops.broadcast(norm + 0.1, x.shape)

    model = layers.sequential(
        layers.linear(B, H, H), layers.batch_norm(X64), layers.dropout(X64, rate), build(spectral, [X64])
    )
    return Task(model, sgd(0.05), mse, "stateful")


def recurrent() -> Task:
    """Build an LSTM over a batch of sequences of symbolic length."""
    A = NdArrayType((Dim("batch"), Dim("time")), Dtype.float64)
    model = layers.lstm(A, X64.with_shape((4,)), X64.with_shape((3,)))
    return Task(model, sgd(0.1, momentum=0.9), mse, "recurrent")


def picture() -> Task:
    """Build a model with a convolution, pooling and integer labels."""
    image = NdArrayType((5, 1, 6, 6), Dtype.float64)
    model = layers.conv(image, 2, 3) >> layers.relu(obj(image.with_shape((5, 2, 4, 4))))
    model = model >> layers.max_pool(image.with_shape((5, 2, 4, 4)), 2)
    model = model >> layers.flatten(image.with_shape((5, 2, 2, 2)))
    return Task(model, sgd(0.1), losses.cross_entropy, "picture", (NdArrayType((5,), Dtype.int64),))


MODELS = {**TASKS, "stateful": stateful, "recurrent": recurrent, "picture": picture}
MOMENTUM = {"rectified": 0.9, "recurrent": 0.9}


def batches(task: Task, count: int):
    """Draw inputs and targets of a few batches."""
    sizes = {"batch": 6, "time": 3}
    types = [t.substitute(sizes) for t in (*task.inputs, *task.targets)]
    return [draw_arrays(types, (-1.0, 1.0), seed) for seed in range(count)]


@pytest.mark.parametrize("name", MODELS)
def test_five_steps_of_torch_equal_five_steps_of_the_reference(name):
    """Compare initial values, losses, parameters, running statistics and masks, step by step."""
    task = MODELS[name]()
    learner = emit(task).load()().learner(seed=3)
    emitted = emit(task, "torch-module", skeleton=True).load()
    module = emitted.Module(seed=3)
    optimiser = torch.optim.SGD(
        module.parameters(), task.optimiser.settings["learning_rate"], MOMENTUM.get(name, 0)
    )
    for batch in batches(task, 5):
        loss = emitted.file.train_step(module, optimiser, *map(torch.tensor, batch))
        np.testing.assert_allclose(loss, learner.step(*batch), rtol=1e-5)
    kept = {**learner.buffers, **learner.parameters}
    assert list(module.state_dict()) and set(module.state_dict()) == set(kept)
    for key, tensor in module.state_dict().items():
        np.testing.assert_allclose(tensor, kept[key], rtol=1e-5, atol=1e-5, err_msg=key)
    module.eval()
    x = batches(task, 6)[-1][: len(task.inputs)]
    with torch.no_grad():
        outputs = module(*map(torch.tensor, x))
    wanted = learner.predict(*x)
    pairs = zip(outputs, wanted, strict=True) if isinstance(wanted, list) else [(outputs, wanted)]
    for found, reference in pairs:
        np.testing.assert_allclose(found, reference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_backward_agree_with_the_reference(name):
    """Compare `grads` in training and `rev_p` in evaluation, to twelve digits."""
    task = MODELS[name]()
    reference, module = emit(task).load()(), emit(task, "torch-module").load()()
    kept = [*(reference.init_buffers(1) if task.buffers else []), *reference.init(1)]
    [batch] = batches(task, 1)
    tolerance = 1e-10 if name in ("stateful", "recurrent", "picture") else 1e-5
    for found, wanted in zip(module.grads(*kept, *batch), reference.grads(*kept, *batch), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    if Role.BUFFER not in tables(task.entry(Kind.REV_P)[1]):
        kept = reference.init(1)
    given = [*kept, *batch[: len(task.inputs)]]
    dys = [np.cos(y) for y in reference.predict(*given)]
    for found, wanted in zip(module.rev_p(*given, *dys), reference.rev_p(*given, *dys), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_masks_change_at_every_forward_and_are_absent_in_evaluation():
    """Defect (d) of another exporter: the generator was seeded in every forward pass."""
    x = NdArrayType((100,), Dtype.float64)
    task = Task(layers.dropout(x, 0.5), sgd(0.1), mse)
    module = emit(task, "torch-module").load().Module(seed=0)
    ones = torch.ones(100, dtype=torch.float64)
    first, second = module(ones), module(ones)
    assert not torch.equal(first, second)
    assert int(module.draws) == 2
    again = emit(task, "torch-module").load().Module(seed=0)
    assert torch.equal(again(ones), first)
    assert not torch.equal(emit(task, "torch-module").load().Module(seed=1)(ones), first)
    module.eval()
    assert torch.equal(module(ones), ones)
    assert int(module.draws) == 2


def test_buffers_that_change_places_and_go_out():
    """All new values are computed from the old ones, though they are assigned one by one."""
    V = NdArrayType((2, 2), Dtype.float64)

    def forward(x):
        a, b = layers.buffer("a", V, Filled(1.0)), layers.buffer("b", V, Filled(2.0))
        layers.update("a", ops.transpose(b))
        layers.update("b", a)
        return x + ops.stop_gradient(b) * x, a

    task = Task(build(forward, [V]), sgd(0.1), lambda p, q, y, z: mse(p, y) + mse(q, z))
    module = emit(task, "torch-module").load().Module()
    p, q = module(torch.ones(2, 2, dtype=torch.float64, requires_grad=True))
    assert module.a.tolist() == [[2, 2], [2, 2]] and module.b.tolist() == [[1, 1], [1, 1]]
    assert q.tolist() == [[1, 1], [1, 1]]
    p.sum().backward()


def test_parameters_that_start_equal_do_not_share_memory():
    V = NdArrayType((3,))

    def forward(x):
        return x * layers.parameter("a", V) + layers.parameter("b", V)

    module = emit(Task(build(forward, [V]), sgd(0.1), mse), "torch-module").load().Module()
    with torch.no_grad():
        module.a += 1
    assert module.b.tolist() == [0, 0, 0]


def test_torch_export_accepts_the_model_in_evaluation():
    module = emit(mlp(), "torch-module").load().Module().eval()
    x = torch.randn(5, 4)
    exported = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
    other = torch.randn(7, 4)
    torch.testing.assert_close(exported.module()(other), module(other))
    assert set(exported.state_dict) == set(module.state_dict())


@pytest.mark.parametrize("name", ["mlp", "stateful"])
def test_torch_compile_traces_the_model_without_graph_breaks(name):
    """Compile without graph breaks, and with gradients."""
    task = MODELS[name]()
    module = emit(task, "torch-module").load().Module().eval()
    x = torch.tensor(batches(task, 1)[0][0])
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), module(x))
    compiled(x).sum().backward()
