"""Ports describe every argument and result: in order, with its type."""

from __future__ import annotations

import pytest

from catgrad import Dim, Functions, NdArrayType, Task, build, layers, mse, sgd
from catgrad.learn.entries import lowered, program, terms_of
from catgrad.programs.ports import INITIAL, TABLES, Kind, Role
from catgrad.programs.signatures import SIGNATURES
from tests.models import TASKS

N, X = Dim("n"), NdArrayType((3,))


def remembering():
    """Build a model with dropout and batch norm, so that every table has arrays."""
    B = NdArrayType((N,))
    model = layers.sequential(layers.dense(B, X, X), layers.batch_norm(B + X), layers.dropout(B + X))
    return Task(model, sgd(0.1, momentum=0.9), mse)


def updating():
    """Build a model with a buffer that is updated and never read."""

    def forward(x):
        layers.buffer("last", X)
        layers.update("last", x)
        return x * layers.parameter("w", X)

    return Task(build(lambda x: [forward(x)], [X]), sgd(0.1), mse)


PROGRAMS = {
    **{name: lambda make=make: program(make(), entries=tuple(SIGNATURES)) for name, make in TASKS.items()},
    "remembering": lambda: program(remembering(), entries=tuple(SIGNATURES)),
    "updating": lambda: program(updating(), entries=tuple(SIGNATURES)),
    "functions": lambda: lowered(terms_of(Functions({"f": updating().model}))),
}


@pytest.fixture(params=PROGRAMS)
def made(request):
    return PROGRAMS[request.param]()


def test_types_are_those_of_the_values(made):
    for f in made.functions:
        assert [port.type for port in f.inputs] == [f.types[v] for v in f.arguments]
        assert [port.type for port in f.outputs] == [f.types[v] for v in f.results]
        assert [port.label for port in f.inputs] == [f.names[v] for v in f.arguments]


def test_tables_come_first_and_in_order(made):
    for f in made.functions:
        for table in (*f.tables, *f.changes):
            slots = [slot.name for slot in made.tables[table]]
            for ports in ([p for p in side if p.role is table] for side in (f.inputs, f.outputs)):
                assert [port.name for port in ports] in ([], slots)
        from_tables = [port.role.is_table for port in f.inputs]
        assert from_tables == sorted(from_tables, reverse=True)
        assert list(f.tables) == [table for table in TABLES if table in f.tables]


def test_new_values_have_the_types_of_the_arrays_they_replace(made):
    for f in made.functions:
        for k, n in f.renewed().items():
            assert (f.outputs[k].role, f.outputs[k].name) == (f.inputs[n].role, f.inputs[n].name)
        assert len(f.renewed()) == (0 if f.kind.is_initial else sum(p.role.is_table for p in f.outputs))


def test_returned_tables_are_arguments(made):
    for f in made.functions:
        assert f.kind.is_initial or set(f.changes) <= set(f.tables)


def test_roles_are_those_of_the_kind(made):
    for kind, f in made.kinds.items():
        if kind.is_initial:
            assert {port.role for port in f.inputs} == {Role.SEED}
            assert all(INITIAL[port.role] is kind for port in f.outputs)
        else:
            sides = zip(SIGNATURES[kind], (f.inputs, f.outputs), strict=True)
            assert all({port.role for port in ports} <= set(roles) for roles, ports in sides)


def test_functions_of_users_have_no_kind(made):
    assert not {Kind.FUNCTION, Kind.TERM} & made.kinds.keys()
