"""Control of Scratch's virtual machines from Python: variables, lists, scripts, projects."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from catgrad.backends.scratch.machine.node import PACKAGES
from catgrad.backends.scratch.machine.projects import Machine, missing, validate
from hypothesis import given
from hypothesis import strategies as st

from catgrad.errors import ArtifactError, OptionError, ToolError
from tests.scratch import projects as blocks
from tests.scratch.machines import FOLDER, on_machines, on_scratch, same

SCRIPTS = [
    [blocks.define("double %s", "x"), blocks.add("out", blocks.binary("multiply", blocks.argument("x"), 2))],
    [blocks.define("nothing")],
    [blocks.define("double twice %s", "x"), *2 * [blocks.call("double %s", x=blocks.argument("x"))]],
    [blocks.when_received("copy"), blocks.add("out", blocks.item("in", 1))],
    [blocks.when_received("twice"), blocks.repeat(2, blocks.broadcast("copy"))],
    [blocks.when_received("ever"), blocks.forever(blocks.set_to("v", blocks.length("out")))],
]
NAMES = {"lists": ["in", "out"], "variables": ["v"]}
values = st.one_of(st.floats(), st.text(st.characters(codec="utf-8")), st.booleans())


def loaded(vm, *scripts, **names):
    machine = Machine(vm)
    machine.load(blocks.project(*scripts, **names))
    return machine


def all_same(xs, ys):
    return len(xs) == len(ys) and all(map(same, xs, ys))


@on_machines
def test_values_round_trip(vm):
    machine = loaded(vm, **NAMES)

    @given(st.lists(values), values)
    def holds(items, value):
        machine.set_list("in", items)
        machine.set_variable("v", value)
        assert all_same(machine.list("in"), items) and same(machine.variable("v"), value)

    holds()


@on_machines
def test_arrays_round_trip(vm):
    machine = loaded(vm, **NAMES)
    array = np.random.default_rng(0).standard_normal((250, 200))
    array[0, :4] = np.nan, np.inf, -np.inf, -0.0
    machine.set_list("in", array)
    np.testing.assert_array_equal(machine.array("in").view(np.int64), array.ravel().view(np.int64))


@on_machines
def test_an_array_has_only_numbers(vm):
    machine = loaded(vm, **NAMES)
    machine.set_list("in", [1, "2"])
    with pytest.raises(ArtifactError, match="\"in\" must hold numbers, but item 2 is '2'"):
        machine.array("in")


@on_machines
def test_custom_blocks_and_messages_run_to_their_end(vm):
    machine = loaded(vm, *SCRIPTS, **NAMES, messages=["copy"])
    machine.set_list("in", [0.1])
    machine.call("double %s", 1.7)
    machine.call("double %s", "4")
    machine.broadcast("twice")
    assert machine.list("out") == [3.4, 8, 0.1, 0.1]


@on_machines
def test_custom_blocks_use_others_and_leave_nothing_behind(vm):
    machine = loaded(vm, *SCRIPTS, **NAMES)
    before = machine.blocks()
    machine.call("double twice %s", 3)
    assert machine.list("out") == [6, 6] and machine.blocks() == before


@on_machines
def test_arguments_reach_custom_blocks_exactly(vm):
    machine = loaded(vm, *SCRIPTS, **NAMES)

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def holds(x):
        machine.set_list("out", [])
        machine.call("double %s", x)
        assert machine.list("out") == [2 * x]

    holds()


@on_machines
def test_endless_scripts_run_for_the_given_frames(vm):
    flag = [blocks.when_flag(), blocks.forever(blocks.set_to("v", blocks.length("out")))]
    machine = loaded(vm, flag, *SCRIPTS, **NAMES)
    machine.green_flag(frames=2)
    machine.call("double %s", 1)
    machine.run(frames=2)
    assert machine.variable("v") == 1


@on_machines
def test_the_green_flag_waits_for_scripts_that_end(vm):
    flag = [blocks.when_flag(), blocks.repeat(1000, blocks.add("out", 1)), blocks.set_to("v", "done")]
    machine = loaded(vm, flag, **NAMES)
    machine.green_flag()
    assert machine.variable("v") == "done" and len(machine.list("out")) == 1000


@on_machines
@pytest.mark.parametrize("file", [blocks.project, blocks.sprite])
def test_a_saved_project_keeps_blocks_and_finite_values(vm, file):
    machine, again = Machine(vm), Machine(vm)
    machine.load(file(*SCRIPTS, **NAMES))

    @given(st.lists(st.floats(allow_infinity=False, allow_nan=False).map(lambda x: x + 0.0)))
    def holds(items):
        machine.set_list("in", items)
        machine.call("nothing")
        again.load(machine.save())
        assert all_same(again.list("in"), items) and again.blocks() == machine.blocks()

    holds()
    validate(machine.save())


@on_machines
def test_numbers_without_json_are_saved_as_0(vm):
    machine = loaded(vm, **NAMES)
    machine.set_list("in", [math.nan, math.inf, -math.inf, -0.0])
    machine.load(machine.save())
    assert all_same(machine.list("in"), [0.0] * 4)


@on_machines
def test_machines_share_no_project(vm):
    one, other = loaded(vm, **NAMES), loaded(vm, lists=["in"])
    one.set_list("in", [1])
    assert other.list("in") == [] and one.has_list("out") and not other.has_list("out")


@on_machines
def test_a_failed_load_keeps_the_project(vm):
    machine = Machine(vm)
    broken = blocks.project(more={"costumes": None})
    with pytest.raises(ToolError, match="`load` must succeed"):
        machine.load(broken)
    with pytest.raises(ToolError, match="no project is loaded"):
        machine.list("in")
    machine.load(blocks.project(**NAMES))
    with pytest.raises(ToolError, match="`load` must succeed"):
        machine.load(broken)
    assert machine.list("in") == []


@on_machines
def test_time_is_that_of_the_processor(vm):
    machine = loaded(vm, *SCRIPTS, **NAMES)
    machine.set_list("in", [1])
    assert 0 < machine.seconds("copy", repeats=20, warm_up=5) < 1
    assert len(machine.list("out")) == 25


@on_machines
@pytest.mark.parametrize(
    ("do", "says"),
    [
        (lambda machine: machine.list("weights"), 'no list "weights", only: in, out'),
        (lambda machine: machine.set_variable("loss", 0), 'no variable "loss", only: v'),
        (lambda machine: machine.call("train"), 'no custom block "train"'),
        (lambda machine: machine.call("double %s"), '"double %s" takes 1 arguments, not 0'),
        (lambda machine: machine.broadcast("train"), 'no script starts when "train" is received'),
    ],
)
def test_missing_names_are_errors(vm, do, says):
    with pytest.raises(ToolError, match=says):
        do(loaded(vm, *SCRIPTS, **NAMES))


@on_scratch
def test_an_endless_script_times_out(vm, monkeypatch):
    monkeypatch.setattr("catgrad.backends.scratch.machine.node._running", {})  # its process is ended
    machine = Machine(vm, limit=2)
    machine.load(blocks.project(*SCRIPTS, **NAMES))
    with pytest.raises(ToolError, match="`broadcast` must end within 2 seconds"):
        machine.broadcast("ever")
    with pytest.raises(ToolError, match="it was ended; load the project again"):
        machine.list("in")
    machine.load(blocks.project(*SCRIPTS, **NAMES))
    assert machine.list("in") == []


@pytest.mark.skipif(bool(missing()), reason=f"Scratch: {missing()}")
def test_validation_gives_the_message_of_the_parser():
    validate(blocks.sprite(*SCRIPTS, **NAMES))
    with pytest.raises(ToolError, match=r"costumes.*should NOT have fewer than 1 items"):
        validate(blocks.project(more={"costumes": []}))


def test_files_that_are_no_projects_are_refused():
    with pytest.raises(ArtifactError, match="must be a zip archive"):
        Machine().load(b"print('hello')")


def test_there_are_two_machines():
    with pytest.raises(OptionError, match="one of vanilla, turbowarp, but it is 'snap'"):
        Machine("snap")


def test_a_missing_package_is_reported_with_its_installation(tmp_path, monkeypatch):
    monkeypatch.setenv("CATGRAD_SCRATCH", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name, path=None: f"/usr/bin/{name}")
    told = f"npm install --ignore-scripts --prefix {tmp_path} @turbowarp/packager@3.13.0"
    assert told in missing("turbowarp")
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    assert "no program `node`" in missing("turbowarp")


def test_tests_run_the_versions_that_users_are_told_to_install():
    told = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    assert dict(PACKAGES.values()).items() <= told.items()
