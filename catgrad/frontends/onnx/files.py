"""ONNX files: protocol buffers, which are data, and the arrays beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from catgrad.errors import ArtifactError, OptionError, brief, translated
from catgrad.frontends.onnx.types import Graph, Initialiser, Model
from catgrad.paths import require_file
from catgrad.tools import Package

ONNX = Package(name="the package onnx", module="onnx", install="pip install onnx")

MAX_FILE_BYTES = 2**31
"""The greatest protocol buffer; larger models keep their arrays in other files."""


def load(source: object) -> Model:
    """Return the ModelProto in a file, in bytes, or itself, with all its arrays, after ONNX's own checks.

    Raises: ArtifactError if it is damaged, or an array lies outside the folder of the model; ToolError
            without the package onnx
    """
    ONNX.require("from_onnx")
    import onnx

    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
        _read_arrays(model, None)
    elif isinstance(source, bytes):
        model = _parsed(onnx.load_from_string, source)
        _read_arrays(model, None)
    elif isinstance(source, (str, Path)):
        require_file("a model", source, MAX_FILE_BYTES)
        model = _parsed(onnx.load_from_string, Path(source).read_bytes())
        _read_arrays(model, Path(source).parent)
    else:
        raise OptionError(
            "a model must be a path, bytes or an onnx.ModelProto",
            f"it is {type(source).__name__}",
            "write for example from_onnx('model.onnx')",
        )
    _check(model)
    with translated(lambda error: damaged(brief(error))):
        for tensor in tensors(model.graph):
            onnx.numpy_helper.to_array(tensor)
    return model


def _parsed(parse: Callable[[bytes], Model], data: bytes) -> Model:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        return parse(data)
    except (DecodeError, RecursionError) as error:
        raise damaged(str(error)) from None


def _check(model: Model) -> None:
    import onnx

    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise damaged(str(error).strip().splitlines()[0]) from None
    except ValueError:
        return  # beyond the size that ONNX checks in memory


def damaged(found: str) -> ArtifactError:
    """Return the error for a model that is not ONNX, for this reason."""
    return ArtifactError("a model must be valid ONNX", f"it is not: {found}", "export the model again")


def _read_arrays(model: Model, folder: Path | None) -> None:
    """Read arrays from files beside the model."""
    from onnx import TensorProto

    for tensor in tensors(model.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            data = _external(tensor.name, entries, folder)
            tensor.ClearField("external_data")
            tensor.data_location = TensorProto.DEFAULT
            tensor.raw_data = data


def tensors(graph: Graph) -> Iterator[Initialiser]:
    """Yield the initialisers and constants of a graph, and of graphs inside."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inside in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from tensors(inside)


def _external(name: str, entries: dict[str, str], folder: Path | None) -> bytes:
    """Read the bytes of one array. Raises: ArtifactError unless they lie in the folder of the model"""
    location = entries.get("location", "")
    is_path = folder is not None and "\0" not in location
    path = (folder / location).resolve() if folder is not None and is_path else None
    if folder is None or path is None or not path.is_relative_to(folder.resolve()):
        raise ArtifactError(
            f"the array {name!r} must be in the folder of the model",
            f"it is in {location!r}" if folder else f"it is in {location!r}, and the model has no folder",
            "load the model by its path, with all its files in one folder",
        )
    require_file(f"the file of the array {name!r}", path, 2**62)
    size = path.stat().st_size
    begin, length = (
        _number(entries.get(key, default)) for key, default in (("offset", "0"), ("length", "-1"))
    )
    length = size - begin if length < 0 else length
    if not 0 <= begin <= begin + length <= size:
        raise ArtifactError(
            f"the array {name!r} must lie in its file",
            f"it has bytes {begin} to {begin + length} of {size}",
            "copy the file again",
        )
    with path.open("rb") as file:
        file.seek(begin)
        return file.read(length)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise damaged(f"an offset is {text!r}") from None
