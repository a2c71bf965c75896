"""Names of kernels and arrays in emitted C: of layers, or what several have in common; order of arguments."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cpu.workloads import chosen
from catgrad import Dim, Dtype, NdArrayType, Task, layers, mse, optimisers
from catgrad.naming import common, summary
from catgrad.printing.dialect import Literal, Text
from catgrad.targets import get_backend
from catgrad.terms.structural import Constant
from examples import digits
from tests.covering import some
from tests.targets import emit

WORDS = st.lists(st.sampled_from(["d", "0", "1", "conv", "dense", "out", "weight"]), min_size=1, max_size=5)
LONGEST = 120


@cache
def source_of(name: str, is_of_any_batch: bool = False) -> str:
    """Emit a model of the examples or benchmarks in C."""
    if name == "digits":
        return emit(digits.cnn(), "c").source
    workload = chosen(name)[0]
    return emit((workload.any_batch() if is_of_any_batch else workload).task, "c").source


def kernels(source: str) -> list[str]:
    return re.findall(r"^static KERNEL \w+ (\w+)\(", source, re.MULTILINE)


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_common_words_are_the_ends_of_every_name_but_for_digits(names):
    found = [w for w in re.split("[._]", common(map(".".join, names))) if w.strip("01")]
    for words in names:
        splits = ((n, m) for m in range(len(words) + 1) for n in range(m + 1))
        assert found in [[w for w in words[:n] + words[m:] if w.strip("01")] for n, m in splits]


@pytest.mark.parametrize(
    ("names", "shared"),
    [
        (["0.dense.weight", "3.dense.weight"], "dense_weight"),
        (["d_0.conv.out", "d_1.conv.out"], "d_conv_out"),
        (["x", "y"], ""),
        (["block.out", "block.out"], "block.out"),
        (["a.a", "a"], "a"),
        (["0.norm1.out", "1.norm2.out", "norm.out"], "norm_out"),
    ],
)
def test_common_words(names, shared):
    assert common(names) == shared


@pytest.mark.parametrize(
    ("names", "name"),
    [
        (["norm.mean", "norm.rstd", "norm.out"], "norm"),
        (["d_a.weight", "d_x"], "d_a.weight_and_d_x"),
        (["d_a.weight", "d_a.bias", "", "loss"], "d_a_and_loss"),
        (["a", "b" * 40, "c", "d" * 30], f"a_and_{'b' * 40}_and_2_more"),
        (["a" * 60, "b"], "a" * 60 + "_and_1_more"),
    ],
)
def test_arrays_that_are_computed_together_have_one_name(names, name):
    assert summary(names) == name


def test_arrays_are_named_after_the_layer_that_they_come_from():
    source = source_of("digits")
    named = kernels(source)
    assert {"compute_0_conv_product", "compute_3_conv", "compute_7_dense_product"} <= set(named)
    assert {"update_0_conv_weight", "update_7_dense_weight", "compute_d_7_dense_product"} <= set(named)
    assert not [name for name in named if re.fullmatch(r"compute_(product|pad|window|greatest)(_\d+)?", name)]


def test_results_of_activations_are_named_after_them_and_the_layer_before_them():
    source = source_of("lenet")
    assert {"conv_0_relu", "conv_1_relu"} <= set(re.findall(r"float \*(\w+);", source))
    assert "_maximum" not in source.replace("maximum_f32", "")


def test_arrays_of_rolled_layers_are_named_as_their_definitions_name_them():
    arrays = set(re.findall(r"float \*(\w+);", source_of("char-gpt")))
    assert {"block_self_attn_attended", "block_linear1_gelu"} <= arrays
    assert {"block_norm1_mean", "block_norm2_mean"} <= arrays
    assert {"block_self_attn_joined", "d_block_self_attn_joined"} <= arrays
    assert "d_block_linear2_product" in arrays  # after an invariant of a loop
    assert not [name for name in arrays if "block_0" in name]


def test_sums_are_named_after_their_results_and_added_up_by_a_function():
    source = source_of("iris-150")
    assert "d_dense_1_bias[i] += sum_of_16_f32(d_dense_1_bias_sum_lanes + i * 16);" in source
    assert "float dense_0_product_sum" in source


def test_an_element_is_loaded_once_for_several_loops():
    source = source_of("char-gpt")
    [kernel] = re.findall(r"void compute_d_block_x\(.*?\n}\n", source, re.DOTALL)
    assert kernel.count("= norm_mean[") == 1


def test_a_kernel_of_several_layers_has_the_name_of_none():
    batch, width = NdArrayType((32,)), NdArrayType((16,))
    model = layers.sequential(*(layers.dense(batch, width, width) for _ in range(3)))
    source = emit(Task(model, optimisers.adam(0.1), mse), "c").source
    assert "update_dense_weight" in kernels(source)
    assert not [name for name in kernels(source) if re.match(r"update_\d_dense", name)]
    body = source[source.index("static KERNEL void update_dense_weight(") :]
    assert "layer_0" not in body[: body.index("\n}\n")]


def test_kernels_get_sizes_then_what_they_read_then_what_they_write():
    source = source_of("digits")
    lists = re.findall(r"^static KERNEL \w+ \w+\(([^)]*)\)", source, re.MULTILINE)
    order = ["ptrdiff_t ", "uint32_t ", "const ", ""]
    for parameters in lists:
        words = [each.strip() for each in parameters.split(",")]
        arrays = [
            each for each in words if each.split("*")[-1] != "memory" and each != "size_t scratch_bytes"
        ]
        places = [next(n for n, begin in enumerate(order) if each.startswith(begin)) for each in arrays]
        assert places == sorted(places), words
        assert words[: len(arrays)] == arrays, words


def test_variables_of_a_thread_have_distinct_names():
    """A block computes an image, and its threads count channels, rows and columns."""
    batch, B = Dim("batch"), NdArrayType((256,))
    A = NdArrayType((batch, 1, 8, 8))
    model = layers.conv(A, 4, size=3, padding=1) >> layers.flatten(NdArrayType((batch, 4, 8, 8)))
    task = Task(model >> layers.dense(NdArrayType((batch,)), B, NdArrayType((3,))), optimisers.sgd(0.1), mse)
    texts = [text.partition("\n}\n")[0] for text in emit(task, "cuda").source.split("__global__")[1:]]
    declared = [re.findall(r"^    const int (\w+) = ", text, re.MULTILINE) for text in texts]
    assert any(len(names) > 3 for names in declared)
    assert all(len(names) == len({*names}) for names in declared)


LONG_NAMED = [("digits", False), ("lenet", False)]
LONG_NAMED += [(name, True) for name in ("resnet-8", "lenet", "unet", "vit")]
"""Names of models, and whether their batch is symbolic."""


@pytest.mark.parametrize("named", some(LONG_NAMED, LONG_NAMED[:3]), ids=str)
def test_lines_are_short(named):
    assert [line for line in source_of(*named).splitlines() if len(line) > LONGEST] == []


def test_negative_numbers_are_bare_but_as_operands_of_a_minus():
    dialect = get_backend("c").dialect
    number = Literal(Constant(NdArrayType((), Dtype.float32), -2.0), weak=True)
    text = Text(dialect.macros["Literal"](None, number, number.constant.array_type), dialect.strength(number))
    assert text == "-2.0f"
    assert dialect.operand("Negate", 0, text) == "(-2.0f)"
    assert dialect.operand("Multiply", 1, text) == "-2.0f"
