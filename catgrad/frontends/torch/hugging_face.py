"""Models of Hugging Face from a folder on disk: `config.json`, and weights as safetensors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.errors import ArtifactError, OptionError, ToolError
from catgrad.files import reason
from catgrad.formats import safetensors
from catgrad.types import Array, widened

WEIGHTS = ("model.safetensors.index.json", "model.safetensors")
"""The files of weights, of which a folder has one: an index of several, or all in one."""

MOST_NAMES = 5
"""The number of names that an error lists."""


def from_folder(folder: str | Path) -> Any:
    """Build the model of a folder of Hugging Face, with its weights, as a module without a cache.

    Its class is the first of `architectures` in `config.json`, of the library transformers; code and pickled
    files in the folder are never run or read. All arrays of the model must be in the files, except the
    further names of tied ones, and no others. They get the dtype of a new model, which is float32.

    Raises: ArtifactError if a file is missing, or does not fit to the model; ToolError without transformers;
            OptionError for an architecture that transformers lacks
    """
    folder = Path(folder)
    config = _config(folder)
    arrays = safetensors.read(_weights(folder))
    module = _built(folder, config)
    _load(module, arrays, folder)
    return module


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArtifactError(
            "a folder of Hugging Face must have a config.json",
            f"{path} cannot be read: {reason(error)}",
            "check the path",
        ) from None
    except (ValueError, RecursionError):
        found = None
    names = found.get("architectures") if isinstance(found, dict) else None
    if not (isinstance(names, list) and names and isinstance(names[0], str)):
        raise ArtifactError(
            "config.json must be JSON that names the class of the model in `architectures`",
            f"{path} is not",
            "save the model by save_pretrained",
        )
    return dict(found)


def _weights(folder: Path) -> Path:
    found = [folder / name for name in WEIGHTS if (folder / name).is_file()]
    if not found:
        raise ArtifactError(
            f"the folder must have one of {' and '.join(WEIGHTS)}",
            f"{folder} has none",
            "convert pickled files, which are not read, by save_pretrained of transformers",
        )
    return found[0]


def _built(folder: Path, config: dict[str, Any]) -> Any:
    """Build the model of a configuration, with random weights."""
    try:
        import transformers
    except ImportError:
        raise ToolError(
            "the library transformers must be installed for models of Hugging Face",
            "it is not",
            "pip install transformers",
        ) from None
    name = config["architectures"][0]
    kind = getattr(transformers, name, None) if name.isidentifier() else None
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise OptionError(
            f"the architecture of {folder} must be a model of transformers {transformers.__version__}",
            f"it is {name!r}",
            "install the version that config.json names; code in the folder is not run",
        )
    make: Any = kind
    read = make.config_class.from_dict(config)
    read.use_cache = False
    return make(read)


def _load(module: Any, arrays: Mapping[str, Array], folder: Path) -> None:
    """Copy the arrays of files into the model. Raises: ArtifactError unless they are those of the model"""
    import torch

    state = dict(module.state_dict())
    found = _renamed(module, state, arrays)
    first: dict[int, str] = {}
    for name in [*(n for n in state if n in found), *state]:  # names in the files come first
        first.setdefault(state[name].data_ptr(), name)
    missing = [
        n for n in state if n not in found and (not state[n].numel() or first[state[n].data_ptr()] == n)
    ]
    _require_none(missing, "have all arrays of the model", "lacks", folder)
    _require_none(found.keys() - state.keys(), "have no arrays but those of the model", "has", folder)
    differing = [n for n, array in found.items() if array.shape != tuple(state[n].shape)]
    _require_none(differing, "have arrays of the shapes of the model", "has others for", folder)
    unread = [n for n, array in found.items() if array.dtype.kind == "V" and array.dtype.name != "bfloat16"]
    _require_none(
        unread, "have dtypes of NumPy or ml_dtypes (pip install ml_dtypes)", "has others for", folder
    )
    with torch.no_grad():
        for name, array in found.items():
            state[name].copy_(torch.from_numpy(np.require(widened(array), requirements=["C", "W"])))


def _renamed(module: Any, state: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays by the model's names: files of the model without its head lack a prefix.

    Arrays that transformers ignores are left out.
    """
    prefix = f"{module.base_model_prefix}."
    bare = not any(name in state for name in arrays)
    ignored = getattr(module, "_keys_to_ignore_on_load_unexpected", None) or ()
    named = {f"{prefix}{name}" if bare else name: array for name, array in arrays.items()}
    return {
        name: array
        for name, array in named.items()
        if name in state or not any(re.search(pattern, name) for pattern in ignored)
    }


def _require_none(names: Iterable[str], must: str, has: str, folder: Path) -> None:
    listed = sorted(names)
    if listed:
        more = f" and {len(listed) - MOST_NAMES} more" if len(listed) > MOST_NAMES else ""
        raise ArtifactError(
            f"the files of weights must {must}",
            f"{folder} {has} {', '.join(listed[:MOST_NAMES])}{more}",
            "use the files and the config.json of one model",
        )
