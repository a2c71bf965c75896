"""Emitted C that trains by processes under MPI, against the same in one process."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from catgrad import emit, shared_rows
from catgrad.errors import OptionError
from catgrad.formats import safetensors
from tests.conformance.c_models import DRAWING, MODELS
from tests.covering import some
from tests.unit.c.build import NEEDS_C, built, run
from tests.unit.line import line

NEEDS_MPI = pytest.mark.skipif(not shutil.which("mpicc"), reason="no MPI here: apt install libopenmpi-dev")
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]
ARGUMENTS = ["--epochs", 3, "--batch", 6]


@NEEDS_C
@NEEDS_MPI
@pytest.mark.parametrize("name", some(["mlp", "lstm", *DRAWING], ["mlp", "char_gpt"]))
def test_processes_train_as_one(name, tmp_path):
    """A batch of 6 is shared by 4 processes unevenly, and of the last one, of 2, two processes have none."""
    model = (MODELS | DRAWING)[name]
    emit(shared_rows(model.task()), "c", mpi=True).write(tmp_path)
    built("make", "CFLAGS=-O1", "train", "train_mpi", cwd=tmp_path)
    x, y = model.draw(np.random.default_rng(0), 20)
    safetensors.write(tmp_path / "data.safetensors", {"x": x, "y": y})
    alone = run(tmp_path / "train", *ARGUMENTS, "--out", "alone", cwd=tmp_path)
    expected = safetensors.read(tmp_path / "alone")
    for count in (2, 4):
        done = run(*MPIRUN, count, tmp_path / "train_mpi", *ARGUMENTS, "--out", "shared", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        losses = [[float(row.split()[-1]) for row in each.stdout.splitlines()] for each in (done, alone)]
        np.testing.assert_allclose(*losses, rtol=1e-4)
        for key, array in safetensors.read(tmp_path / "shared").items():
            np.testing.assert_allclose(array, expected[key], rtol=1e-3, atol=1e-5, err_msg=key)


def test_processes_draw_by_seeds_of_their_own_unless_rows_are_shared():
    task = DRAWING["dropped_mlp"].task()
    own, shared = (emit(model, "c", mpi=True).text("train_mpi.c") for model in (task, shared_rows(task)))
    assert "buffers.seed += rank" in own and "first_row" not in own
    assert "buffers.first_row = (int64_t)first" in shared and "seed += rank" not in shared


def test_a_batch_of_fixed_size_is_refused():
    with pytest.raises(OptionError, match="must have a symbolic batch"):
        emit(line(6), "c", mpi=True)
