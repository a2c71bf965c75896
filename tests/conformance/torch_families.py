"""Families of models as their libraries build them, from small configurations and with random weights."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_models import UNet, lenet, mlp  # noqa: E402  # it needs PyTorch
from tests.conformance.torch_vision import import_torchvision  # noqa: E402

nn = torch.nn
WORDS, LENGTH, WIDTH, HEADS, HIDDEN = 40, 6, 16, 2, 32


class Result(nn.Module):
    """One result of a model of transformers, as a function of some of its inputs."""

    def __init__(self, model, result, *inputs, **others):
        super().__init__()
        self.model, self.result, self.inputs, self.others = model, result, inputs, others

    def forward(self, *tensors):
        return self.model(**dict(zip(self.inputs, tensors, strict=True)), **self.others)[self.result]


class Rows(nn.Module):
    """A linear map of the rows that a recurrent layer returns."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.out = layer, nn.Linear(layer.hidden_size * (1 + layer.bidirectional), 3)

    def forward(self, x):
        return self.out(self.layer(x)[0])


def rows(*shapes):
    return lambda: [torch.randn(shape) for shape in shapes]


def images(size, channels=3):
    return rows((2, channels, size, size))


def words(count=1):
    return lambda: [torch.randint(3, WORDS, (2, LENGTH)) for _ in range(count)]


def captioned():
    return [*words()(), *images(16)()]


def vision(name, **options):
    """Return a constructor of a model of torchvision."""

    def make():
        return getattr(import_torchvision().models, name)(weights=None, num_classes=5, **options)

    return make


def image_model(name, **options):
    """Return a constructor of a model of timm, which needs torchvision."""

    def make():
        import_torchvision()
        import timm

        return timm.create_model(name, num_classes=5, **options)

    return make


def hugging_face(model, config, result, *inputs, part=None, use_cache=None, **settings):
    """Return a constructor of a model of transformers, or of a part of it."""

    def make():
        import_torchvision()
        import transformers

        transformers.logging.set_verbosity_error()
        whole = getattr(transformers, model)(getattr(transformers, config)(**settings))
        others = {} if use_cache is None else {"use_cache": use_cache}
        return Result(getattr(whole, part) if part else whole, result, *inputs, **others)

    return make


SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "intermediate_size": HIDDEN,
}
TEXT = {"vocab_size": WORDS, "max_position_embeddings": 16, **SIZES, **SPECIAL}
SIGHT = {**SIZES, "image_size": 16, "patch_size": 8}
GROUPED = {"num_attention_heads": 2 * HEADS, "num_key_value_heads": HEADS, "head_dim": 8}


def language(model, config=None, **settings):
    """Return a constructor of a language model of transformers."""
    config = config or model.replace("ForCausalLM", "Config")
    settings = {**TEXT, **settings}
    return hugging_face(model, config, "logits", "input_ids", use_cache=False, **settings)


def encoder_layer(**options):
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options)


def decoder_layer(**options):
    return nn.TransformerDecoderLayer(8, 2, 16, batch_first=True, **options)


IMAGES = {
    "MLP": (mlp, rows((5, 4))),
    "LeNet-5": (lenet, images(28, 1)),
    "ResNet-18": (vision("resnet18"), images(32)),
    "MobileNet-v3": (vision("mobilenet_v3_small", width_mult=0.25), images(32)),
    "EfficientNet-b0": (vision("efficientnet_b0"), images(32)),
    "DenseNet": (image_model("densenet121", growth_rate=8, block_config=(2, 2, 2, 2)), images(32)),
    "U-Net": (UNet, images(16)),
    "ConvNeXt": (image_model("convnext_atto", depths=(1, 1, 2, 1), dims=(8, 16, 24, 32)), images(32)),
    "ViT": (
        image_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, embed_dim=24),
        images(32),
    ),
    "Swin": (
        image_model(
            "swin_tiny_patch4_window7_224",
            img_size=32,
            window_size=4,
            depths=(2, 2),
            embed_dim=12,
            num_heads=(2, 4),
        ),
        images(32),
    ),
    "MLP-Mixer": (image_model("gmixer_12_224", img_size=64), images(64)),
}

