"""The memory of emitted C: its workspaces are those of the library, and its stack is a chain of calls."""

from __future__ import annotations

import pytest
from catgrad.backends.c import compiler, cross, footprints

from catgrad import Dim, NdArrayType, Task, emit, layers, mse, sgd
from catgrad.errors import OptionError, UnknownName
from catgrad.tools import Executable
from examples import digits
from examples.microcontroller import program
from tests.covering import some
from tests.models import mlp
from tests.unit.command import run

CROSS = [cross.gcc(), cross.zig()]
REPORT = "net.c:3:5:leaf\t8\tstatic\nnet.c:9:6:deep.constprop\t100\tstatic\nnet.c:20:3:net_step\t24\tstatic\n"
ASSEMBLY = """\
leaf:
	add	r0, r1
	bx	lr
deep.constprop.0:
	bl	leaf
	bl	memcpy
.L3:
	b	.L3
net_step:
	bl	leaf
	b	deep.constprop.0
"""


def convolutional():
    """Build a network of two layers for any batch of images."""
    image = NdArrayType((Dim("batch"), 2, 6, 6))
    first = layers.conv(image, 3, 3, padding=1, name="a")
    second = layers.conv(first.target.table[0], 3, 3, padding=1, name="b")
    return Task(layers.sequential(first, layers.relu(first.target.table), second), sgd(0.1), mse, "convs")


@pytest.mark.parametrize("task", some([mlp, convolutional, digits.cnn], [mlp, convolutional]))
def test_workspaces_are_those_that_the_library_returns(task):
    """The plan of a program with a symbolic batch, at several sizes."""
    if reason := compiler.COMPILER.missing():
        pytest.skip(reason)
    artifact = emit(task(), "c")
    library = artifact.load().library
    for batch in (1, 9, 40):
        found = artifact.footprint(batch=batch).functions
        assert {name: found[name].workspace for name in ("predict", "step")} == {
            name: library.workspace_bytes(name, 1)(batch) for name in ("predict", "step")
        }


def test_workspaces_are_symbolic_in_sizes_that_are_not_given(monkeypatch):
    """Without a compiler, the notes say which to install, and flash and stack are unknown."""
    missing = Executable(name="size", names=("no-such-size",), install="apt install binutils")
    monkeypatch.setattr(cross, "SIZE", missing)
    found = emit(digits.cnn(), "c").footprint()
    assert isinstance(found.functions["step"].workspace, Dim)
    assert found.functions["step"].flash is found.functions["step"].stack is found.flash is None
    assert "apt install binutils" in str(found)


@pytest.mark.parametrize("machine", some(CROSS, CROSS[:1]), ids=[each.name for each in CROSS])
def test_functions_share_the_flash_of_all(machine, monkeypatch):
    if reason := machine.missing():
        pytest.skip(reason)
    monkeypatch.setattr(footprints, "cortex_m4", lambda: machine)
    found, again = (emit(program.task(), "c").footprint() for _ in range(2))
    assert found == again  # from the compiler's cache
    each = [memory.flash for memory in found.functions.values()]
    assert list(found.functions) == ["init", "predict", "step"]
    assert 0 < max(each) < found.flash < sum(each)
    assert 0 < found.functions["predict"].stack < found.functions["step"].stack < 1024


def test_the_stack_is_the_longest_chain_of_calls():
    """Copies of functions that a compiler makes count as these; a mnemonic is no call."""
    frames = cross.frames_of(REPORT)
    calls = cross.calls_of(ASSEMBLY, frames)
    assert calls["deep"] >= {"leaf"}
    assert cross.longest_chain("net_step", frames, calls) == 24 + 100 + 8
    frames |= cross.frames_of("net.c:3:5:leaf\t8\tdynamic\n")
    assert cross.longest_chain("net_step", frames, calls) is None


def test_other_targets_and_sizes_are_refused():
    with pytest.raises(OptionError, match="choose c"):
        emit(mlp(), "numpy").footprint()
    with pytest.raises(UnknownName, match="did you mean 'batch'"):
        emit(mlp(), "c").footprint(bacth=3)


def test_the_command_line_measures_an_emitted_program():
    measured = emit(program.task(), "c").footprint()
    done = run("cost", "examples.microcontroller.program:task", "--target", "c")
    assert done.stdout == f"{measured}\n", done.stderr
    done = run("summary", "examples.microcontroller.program:task", "--target", "c")
    assert "step: workspace 768, " in done.stdout, done.stderr
    assert "without --target" in run("cost", "examples.iris:hidden", "--option", "openmp=true").stderr
