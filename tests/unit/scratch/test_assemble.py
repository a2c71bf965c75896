"""Assembly of Scratch files: contents, determinism, and limits."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import zipfile
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from catgrad.backends.scratch.assemble import count_blocks, json_size, sb3, sprite3
from catgrad.backends.scratch.assemble.costume import SIZES, picture
from catgrad.backends.scratch.formats.names import shown, shown_block
from catgrad.backends.scratch.language.palette import palette
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from catgrad.errors import ArtifactError, CatgradWarning, OptionError, TextError
from catgrad.types import Dtype

TOUR = (Path(__file__).parents[2] / "scratch" / "tour.txt").read_text(encoding="utf-8")
WEIGHTS = {"hidden.weight": np.array([[0.1, -2.5], [1e-7, 3]], np.float32)}


def description(file):
    """The JSON in a file."""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def sprite(text, given=(), **options):
    return description(sprite3(text, dict(given), **options))


def lists(target):
    return dict(target["lists"].values())


def test_the_tour(check_golden):
    made = description(sb3([TOUR], WEIGHTS))
    a_block_a_line = json.dumps(made).replace('{"opcode"', '\n{"opcode"')
    check_golden("scratch/tour.json", a_block_a_line + "\n")
    used = {block["opcode"] for target in made["targets"] for block in target["blocks"].values()}
    known = {entry.opcode for table in palette().values() for entry in table.values()}
    assert known <= used


def test_costumes_have_different_names():
    with pytest.raises(TextError, match="costumes of a sprite must have different names, but 2 are 'a'"):
        sprite('sprite s\n    costumes "a", "b", "a"\n')


def test_a_sprite_has_one_picture_and_its_file():
    """The stage, and sprites without a picture, have an empty one."""
    texts = ['sprite a\n    picture "net" at (10, -5)\n    costumes "x"\n', "sprite b\n"]
    file = sb3(texts, {})
    assert [(t["x"], t["y"]) for t in description(file)["targets"][1:]] == [(10, -5), (0, 0)]
    stage, a, b = ([c["md5ext"] for c in t["costumes"]] for t in description(file)["targets"])
    assert stage == b and len(set(a)) == 1 and len(a) == 2 and a[0] != b[0]
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        assert sorted(archive.namelist()) == sorted(["project.json", a[0], b[0]])
        for name in (a[0], b[0]):
            assert name == hashlib.md5(archive.read(name), usedforsecurity=False).hexdigest() + ".svg"
    with zipfile.ZipFile(io.BytesIO(sprite3(texts[0], {}))) as archive:
        assert archive.namelist() == ["sprite.json", a[0]]


def test_an_unknown_picture_is_refused():
    with pytest.raises(TextError, match="picture of a sprite must be one of net, but it is 'cat'"):
        sprite('sprite s\n    picture "cat" at (0, 0)\n')


def test_the_centre_of_a_picture_is_that_of_its_size():
    for name, (width, height) in SIZES.items():
        assert f'width="{width}" height="{height}"'.encode() in picture(name)


def test_files_are_deterministic():
    first, second = (sb3([TOUR], WEIGHTS) for _ in range(2))
    assert first == second


def test_blocks_hold_together():
    """Parents and successors of blocks are consistent."""
    for target in description(sb3([TOUR], WEIGHTS))["targets"]:
        blocks = target["blocks"]
        for id, block in blocks.items():
            below = [
                block.get("next"),
                *(value for slot in block.get("inputs", {}).values() for value in slot),
            ]
            for child in below:
                if isinstance(child, str):
                    assert blocks[child]["parent"] == id
        tops = [block for block in blocks.values() if block["parent"] is None]
        assert all(block.get("topLevel") for block in tops)


def test_two_nets_share_no_ids():
    one, two = (sprite(f"sprite {name}\n    variable x\n    define f\n        x = 1\n") for name in "ab")
    assert not {*one["blocks"], *one["variables"]} & {*two["blocks"], *two["variables"]}


def test_shared_names_belong_to_the_stage_once():
    texts = [
        f"sprite {name}\n    shared list l{value}\n    when I receive m\n        clear l\n"
        for name, value in (("a", ""), ("b", " = 1, 2"))
    ]
    stage, a, b = description(sb3(texts, {}))["targets"]
    assert lists(stage) == {"l": [1, 2]} and list(stage["broadcasts"].values()) == ["m"]
    [id] = stage["lists"]
    uses = [
        block["fields"]["LIST"]
        for target in (a, b)
        for block in target["blocks"].values()
        if "LIST" in block.get("fields", {})
    ]
    assert uses == [["l", id]] * 2


def test_a_sprite_does_not_declare_what_it_shares():
    made = sprite("sprite s\n    shared list l\n    shared variable v = 2\n    define f\n        v = l[1]\n")
    assert made["lists"] == made["variables"] == {}


def test_a_sprite_named_as_the_stage_keeps_its_own():
    assert lists(sprite("sprite Stage\n    list w = 1\n")) == {"w": [1]}


def test_names_with_a_tilde_come_last_as_scratch_sorts_them():
    """Scratch sorts by `localeCompare`: a tilde precedes letters, its replacement follows them."""
    made = sprite("sprite s\n    list ~a\n    list z\n    list ~c\n    list d\n")
    names = list(lists(made))
    assert names == ["z", "d", shown("~a"), shown("~c")]
    compare = "(a, b) => a.localeCompare(b, [], {sensitivity: 'base', numeric: true})"
    program = f"console.log(JSON.stringify({json.dumps(names)}.sort({compare})))"
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["d", "z", shown("~a"), shown("~c")]


def test_names_of_internal_blocks_can_be_read_and_follow_those_of_main_blocks():
    blocks = ["predict", "train step", "train %s steps", "measure accuracy", "reset weights", "~compute x"]
    text = "sprite s\n" + "".join(
        f"    define `{name}`{'(count)' if '%s' in name else ''}\n" for name in blocks
    )
    names = [b["mutation"]["proccode"] for b in sprite(text)["blocks"].values() if "mutation" in b]
    assert names[-1] == shown_block("~compute x") == "work: compute x"
    assert max(names, key=str.lower) == names[-1]


@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.float64, np.float16]),
        st.integers(0, 5),
        elements={"allow_nan": False, "allow_infinity": False},
    )
)
def test_numbers_are_read_back_as_they_were(array):
    made = sprite(f"sprite s\n    list w given {len(array)}\n", {"w": array})
    items = lists(made)["w"]
    assert np.array_equal(np.array(items, np.float64).astype(array.dtype), array)
    assert all(type(item) in (int, float) for item in items)


def test_numbers_have_the_digits_of_their_dtype():
    text = "sprite s\n    list w given 3\n"
    single = np.array([0.1, -0.0, 2], np.float32)
    for given_, digits in [(single, "[0.1,0,2]"), (single.astype(float), "[0.10000000149011612,0,2]")]:
        assert digits.encode() in zipfile.ZipFile(io.BytesIO(sprite3(text, {"w": given_}))).read(
            "sprite.json"
        )
    rounded = lists(sprite(text, {"w": [1 / 3, 123456, "text"]}, sig_figs=3))["w"]
    assert rounded == [0.333, 123456, "text"]


def test_items_may_be_texts():
    for texts in (["a", "b"], np.array(["a", "b"])):
        assert lists(sprite("sprite s\n    list w given 2\n", {"w": texts}))["w"] == ["a", "b"]


def test_bfloat16():
    array = np.array([0.1, 3], Dtype.bfloat16.numpy)
    items = lists(sprite("sprite s\n    list w given 2\n", {"w": array}))["w"]
    assert np.array_equal(np.array(items).astype(array.dtype), array)


def boxes(target):
    """Return scripts and comments as left, top, right, bottom, with lower bounds for scripts."""
    blocks = target["blocks"]
    for block in blocks.values():
        if block.get("topLevel"):
            count, next_ = 1, block.get("next")
            while next_:
                count, next_ = count + 1, blocks[next_].get("next")
            yield block["x"], block["y"], block["x"] + 200, block["y"] + 48 * count
    for comment in target["comments"].values():
        x, y = comment["x"], comment["y"]
        yield x, y, x + comment["width"], y + comment["height"]


def test_scripts_and_comments_do_not_overlap():
    for target in description(sb3([TOUR], WEIGHTS))["targets"]:
        for (l1, t1, r1, b1), (l2, t2, r2, b2) in combinations(boxes(target), 2):
            assert r1 <= l2 or r2 <= l1 or b1 <= t2 or b2 <= t1


def test_helpers_stand_right_of_commented_scripts():
    text = 'sprite s\n    define a\n        """What it does."""\n    define b\n    when flag clicked\n'
    tops = {block["opcode"]: block for block in sprite(text)["blocks"].values() if "x" in block}
    assert tops["event_whenflagclicked"]["x"] == 0 < tops["procedures_definition"]["x"]


def test_sizes_are_those_of_the_file():
    text = "sprite s\n    variable x\n    define f\n        x = 1 + 2\n"
    file = sprite3(text, {})
    assert count_blocks(text) == len(description(file)["blocks"]) == 4
    assert json_size(file) == len(json.dumps(description(file), separators=(",", ":")))
    assert count_blocks(TOUR) > 50


@pytest.mark.parametrize(
    ("text", "given_", "error", "sentence"),
    [
        ("list w given 2", {"w": [1, np.nan]}, ArtifactError, "must hold finite numbers.*item 2 of w is nan"),
        ("list w given 1", {"w": np.array([np.inf])}, ArtifactError, "item 1 of w is inf"),
        ("list w given 1", {"w": [[1]]}, ArtifactError, "item 1 of w is .1."),
        ("list w given 1", {"w": [10**400]}, ArtifactError, "item 1 of w is 1000"),
        ("list w given 1", {"w": np.array([None])}, ArtifactError, "item 1 of w is None"),
        ("list w given 2", {"w": [1]}, TextError, "line 2: w must have 2 items, but 1 are passed"),
        ("list w given 2", {"w": [1, 2], "v": [1]}, OptionError, "but v is no such list"),
        ("list w of 200001", {}, ArtifactError, "at most 200,000 items, but w has 200,001"),
        ("define f\n" + "        hide\n" * 20_000, {}, ArtifactError, "at most 20,000 blocks, but s has"),
        (
            "list w given 190000\n    list v given 190000",
            dict.fromkeys("vw", np.full(190_000, 1 / 3)),
            ArtifactError,
            "JSON of a project must have at most 5,000,000 bytes.*sig_figs=4.*packed.*int8",
        ),
    ],
)
def test_limits_are_one_sentence(text, given_, error, sentence):
    with pytest.raises(error, match=sentence) as raised:
        sprite3(f"sprite s\n    {text}\n", given_)
    assert "\n" not in str(raised.value)


def test_many_blocks_and_much_json_are_warned_of():
    with pytest.warns(CatgradWarning, match="s has 2,003 blocks"):
        sprite3("sprite s\n    define f\n" + "        hide\n" * 2001, {})
    with pytest.warns(
        CatgradWarning, match="Scratch's site allows 5,000,000; round the weights with sig_figs=4"
    ):
        sprite3("sprite s\n    list w given 200000\n", {"w": np.full(200_000, 0.12345678901234567)})


@pytest.mark.parametrize("sig_figs", [0, -1, 2.5, "3"])
def test_digits_are_a_positive_integer(sig_figs):
    with pytest.raises(OptionError, match="sig_figs must be an integer above 0"):
        sprite3("sprite s\n", {}, sig_figs)


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (["sprite s\n", "sprite s\n"], "must have different names, but s occurs twice"),
        (["sprite Stage\n"], "must have different names, but Stage occurs twice"),
        (["stage\n", "stage\n"], "must have different names, but Stage occurs twice"),
        (
            ["sprite a\n    shared variable v = 1\n", "sprite b\n    shared variable v = 2\n"],
            "line 2: a shared variable or list must have one initial value, but v has two",
        ),
        (["stage\n    when sprite clicked\n"], "line 2: a block of the stage must not need a sprite"),
        (
            ["stage\n    when flag clicked\n        pen down\n"],
            "line 3: a block of the stage .* but pen_penDown does",
        ),
        (
            ["sprite a\n    shared list l\n", "sprite b\n    list l\n"],
            "line 2: a variable or list of one sprite must not have the name of a shared one, but l has",
        ),
    ],
)
def test_inconsistent_sections_are_refused(texts, error):
    with pytest.raises(TextError, match=error):
        sb3(texts, {})


@pytest.mark.parametrize("text", ["stage\n", "sprite a\nsprite b\n"])
def test_a_sprites_file_is_one_sprite(text):
    with pytest.raises(TextError, match="the text for a sprite's file must be one sprite"):
        sprite3(text, {})


def test_a_list_is_given_to_a_sprite_by_its_name():
    texts = ["sprite a\n    list w given 1\n", "sprite b\n    list w given 2\n"]
    _, a, b = description(sb3(texts, {"a/w": [1], "b/w": [2, 3]}))["targets"]
    assert (lists(a), lists(b)) == ({"w": [1]}, {"w": [2, 3]})


def test_a_block_takes_few_bytes():
    products = " + ".join(f"input[{k}] * w[o + {k}]" for k in range(1, 33))
    lists_ = "    list input of 32\n    list w of 64\n"
    text = f"sprite net\n{lists_}    variable o\n    define f\n        o = {products}\n"
    assert json_size(sprite3(text, {})) < 170 * count_blocks(text)
