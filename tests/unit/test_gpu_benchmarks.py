"""Our side of `benchmarks.cuda` runs in the simulator, and its tables compare like with like."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from catgrad.backends import cuda_simulator as simulator

from catgrad import NdArrayType, build
from catgrad.backend import get_backend
from catgrad.errors import UnknownName
from catgrad.naming import Namer
from catgrad.programs.program import Program, lower

pytest.importorskip("torch", reason="PyTorch is not installed")

from typer.testing import CliRunner

from benchmarks import cuda, gpu_tables
from benchmarks.gpu_library import Emitted
from benchmarks.gpu_simulation import simulated, steps
from benchmarks.gpu_workloads import GPU_WORKLOADS, KERNELS, PARTS, parts_of, workloads_of
from benchmarks.race import Result

SIMULATED = pytest.mark.skipif(
    not simulator.COMPILER.is_installed(), reason=simulator.COMPILER.absence() or "no compiler"
)


@SIMULATED
@pytest.mark.parametrize("name", ["iris", "digits"])
def test_emitted_steps_have_the_losses_of_pytorch(name):
    [workload] = [each for each in GPU_WORKLOADS if each.name == name]
    assert steps(workload).startswith(name)


@SIMULATED
def test_emitted_kernels_have_the_results_of_pytorch():
    said = list(simulated(KERNELS))
    assert len(said) == 21
    assert all(line.endswith("the results are PyTorch's") for line in said)


@SIMULATED
def test_products_by_a_library_get_what_they_call():
    """A function that calls cuBLASLt takes it before its stream: without it, the process ends."""
    import torch

    side = 128
    square = NdArrayType((side, side))
    function = lower(build(lambda x, w: x @ w, [square, square]), "f")
    emitted = Emitted(Program("square", (function,)), True, products="cublaslt")
    x, w, y = torch.randn(3, side, side).unbind()
    emitted.bound("f", {}, [x, w], [y])()
    emitted.wait()
    torch.testing.assert_close(y, x @ w)


def test_a_machine_without_a_gpu_is_told_so_in_one_sentence():
    import torch
    import typer

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    app = typer.Typer()
    app.command()(cuda.main)
    done = CliRunner().invoke(app, ["--part", "small"])
    assert done.exit_code == 2
    assert "must measure on an NVIDIA GPU, but PyTorch finds none; run it on" in " ".join(done.output.split())


def test_parts_are_chosen_by_name():
    assert parts_of("") == PARTS
    assert sum(len(workloads_of(part)) for part in PARTS) == len(GPU_WORKLOADS)
    with pytest.raises(UnknownName, match="did you mean 'small'"):
        parts_of("smal")


@pytest.mark.parametrize("workload", GPU_WORKLOADS, ids=lambda w: w.name)
def test_competitors_are_modules_and_reduced_workloads_small(workload):
    for competitor in cuda.competitors(workload):
        assert find_spec(f"benchmarks.peers.{competitor.module}")
    small = workload.simulated()
    assert (small.net, small.loss, small.optimiser) == (workload.net, workload.loss, workload.optimiser)
    assert sum(slot.type.size for slot in small.task.parameters) < 20_000


def timed(seconds: float) -> Result:
    return Result(seconds=seconds, rounds=[seconds])


def test_a_ratio_is_that_of_the_fastest_forms_of_one_step():
    results = {
        f"{gpu_tables.OURS}, launches": timed(4.0),
        f"{gpu_tables.OURS}, CUDA graph": timed(2.0),
        gpu_tables.MANY: timed(1.0),
        "PyTorch eager": timed(8.0),
        "PyTorch CUDA graph": timed(5.0),
        "trainkernel": Result(reason="not installed"),
    }
    row = gpu_tables.step_row(GPU_WORKLOADS[0], results)
    assert (row["ours"], row["peer"], row["ratio"]) == ("catgrad, CUDA graph", "PyTorch CUDA graph", 0.4)
    assert gpu_tables.reasons([row]) == ["iris, trainkernel: not installed"]
    assert gpu_tables.step_row(GPU_WORKLOADS[0], {"trainkernel": Result(reason="no")})["ratio"] is None


def test_rows_of_a_part_replace_those_before(tmp_path):
    path = tmp_path / "cuda.json"
    small, mlps = ([{"part": part, "ratio": ratio}] for part, ratio in (("small", 0.5), ("mlps", 0.6)))
    gpu_tables.keep(path, "mlps", mlps, {"gpu": "first"})
    gpu_tables.keep(path, "small", [{"part": "small", "ratio": 9.0}], {"gpu": "first"})
    gpu_tables.keep(path, "small", small, {"gpu": "second"})
    kept = json.loads(path.read_text("utf-8"))
    assert kept["rows"] == small + mlps
    assert {part: machine["gpu"] for part, machine in kept["machines"].items()} == {
        "small": "second", "mlps": "first",
    }  # fmt: skip


def test_names_of_workloads_are_none_of_the_target():
    reserved = get_backend("cuda").dialect.reserved
    names = [workload.precise_task.name for workload in GPU_WORKLOADS]
    assert names == [Namer(reserved).fresh(name) for name in names]
