"""Imported models of ONNX against ONNX Runtime and PyTorch: values, gradients, symbolic sizes, refusals."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest

from catgrad import losses, optimisers
from catgrad.errors import ArtifactError, DtypeError, OptionError, ShapeError, UnsupportedOp
from catgrad.frontends.onnx import from_onnx
from tests.onnx_models import block, model, run
from tests.targets import emit

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from catgrad.frontends.onnx.backend import CatgradBackend  # noqa: E402  # it needs onnx

nn = torch.nn
F = np.float32
RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 4)).astype(F)
W = RNG.normal(size=(4, 3)).astype(F)


def learner(imported, target="numpy", optimiser=None):
    def loss(*arrays):  # of the first output
        return losses.mse(arrays[0], arrays[len(arrays) // 2])

    task = imported.task(optimiser or optimisers.sgd(0.1), loss)
    return emit(task, target).load()().learner(seed=0)


def check(made, *inputs):
    """Compare an imported model with ONNX Runtime."""
    imported = from_onnx(made)
    found = learner(imported).predict(*inputs)
    expected = run(made, *inputs)
    for ours, theirs in zip(found if isinstance(found, list) else [found], expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    return imported


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.out = nn.Linear(8, 11)

    def forward(self, x):
        return self.out(self.layer(self.tokens(x)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True)
        self.two = nn.GRU(10, 3, batch_first=True)

    def forward(self, x):
        return self.two(self.one(x)[0])[0][:, -1]


MODULES = {
    "perceptron": lambda: (
        nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)), torch.randn(5, 4),
    ),
    "images": lambda: (
        nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3, groups=2), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 3),
        ),
        torch.randn(5, 1, 8, 8),
    ),
    "recurrent": lambda: (Recurrent(), torch.randn(5, 6, 4)),
    "attention": lambda: (Attending(), torch.randint(0, 11, (5, 7))),
}  # fmt: skip


def exported(module, x, dynamo):
    if dynamo:
        pytest.importorskip("onnxscript", reason="the package onnxscript is not installed")
    file = io.BytesIO()
    by_name = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
    named = {"dynamic_shapes": ({0: "batch"},)} if dynamo else by_name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch's exporters
        torch.onnx.export(module.eval(), (x,), file, dynamo=dynamo, verbose=False, **named)
    return file.getvalue()


@pytest.mark.covering
@pytest.mark.parametrize("dynamo", [False, True], ids=["legacy", "dynamo"])
@pytest.mark.parametrize("name", MODULES)
def test_modules_that_pytorch_exports_predict_the_same(name, dynamo):
    torch.manual_seed(0)
    module, x = MODULES[name]()
    imported = from_onnx(exported(module, x, dynamo))
    expected = module(x).detach().numpy()
    np.testing.assert_allclose(learner(imported).predict(x.numpy()), expected, rtol=1e-4, atol=1e-5)
    assert "batch" in str(*imported.inputs.values())


@pytest.mark.parametrize("target", ["numpy", "c", "onnx"])
def test_an_imported_model_trains_as_in_torch(target):
    torch.manual_seed(0)
    module, x = MODULES["perceptron"]()
    y = torch.randn(5, 2)
    trained = learner(from_onnx(exported(module, x, False)), target, optimisers.adam(1e-2))
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(module(x), y)
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(trained.step(x.numpy(), y.numpy()), loss.item(), rtol=1e-5)
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(trained.parameters[name], parameter.detach(), rtol=1e-4, atol=1e-5)


def test_shapes_that_a_graph_computes_stay_symbolic():
    made = model(
        [("x", F, ["batch", "time", 6])],
        [
            ("Shape", "x", "shape"),
            ("Gather", "shape zero", "n"),
            ("Gather", "shape one", "t"),
            ("Mul", "n t", "rows"),
            ("Unsqueeze", "rows axis", "first"),
            ("Concat", "first rest", "whole", {"axis": 0}),
            ("Reshape", "x whole", "y"),
        ],
        [("y", F, 3)],
        {"zero": np.int64(0), "one": np.int64(1), "axis": np.array([0]), "rest": np.array([2, -1])},
    )
    imported = check(made, RNG.normal(size=(2, 3, 6)).astype(F))
    assert str(imported.model.target.table[0]) == "f32[batch*time,2,3]"


@pytest.mark.parametrize(("kind", "gates", "states"), [("LSTM", 4, 2), ("GRU", 3, 1), ("RNN", 1, 1)])
@pytest.mark.parametrize("is_input", [True, False])
def test_recurrent_operators_end_at_the_lengths_of_sequences(kind, gates, states, is_input):
    lengths = np.array([2, 5, 1], np.int32)
    numbers = {
        name: RNG.normal(size=(2, *shape)).astype(F)
        for name, shape in {"w": (gates * 3, 4), "r": (gates * 3, 3), "b": (2 * gates * 3,)}.items()
    }
    results = ["y", "h", "c"][: 1 + states]
    made = model(
        [("x", F, ["time", "batch" if is_input else 3, 4]), *[("n", np.int32, ["batch"])] * is_input],
        [(kind, "x w r b n", " ".join(results), {"hidden_size": 3, "direction": "bidirectional"})],
        [(name, F, 4 if name == "y" else 3) for name in results],
        numbers if is_input else {**numbers, "n": lengths},
    )
    check(made, RNG.normal(size=(5, 3, 4)).astype(F), *[lengths] * is_input)


@pytest.mark.parametrize(
    "slices", [([1], [2**40]), ([-2], [2**40]), ([0], [-1]), ([1], [-2]), ([-1], [-(2**40)])]
)
def test_symbolic_axes_are_sliced(slices):
    starts, ends = map(np.array, slices)
    steps = np.array([-1 if ends[0] < -9 else 1])
    made = model(
        [("x", F, ["n", 4])],
        [("Slice", "x starts ends axes steps", "y")],
        [("y", F, 2)],
        {"starts": starts, "ends": ends, "axes": np.array([0]), "steps": steps},
    )
    check(made, X)


def test_loops_and_branches_read_parameters_around_them():
    body = block(
        [("i", np.int64, []), ("go", bool, []), ("h", F, [5, 3])],
        [
            ("Identity", "go", "on"),
            ("MatMul", "x w", "p"),
            ("Add", "h p", "s"),
            ("Tanh", "s", "new"),
            ("ReduceSum", "new", "row"),
        ],
        [("on", bool, []), ("new", F, [5, 3]), ("row", F, [1, 1])],
    )
    then = block([], [("Add", "last w0", "a")], [("a", F, [5, 3])])
    other = block([], [("Neg", "last", "b")], [("b", F, [5, 3])])
    made = model(
        [("x", F, [5, 4])],
        [
            ("Loop", "times  h0", "last rows", {"body": body}),
            ("ReduceMax", "x", "m", {"keepdims": 0}),
            ("Greater", "m zero", "c"),
            ("If", "c", "y", {"then_branch": then, "else_branch": other}),
        ],
        [("y", F, 2), ("rows", F, 3)],
        {"times": np.int64(3), "h0": np.zeros((5, 3), F), "w": W, "zero": F(0), "w0": np.ones((5, 3), F)},
    )
    assert set(check(made, X).parameters) == {"w", "h0", "w0"}


def dense(**changes):
    """Build a model of one dense layer with batch norm."""
    arrays = {
        "layer/weight": W,
        "layer::bias": np.ones(3, F),
        "scale": np.ones(3, F),
        "shift": np.zeros(3, F),
        "mean": np.zeros(3, F),
        "variance": np.ones(3, F),
        "factor": F(2),
        "sizes": np.array([-1, 3]),
    }
    nodes = [
        ("Gemm", "x layer/weight layer::bias", "h"),
        ("BatchNormalization", "h scale shift mean variance", "b"),
        ("Mul", "b factor", "s"),
        ("Reshape", "s sizes", "y"),
    ]
    return model([("x", F, ["batch", 4])], nodes, [("y", F, 2)], arrays | changes)


def test_parameters_are_floating_initialisers_with_an_axis():
    assert list(check(dense(), X).parameters) == ["layer.weight", "layer.bias", "scale", "shift"]
    assert list(from_onnx(dense(), trainable="*.weight").parameters) == ["layer.weight"]
    assert list(from_onnx(dense(), trainable=("factor", "layer*")).parameters) == [
        "layer.weight",
        "layer.bias",
        "factor",
    ]
    with pytest.raises(OptionError, match="'weights' matches none"):
        from_onnx(dense(), trainable="weights")


def test_sizes_and_constants_are_fixed():
    assert str(from_onnx(dense(), sizes={"batch": 7}).inputs["x"]) == "f32[7,4]"
    with pytest.raises(OptionError, match="`sizes` must name one of batch"):
        from_onnx(dense(), sizes={"rows": 7})
    shaped = model([("x", F, [6]), ("to", np.int64, [2])], [("Reshape", "x to", "y")], [("y", F, 2)])
    assert str(from_onnx(shaped, constants={"to": [2, 3]}).model.target.table[0]) == "f32[2,3]"
    with pytest.raises(UnsupportedOp, match="shape must be a constant.*'to' is.*an input.*`constants`"):
        from_onnx(shaped)
    with pytest.raises(OptionError, match="`constants` must name one of x, to"):
        from_onnx(shaped, constants={"shape": [2, 3]})


def test_a_large_constant_is_a_buffer():
    table = RNG.normal(size=(500, 4)).astype(F)
    made = model([("x", np.int64, [5])], [("Gather", "t x", "y")], [("y", F, 2)], {"t": table})
    frozen = from_onnx(made, trainable=())
    assert list(frozen.buffers) == ["t"]
    np.testing.assert_array_equal(learner(frozen).predict(np.arange(5)), table[:5])


def test_all_operators_without_rules_are_listed():
    made = model(
        [("x", F, ["n"])],
        [("NonZero", "x", "i"), ("Relu", "x", "r"), ("Unique", "r", "u")],
        [("i", np.int64, 2), ("u", F, 1)],
    )
    with pytest.raises(UnsupportedOp, match="lacks 2: NonZero in the graph; Unique in the graph"):
        from_onnx(made)


def test_gradient_is_refused():
    made = model(
        [("x", F, [])],
        [
            ("Mul", "x x", "y"),
            ("Gradient", "x", "d", {"domain": "ai.onnx.preview.training", "xs": ["x"], "y": "y"}),
        ],
        [("d", F, [])],
        domains=["ai.onnx.preview.training"],
    )
    with pytest.raises(UnsupportedOp, match="Gradient: an operator must be supported"):
        from_onnx(made)


@pytest.mark.parametrize("step", [0, 3])
def test_the_optimiser_adam_agrees_with_torch_and_the_definition(step):
    arrays = [RNG.normal(size=(2, 3)).astype(F) for _ in range(3)]
    x, g, v = arrays
    h = np.abs(RNG.normal(size=(2, 3))).astype(F)
    made = model(
        [("r", F, []), ("t", np.int64, []), *((n, F, [2, 3]) for n in "xgvh")],
        [("Adam", "r t x g v h", "a b c", {"domain": "ai.onnx.preview.training", "alpha": 0.9, "beta": 0.999,
         "epsilon": 1e-8})],
        [(n, F, [2, 3]) for n in "abc"], domains=["ai.onnx.preview.training"],
    )  # fmt: skip
    found = CatgradBackend.prepare(made).run([F(0.1), np.int64(step), x, g, v, h])
    v, h = 0.9 * v + 0.1 * g, 0.999 * h + 0.001 * g * g
    rate = 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step) if step else 0.1
    for ours, expected in zip(found, (x - rate * v / (np.sqrt(h) + 1e-8), v, h), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5)


def test_a_newer_version_of_an_operator_is_refused():
    made = model([("x", F, [2])], [("Relu", "x", "y")], [("y", F, [2])], opset=99)
    with pytest.raises((UnsupportedOp, ArtifactError)):
        from_onnx(made)


def test_an_older_model_is_converted():
    made = model([("x", F, [2, 3])], [("Softmax", "x", "y", {"axis": 1})], [("y", F, [2, 3])], opset=11)
    check(made, X[:2, :3])


def test_images_of_bytes_are_cast():
    nodes = [("Transpose", "x", "t", {"perm": [1, 0]}), ("Cast", "t", "f", {"to": 1}), ("Div", "f s", "y")]
    made = model([("x", np.uint8, [2, 3])], nodes, [("y", F, [3, 2])], {"s": np.float32(255)})
    check(made, np.array([[0, 128, 255], [1, 2, 3]], np.uint8))
    added = model([("x", np.uint8, [2])], [("Add", "x x", "y")], [("y", np.uint8, [2])])
    with pytest.raises(DtypeError, match="must have at least 16 bits, but they are u8.*; cast them first"):
        from_onnx(added)


def test_dtypes_and_shapes_of_no_term_are_refused():
    images = model([("x", np.uint16, [2])], [("Identity", "x", "y")], [("y", np.uint16, [2])])
    with pytest.raises(DtypeError, match="one is uint16"):
        from_onnx(images)
    unequal = model([("x", F, ["n"]), ("y", F, ["m"])], [("Add", "x y", "z")], [("z", F, 1)])
    with pytest.raises(ShapeError, match=r"Add: operands must have equal sizes.*\[n\], \[m\]"):
        from_onnx(unequal)


def test_damaged_files_are_refused(tmp_path):
    good = dense().SerializeToString()
    for k, data in enumerate((b"no model", good[: len(good) // 2], good[:-3])):
        path = tmp_path / f"{k}.onnx"
        path.write_bytes(data)
        with pytest.raises(ArtifactError, match="must be valid ONNX"):
            from_onnx(path)
    with pytest.raises(ArtifactError, match="must be readable"):
        from_onnx(tmp_path / "none.onnx")
    with pytest.raises(OptionError, match="a path, bytes or an onnx.ModelProto"):
        from_onnx(42)
    cyclic = model([("x", F, [2])], [("Add", "x z", "y"), ("Neg", "y", "z")], [("y", F, [2])])
    with pytest.raises(ArtifactError, match="must be valid ONNX"):
        from_onnx(cyclic)


def with_external(location, length=None):
    made = dense()
    tensor = made.graph.initializer[0]
    data = tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entries = {"location": location, "offset": "0", "length": str(len(data) if length is None else length)}
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return made, data


def test_arrays_in_other_files_lie_in_the_folder_of_the_model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    made, data = with_external("weights.bin")
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    (folder / "weights.bin").write_bytes(data)
    np.testing.assert_array_equal(from_onnx(folder / "model.onnx").parameters["layer.weight"], W)
    with pytest.raises(ArtifactError, match="the model has no folder"):
        from_onnx(made)
    (tmp_path / "secret").write_bytes(data)
    (folder / "link").symlink_to(tmp_path / "secret")
    for location in ("../secret", str(tmp_path / "secret"), "link", ""):
        made, _ = with_external(location)
        (folder / "bad.onnx").write_bytes(made.SerializeToString())
        with pytest.raises(ArtifactError, match=r"must be in the folder|regular file"):
            from_onnx(folder / "bad.onnx")
    for length in ("1000", "many"):
        made, _ = with_external("weights.bin", length)
        (folder / "bad.onnx").write_bytes(made.SerializeToString())
        with pytest.raises(ArtifactError, match=r"must lie in its file|an offset is 'many'"):
            from_onnx(folder / "bad.onnx")


def test_operators_whose_bodies_depend_on_types_of_initialisers_are_inlined():
    nodes = [("RMSNormalization", "x s", "y", {"axis": -1})]
    ends = [("x", "float32", [2, 5])], nodes, [("y", "float32", [2, 5])]
    assert list(from_onnx(model(*ends, {"s": np.ones(5, "f")}, opset=23)).parameters) == ["s"]


EINSUMS = {
    "...ij,...jk->...ik": ([1, 3, 4], [2, 4, 2]),
    "...ij,...jk": ([2, 3, 4], [5, 1, 4, 2]),
    "bij,bjk->bik": ([2, 3, 4], [2, 4, 2]),
    "i,...i->...": ([3], [2, 3]),
    "ij,ij,ij->i": ([2, 3], [2, 3], [2, 3]),
    "ij,jk,kl->l": ([2, 3], [3, 4], [4, 2]),
    "...a,...b->...": ([2, 3], [1, 4]),
}


@pytest.mark.parametrize("equation", EINSUMS)
def test_sums_of_products_broadcast_an_ellipsis(equation):
    shapes = EINSUMS[equation]
    arrays = [RNG.normal(size=shape) for shape in shapes]
    names = [f"x{k}" for k in range(len(shapes))]
    y = np.einsum(equation, *arrays)
    inputs = [(name, "float64", shape) for name, shape in zip(names, shapes, strict=True)]
    nodes = [("Einsum", " ".join(names), "y", {"equation": equation})]
    found = learner(from_onnx(model(inputs, nodes, [("y", "float64", list(y.shape))]))).predict(*arrays)
    np.testing.assert_allclose(found, y, rtol=1e-12, atol=1e-12)


PARAMETRIC = {
    "Affine": {"activation_alpha": [0.7], "activation_beta": [0.1]},
    "Elu": {"activation_alpha": [0.5]},
    "HardSigmoid": {"activation_alpha": [0.25], "activation_beta": [0.4]},
    "LeakyRelu": {"activation_alpha": [0.2]},
    "ScaledTanh": {"activation_alpha": [0.8], "activation_beta": [1.3]},
    "ThresholdedRelu": {"activation_alpha": [0.3]},
}


@pytest.mark.parametrize("name", PARAMETRIC)
def test_activations_of_recurrent_layers_have_numbers(name):
    attributes = {"hidden_size": 3, "activations": [name], **PARAMETRIC[name]}
    arrays = {"w": RNG.normal(size=(1, 3, 2)).astype(F), "r": RNG.normal(size=(1, 3, 3)).astype(F)}
    nodes = [("RNN", "x w r", "y", attributes)]
    made = model([("x", "float32", [4, 2, 2])], nodes, [("y", "float32", [4, 1, 2, 3])], arrays)
    check(made, RNG.normal(size=(4, 2, 2)).astype(F))


def test_numbers_of_activations_are_taken_in_order():
    attributes = {
        "hidden_size": 3,
        "direction": "bidirectional",
        "activations": ["HardSigmoid", "Tanh", "LeakyRelu"] * 2,
        "activation_alpha": [0.25, 0.1, 0.3],
        "activation_beta": [0.4, 0.6],
    }
    arrays = {"w": RNG.normal(size=(2, 12, 2)).astype(F), "r": RNG.normal(size=(2, 12, 3)).astype(F)}
    nodes = [("LSTM", "x w r", "y", attributes)]
    made = model([("x", "float32", [4, 2, 2])], nodes, [("y", "float32", [4, 2, 2, 3])], arrays)
    check(made, RNG.normal(size=(4, 2, 2)).astype(F))


def test_a_loop_whose_condition_is_false_is_never_run():
    body = block(
        [("i", "int64", []), ("c", bool, []), ("v", F, [2])],
        [("Add", "v v", "w"), ("Identity", "c", "d")],
        [("d", bool, []), ("w", F, [2])],
    )
    nodes = [("Loop", " go x", "y", {"body": body})]
    made = model([("x", "float32", [2])], nodes, [("y", "float32", [2])], {"go": np.array(False)})
    x = RNG.normal(size=2).astype(F)
    np.testing.assert_array_equal(learner(from_onnx(made)).predict(x), x)
