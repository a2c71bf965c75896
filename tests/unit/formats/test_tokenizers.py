"""Tokenizers agree with the library, and unsupported ones are refused."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad.errors import ArtifactError, OptionError, UnknownName, UnsupportedOp
from catgrad.tokenizers import (
    WHITESPACE,
    BPETokenizer,
    CharTokenizer,
    Decoder,
    PreTokenizer,
    UnigramTokenizer,
    from_hugging_face,
)
from tests.tokenizers import TRAINED, texts, trained

UNIGRAM = UnigramTokenizer(("a", "b", "ab"), (-1.0, -2.0, -2.5))
words = st.lists(st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="▁"), min_size=1))


@pytest.mark.parametrize("kind", TRAINED)
def test_ids_and_texts_agree_with_the_library(kind):
    library = trained(kind)
    tokenizer = from_hugging_face(library)
    for text in texts(1000):
        ids = library.encode(text).ids
        assert tokenizer.encode(text) == ids, text
        assert tokenizer.decode(ids) == library.decode(ids), text


def test_the_library_does_not_merge_characters_either():
    tokenizers = pytest.importorskip("tokenizers", reason="the library tokenizers is not installed")
    tokenizer = CharTokenizer.train("a word, and another", unknown="?")
    library = tokenizers.Tokenizer(tokenizers.models.BPE(tokenizer.ids, [], unk_token="?"))
    library.decoder = tokenizers.decoders.Fuse()
    assert from_hugging_face(library).encode("a wörd") == tokenizer.encode("a wörd")
    for text in texts(1000):
        ids = library.encode(text).ids
        assert tokenizer.encode(text) == ids
        assert tokenizer.decode(ids) == library.decode(ids)


def test_lower_case_and_special_tokens_agree_with_the_library():
    library = type(trained("BPE, Metaspace")).from_str(trained("BPE, Metaspace").to_str())
    from tokenizers import normalizers, processors

    library.normalizer = normalizers.Lowercase()
    library.post_processor = processors.TemplateProcessing(
        "<s> $A <unk>", special_tokens=[("<s>", 1), ("<unk>", 0)]
    )
    library.encode_special_tokens = True
    tokenizer = from_hugging_face(library)
    assert tokenizer.encode("")[:1] == [1]
    for text in texts(1000):
        assert tokenizer.encode(text) == library.encode(text).ids, text


@given(st.text(), st.data())
def test_characters_are_decoded_to_the_text(text, data):
    tokenizer = CharTokenizer.train(text + "a")
    again = data.draw(st.text(st.sampled_from(text + "a")))
    assert tokenizer.decode(tokenizer.encode(again)) == again
    assert set(tokenizer.encode(text + "a")) == set(range(len(tokenizer.vocabulary)))


@given(words, st.integers(1, 50))
def test_words_are_decoded_from_trained_merges(words, size):
    text = " ".join(["a", *words])
    tokenizer = BPETokenizer.train(text, size)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.vocabulary) <= max(size, len(set(text)) + 1)


def test_the_most_frequent_pair_is_merged_first():
    assert BPETokenizer.train("hug pug hug bun", 9).merges == (("u", "g"), ("h", "ug"))
    assert BPETokenizer.train("hug pug", 100, unknown="?").encode("hux") == [5, 2, 4, 0]


def test_the_pair_that_comes_first_is_merged_first_and_from_the_left():
    tokenizer = BPETokenizer(("a", "b", "c", "bc", "ab", "aa"), (("b", "c"), ("a", "b"), ("a", "a")))
    assert tokenizer.encode("abc") == [0, 3]
    assert tokenizer.encode("aaab") == [5, 4]
    assert tokenizer.encode("aaa") == [5, 0]


def test_the_segmentation_with_the_best_score_is_chosen():
    assert UNIGRAM.encode("abb") == [2, 1]
    assert UnigramTokenizer(("a", "b", "ab"), (-1.0, -1.0, -2.5)).encode("ab") == [0, 1]


def test_words_are_split_by_the_pre_tokenizer():
    assert PreTokenizer(WHITESPACE).words(" a\tb\u3000\nc") == ["a", "b", "c"]
    assert PreTokenizer(space="_", prepend=True, split=True).words("a  b_c") == ["_a", "_", "_b", "_c"]
    assert PreTokenizer(space="_", split=True).words("a b") == ["a", "_b"]
    assert PreTokenizer(space="_", prepend=True).words("") == []


def test_a_decoder_restores_spaces():
    assert Decoder(space="_", strip=True).text(["_a", "_b_"]) == "a b "
    assert Decoder(" ").text(["a", "b"]) == "a b"


@pytest.mark.parametrize(
    ("do", "error", "says"),
    [
        (
            lambda: CharTokenizer.train("abc").encode("abd"),
            UnknownName,
            "must have a token, but 'd' has none",
        ),
        (lambda: UNIGRAM.encode("ac"), UnknownName, "'c' has none"),
        (lambda: CharTokenizer(("a",)).decode([0, 1]), UnknownName, "integers from 0 to 0, but one is 1"),
        (lambda: CharTokenizer(("a",)).decode([0.5]), UnknownName, "one is 0.5"),
        (lambda: CharTokenizer(()), OptionError, "it has none; train it on a longer text"),
        (lambda: CharTokenizer(("a", "a")), OptionError, "'a' occurs twice"),
        (lambda: CharTokenizer(("a",), unknown=1), OptionError, "one of 0 to 0, but it is 1"),
        (lambda: BPETokenizer(("a", "b"), (("a", "b"),)), OptionError, "'ab' is none"),
        (lambda: UnigramTokenizer(("a",), ()), OptionError, "0 scores are for 1 tokens"),
        (lambda: UnigramTokenizer(("a",), (float("nan"),)), OptionError, "0 scores are for 1 tokens"),
        (lambda: from_hugging_face(3), OptionError, "it is a int"),
        (lambda: from_hugging_face("/nowhere/tokenizer.json"), ArtifactError, "is not: No such file"),
    ],
)
def test_invalid_tokenizers_are_refused(do, error, says):
    with pytest.raises(error, match=says):
        do()


BPE = {"type": "BPE", "vocab": {"a": 0}, "merges": []}


@pytest.mark.parametrize(
    ("description", "says"),
    [
        ({"pre_tokenizer": {"type": "ByteLevel"}}, "it has ByteLevel, which encodes bytes"),
        ({"pre_tokenizer": {"type": "Split"}}, "it has Split, which divides .* regular expressions"),
        ({"pre_tokenizer": {"type": "BertPreTokenizer"}}, "it has BertPreTokenizer, which divides"),
        ({"normalizer": {"type": "NFKC"}}, "no normalizer, or Lowercase, but it has NFKC; set it to None"),
        ({"decoder": {"type": "ByteLevel"}}, "it has ByteLevel; set one of these"),
        ({"post_processor": {"type": "ByteLevel"}}, "it has ByteLevel; set it to None"),
        ({"truncation": {"max_length": 8}}, "no truncation"),
        ({"added_tokens": [{"id": 1, "content": "b", "special": False}]}, "'b' is added"),
        ({"added_tokens": [{"id": 9, "content": "b", "special": True}]}, "without gaps"),
        ({"model": {"type": "WordPiece"}}, "it has WordPiece"),
        (
            {
                "model": {"type": "Unigram", "vocab": [["a", -1.0]]},
                "added_tokens": [{"id": 1, "content": "b", "special": True}],
            },
            "no special tokens but those of its model, but 'b' is added",
        ),
        ({"model": BPE | {"byte_fallback": True}}, "without byte_fallback"),
        ({"model": BPE | {"dropout": 0.1}}, "without dropout, but it is 0.1"),
        ({"model": {"type": "Unigram", "byte_fallback": True}}, "without byte_fallback"),
    ],
)
def test_tokenizers_that_sprites_lack_are_refused(description, says, tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({"model": BPE} | description))
    with pytest.raises(UnsupportedOp, match=says):
        from_hugging_face(file)


def test_current_and_legacy_files_are_read(tmp_path):
    file = tmp_path / "tokenizer.json"
    for merges, space in ([["a", "b"]], {"prepend_scheme": "always"}), (["a b"], {"add_prefix_space": True}):
        model = {"type": "BPE", "vocab": {"▁": 0, "a": 1, "b": 2, "ab": 3}, "merges": merges}
        stage = {"type": "Metaspace", "replacement": "▁", **space}
        file.write_text(json.dumps({"model": model, "pre_tokenizer": stage, "decoder": stage}))
        assert from_hugging_face(file).encode("ab") == [0, 3]
    file.write_text('{"model": {"type": "BPE"}}')
    with pytest.raises(OptionError, match="reading it fails with KeyError"):
        from_hugging_face(file)
    file.write_text("{")
    with pytest.raises(OptionError, match="must describe a model"):
        from_hugging_face(file)


def test_a_fast_tokenizer_of_transformers_is_unwrapped():
    library = trained("BPE, Metaspace")
    assert from_hugging_face(SimpleNamespace(backend_tokenizer=library)) == from_hugging_face(library)
