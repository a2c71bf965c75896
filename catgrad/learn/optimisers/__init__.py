"""Optimisers, with the numbers of `torch.optim` where it has them.

A learning rate is a number, or a schedule of `catgrad.learn.schedules`.
"""

from typing import TYPE_CHECKING

from catgrad.errors import no_attribute
from catgrad.learn.optimiser import Optimiser, clipped, frozen, grouped
from catgrad.learn.optimisers.adafactor import adafactor
from catgrad.learn.optimisers.adam import adam, adamw
from catgrad.learn.optimisers.adam_variants import adamax, nadam, radam
from catgrad.learn.optimisers.averages import ema
from catgrad.learn.optimisers.descent import asgd, sgd
from catgrad.learn.optimisers.muon import muon
from catgrad.learn.optimisers.parts import sliced
from catgrad.learn.optimisers.scaled_gradients import adadelta, adagrad, rmsprop
from catgrad.learn.optimisers.signs import lion, rprop

__all__ = [
    "Optimiser", "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "asgd", "clipped",
    "ema", "frozen", "grouped", "lion", "muon", "nadam", "radam", "rmsprop", "rprop", "sgd", "sliced",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # or it would take every name for one of the module
    __getattr__ = no_attribute("catgrad.optimisers", __all__)
