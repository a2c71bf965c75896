"""Sprites of cattorch 0.5.0: `python -m benchmarks.peers.cattorch_sprites FOLDER NAME...`.

Each name is that of a model with parameters and an example in FOLDER/NAME.npz; its sprite and the outputs of
PyTorch in float64 are written there too. Weights are plain numbers, which makes its sprites fastest.
"""

import sys
from pathlib import Path

import cattorch
import numpy as np
import torch

from benchmarks.peers.sprite_nets import net

folder, *names = sys.argv[1:]
for name in names:
    place = Path(folder) / name
    module, _ = net(name)
    arrays = dict(np.load(place.with_suffix(".npz")))
    example = torch.from_numpy(arrays.pop("example"))
    module.load_state_dict({key: torch.from_numpy(value) for key, value in arrays.items()})
    plain = cattorch.StorageConfig(compression=False)
    cattorch.transpile(module, example, place.with_suffix(".sprite3"), storage=plain)
    exact = example.double() if example.is_floating_point() else example
    with torch.no_grad():
        np.save(place.with_suffix(".npy"), module.double()(exact).numpy())
