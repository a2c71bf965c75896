"""Folders of Hugging Face: the model of transformers with the weights of the files, or one sentence."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from catgrad.errors import ArtifactError, OptionError, ToolError
from catgrad.formats import safetensors
from catgrad.frontends.torch.hugging_face.folder import from_folder

torch = pytest.importorskip("torch", reason="PyTorch, whose modules are compiled, is not installed")
transformers = pytest.importorskip(
    "transformers", reason="transformers, whose models are read, is not installed"
)

from tests.conformance.torch_vision import import_torchvision  # noqa: E402  # it needs PyTorch

if find_spec("torchvision"):
    import_torchvision()  # transformers imports it


@pytest.fixture(scope="module")
def gpt2():
    """A small model like GPT-2, whose head is tied to its embedding."""
    try:
        kind, config = transformers.GPT2LMHeadModel, transformers.GPT2Config
    except ImportError as error:  # of a library that it needs
        pytest.skip(f"transformers does not load here: {error}")
    torch.manual_seed(0)
    sizes = {"vocab_size": 32, "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2}
    rates = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    return kind(config(**sizes, **rates, bos_token_id=0, eos_token_id=0))


@pytest.fixture
def folder(gpt2, tmp_path):
    gpt2.save_pretrained(tmp_path / "gpt2")
    return tmp_path / "gpt2"


def arrays_of(folder):
    return safetensors.read(folder / "model.safetensors")


def require_equal(module, gpt2):
    assert type(module) is type(gpt2)
    for name, tensor in gpt2.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], tensor, rtol=0, atol=0)
    assert module.lm_head.weight is module.transformer.wte.weight


def test_one_file_and_several_give_the_same_weights(gpt2, folder, tmp_path):
    require_equal(from_folder(folder), gpt2)
    gpt2.save_pretrained(tmp_path / "several", max_shard_size="2KB")
    assert len(list((tmp_path / "several").glob("*.safetensors"))) > 1
    require_equal(from_folder(tmp_path / "several"), gpt2)


def test_names_without_the_prefix_of_the_base_and_16_bits_are_read(gpt2, folder):
    bare = {name.removeprefix("transformer."): array for name, array in arrays_of(folder).items()}
    safetensors.write(folder / "model.safetensors", bare)
    require_equal(from_folder(folder), gpt2)
    rounded = {name: torch.tensor(array).bfloat16() for name, array in bare.items()}
    safetensors.write(folder / "model.safetensors", rounded)
    found = from_folder(folder).transformer.h[0].attn.c_attn.weight
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, rounded["h.0.attn.c_attn.weight"].float(), rtol=0, atol=0)


def changed_config(folder, **entries):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


def with_arrays(change):
    return lambda folder: safetensors.write(folder / "model.safetensors", change(arrays_of(folder)))


BIAS = "transformer.ln_f.bias"
WRONG = [
    (lambda f: shutil.rmtree(f), ArtifactError, "must have a config.json"),
    (
        lambda f: (f / "config.json").write_text("[" * 9999),
        ArtifactError,
        "must be JSON that names the class",
    ),
    (lambda f: (f / "config.json").write_text("{}"), ArtifactError, "must be JSON that names the class"),
    (lambda f: changed_config(f, architectures=["GPT9"]), OptionError, "it is 'GPT9'"),
    (lambda f: changed_config(f, architectures=["AutoConfig"]), OptionError, "it is 'AutoConfig'"),
    (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), ArtifactError, "pickled files"),
    (lambda f: changed_config(f, n_layer=2), ArtifactError, r"lacks transformer\.h\.1\..* and 7 more"),
    (with_arrays(lambda a: {**a, "more": np.ones(2)}), ArtifactError, "has more"),
    (with_arrays(lambda a: {n: x for n, x in a.items() if n != BIAS}), ArtifactError, f"lacks {BIAS}"),
    (with_arrays(lambda a: {**a, BIAS: np.ones(3)}), ArtifactError, f"has others for {BIAS}"),
]


HOSTILE = {
    "attn_implementation": "kernels-community/flash-attn", "_attn_implementation": "someone/kernel@main:f",
    "_attn_implementation_internal": "kernels-community/x", "experts_implementation": "kernels-community/moe",
    "text_config": {"attn_implementation": "paged|kernels-community/x"},
    "vision_config": [{"attn_impl": "flash_attention_2"}], "attention_implementation": {"": "x/y"},
    "auto_map": {"AutoModel": "modeling.Mine"}, "trust_remote_code": True, "custom_generate": "someone/code",
    "quantization_config": {"quant_method": "gptq"}, "use_pretrained_backbone": True, "use_kernels": True,
    "kernel_config": {"RMSNorm": "x/y"}, "some_entry": "kernels-community/x",
    "attribute_map": {"n_inner": "_attn_implementation"},
}  # fmt: skip
"""Entries by which a configuration would load code or files from elsewhere."""

STRANGE = [
    {"n_head": 3}, {"n_embd": -8}, {"n_embd": "8"}, {"n_head": 0}, {"n_layer": 1.5}, {"n_layer": None},
    {"vocab_size": 10**12}, {"n_positions": 10**12}, {"n_layer": 10**9}, {"num_labels": 10**12},
    {"n_layer": 10**5}, {"activation_function": "eval"}, {"activation_function": None}, {"__class__": "int"},
    {"self": 1}, {"attn_implementation": 3}, {"id2label": {"x": "y"}}, {"id2label": 3}, {"dtype": "os"},
    {"torch_dtype": {"a": 1}}, {"layer_norm_epsilon": "x"}, {"architectures": ["PreTrainedModel"]},
    {"architectures": ["TimmBackbone"]}, {"architectures": ["utils"]}, {"architectures": ["__init__"]},
    {"to_dict": 3}, {"problem_type": "x"}, {"output_attentions": "no", "attn_implementation": "sdpa"},
]  # fmt: skip
"""Entries with values that no model has."""


@pytest.mark.parametrize("key", HOSTILE)
def test_a_configuration_that_names_code_is_refused(folder, key, monkeypatch):
    from transformers import modeling_utils

    def load(*arguments, **options):
        pytest.fail("code of the Hub is asked for")

    monkeypatch.setattr(modeling_utils, "lazy_import_flash_attention", load)
    changed_config(folder, **{key: HOSTILE[key]})
    with pytest.raises(ArtifactError, match="must not name code or files elsewhere"):
        from_folder(folder)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_the_implementations_of_pytorch_are_passed_on(folder, gpt2, implementation):
    changed_config(folder, attn_implementation=implementation)
    found = from_folder(folder)
    assert found.config._attn_implementation == implementation
    require_equal(found, gpt2)


@pytest.mark.parametrize("entries", STRANGE, ids=str)
def test_a_strange_configuration_is_a_sentence_or_has_no_effect(folder, gpt2, entries):
    changed_config(folder, **entries)
    try:
        require_equal(from_folder(folder), gpt2)
    except (ArtifactError, OptionError) as error:
        assert len(str(error)) < 900  # noqa: PT017  # either is right


@pytest.mark.parametrize(("spoil", "error", "pattern"), WRONG)
def test_wrong_folders_are_refused(folder, spoil, error, pattern):
    spoil(folder)
    with pytest.raises(error, match=pattern):
        from_folder(folder)


def test_transformers_is_asked_for(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ToolError, match="pip install transformers"):
        from_folder(folder)


def test_the_command_compiles_and_verifies_a_folder(folder, capsys, monkeypatch):
    from catgrad.cli import main

    monkeypatch.chdir(folder.parent)
    arguments = ("--input", "i64[batch,time]", "--loss", "cross_entropy", "--optimizer", "sgd(lr=0.1)")
    with pytest.raises(SystemExit) as end:
        main(["compile", "hf:gpt2", *arguments, "-o", "out"])
    assert end.value.code == 0, capsys.readouterr().err
    weights = safetensors.read(folder.parent / "out/model.safetensors")
    np.testing.assert_array_equal(
        weights["transformer.wte.weight"], arrays_of(folder)["transformer.wte.weight"]
    )
    with pytest.raises(SystemExit) as end:
        main(["verify", "hf:gpt2", *arguments, "--steps", "2"])
    printed = capsys.readouterr()
    assert end.value.code == 0, printed.err
    assert "transformer" in printed.out and " no " not in printed.out
