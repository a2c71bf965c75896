"""ONNX Runtime, which predicts and does not train: the model of PyTorch, exported to ONNX."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnxruntime
import torch

from benchmarks.peers.torch_case import net_of
from benchmarks.peers.worker import Case, Makers, Timed, serve


def predicting(case: Case) -> Timed:
    """Return the output."""
    net, x = net_of(case, training=False), case.arrays["x"]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = case.threads, 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(net, (torch.tensor(x),), path, input_names=["x"], dynamo=False)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return Timed(lambda: session.run(None, {"x": x})[0])


def makers(case: Case) -> Makers:
    """The measures of ONNX Runtime."""
    return {"predict": lambda: predicting(case)}


if __name__ == "__main__":
    serve(makers)
