"""The output of commands as JSON and quietly, and what a shell completes."""

from __future__ import annotations

import json

import pytest

from tests.unit.command import run


def said(*arguments, status=0):
    done = run(*arguments)
    assert done.returncode == status, done.stderr
    return done.stdout


def test_tables_are_lists_of_objects_in_json():
    rows = json.loads(said("targets", "--json"))
    assert {"target", "what_it_emits"} == set(rows[0])
    assert "numpy" in [row["target"] for row in rows]
    assert json.loads(said("--json", "targets")) == rows
    [add] = [row for row in json.loads(said("ops", "--json")) if row["operation"] == "Add"]
    assert add["kind"] == "primitive"


def test_numbers_and_truth_values_are_those_of_json():
    found = json.loads(said("doctor", "--json"))
    assert {row["runs_here"] for row in found["targets"]} <= {True, False}
    assert {"dot", "graphviz-pure"} & {row["tool"] for row in found["tools"]}
    options = json.loads(said("targets", "c", "--json"))["options"]
    assert options["openmp"] is False


def test_a_verification_is_json_too():
    rows = json.loads(said("verify", "catgrad.examples.iris:linear", "--json"))
    for row in rows:
        assert row["agrees"] is True
        assert 0 <= row["largest_difference"] <= row["allowed"] < 1


def test_files_are_a_list_in_json_and_nothing_quietly(tmp_path):
    emit = ("emit", "catgrad.examples.iris:linear", "-o", str(tmp_path))
    assert json.loads(said(*emit, "--json")) == [str(tmp_path / "linear.py")]
    assert said(*emit, "--quiet") == ""
    assert (tmp_path / "linear.py").exists()


def test_quiet_lists_are_names_and_reports_are_silent():
    assert {"c", "numpy", "torch-module"} <= set(said("targets", "-q").splitlines())
    assert "openmp" in said("targets", "c", "-q").splitlines()
    assert said("verify", "catgrad.examples.iris:linear", "-q") == ""


def test_errors_are_said_even_quietly():
    done = run("-q", "emit", "catgrad.examples.iris:nothing")
    assert done.returncode == 2
    assert "did you mean" in done.stderr or "write for example" in done.stderr


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("catgrad em", {"emit"}),
        ("catgrad emit net:task --target torch", {"torch", "torch-module"}),
        ("catgrad targets nu", {"numpy"}),
        ("catgrad emit --js", {"--json"}),
    ],
)
def test_a_shell_completes(words, completions):
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = run(_CATGRAD_COMPLETE="complete_bash", **asked)
    assert completions == set(done.stdout.split())
    assert "complete" in run(_CATGRAD_COMPLETE="source_bash").stdout
