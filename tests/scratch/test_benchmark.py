"""The benchmark times custom blocks correctly, and their results agree with PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from catgrad.backends.scratch.assemble import sprite3

from benchmarks.harness import ROOT, duration
from benchmarks.records import OURS, read
from benchmarks.scratch.cases import Case, both, chosen
from benchmarks.scratch.command import PATH, checked, made
from benchmarks.scratch.tables import PEER, each, row_of, title
from benchmarks.scratch.timing import Race, Sprite, call
from catgrad.errors import ToolError
from tests.scratch.machines import on_machines

TEXT = """
sprite counter
    shared list input
    shared list output
    variable count

    define `count up`
        count += 1
        clear output
        add input[1] * count to output
"""


def counter(times: float = 1) -> Sprite:
    return Sprite("counter", sprite3(TEXT, {}), "count up", {"input": np.array([times])})


@on_machines
def test_a_round_calls_the_block_the_stated_times(vm):
    machine = counter(times=2).loaded(vm, repeated=True)
    taken = call(machine, 300)
    assert machine.variable("count") == 300
    assert machine.array("output") == [600]
    assert 0 < taken < 1e-3


@on_machines
def test_more_work_takes_longer(vm):
    body = TEXT.replace("count += 1", "repeat 200\n            count += 1")
    longer = Sprite("longer", sprite3(body, {}), "count up", {"input": np.array([1.0])})
    short, long = Race(rounds=2, seconds=0.02, warm_up=0.02).run([counter(), longer], vm)
    assert short < long


@on_machines
def test_a_wrong_sprite_is_not_timed(vm):
    assert checked(counter(times=2), vm, np.array([2.0])) == 0
    with pytest.raises(ToolError, match="counter must be within 1e-05 of PyTorch"):
        checked(counter(times=2), vm, np.array([3.0]))
    with pytest.raises(ToolError, match="inf off"):
        checked(counter(times=2), vm, np.array([2.0, 2.0]))


def test_blocks_are_counted_without_what_lies_in_slots():
    # the definition and its prototype, change, delete all, add, *, item; the variable count lies in a slot
    assert counter().blocks == 7


@on_machines
def test_sprites_agree_with_the_modules(vm, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from benchmarks.peers.sprite_nets import net

    [iris] = chosen("iris")
    module, example = net("iris")
    right = module.double()(example.double()).detach().numpy().reshape(-1)
    model = made(iris, tmp_path)
    assert (tmp_path / "iris.npz").exists()
    assert torch.equal(torch.from_numpy(model.example), example)
    for case in iris.cases:
        assert checked(model.ours(case, 3), vm, right) < 1e-6


@pytest.mark.parametrize(
    ("name", "parameters"), [("iris", 163), ("digits", 50_890), ("cnn", 1_066), ("gpt", 30_144)]
)
def test_modules_have_the_sizes_they_say(name, parameters):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from benchmarks.peers.sprite_nets import net

    assert sum(p.numel() for p in net(name)[0].parameters()) == parameters


def test_times_of_products_are_for_predictions_only():
    results = {OURS: {"seconds": 1e-3, "error": 0.0}, PEER: {"seconds": 2e-3, "error": 0.0}}
    [predict, step] = (
        row_of(
            "net", Case(block, unroll="max", ratio=both(0.5, 1), each=both(310, 3)), "vanilla", 1000, results
        )
        for block in ("predict", "train step")
    )
    assert (predict.ratio, each(OURS)(predict), each(PEER)(predict)) == (0.5, "1e+03", "2e+03")
    assert (title(predict), predict.goal) == ("net, predict, unroll=max", "≤ 0.5, ≤ 310 ns each")
    assert each(OURS)(step) == "–"
    assert both(1, 2) == {"vanilla": 1, "turbowarp": 2}


def test_the_figures_of_the_docs_are_those_of_the_benchmark():
    kept = read(PATH)
    page = (ROOT / "docs/explanation/sprite-speed.md").read_text(encoding="utf-8")
    assert "\n".join(times(kept.rows)) in page
    assert "\n".join(sizes(kept.more["sizes"])) in page


def times(rows):
    """Read the table of times in the documentation."""
    by_name = {}
    for row in rows:
        cells = by_name.setdefault(title(row), [title(row)])
        seconds = (duration(row.seconds(name)) for name in (OURS, PEER))
        cells += [*seconds, f"{row.ratio:.2f}"]
    return [f"| {' | '.join(cells)} |" for cells in by_name.values()]


def sizes(kept):
    """Read the table of sizes in the documentation."""
    return [
        f"| {size['net']} | {size['sprite']} | {size['blocks']:,} | {size['json'] / 1e3:.1f} kB |"
        f" {size['file'] / 1e3:.1f} kB |"
        for size in kept
    ]
