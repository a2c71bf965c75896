"""Projects run in Scratch's editor as they do without a screen."""

from __future__ import annotations

import pytest

from tests.scratch.projects import add, binary, forever, project, repeat, set_to, variable, when_flag

from .demo import lesson
from .editor import missing, run

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(missing()), reason=f"Scratch's editor: {missing()}"),
]


def test_the_green_flag_starts_a_project(tmp_path):
    n = variable("n")
    count = [set_to("n", binary("add", n, 1)), add("squares", binary("multiply", n, n))]
    squares = project([when_flag(), repeat(50, *count)], lists=["squares"], variables=["n"])
    picture = tmp_path / "editor.png"
    last, found, none = run(squares, ("n", 50), ["n", "squares", "cubes"], picture)
    assert last == 50 and found == [n * n for n in range(1, 51)] and none is None
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_value_that_is_not_reached_is_an_error(tmp_path):
    still = project([when_flag(), forever(set_to("n", 1))], variables=["n"])
    with pytest.raises(RuntimeError, match="Waiting failed"):
        run(still, ("n", 2), [], tmp_path / "editor.png", seconds=2)


def test_a_network_learns_in_the_editor(tmp_path):
    loss, accuracy, error = lesson(tmp_path / "iris.png")
    assert error == ""
    assert loss < 0.05  # it begins at about 0.25
    assert accuracy > 90
