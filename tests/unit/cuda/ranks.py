"""Data-parallel training in the simulator: emitted libraries with ranks, which one thread drives."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_ssize_t, c_void_p

import numpy as np
from catgrad.backends.c.layouts import layouts
from catgrad.backends.c.loading import sources
from catgrad.backends.cuda.device import Device, DeviceArray
from catgrad.backends.cuda.loading import memory
from catgrad.backends.cuda_simulator import library

from catgrad import emit
from catgrad.dims import numbers
from catgrad.programs.ports import Kind, Role
from tests.unit.cuda.build import FOLDER


class Parallel(Device):
    """An emitted library with communicators."""

    def __init__(self, task, **options):
        self.artifact = emit(task, "cuda", nccl=True, **options)
        self.program = self.artifact.program
        name = self.program.name
        own = sources(self.artifact, ".cu", ".h", "_runtime.cuh")
        files = {**own, "memory.cu": memory(self.artifact), "ranks.cu": (FOLDER / "ranks.cu").read_text()}
        super().__init__(
            library(files, "ranks.cu", name),
            name,
            f"{name}_clear_status" in files[f"{name}.h"],
            True,
            self.artifact.backend.options.calls_library,
        )
        self.context = self.artifact.backend.template_context(self.artifact.backend, self.program)

    def native(self, name, *arguments):
        """Call a function of ranks.cu."""
        return self._library[name](*(c_void_p(a) if isinstance(a, int) else a for a in arguments))

    @property
    def said(self):
        """The simulator's last message."""
        return self._message(0).decode()

    def named(self, code):
        """Return the text of an error code."""
        return self._error_string(code).decode()


class Rank:
    """Tables on the device, a stream and a communicator."""

    def __init__(self, library, seed=0, communicator=0, contiguous=True):
        self.library, self.communicator = library, communicator
        program = library.program
        new = program.tables
        self.tables = {
            role: [_empty(library, slot) for slot in slots] for role, slots in new.items() if slots
        }
        self.gradients = self._gradients(contiguous)
        self.loss = library.empty((), program.kinds[Kind.STEP].outputs[0].type.dtype.numpy)
        self.workspace = library.empty((2**22,), np.dtype(np.uint8))
        stream = c_void_p()
        library.call("new_stream", ctypes.byref(stream))
        self.stream = stream.value
        if library.is_guarded:
            library._clear(self.workspace.address, self.stream)
        members = [library.table(arrays) for arrays in self.tables.values()]
        self.last = [self.workspace.address, *library.new_libraries(), self.stream]
        takes = [ctypes.c_int64, *[c_void_p] * (len(members) + len(self.last))]
        assert library.function("init", takes)(seed, *members, *self.last) == 0

    def _gradients(self, contiguous):
        slots = self.library.program.tables[Role.PARAMETER]
        if not contiguous:
            return [_empty(self.library, slot) for slot in slots]
        layout = layouts(self.library.context["tables"])["parameters"]
        self.memory = self.library.empty((layout.bytes,), np.dtype(np.uint8))
        return [
            DeviceArray(
                self.library, p.shape, p.slot.type.dtype.numpy, self.memory.address + p.offset, self.memory
            )
            for p in layout
        ]

    def put(self, *arrays):
        """Copy a batch to the device."""
        self.inputs = [self.library.empty(array.shape, array.dtype) for array in arrays]
        for mine, array in zip(self.inputs, arrays, strict=True):
            mine.put(array)

    def enqueue(self, name, parallel):
        """Enqueue a function on the batch; returns the code."""
        sizes = [self.inputs[0].shape[0]]
        members = [self.library.table(table) for table in self.tables.values()]
        own = [array.address for array in self.inputs]
        own += [self.library.table(self.gradients)] if parallel else []
        own += [self.loss.address, *([self.communicator] if parallel else [])]
        takes = [c_void_p] * len(members) + [c_ssize_t] + [c_void_p] * (len(own) + len(self.last))
        function = self.library.function(name, takes)
        return function(*members, *sizes, *own, *self.last)

    def step(self, *arrays):
        """Enqueue a step on a whole batch."""
        self.put(*arrays)
        assert self.enqueue("step", parallel=False) == 0

    def step_parallel(self, *arrays):
        """Enqueue a step on a shard."""
        self.put(*arrays)
        assert self.enqueue("step_parallel", parallel=True) == 0

    def parameters(self):
        """Return the parameters."""
        return [array.get() for array in self.tables[Role.PARAMETER]]

    def values(self):
        """Return all arrays of tables, and the loss, in float64."""
        arrays = [*(a for table in self.tables.values() for a in table), self.loss]
        return [array.get().astype(np.float64) for array in arrays]

    def synchronise(self):
        """Wait for the stream; returns CUDA's code."""
        return self.library._library["catgrad_synchronise"](c_void_p(self.stream))

    def status(self):
        """Return the status of the workspace."""
        return int(self.workspace.get()[:4].view(np.int32)[0])


def ranks(library, count, contiguous=True):
    """Return ranks with the same tables."""
    found = (c_void_p * count)()
    assert library.native("new_ranks", found, c_int(count)) == 0
    return [Rank(library, 0, communicator, contiguous) for communicator in found]


def reduce(rank, array, count):
    """Enqueue the mean of an array over ranks."""
    return rank.library.native(
        "all_reduce_floats", array.address, c_size_t(count), rank.communicator, rank.stream
    )


def _empty(library, slot):
    return library.empty(numbers(slot.type.shape), slot.type.dtype.numpy)