SEQUENCES = {
    "LSTM": (lambda: Rows(nn.LSTM(4, 6, 2, batch_first=True)), rows((2, 5, 4))),
    "bidirectional LSTM": (lambda: Rows(nn.LSTM(4, 6, bidirectional=True)), rows((5, 2, 4))),
    "GRU": (lambda: Rows(nn.GRU(4, 6, batch_first=True)), rows((2, 5, 4))),
    "TransformerEncoderLayer": (encoder_layer, rows((2, 5, 8))),
    "TransformerDecoderLayer": (lambda: decoder_layer(norm_first=True), rows((2, 5, 8), (2, 4, 8))),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(encoder_layer(activation="gelu"), 2, nn.LayerNorm(8)),
        rows((2, 5, 8)),
    ),
    "TransformerDecoder": (
        lambda: nn.TransformerDecoder(decoder_layer(), 2),
        rows((2, 5, 8), (2, 4, 8)),
    ),
}

TRANSFORMERS = {
    "GPT-2": (language("GPT2LMHeadModel", "GPT2Config", n_inner=HIDDEN), words()),
    "Llama": (language("LlamaForCausalLM", **GROUPED), words()),
    "Qwen3": (language("Qwen3ForCausalLM", **GROUPED), words()),
    "Gemma-2": (language("Gemma2ForCausalLM", sliding_window=4, **GROUPED), words()),
    "Gemma-3": (language("Gemma3ForCausalLM", "Gemma3TextConfig", sliding_window=4, **GROUPED), words()),
    "Mixtral": (
        language(
            "MixtralForCausalLM", num_local_experts=4, num_experts_per_tok=2,
            experts_implementation="batched_mm", **GROUPED,
        ),
        words(),
    ),
    "Phi": (language("PhiForCausalLM"), words()),
    "BERT": (hugging_face("BertForMaskedLM", "BertConfig", "logits", "input_ids", **TEXT), words()),
    "T5": (
        hugging_face(
            "T5ForConditionalGeneration", "T5Config", "logits", "input_ids", "decoder_input_ids",
            use_cache=False, vocab_size=WORDS, d_model=WIDTH, d_kv=8, d_ff=HIDDEN, num_layers=2,
            num_heads=HEADS,
        ),
        words(2),
    ),
    "CLIP": (
        hugging_face(
            "CLIPModel", "CLIPConfig", "logits_per_image", "input_ids", "pixel_values", text_config=TEXT,
            vision_config=SIGHT, projection_dim=8,
        ),
        captioned,
    ),
    "SigLIP": (
        hugging_face(
            "SiglipModel", "SiglipConfig", "logits_per_image", "input_ids", "pixel_values", text_config=TEXT,
            vision_config=SIGHT,
        ),
        captioned,
    ),
    "Whisper encoder": (
        hugging_face(
            "WhisperModel", "WhisperConfig", "last_hidden_state", "input_features", part="encoder",
            vocab_size=WORDS, d_model=WIDTH, encoder_layers=2, decoder_layers=1,
            encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=HIDDEN,
            decoder_ffn_dim=HIDDEN, num_mel_bins=8, max_source_positions=10, max_target_positions=8,
            decoder_start_token_id=1, **SPECIAL,
        ),
        rows((2, 8, 20)),
    ),
    "Wav2Vec2": (
        hugging_face(
            "Wav2Vec2ForCTC", "Wav2Vec2Config", "logits", "input_values", vocab_size=WORDS,
            conv_dim=(8, 8, 8), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=8,
            num_conv_pos_embedding_groups=2, **SIZES,
        ),
        rows((2, 400)),
    ),
    "Mamba": (language("MambaForCausalLM", state_size=4), words()),
}  # fmt: skip

FAMILIES = {**IMAGES, **SEQUENCES, **TRANSFORMERS}
"""For each family, the constructor of a model and that of its inputs."""

QUICK = (
    "MLP", "LeNet-5", "U-Net", "ViT", "LSTM", "GRU", "TransformerEncoderLayer", "TransformerDecoderLayer",
    "GPT-2", "Llama",
)  # fmt: skip
"""Families that are imported in every run of the tests."""

QUICK_IN_C = ("LSTM", "TransformerEncoderLayer")
"""Families that are compiled in every run of the tests."""


def made(name):
    """Return the model of a family in evaluation mode, with fixed weights, and its inputs."""
    torch.manual_seed(0)
    make, inputs = FAMILIES[name]
    module = make().eval()
    _move(module)
    return module, inputs()


def _move(module):
    """Add random numbers to parameters and running statistics whose initial values are all alike."""
    with torch.no_grad():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            learnt = isinstance(tensor, nn.Parameter) or name.endswith(("running_mean", "running_var"))
            if learnt and tensor.min() == tensor.max():
                tensor += 0.1 * torch.rand_like(tensor)
