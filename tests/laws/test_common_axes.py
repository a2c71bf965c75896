"""Axes in common are symmetries: hidden units that change places, in all tables alike, change no loss."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad.programs.axes import CommonAxes
from catgrad.programs.ports import Role
from tests.conformance.c_models import MODELS
from tests.targets import emit


def hidden(function):
    """Return the axes of tables of each class without an axis of inputs or outputs: name, axis and size."""
    axes, found, of_data = CommonAxes(function), {}, set()
    values, ports = (*function.arguments, *function.results), (*function.inputs, *function.outputs)
    for value, port in zip(values, ports, strict=True):
        for n, size in enumerate(port.type.shape):
            if port.role.is_table:
                found.setdefault(axes.find((value, n)), []).append((port.name, n, size))
            else:
                of_data.add(axes.find((value, n)))
    return [places for axis, places in found.items() if axis not in of_data and axes.reductions[axis]]


def swapped(array, axis, order):
    """Permute an axis, in blocks if it has more elements than there are places."""
    size = array.shape[axis] // len(order)
    return np.take(array, (order[:, None] * size + np.arange(size)).reshape(-1), axis)


@pytest.mark.parametrize(("name", "tables_of"), [("mlp", [5]), ("cnn", [6])])
def test_hidden_units_may_change_places(name, tables_of):
    rng, model = np.random.default_rng(0), MODELS[name]
    classes = hidden(emit(model.task(), "jax").reference["predict"])
    assert [len(places) for places in classes] == tables_of
    learner, (x, y) = emit(model.task(), "numpy").load()().learner(seed=0), model.draw(rng, 4)
    tables = [getattr(learner, table.value, {}) for table in (Role.BUFFER, Role.PARAMETER)]
    wanted = learner.loss(x, y)
    for places in classes:
        order = rng.permutation(min(size for _, _, size in places))
        for label, axis, _ in places:
            table = next(table for table in tables if label in table)
            table[label][...] = swapped(table[label], axis, order)
        np.testing.assert_allclose(learner.loss(x, y), wanted, rtol=1e-5)
