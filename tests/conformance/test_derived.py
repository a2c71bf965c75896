"""Derivatives of imported models as models of ONNX: differences, duality, symmetry, and torch.func."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from catgrad import emit, from_onnx
from catgrad.cli import main
from catgrad.errors import DtypeError, OptionError
from tests.onnx_models import model, run

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

RNG = np.random.default_rng(0)
W, B = RNG.normal(size=(4, 3)), RNG.normal(size=3)
X, Y = ("x", "float64", ["batch", 4]), ("y", "float64", ["batch", 3])
LAYER = [("Gemm", "x w b", "h"), ("Tanh", "h", "y")]
ENERGY = [*LAYER[:1], ("Softmax", "h", "s"), ("Mul", "s h", "p"), ("ReduceSum", "p", "e", {"keepdims": 0})]


def layer():
    return model([X], LAYER, [Y], {"w": W, "b": B})


def energy():
    return model([X], ENERGY, [("e", "float64", [])], {"w": W, "b": B})


def files(imported, order=3, parameters=False):
    """Return the models by the names of their functions."""
    artifact = emit(imported.derived(order, parameters), "onnx")
    return {
        name.removesuffix(".onnx"): onnx.load_from_string(content)
        for name, content in artifact.files.items()
        if name.endswith(".onnx")
    }


def names(found):
    """Return the inputs that have no stored array, and the outputs."""
    stored = {each.name for each in found.graph.initializer}
    inputs = [each.name for each in found.graph.input if each.name not in stored]
    return inputs, [each.name for each in found.graph.output]


def call(found, **arrays):
    """Run a model on its inputs by name."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(found.SerializeToString(), options).run(None, arrays)


def draw(rows=2):
    return RNG.normal(size=(rows, 4))


def test_functions_take_the_inputs_then_cotangents_and_directions():
    found = files(from_onnx(layer()))
    assert [name for name in found if name != "init"] == [
        "value",
        "jvp",
        "vjp",
        "jvp_2",
        "vjp_2",
        "jvp_3",
        "vjp_3",
    ]
    assert names(found["value"]) == (["x"], ["y"])
    assert names(found["vjp"]) == (["x", "v_y"], ["d_x"])
    assert names(found["jvp_2"]) == (["x", "v_x", "v2_x"], ["d_y"])
    assert names(found["vjp_3"]) == (["x", "v_y", "v_x", "v2_x"], ["d_x"])
    for each in found.values():
        if each.graph.output:
            onnx.checker.check_model(each, full_check=True)


def test_a_number_has_a_gradient_and_hessian_vector_products_also_by_parameters():
    found = files(from_onnx(energy()), 2, parameters=True)
    assert names(found["gradient"]) == (["w", "b", "x"], ["d_w", "d_b", "d_x"])
    assert names(found["hvp"]) == (["w", "b", "x", "v_w", "v_b", "v_x"], ["d_w", "d_b", "d_x"])


def test_each_order_is_the_directional_derivative_of_the_last():
    found, h = files(from_onnx(layer())), 1e-5
    x, u, v = draw(), RNG.normal(size=(2, 3)), {"v_x": draw(), "v2_x": draw(), "v3_x": draw()}
    order = ["value", "jvp", "jvp_2", "jvp_3"]
    for n, (before, name) in enumerate(pairwise(order)):
        given, along = dict(list(v.items())[:n]), list(v.values())[n]
        above, below = (call(found[before], x=x + s * h * along, **given)[0] for s in (1, -1))
        [forward] = call(found[name], x=x, **dict(list(v.items())[: n + 1]))
        np.testing.assert_allclose(forward, (above - below) / (2 * h), rtol=1e-6, atol=1e-8)
        [reverse] = call(found[name.replace("jvp", "vjp")], x=x, v_y=u, **given)
        np.testing.assert_allclose(np.sum(reverse * along), np.sum(u * forward), rtol=1e-10)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # PyTorch's own jvp calls it
