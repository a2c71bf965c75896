"""Every float: functions of emitted C are within two units in the last place, with and without FMA."""

from __future__ import annotations

import shutil
import subprocess

import jinja2
import pytest

from tests.c_runtime import BUILDS, MAPS, ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc"),
]


@pytest.mark.parametrize("build", ["native", "baseline"])
@pytest.mark.parametrize("name", MAPS)
def test_every_float_is_within_2_units_of_the_last_place(tmp_path, name, build):
    loader = jinja2.FileSystemLoader([ROOT / "templates" / "c", ROOT / "tests" / "unit" / "c"])
    environment = jinja2.Environment(loader=loader, trim_blocks=True, lstrip_blocks=True)
    text = environment.get_template("floats.c.j2").render(used={f"{name}_f32"}, name=name)
    (tmp_path / "floats.c").write_text(text)
    command = ["gcc", "-std=c11", *BUILDS[build], "-fno-math-errno", "-fno-trapping-math", "floats.c"]
    subprocess.run([*command, "-o", "floats", "-lm"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "floats"], capture_output=True, text=True, check=True)
    most, at = map(float.fromhex, done.stdout.split())
    assert most <= 2, f"{name}({at!r}) is off by {most}"
