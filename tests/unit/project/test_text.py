"""The text of the examples is complete, and its entropy agrees with the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad.errors import OptionError
from examples.text import alphabet, bigram_entropy, decode, encode, load


@given(st.text(max_size=50))
def test_encoded_texts_are_decoded(text):
    numbers = encode(text, alphabet(text))
    assert numbers.dtype == np.int64
    assert decode(numbers, alphabet(text)) == text


def test_a_character_outside_the_alphabet_is_refused():
    with pytest.raises(OptionError, match="it has 'xz'"):
        encode("zxa", "abc")


@given(st.text("abc", min_size=2, max_size=60))
def test_the_bigram_entropy_is_the_difference_of_two_entropies(text):
    numbers = encode(text, "abc")
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (numbers[:-1], numbers[1:]), 1 / (len(text) - 1))

    def entropy(p):
        return -sum(q * math.log(q) for q in p.flat if q)

    expected = entropy(pairs) - entropy(pairs.sum(axis=1))
    assert math.isclose(bigram_entropy(text), expected, abs_tol=1e-12)


@pytest.mark.parametrize(("text", "nats"), [("", 0), ("a", 0), ("abababab", 0), ("aabba", math.log(2))])
def test_the_bigram_entropy_of_small_texts(text, nats):
    assert math.isclose(bigram_entropy(text), nats, abs_tol=1e-12)


def test_genesis_is_complete():
    text = load()
    assert len(text) == 196_818
    assert len(alphabet(text)) == 60
    assert text.startswith("In the beginning God created the heaven and the earth.\n")
    assert text.count("\n") == 1533
    assert round(bigram_entropy(text), 3) == 2.221


def test_the_sunspots_are_one_number_a_year():
    from examples.text import DATA

    years, numbers = np.genfromtxt(DATA.parent / "sunspots.csv", delimiter=",", skip_header=1).T
    assert years.tolist() == list(range(1700, 2009))
    assert numbers.min() >= 0 and numbers.argmax() == 1957 - 1700
