"""The models of `benchmarks.nets` in JAX: functions of parameters, buffers and x to scores and new buffers.

Images have their channels last and filters theirs too, which is what XLA is fastest with.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.peers.jax_nets.dense import Output, perceptron, recommender
from benchmarks.peers.jax_nets.images import convolutional, lenet, resnet
from benchmarks.peers.jax_nets.recurrent import recurrent
from benchmarks.peers.jax_nets.transformers import gpt, mixer, vit
from benchmarks.peers.jax_nets.unet import unet

IMAGES: dict[str, Callable[..., Output]] = {
    "lenet": lenet,
    "resnet": resnet,
    "convolutional": convolutional,
    "unet": unet,
    "vit": vit,
    "mixer": mixer,
}
"""The models of images."""
NORMED = {"resnet", "convolutional"}
"""The models that differ in training, where they normalise by the statistics of the batch."""
NETS: dict[str, Callable[..., Output]] = {
    "perceptron": perceptron,
    "recommender": recommender,
    "recurrent": recurrent,
    "gpt": gpt,
    "tied_gpt": gpt,
    **IMAGES,
}
