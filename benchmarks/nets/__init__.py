"""The models of `benchmarks.workloads` as terms of catgrad; `benchmarks/peers` defines them for each peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.nets.dense import perceptron, recommender
from benchmarks.nets.images import convolutional, digits, lenet, resnet
from benchmarks.nets.recurrent import recurrent
from benchmarks.nets.transformers import mixer, tied_gpt, vit
from benchmarks.nets.unet import unet
from catgrad import Term
from examples.char_gpt import gpt

MODELS: Mapping[str, Callable[..., Term]] = {
    "perceptron": perceptron, "recommender": recommender, "recurrent": recurrent,
    "lenet": lenet, "digits": digits, "resnet": resnet, "convolutional": convolutional, "unet": unet,
    "gpt": gpt, "tied_gpt": tied_gpt, "vit": vit, "mixer": mixer,
}  # fmt: skip
