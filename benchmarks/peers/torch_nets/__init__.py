"""The models of `benchmarks.nets` in PyTorch; parameters have the names that `names.places` relates."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from benchmarks.peers.torch_nets.dense import Perceptron, Recommender
from benchmarks.peers.torch_nets.images import Convolutional, Digits, LeNet, ResNet
from benchmarks.peers.torch_nets.recurrent import Recurrent
from benchmarks.peers.torch_nets.transformers import Gpt, Mixer, Vit
from benchmarks.peers.torch_nets.unet import UNet

NETS: dict[str, Callable[..., nn.Module]] = {
    "perceptron": Perceptron, "recommender": Recommender, "recurrent": Recurrent,
    "lenet": LeNet, "digits": Digits, "resnet": ResNet, "convolutional": Convolutional, "unet": UNet,
    "gpt": Gpt, "tied_gpt": lambda **sizes: Gpt(**sizes, tied=True), "vit": Vit, "mixer": Mixer,
}  # fmt: skip
