"""ggml-opt, the optimiser of ggml on its own reverse derivative: many steps in one call of a C++ program."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterable, Mapping
from ctypes import c_char_p, c_float, c_int, c_int64, c_void_p
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from catgrad.backends.c.cache import cache_folder, digest
from catgrad.backends.c.cmake import CMAKE
from catgrad.backends.ggml.tools import GGML

from benchmarks.peers.worker import STEPS, TEN, Case, Makers, Timed, serve

SOURCES = Path(__file__).parent / "ggml_opt_program"


def library() -> ctypes.CDLL:
    """Build the program in C++ with the ggml that catgrad finds, unless it is built already."""
    build = cache_folder() / f"ggml-opt-{digest(str(GGML.prefix()).encode())}"
    configure = ["-S", SOURCES, "-B", build, f"-DCMAKE_PREFIX_PATH={GGML.prefix()}"]
    for command in (configure, ["--build", build]):
        subprocess.run([*CMAKE.command(), *command], check=True, capture_output=True)
    return ctypes.CDLL(str(build / "libggml_opt_peer.so"))


def features() -> list[str]:
    """List the features that ggml's backend for the CPU was built with."""
    found = library()
    found.features.restype = c_char_p
    return found.features().decode().split()


class Model:
    """A perceptron of a case, whose gradients ggml derives."""

    def __init__(self, case: Case) -> None:
        self.case = case

    @cached_property
    def library(self) -> ctypes.CDLL:
        """The program in C++."""
        return library()

    def steps(self, count: int) -> Timed:
        """Steps in one call, on copies of the batch; labels are probabilities."""
        spec, arrays = self.case.spec, self.case.arrays
        widths, is_mse = spec["sizes"]["widths"], spec["loss"] == "mse"
        labels = arrays["y"] if is_mse else np.eye(widths[-1], dtype=np.float32)[arrays["y"]]
        x, y = (np.ascontiguousarray(np.stack([a] * count), np.float32) for a in (arrays["x"], labels))
        losses = np.empty(count, np.float32)
        self.library.create.restype = c_void_p
        model = c_void_p(
            self.library.create(
                c_int(len(widths)),
                (c_int64 * len(widths))(*widths),
                c_int64(len(arrays["x"])),
                c_int(is_mse),
                c_float(spec["optimiser"]["rate"]),
                c_int(self.case.threads),
            )
        )
        first = [np.ascontiguousarray(array.T) for array in ordered(self.case.parameters)]
        self.library.write_parameters(model, pointers(first))
        places = [c_void_p(array.ctypes.data) for array in (x, y, losses)]

        def call() -> np.ndarray:
            self.library.steps(model, c_int64(count), *places)
            return losses

        def parameters() -> dict[str, np.ndarray]:
            self.library.read_parameters(model, pointers(first))
            return dict(zip(names(self.case.parameters), (array.T for array in first), strict=True))

        call.__dict__["arrays"] = (x, y)  # keep the arrays that C++ reads
        return Timed(call, count, parameters=parameters)


def names(parameters: Iterable[str]) -> list[str]:
    """Sort names of parameters: layer by layer, each weight before its bias."""
    return sorted(parameters, key=lambda name: (name.split(".")[0], name.endswith("bias")))


def ordered(parameters: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Sort parameters by their names."""
    return [parameters[name] for name in names(parameters)]


def pointers(arrays: list[np.ndarray]) -> Any:
    """Return the addresses of arrays."""
    return (c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def makers(case: Case) -> Makers:
    """The measures: as many steps in one call as the word of the case says, and ten; of what ggml derives."""
    sizes = case.spec["sizes"]
    if case.spec["net"] != "perceptron" or (sizes["activation"], sizes["last"]) != ("relu", "identity"):
        return {}
    model = Model(case)
    return {"step": lambda: model.steps(int(case.word)), TEN: lambda: model.steps(STEPS)}


if __name__ == "__main__":
    serve(makers)
