"""Sprites of tokenizers agree with the tokenizers, in both virtual machines of Scratch."""

from __future__ import annotations

import pytest
from catgrad.backends.scratch.assemble import sprite3
from catgrad.backends.scratch.machine.projects import Machine, validate
from catgrad.backends.scratch.tokens.tokenizers import tables, transpile_tokenizer

from catgrad.errors import ArtifactError, OptionError, UnknownName, UnsupportedOp
from catgrad.tokenizers import (
    BPETokenizer,
    CharTokenizer,
    PreTokenizer,
    UnigramTokenizer,
    from_hugging_face,
)
from tests.scratch.machines import on_machines
from tests.tokenizers import TRAINED, texts, trained

MANY = """
    list texts
    list ids
    list counts
    list decoded
    list errors
    variable turn
    variable place
    define many
        repeat size(texts)
            turn += 1
            text = texts[turn]
            clear tokens
            call encode
            add error to errors
            add size(tokens) to counts
            place = 0
            repeat size(tokens)
                place += 1
                add tokens[place] to ids
            call decode
            add text to decoded
"""
"""A section of a program that encodes and decodes the items of `texts`."""

SENTENCE = "Hello world, hello word; Held up."
OWN = {
    "characters": CharTokenizer.train(SENTENCE),
    "characters with an emoji and unknown": CharTokenizer.train(SENTENCE + "😀\t0", unknown="?"),
    "characters, lower case": CharTokenizer((*"abcdefghi k", "?"), unknown=11, lowercase=True),
    "between marks": CharTokenizer(
        tuple("?helo▁"),
        unknown=0,
        before=(1,),
        after=(2, 4),
        special=frozenset([2]),
        pre_tokenizer=PreTokenizer(",;", "▁", prepend=True),
    ),
    "BPE": BPETokenizer.train(SENTENCE, 40),
    "Unigram": UnigramTokenizer(("a", "b", "ab", "abc", "ca"), (-1.0, -2.0, -2.5, -1.0, -0.5)),
}


def encoded(tokenizer, text):
    """Return the ids of a text, and whether it has letters without a token."""
    try:
        return tokenizer.encode(text), False
    except UnknownName:
        return [], True


def check(vm, tokenizer, given):
    """Compare encoding and decoding of these texts by a machine and by the tokenizer."""
    machine = Machine(vm)
    text = transpile_tokenizer(tokenizer)["tokenizer.scratch"] + MANY
    machine.load(sprite3(text, tables(tokenizer).lists))
    machine.set_list("texts", given)
    machine.call("many")
    ids, places = machine.list("ids"), iter(machine.list("counts"))
    for text, error, decoded in zip(given, machine.list("errors"), machine.list("decoded"), strict=True):
        wanted, failed = encoded(tokenizer, text)
        count = int(next(places))
        found, ids = ids[:count], ids[count:]
        assert (found, bool(error)) == (wanted, failed), text
        assert str(decoded) == tokenizer.decode(wanted), text
    return machine


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("kind", TRAINED)
def test_sprites_of_tokenizers_of_hugging_face(vm, kind):
    check(vm, from_hugging_face(trained(kind)), texts(1000))


@on_machines
@pytest.mark.parametrize("kind", OWN)
def test_sprites_of_tokenizers_of_catgrad(vm, kind):
    given = [
        *texts(200),
        SENTENCE,
        *SENTENCE.split(),
        "Hello",
        "hello",
        "abcab",
        "aBc",
        "0\t😀",
        "1e3",
        "x\t",
    ]
    check(vm, OWN[kind], [text.replace("İ", "") for text in given])


@on_machines
def test_other_sprites_send_messages(vm):
    machine = Machine(vm)
    machine.load(transpile_tokenizer(OWN["BPE"], "words")["words.sprite3"])
    machine.set_variable("text", SENTENCE)
    machine.broadcast("encode")
    assert machine.list("tokens") == OWN["BPE"].encode(SENTENCE)
    machine.set_variable("text", "")
    machine.broadcast("decode")
    assert machine.variable("text") == SENTENCE


@on_machines
def test_invalid_texts_and_ids_are_reported_and_change_nothing(vm):
    machine = Machine(vm)
    machine.load(transpile_tokenizer(OWN["characters"])["tokenizer.sprite3"])
    machine.set_variable("text", "held 7 times")
    machine.set_list("tokens", [1])
    machine.call("encode")
    assert machine.variable("error") == "each letter of text must have a token, but letter 6 is 7"
    assert machine.list("tokens") == [1]
    last = len(OWN["characters"].vocabulary) - 1
    for wrong in (last + 1, -1, 0.5, "cat", ""):
        machine.set_list("tokens", [0, wrong])
        machine.call("decode")
        told = f"tokens must have whole numbers from 0 to {last}, but item 2 is {wrong}"
        assert machine.variable("error") == told
        assert machine.variable("text") == "held 7 times"
    machine.set_list("tokens", [0, last])
    machine.call("decode")
    assert machine.variable("error") == ""


@on_machines
def test_a_hundred_letters_take_less_than_50_ms(vm):
    machine = Machine(vm)
    for kind in ("BPE, whole text", "Unigram, words"):
        machine.load(transpile_tokenizer(trained(kind))["tokenizer.sprite3"])
        machine.set_variable("text", ("the product of terms, an array type, " * 3)[:100])
        assert machine.seconds("encode", 10, 3) < 0.05


@pytest.mark.parametrize("kind", ["BPE", "Unigram"])
def test_the_text_of_a_tokenizer(kind, check_golden):
    files = transpile_tokenizer(OWN[kind], kind.lower())
    check_golden(f"scratch/tokenizer-{kind.lower()}.scratch", files[f"{kind.lower()}.scratch"])
    assert files == transpile_tokenizer(OWN[kind], kind.lower())


@on_machines
def test_a_sprite_fits_the_schema_and_is_written_atomically(vm, tmp_path):
    files = transpile_tokenizer(trained("Unigram, words"), "words", tmp_path / "new")
    written = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert written == {name: f if isinstance(f, bytes) else f.encode() for name, f in files.items()}
    validate(files["words.sprite3"])
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="folder must be writable"):
        transpile_tokenizer(OWN["BPE"], folder=tmp_path / "file")


def test_unsupported_tokenizers_are_refused():
    with pytest.raises(OptionError, match="the vocabulary must have '▁'"):
        transpile_tokenizer(CharTokenizer(("a",), pre_tokenizer=PreTokenizer(space="▁")))
    library = type(trained("BPE, Metaspace")).from_str(trained("BPE, Metaspace").to_str())
    from tokenizers import pre_tokenizers

    library.pre_tokenizer = pre_tokenizers.ByteLevel()
    with pytest.raises(UnsupportedOp, match="it has ByteLevel"):
        transpile_tokenizer(library)
