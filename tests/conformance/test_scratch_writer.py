"""Sprites that generate text agree with the model without a cache, and report errors in one sentence."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from catgrad.backends.scratch.machine.projects import Machine, validate
from scipy.stats import chisquare

from catgrad import Dtype, Functions, NdArrayType, Task, layers, losses, sgd
from catgrad.errors import OptionError
from catgrad.programs.ports import Kind
from catgrad.programs.program import evaluate
from catgrad.tokenizers import BPETokenizer, CharTokenizer
from examples.char_gpt import gpt
from tests.scratch.machines import on_machines
from tests.targets import emit

MEMORY, WIDTH = 10, 8
PAGE = "the cat sat on the mat and the rat sat on the cat"
TOKENIZERS = {
    "characters": CharTokenizer.train(PAGE),
    "unknown": CharTokenizer.train(PAGE, unknown="?"),
    "pairs": BPETokenizer.train(PAGE, 20),
}

VOCABULARY = TOKENIZERS["characters"].vocabulary

pytestmark = pytest.mark.filterwarnings("ignore:.*the editor takes about")


def task(tokenizer, remembering=True):
    """Build a small GPT for the tokens of a tokenizer."""
    model = gpt(len(tokenizer.vocabulary), 1, 1, WIDTH, 2, MEMORY, remembering)
    time = 1 if remembering else MEMORY
    return Task(model, sgd(0.1), losses.cross_entropy, "writer", (NdArrayType((1, time), Dtype.int64),))


def weights(tokenizer):
    """Return parameters by name for which scores differ much."""
    rng = np.random.default_rng(5)
    slots = task(tokenizer).parameters
    return {s.name: rng.normal(size=s.type.shape).astype(np.float32) for s in slots}


@cache
def emitted(kind="characters", **options):
    """Emit a sprite that generates text."""
    tokenizer = TOKENIZERS[kind]
    return emit(task(tokenizer), "scratch", tokenizer=tokenizer, weights=weights(tokenizer), **options)


def opened(vm, artifact=None):
    """Return the project, which selects the token with the highest score."""
    machine = Machine(vm)
    machine.load((artifact or emitted()).files["writer.sb3"])
    machine.set_variable("temperature", 0)
    return machine


def write(machine, text, count):
    """Return the continuation of a text, and the error."""
    machine.set_variable("text", text)
    machine.set_variable("how many", count)
    machine.broadcast("write")
    return machine.variable("text"), machine.variable("error")


def expected(kind, text, count):
    """Return the tokens with the highest scores, by the model without a cache."""
    tokenizer = TOKENIZERS[kind]
    model, arrays = task(tokenizer, remembering=False), list(weights(tokenizer).values())
    term, tokens = model.entry(Kind.PREDICT)[0], tokenizer.encode(text)
    for _ in range(min(count, MEMORY - len(tokens))):
        [scores] = evaluate(term, *arrays, np.array([tokens + [0] * (MEMORY - len(tokens))]))
        tokens.append(int(scores[0, len(tokens) - 1].argmax()))
    return tokens


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_generated_text_agrees_with_the_model_without_a_cache(vm, kind):
    """Generate twice, so that the cache has rows of another text, up to the length of the context."""
    machine = opened(vm, emitted(kind))
    for text, count in (("the", 4), ("rat", 99), ("a", 1), ("mat", 0)):
        tokens = expected(kind, text, count)
        assert write(machine, text, count) == (TOKENIZERS[kind].decode(tokens), "")
        assert machine.list("tokens") == tokens
        assert len(tokens) <= MEMORY


@on_machines
@pytest.mark.parametrize("options", [{"unroll": "compact"}, {"storage": "packed"}], ids=str)
def test_options_change_nothing(vm, options):
    machine = opened(vm, emitted(**options))
    assert write(machine, "the ", 5) == (
        TOKENIZERS["characters"].decode(expected("characters", "the ", 5)),
        "",
    )


def test_a_sprite_called_from_python_keeps_its_cache():
    """Compare the scores after each token, and the rows of the cache."""
    model, given = task(TOKENIZERS["characters"]), weights(TOKENIZERS["characters"]).values()
    loaded = emitted().load()()
    buffers = [np.zeros(s.type.shape, s.type.dtype.numpy) for s in model.buffers]
    for token in (3, 0, 3):
        arrays = [*buffers, *given, np.array([[token]])]
        wanted = evaluate(model.entry(Kind.TRAINED)[0], *arrays)
        for found, each in zip(loaded.trained(*arrays), wanted, strict=True):
            np.testing.assert_allclose(found, each, rtol=1e-4, atol=1e-5)
        buffers = wanted[:-1]


@pytest.mark.covering(0)
@on_machines
def test_probabilities_depend_on_the_temperature(vm):
    """Compare 500 samples of 5 tokens with e^(score / temperature) by a chi-square test."""
    scores, temperature = np.random.default_rng(0).uniform(-2, 2, len(VOCABULARY)), 1.5
    machine = opened(vm)
    machine.set_variable("temperature", temperature)
    machine.set_list(place_of_scores(), scores)
    drawn = Counter(chosen(machine) for _ in range(500))
    chances = np.exp(scores / temperature)
    counts = [drawn[token] for token in range(len(scores))]
    assert chisquare(counts, 500 * chances / chances.sum()).pvalue > 1e-6


@on_machines
def test_temperature_0_chooses_the_first_maximum(vm):
    machine = opened(vm)
    machine.set_list(place_of_scores(), [-5, -2, -3, -2, *[-9] * (len(VOCABULARY) - 4)])
    assert {chosen(machine) for _ in range(20)} == {1}


def place_of_scores():
    """Return the list with the scores of the network."""
    return json.loads(emitted().text(f"{emitted().program.name}_manifest.json"))["functions"]["trained"][
        "gives"
    ][-1]["list"]


def chosen(machine):
    """Return the selected token."""
    machine.call("choose token")
    return machine.variable("~writer token")


@on_machines
@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"text": ""}, "text must have at least one letter, but it is empty"),
        ({"text": "the x"}, "each letter of text must have a token, but letter 5 is x"),
        ({"text": "the cat sat"}, "text must have 10 tokens at most, but it has 11"),
        ({"temperature": -0.5}, "temperature must be a number from 0 up, but it is -0.5"),
        ({"temperature": "hot"}, "temperature must be a number from 0 up, but it is hot"),
        ({"temperature": ""}, "temperature must be a number from 0 up, but it is "),
        ({"how many": "all"}, "how many must be a number from 0 up, but it is all"),
        ({"how many": -1}, "how many must be a number from 0 up, but it is -1"),
    ],
)
def test_an_error_is_one_sentence_and_changes_nothing(vm, settings, error):
    machine = opened(vm)
    machine.set_list("tokens", [1, 2])
    for name, value in ({"text": "the", "how many": 3} | settings).items():
        machine.set_variable(name, value)
    before = machine.variable("text")
    machine.broadcast("write")
    assert machine.variable("error") == error
    assert (machine.variable("text"), machine.list("tokens")) == (before, [1, 2])
    machine.set_variable("temperature", 0)
    assert write(machine, "the", 1)[1] == "", "and it is over with the next text"


@on_machines
def test_the_end_token_ends_a_text(vm):
    """The end token that `encode` adds is not between the prompt and the generated text."""
    tokens = expected("characters", "the", 4)
    end = tokens[4]
    stop = next(k for k, token in enumerate(tokens) if k > 2 and token == end)
    tokenizer = replace(TOKENIZERS["characters"], after=(end,))
    given = {"tokenizer": tokenizer, "weights": weights(tokenizer)}
    machine = opened(vm, emit(task(tokenizer), "scratch", **given))
    assert write(machine, "the", 9)[1] == ""
    assert machine.list("tokens") == tokens[: stop + 1]


@on_machines
def test_displayed_values_agree_with_the_model(vm):
    machine = opened(vm)
    for text in ("the", "the x", "rat"):
        machine.set_variable("text", text)
        machine.set_variable("how many", 4)
        machine.call("write and say")
        found = machine.variable("text"), machine.variable("error")
        assert found == write(machine, text, 4)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_files_fit_the_schema(kind):
    for name in ("writer.sprite3", "writer.sb3"):
        validate(emitted(kind).files[name])


def test_settings_are_on_the_stage():
    with zipfile.ZipFile(io.BytesIO(emitted().files["writer.sb3"])) as file:
        shown = {m["params"]["VARIABLE"]: m for m in json.loads(file.read("project.json"))["monitors"]}
    assert set(shown) == {"text", "temperature", "how many", "error"}
    sliders = [
        [shown[name][k] for k in ("mode", "sliderMin", "sliderMax")] for name in ("temperature", "how many")
    ]
    assert sliders == [["slider", 0, 2.0], ["slider", 0, MEMORY]]
    assert not shown["temperature"]["isDiscrete"] and shown["how many"]["isDiscrete"]


def forgetful():
    """Build the model without a cache."""
    return task(TOKENIZERS["characters"], remembering=False)


def with_dropout():
    """Build a model that draws random numbers."""
    model = task(TOKENIZERS["characters"])
    scores = NdArrayType((1, 1, len(VOCABULARY)))
    return replace(model, model=model.model >> layers.dropout(scores, 0.1))


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        (forgetful, {}, "one token at a time, and have attention with memory"),
        (with_dropout, {}, "must draw no random numbers"),
        (lambda: task(CharTokenizer.train("abc")), {}, "each of the tokenizer's 12 tokens, but it has 3"),
        (lambda: task(TOKENIZERS["characters"]), {"classes": ("a",)}, "must have no classes"),
        (lambda: task(TOKENIZERS["characters"]), {"features": ("a",)}, "must have no features"),
        (
            lambda: Functions({"f": task(TOKENIZERS["characters"]).model}),
            {},
            "must be emitted from a Task, but model is Functions",
        ),
        (
            lambda: task(TOKENIZERS["characters"]),
            {"data": ((0,), (0,))},
            "data must be for a task that trains",
        ),
    ],
)
def test_models_that_cannot_generate_text_are_refused(model, options, sentence):
    with pytest.raises(OptionError, match=sentence):
        emit(model(), "scratch", tokenizer=TOKENIZERS["characters"], **options)
