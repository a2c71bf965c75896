"""Packages that the target needs."""

from catgrad.tools import Package

ONNX = Package(name="the package onnx", module="onnx", install="pip install onnx")
ONNXRUNTIME = Package(name="ONNX Runtime", module="onnxruntime", install="pip install onnxruntime")
