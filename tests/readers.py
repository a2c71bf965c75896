"""All readers of files, each with files that it reads, and the mutation that fits them.

`python -m tests.readers NAME … COUNT SEED` reads mutated files within a limit of memory and of time, and
prints each one that is neither read nor refused by an error of catgrad.
"""

from __future__ import annotations

import json
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.learn.learner import Learner
from catgrad.learn.task import Task
from tests import hostile

MOST_BYTES = 2**31
"""Address space that reading small files may take, beyond that of the process."""

MOST_SECONDS = 20


@dataclass(frozen=True)
class Reader:
    """A reader of files that end in `suffix`: of the bytes that `files` returns, and of their mutations."""

    suffix: str
    files: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    mutated: Callable[[bytes, random.Random], bytes]


def written(write: Callable[[Path], object], suffix: str) -> bytes:
    """Return the content of the file that a function writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        write(path)
        return path.read_bytes()


ARRAYS = {
    "x": np.arange(6, dtype=np.float32).reshape(2, 3),
    "y": np.array([1, 0]),
    "flag": np.array([True, False]),
}
TEXTS = {**ARRAYS, "name": np.array(["one", "two"])}


def task() -> Task:
    from catgrad import NdArrayType, Task, layers, mse
    from catgrad.learn.optimisers import adamw

    return Task(layers.dense(NdArrayType((2,)), NdArrayType((3,)), NdArrayType((4,))), adamw(0.01), mse)


def learner() -> Learner:
    from catgrad import emit

    return emit(task(), "numpy").load()().learner(seed=0)


def npz() -> list[bytes]:
    return [written(partial(save, **TEXTS), ".npz") for save in (np.savez, np.savez_compressed)]


def npy() -> list[bytes]:
    return [written(lambda path: np.save(path, ARRAYS["x"]), ".npy")]


def read_columns(path: Path) -> None:
    from catgrad import data

    found = data.read(path)
    repr(found)
    for name in found:
        found.classes(name)


def read_shards(path: Path) -> None:
    from catgrad.data import Shards

    for shards in (
        Shards(path, ["x", "y"]),
        Shards(path, lambda rows: (rows.numbers("x"), rows.labels("y"))),
    ):
        for part in range(len(shards.sizes)):
            shards.read(part)


def read_folder(path: Path) -> None:
    from catgrad.data import Shards

    Shards(path.parent, path.stem).read(0)


def terms() -> list[bytes]:
    import catgrad
    from catgrad.formats.terms import to_json

    return [json.dumps(to_json(catgrad.learn.entries.terms_of(task()))).encode()]


def read_terms(path: Path) -> None:
    import catgrad

    catgrad.load(path)


def hypergraphs() -> list[bytes]:
    from catgrad.formats.open_hypergraphs import to_rust

    return [to_rust(task().model).encode()]


def read_hypergraph(path: Path) -> None:
    from catgrad.formats.open_hypergraphs import from_rust

    from_rust(path.read_bytes().decode(errors="replace"))


def weights(suffix: str) -> list[bytes]:
    from catgrad.formats import weights

    return [written(lambda p: weights.write(p, ARRAYS, {"note": "é"}), suffix)]


def read_weights(path: Path) -> None:
    from catgrad.formats import safetensors, weights

    weights.read(path, {"x": ((3, 2), np.dtype("float16"))})
    weights.read_metadata(path)
    if path.suffix == ".safetensors":
        safetensors.mapped(path)


def checkpoints(suffix: str) -> list[bytes]:
    from catgrad.learn.fit import checkpoint

    return [written(lambda p: checkpoint.save(learner(), p), suffix)]


def read_checkpoint(path: Path, into: list[Any] = []) -> None:  # noqa: B006  # one learner for all
    from catgrad.learn.fit import checkpoint

    into[:] = into or [learner()]
    checkpoint.load(into[0], path)


def indices() -> list[bytes]:
    return [b'{"metadata": {"total_size": 24}, "weight_map": {"x": "a.safetensors", "y": "a.safetensors"}}']


def read_index(path: Path) -> None:
    from catgrad.formats import safetensors

    safetensors.write(path.parent / "a.safetensors", {"x": ARRAYS["x"], "y": ARRAYS["y"]})
    safetensors.read(path)


def histories() -> list[bytes]:
    from catgrad.learn.fit.history import Epoch, History

    history = History([0.5, 0.25])
    history.add(Epoch(number=1, steps=2, loss=0.375, validation={"loss": 0.5}, whole=True))
    return [history.to_json().encode()]


def read_history(path: Path) -> None:
    from catgrad.learn.fit.history import History

    History.from_json(path.read_bytes().decode(errors="replace"), path)


def tokenizers() -> list[bytes]:
    stage = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    special = [{"id": 4, "content": "<s>", "special": True}]
    bpe = {"type": "BPE", "vocab": {"▁": 0, "a": 1, "b": 2, "ab": 3}, "merges": ["a b"], "unk_token": "a"}
    unigram = {"type": "Unigram", "vocab": [["a", -1.5], ["b", -2.0], ["▁", -1.0]], "unk_id": 0}
    pieces = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    processor = {
        "type": "TemplateProcessing",
        "single": pieces,
        "pair": pieces,
        "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}},
    }
    both = {"pre_tokenizer": stage, "decoder": stage, "normalizer": {"type": "Lowercase"}, "padding": None}
    sequence = {
        "type": "Sequence",
        "pretokenizers": [{"type": "WhitespaceSplit"}, {**stage, "prepend_scheme": "never"}],
    }
    split = {"type": "CharDelimiterSplit", "delimiter": "-"}
    found = [
        {"model": bpe, "added_tokens": special, "post_processor": processor, **both},
        {"model": unigram, "pre_tokenizer": sequence, "decoder": {"type": "Fuse"}},
        {"model": unigram, "pre_tokenizer": split, "decoder": None},
    ]
    return [json.dumps(each).encode() for each in found]


def read_tokenizer(path: Path) -> None:
    from catgrad.tokenizers import from_hugging_face

    found = from_hugging_face(path)
    found.decode(found.encode("a-b AB ü"))


def sprites() -> list[bytes]:
    from catgrad.backends.scratch.assemble import sb3, sprite3

    return [
        sprite3("sprite s\n    list w = 1, 2\n    list v = 0.5\n", {}),
        sb3(["sprite s\n    list w = 1, 2\n"], {}),
    ]


def packed_sprites() -> list[bytes]:
    from catgrad import emit

    options = [{}, {"storage": "packed"}, {"storage": "float16"}, {"storage": "int4"}]
    found = []
    for option in options:
        files = emit(task(), "scratch", weights=learner().parameters, **option).files
        found += [content for name, content in files.items() if name.endswith(".sprite3")]
    return found


def read_sprite(path: Path) -> None:
    from catgrad.backends.scratch.formats import projects

    from catgrad import Dtype, NdArrayType
    from catgrad.terms.state import Slot

    projects.read(path)
    projects.read_arrays(path, [Slot("w", NdArrayType((2,), Dtype.float32))])


def read_lists(path: Path) -> None:
    from catgrad.backends.scratch.formats import projects

    projects.read(path)


def sprite_texts() -> list[bytes]:
    return [b'sprite s\n    list w = 1, 2.5\n    list name = "a", "b"\n    variable x = 3\n']


def read_sprite_text(path: Path) -> None:
    from catgrad.backends.scratch.assemble import sprite3

    sprite3(path.read_bytes().decode(errors="surrogateescape"), {})


def onnx_files() -> list[bytes]:
    from tests.onnx_models import model

    f = np.float32
    nodes = [
        ("Shape", "x", "s"), ("Gather", "s zero", "n"), ("Unsqueeze", "n axis", "first"),
        ("Concat", "first rest", "whole", {"axis": 0}), ("Reshape", "x whole", "r"),
        ("MatMul", "r w", "h"), ("Add", "h b", "g"), ("ConstantOfShape", "rest", "zeros"),
        ("Identity", "b", "c"),
        ("Expand", "c rest", "e"), ("Add", "g e", "k"), ("Tile", "k twice", "y"),
        ("Range", "zero n zero1", "q"),
    ]  # fmt: skip
    arrays = {
        "zero": np.int64(0),
        "zero1": np.int64(1),
        "axis": np.array([0]),
        "rest": np.array([3]),
        "twice": np.array([1, 2]),
        "w": np.ones((3, 3), f),
        "b": np.zeros(3, f),
    }
    made = [
        model([("x", f, ["batch", 3])], nodes, [("y", f, 2)], arrays),
        model(
            [("x", f, [1, 2, 4, 4])],
            [("Conv", "x k", "c", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "group": 1}),
             ("MaxPool", "c", "p", {"kernel_shape": [2, 2], "strides": [2, 2]}), ("Pad", "p by", "q"),
             ("Slice", "q a e", "r"), ("Softmax", "r", "y", {"axis": 1})],
            [("y", f, 4)],
            {"k": np.ones((2, 2, 3, 3), f), "by": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "a": np.array([0]),
             "e": np.array([1])},
        ),
    ]  # fmt: skip
    return [each.SerializeToString() for each in (*made, with_external())]


def with_external() -> Any:
    import onnx

    from tests.onnx_models import model

    f = np.float32
    made = model([("x", f, [2, 3])], [("MatMul", "x w", "y")], [("y", f, 2)], {"w": np.ones((3, 3), f)})
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": "weights.bin", "offset": "0", "length": "36"}.items():
        tensor.external_data.add(key=key, value=value)
    return made


def changed_model(data: bytes, rng: random.Random) -> bytes:
    import onnx

    return hostile.of_message(onnx.load_from_string, data, rng)


def read_onnx(path: Path) -> None:
    from catgrad.frontends.onnx import from_onnx

    (path.parent / "weights.bin").write_bytes(np.ones((3, 3), np.float32).tobytes())
    from_onnx(path)


SAFETENSORS, GGUF = partial(weights, ".safetensors"), partial(weights, ".gguf")
SAVED = partial(checkpoints, ".safetensors")
READERS = {
    "csv": Reader(".csv", lambda: [b"x,y,name\n1,0,one\n2.5,1,two\n"], read_columns, hostile.of_lines),
    "npz": Reader(".npz", npz, read_columns, hostile.of_npz),
    "npz shards": Reader(".npz", npz, read_shards, hostile.of_npz),
    "csv shards": Reader(".csv", lambda: [b"x,y\n1,0\n2.5,1\n"], read_shards, hostile.of_lines),
    "safetensors shards": Reader(".safetensors", SAFETENSORS, read_shards, hostile.of_header),
    "npy shards": Reader(".npy", npy, read_folder, hostile.of_npy),
    "safetensors": Reader(".safetensors", SAFETENSORS, read_weights, hostile.of_header),
    "safetensors index": Reader(".safetensors.index.json", indices, read_index, hostile.of_json),
    "gguf": Reader(".gguf", GGUF, read_weights, hostile.of_bytes),
    "checkpoint": Reader(".safetensors", SAVED, read_checkpoint, hostile.of_header),
    "gguf checkpoint": Reader(".gguf", partial(checkpoints, ".gguf"), read_checkpoint, hostile.of_bytes),
    "history": Reader(".json", histories, read_history, hostile.of_json),
    "terms": Reader(".catgrad.json", terms, read_terms, hostile.of_json),
    "open hypergraphs": Reader(".json", hypergraphs, read_hypergraph, hostile.of_json),
    "tokenizer": Reader(".json", tokenizers, read_tokenizer, hostile.of_json),
    "sprite": Reader(".sprite3", sprites, read_sprite, hostile.of_sprite),
    "packed sprite": Reader(".sprite3", packed_sprites, read_lists, hostile.of_sprite),
    "sprite text": Reader(".scratch", sprite_texts, read_sprite_text, hostile.of_bytes),
    "onnx": Reader(".onnx", onnx_files, read_onnx, changed_model),
}


def failures(reader: Reader, count: int, seed: int) -> Iterator[str]:
    """Yield the errors of mutated files that are none of catgrad, or come of too little memory or time."""
    from catgrad.errors import CatgradError

    rng, seeds = random.Random(seed), reader.files()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{reader.suffix}"
        path.write_bytes(seeds[0])
        reader.read(path)  # imports what it needs before memory is limited
        limited()
        for number in range(count):
            data = reader.mutated(rng.choice(seeds), rng)
            path.write_bytes(data)
            began = time.monotonic()
            signal.alarm(MOST_SECONDS)
            try:
                reader.read(path)
            except CatgradError as error:
                if any(isinstance(each, MemoryError) for each in chain(error)):
                    yield f"{number}: {data[:2000]!r}\n{''.join(traceback.format_exception(error))}"
            except Exception:
                yield f"{number}: {data[:2000]!r}\n{traceback.format_exc()}"
            signal.alarm(0)
            if time.monotonic() - began > MOST_SECONDS / 2:
                yield f"{number}: {time.monotonic() - began:.0f} seconds for {data[:2000]!r}"


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def limited() -> None:
    """Limit the memory of this process, and end a read that takes too long."""

    def late(*_: object) -> None:
        raise TimeoutError

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, late)


def main() -> None:
    """Print the failures of readers."""
    warnings.simplefilter("ignore")
    *names, count, seed = sys.argv[1:]
    found = 0
    for name in names:
        for failure in failures(READERS[name], int(count), int(seed)):
            print(f"{name} {failure}", flush=True)
            found += 1
    print(f"{found} of {count} for {', '.join(names)}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
