"""The roofline counts the arrays that a function must read, and is a bound from the machine's peaks."""

from __future__ import annotations

from benchmarks import machine
from benchmarks.cpu.roofline import Work, bandwidth, least_seconds, work
from benchmarks.cpu.workloads import chosen
from benchmarks.machine import Peaks

PEAKS = Peaks(2.0, {100: 10.0, 200: 4.0, 400: 5.0})


def test_small_arrays_are_read_faster_than_large_ones():
    peaks = machine.peaks()
    assert [*peaks.bandwidth] == [2**k for k in range(14, 29)]
    assert peaks.operations > 0 < peaks.bandwidth[2**28] < peaks.bandwidth[2**14]


def test_an_array_is_read_at_the_bandwidth_of_what_holds_it():
    """Sizes between measured ones have the bandwidth of the smaller, and never less than greater ones."""
    sizes = 4, 100, 150, 200, 300, 400, 4000
    assert [bandwidth(size, PEAKS) for size in sizes] == [10, 10, 10, 5, 5, 5, 5]


def test_the_least_time_is_that_of_operations_or_of_reading():
    assert least_seconds(Work(6, {}), PEAKS) == 3.0
    assert least_seconds(Work(0, {100: 2, 400: 1}), PEAKS) == 2 * 10.0 + 80.0
    assert least_seconds(Work(6, {100: 2}), PEAKS, threads=2) == 10.0


def test_a_step_reads_parameters_and_the_batch_once():
    [mlp] = chosen("mlp")
    parameters = {4 * 784 * 128: 1, 4 * 128: 1, 4 * 128 * 10: 1, 4 * 10: 1}
    assert work(mlp.task, "predict").arrays == parameters | {4 * 64 * 784: 1}
    # A label is an integer of 8 bytes; 64 of them are as large as the bias of the hidden layer.
    assert work(mlp.task, "step").arrays == parameters | {4 * 64 * 784: 1, 4 * 128: 2}


def test_operations_and_arrays_are_those_counted_by_hand():
    """LeNet's weights get gradients by as many operations as outputs, and all inputs but the images."""
    products = 28 * 28 * 6 * 25, 100 * 16 * 150, 400 * 120 + 120 * 84 + 840
    first, second, dense = (2 * 32 * count for count in products)
    found = work(chosen("lenet")[0].task, "step")
    assert found.operations == 2 * first + 3 * (second + dense)
    assert sum(size * count for size, count in found.arrays.items()) == 4 * (61_706 + 32 * 784) + 8 * 32


def test_the_state_of_an_optimiser_is_read():
    [lenet], [adam] = chosen("lenet"), chosen("autoencoder")
    assert sum(work(lenet.task, "step").arrays.values()) == len(lenet.task.parameters) + 2
    arrays = work(adam.task, "step").arrays
    assert arrays[4 * 784 * 512] == 3 * 2  # two layers of that size, with both moments


def test_only_gathered_rows_of_tables_are_read():
    """256 rows of 32 numbers of each of eight tables, in a step too, as plain descent changes no others."""
    [recommender], [gpt] = chosen("recommender"), chosen("char-gpt")
    for function in ("step", "predict"):
        arrays = work(recommender.task, function).arrays
        assert (arrays[256 * 32 * 4], 10_000 * 32 * 4 in arrays) == (8 + 1, False)  # and a weight as large
    assert 65 * 128 * 4 in work(gpt.task, "step").arrays