def test_derivatives_are_those_of_torch_by_inputs_and_parameters():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from torch.func import grad, jvp

    def function(w, b, x):
        h = x @ w + b
        return torch.sum(torch.softmax(h, -1) * h)

    gradient = grad(function, (0, 1, 2))
    point, v, v2 = ([RNG.normal(size=a.shape) for a in (W, B, draw())] for _ in range(3))
    p, d, d2 = (tuple(map(torch.tensor, each)) for each in (point, v, v2))
    expected = {
        "gradient": gradient(*p),
        "hvp": jvp(gradient, p, d)[1],
        "hvp_3": jvp(lambda *a: jvp(gradient, a, d)[1], p, d2)[1],
    }
    found = files(from_onnx(energy()), parameters=True)
    for n, (name, arrays) in enumerate(expected.items()):
        results = run(found[name], *point, *[*v, *v2][: 3 * n])
        for result, array in zip(results, arrays, strict=True):
            np.testing.assert_allclose(result, array.numpy(), rtol=1e-9, atol=1e-11)


def test_integers_have_no_derivatives():
    table = RNG.normal(size=(5, 3))
    nodes = [("Gather", "t i", "g"), ("Mul", "g x", "p"), ("Sin", "p", "y"), ("Shape", "x", "n")]
    inputs = [("i", "int64", [2]), ("x", "float64", [3])]
    outputs = [("y", "float64", [2, 3]), ("n", "int64", [1])]
    found = files(from_onnx(model(inputs, nodes, outputs, {"t": table})), 2)
    assert names(found["vjp_2"]) == (["i", "x", "v_y", "v_x"], ["d_x"])
    i, x, u, v = np.array([4, 1]), RNG.normal(size=3), RNG.normal(size=(2, 3)), RNG.normal(size=3)
    rows = table[i]
    [first] = call(found["vjp"], i=i, x=x, v_y=u)
    np.testing.assert_allclose(first, np.sum(u * rows * np.cos(rows * x), 0), rtol=1e-10)
    [second] = call(found["vjp_2"], i=i, x=x, v_y=u, v_x=v)
    np.testing.assert_allclose(second, np.sum(-u * rows**2 * np.sin(rows * x), 0) * v, rtol=1e-10)


def test_a_recurrent_layer_has_second_derivatives():
    arrays = {"w": RNG.normal(size=(1, 12, 2)).astype("f"), "r": RNG.normal(size=(1, 12, 3)).astype("f")}
    nodes = [("LSTM", "x w r", "y h", {"hidden_size": 3})]
    recurrent = model([("x", "float32", [4, 1, 2])], nodes, [("h", "float32", [1, 1, 3])], arrays)
    found = files(from_onnx(recurrent), 2)
    x, v = (RNG.normal(size=(4, 1, 2)).astype("f") for _ in range(2))
    u, h = RNG.normal(size=(1, 1, 3)).astype("f"), np.float32(1e-2)
    above, below = (call(found["vjp"], x=x + s * h * v, v_h=u)[0] for s in (1, -1))
    [product] = call(found["vjp_2"], x=x, v_h=u, v_x=v)
    np.testing.assert_allclose(product, (above - below) / (2 * h), rtol=1e-2, atol=2e-3)


def test_a_model_without_a_derivative_is_refused():
    counts = model([("x", "int64", [2])], [("Neg", "x", "y")], [("y", "int64", [2])])
    with pytest.raises(DtypeError, match=r"floating-point input, but it has i64\[2\]"):
        from_onnx(counts).derived()
    with pytest.raises(OptionError, match="at least 1"):
        from_onnx(layer()).derived(0)


def test_the_command_writes_each_derivative(tmp_path, capsys):
    onnx.save(energy(), tmp_path / "net.onnx")
    with pytest.raises(SystemExit) as done:
        main(["derive", str(tmp_path / "net.onnx"), "--order", "2", "-o", str(tmp_path / "out")])
    assert done.value.code == 0
    assert f"{tmp_path / 'out/hvp.onnx'}" in capsys.readouterr().out
    x = draw()
    [value] = call(onnx.load(tmp_path / "out/value.onnx"), x=x)
    h = x @ W + B
    e = np.exp(h - h.max(-1, keepdims=True))
    np.testing.assert_allclose(value, np.sum(e / e.sum(-1, keepdims=True) * h), rtol=1e-10)
