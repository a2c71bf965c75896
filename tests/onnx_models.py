"""Models of ONNX for tests, from nodes and arrays."""

from __future__ import annotations

import numpy as np


def model(inputs, nodes, outputs, arrays=(), opset=21, domains=(), **options):
    """Build a model: nodes are (operator, inputs, outputs, attributes), with names separated by spaces.

    Arrays are (name, dtype, shape), or their rank in place of the shape.
    """
    from onnx import helper, numpy_helper

    made = [
        helper.make_node(operator, given.split(" ") if given else [], made.split(" "), **attributes)
        for operator, given, made, attributes in ((*node, {})[:4] for node in nodes)
    ]
    graph = helper.make_graph(
        made,
        "model",
        [_value(*each) for each in inputs],
        [_value(*each) for each in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(arrays).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **options)


def _value(name, dtype, shape):
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, [None] * shape if isinstance(shape, int) else shape)


def block(inputs, nodes, outputs):
    """Build a graph for an attribute."""
    return model(inputs, nodes, outputs).graph


def run(model, *inputs):
    """Run a model in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    data = model if isinstance(model, bytes) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options)
    return session.run(None, dict(zip([each.name for each in session.get_inputs()], inputs, strict=True)))
