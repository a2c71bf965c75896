"""Our side of `benchmarks.cuda` runs in the simulator, and its tables compare like with like."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from catgrad.backends import cuda_simulator as simulator

from catgrad import NdArrayType, build
from catgrad.errors import UnknownName
from catgrad.naming import Namer
from catgrad.programs.program import Program, lower
from catgrad.targets import get_backend

pytest.importorskip("torch", reason="PyTorch is not installed")

from typer.testing import CliRunner

from benchmarks.cuda import check as gpu_check
from benchmarks.cuda import clock as gpu_clock
from benchmarks.cuda import command as cuda
from benchmarks.cuda import prebuild
from benchmarks.cuda import races as gpu_races
from benchmarks.cuda import tables as gpu_tables
from benchmarks.cuda.cases import names_of
from benchmarks.cuda.exact import FORMS, exact_artifact
from benchmarks.cuda.heads import heads_artifact, wrong_heads
from benchmarks.cuda.library import Emitted
from benchmarks.cuda.rounding import rounded_ways, rounding, rounding_artifact
from benchmarks.cuda.simulation import simulated, steps
from benchmarks.cuda.workloads import GPU_WORKLOADS, KERNELS, PARTS, parts_of, workloads_of
from benchmarks.processes import Competitor
from benchmarks.race import Race, Result
from benchmarks.records import OURS
from benchmarks.tables import reasons
from tests.covering import some

SIMULATED = pytest.mark.skipif(
    not simulator.COMPILER.is_installed(), reason=simulator.COMPILER.absence() or "no compiler"
)


@SIMULATED
@pytest.mark.parametrize("name", some(["iris", "digits"], ["iris"]))
def test_emitted_steps_have_the_losses_of_pytorch(name):
    [workload] = [each for each in GPU_WORKLOADS if each.name == name]
    assert steps(workload).startswith(name)


@pytest.mark.long
@SIMULATED
def test_emitted_kernels_have_the_results_of_pytorch():
    said = [line for part in KERNELS for line in simulated(part)]
    assert len(said) == sum(len(names_of(part)) for part in KERNELS)
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
    assert parts_of("small,rows") == ("small", "rows")
    with pytest.raises(UnknownName, match="did you mean 'small'"):
        parts_of("smal")


@pytest.mark.parametrize("workload", GPU_WORKLOADS, ids=lambda w: w.name)
def test_competitors_are_modules_and_reduced_workloads_small(workload):
    for competitor in gpu_races.competitors(workload):
        assert find_spec(f"benchmarks.peers.{competitor.module}")
    small = workload.simulated()
    assert (small.net, small.loss, small.optimiser) == (workload.net, workload.loss, workload.optimiser)
    assert sum(slot.type.size for slot in small.task.parameters) < 20_000


def timed(seconds: float) -> Result:
    return Result(seconds=seconds, rounds=[seconds])


def test_a_ratio_is_that_of_the_fastest_forms_of_one_step():
    results = {
        f"{OURS}, launches": timed(4.0),
        f"{OURS}, CUDA graph": timed(2.0),
        gpu_tables.MANY: timed(1.0),
        "PyTorch eager": timed(8.0),
        "PyTorch CUDA graph": timed(5.0),
        "trainkernel": Result(reason="not installed"),
    }
    [iris] = [each for each in GPU_WORKLOADS if each.name == "iris"]
    row = gpu_tables.step_row(iris, results)
    assert gpu_tables.sides(row) == ("catgrad, CUDA graph", "PyTorch CUDA graph")
    assert gpu_tables.ratio(row) == 0.4
    assert reasons([row]) == [f"trainkernel, {iris.title}: not installed"]
    assert gpu_tables.ratio(gpu_tables.step_row(iris, {"trainkernel": Result(reason="no")})) is None


def test_a_ratio_without_tf32_leaves_it_out_on_both_sides():
    names = f"{OURS}, CUDA graph, TF32", f"{OURS}, CUDA graph", "PyTorch CUDA graph, TF32", "PyTorch eager"
    results = {name: timed(seconds) for name, seconds in zip(names, (1.0, 2.0, 4.0, 8.0), strict=True)}
    row = gpu_tables.step_row(GPU_WORKLOADS[0], results)
    assert (gpu_tables.ratio(row), gpu_tables.ratio(row, exact=True)) == (0.25, 0.25)
    assert gpu_tables.sides(row, exact=True) == (names[1], names[3])


def test_a_kernel_has_its_share_of_the_ceiling():
    each = {"bytes": 8, "operations": 0, "precision": "", "seconds": {OURS: 2.0, "PyTorch eager": 4.0}}
    row = gpu_tables.kernel_row("rows", "sum", each, {gpu_tables.COPY: 16.0})
    assert (row.ratio, gpu_tables.rate(OURS)(row)) == (0.5, "4e-09 GB/s, 25%")
    assert gpu_tables.rate(OURS)(gpu_tables.failed_kernel("rows", "sum", "no")) == "–"


def test_the_kernels_of_a_step_are_summed_by_name():
    import torch

    def event(key, microseconds, kind=torch.profiler.DeviceType.CUDA):
        return SimpleNamespace(key=key, self_device_time_total=microseconds, device_type=kind)

    host = event("cudaLaunchKernel", 9.0, torch.profiler.DeviceType.CPU)
    found = gpu_clock.by_name([event("short", 10.0), event("long", 30.0), host], 10)
    assert list(found) == ["long", "short"]
    assert [*found.values()] == pytest.approx([3e-6, 1e-6])
    row = gpu_tables.step_row(
        GPU_WORKLOADS[0],
        {"catgrad, CUDA graph": Result(5e-6, rounds=[5e-6], kernels=found), "PyTorch eager": timed(1.0)},
    )
    [line] = gpu_tables.shares(row)
    assert line.endswith("CUDA graph: 4.0 µs in kernels of 5.0: 75% long, 25% short")


def test_a_limit_ends_rounds_and_waits(tmp_path):
    """A race whose time is up keeps nothing that it did not measure, and waits for no answer."""
    every = [Competitor("silent", "torch_eager", "eager")]
    started = time.monotonic()
    [result] = Race(5, 1.0, str, left=lambda: -1.0).run(every, tmp_path, 1, ("step",))["step"].values()
    assert (result.rounds, result.seconds) == ([], None)
    assert "silent for 0 s" in result.reason
    assert time.monotonic() - started < 30
    assert cuda.Limit(0).left() == float("inf")
    assert 59 < cuda.Limit(1).left() <= 60


def test_races_are_timed_one_after_the_other_once_all_are_built():
    built, timed = [], []
    turns = gpu_races.Turns(3, lambda: 60.0)

    def race(name):
        built.append(name)
        with turns.turn():
            timed.append(name)
            assert len(built) == 3 and len(set(timed)) == len(timed)
            time.sleep(0.01)
            assert timed[-1] == name

    with ThreadPoolExecutor(3) as pool:
        assert [*pool.map(race, range(3))] == [None] * 3
    assert sorted(timed) == [0, 1, 2]


def test_nobody_waits_for_a_race_when_the_time_is_up():
    turns = gpu_races.Turns(2, lambda: 0.0)
    with turns.turn():
        assert turns.built.broken


def test_peers_are_chosen_by_words():
    [iris] = [each for each in GPU_WORKLOADS if each.name == "iris"]
    names = [each.name for each in gpu_races.competitors(iris, ("graph",))]
    assert names == [
        "catgrad, launches",
        "catgrad, CUDA graph",
        "catgrad, many steps a call",
        "PyTorch CUDA graph",
    ]


@SIMULATED
def test_the_check_of_a_device_compares_with_numpy():
    assert gpu_check.agrees("iris", simulate=True) == ""
    assert "compute-sanitizer" in gpu_check.checked_alone("iris", "memcheck", 0) or shutil.which(
        "compute-sanitizer"
    )


def test_libraries_of_the_same_program_are_built_once(monkeypatch):
    """The step of GPT-2 that autotuned peers race is that of others."""
    monkeypatch.setattr(prebuild, "emitted_task", lambda task, kinds: task)
    configured = SimpleNamespace(emit=lambda program: program.name)
    monkeypatch.setattr(
        prebuild, "get_backend", lambda name: SimpleNamespace(configured=lambda **o: configured)
    )
    known = set[str]()
    names = [name for part in PARTS if part not in KERNELS for name, _ in prebuild.steps(part, known)]
    assert len(names) == len({*names}) == len(known)
    assert not any("autotuned" in name for name in names)


@pytest.mark.parametrize("form", FORMS)
def test_the_check_of_a_device_multiplies_by_warp_groups(form):
    """All majors of a product, and windows with their reverses but that of steps to the input."""
    text = str(exact_artifact(form).files[f"exact_{form}.cu"])
    assert text.count(" multiply_fed_") >= 7
    assert text.count(" load_window(") >= 6


@SIMULATED
def test_the_check_of_a_device_computes_attention_by_warp_groups():
    text = str(heads_artifact().files["heads.cu"])
    assert text.count(" multiply_kept_bf16_") == 2 * 4 * len(("output", "queries", "keys"))
    assert wrong_heads(150, simulate=True) == ""


@SIMULATED
@pytest.mark.parametrize(
    ("architecture", "ways"),
    [("sm_90a", "to nearest, ties to even"), ("sm_80", "to nearest, ties away from zero")],
)
def test_the_check_of_a_device_finds_how_factors_are_rounded(architecture, ways, monkeypatch):
    monkeypatch.setenv("CUDA_SIMULATOR_ARCHITECTURE", architecture)
    assert "const fed_tiles<" in str(rounding_artifact().files["rounding.cu"])
    assert rounding(simulate=True) == ways


def test_ways_of_rounding_differ():
    """0x3F801000 lies in the middle between two numbers of TF32."""
    bits = np.uint32([0x3F800FFF, 0x3F801000, 0x3F801001, 0x3F803000])
    even, away, zero, none = rounded_ways(bits).values()
    assert [hex(x) for x in even] == ["0x3f800000", "0x3f800000", "0x3f802000", "0x3f804000"]
    assert [hex(x) for x in away] == ["0x3f800000", "0x3f802000", "0x3f802000", "0x3f804000"]
    assert [hex(x) for x in zero] == ["0x3f800000", "0x3f800000", "0x3f800000", "0x3f802000"]
    assert none is bits


def test_names_of_workloads_are_none_of_the_target():
    reserved = get_backend("cuda").dialect.reserved
    names = [workload.precise_task.name for workload in GPU_WORKLOADS]
    assert names == [Namer(reserved).fresh(name) for name in names]
