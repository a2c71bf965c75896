"""Models of Hugging Face from a folder on disk: `config.json`, and weights as safetensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from catgrad.errors import ArtifactError, CatgradError, OptionError, ToolError
from catgrad.formats import safetensors
from catgrad.frontends.torch.hugging_face import configuration
from catgrad.frontends.torch.hugging_face.limits import limited_to
from catgrad.frontends.torch.types import Module, Tensor
from catgrad.types import Array, widened

WEIGHTS = ("model.safetensors.index.json", "model.safetensors")
"""The files of weights, of which a folder has one: an index of several, or all in one."""

MOST_NAMES = 5
"""The number of names that an error lists."""


def from_folder(folder: str | Path) -> Module:
    """Build the model of a folder of Hugging Face, with its weights, as a module without a cache.

    Its class is the first of `architectures` in `config.json`, of the library transformers; code and pickled
    files in the folder are never run or read, and a configuration that names code is refused. All arrays of
    the model must be in the files, except the further names of tied ones, and no others. They get the dtype
    of a new model, which is float32.

    Raises: ArtifactError if a file is missing, does not fit to the model, or names code; ToolError without
            transformers; OptionError for an architecture that transformers lacks
    """
    folder = Path(folder)
    config = configuration.read(folder)
    arrays = safetensors.read(_weights(folder))
    module = _built(folder, config, arrays)
    _load(module, arrays, folder)
    return module


def _weights(folder: Path) -> Path:
    found = [folder / name for name in WEIGHTS if (folder / name).is_file()]
    if not found:
        raise ArtifactError(
            f"the folder must have one of {' and '.join(WEIGHTS)}",
            f"{folder} has none",
            "convert pickled files, which are not read, by save_pretrained of transformers",
        )
    return found[0]


def _built(folder: Path, config: dict[str, Any], arrays: Mapping[str, Array]) -> Module:
    """Build the model of a configuration, with random weights, after a count of its arrays without memory."""
    import torch

    try:
        import transformers
    except ImportError:
        raise ToolError(
            "the library transformers must be installed for models of Hugging Face",
            "it is not",
            "pip install transformers",
        ) from None
    with _one_sentence(folder):
        kind = _class(transformers, config["architectures"][0], folder)
        read = kind.config_class.from_dict(config)
        read.use_cache = False
        configuration.require_own_attention(read)
        sizes = [array.size for array in arrays.values()]
        with limited_to(sizes), torch.device("meta"):
            kind(deepcopy(read))
        with limited_to(sizes):
            return kind(read)


def _class(transformers: ModuleType, name: str, folder: Path) -> Any:
    """Return a class of models. Raises: OptionError if transformers has none of this name"""
    kind: Any = getattr(transformers, name, None) if name.isidentifier() else None
    is_model = isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)
    if not is_model or not getattr(kind, "config_class", None):
        raise OptionError(
            f"the architecture of {folder} must be a model of transformers {transformers.__version__}",
            f"it is {name!r}",
            "install the version that config.json names; code in the folder is not run",
        )
    return kind


@contextmanager
def _one_sentence(folder: Path) -> Iterator[None]:
    """Turn any error of transformers, which checks configurations in many ways, into ArtifactError."""
    try:
        yield
    except CatgradError:
        raise
    except Exception as error:
        cause = next(iter(str(error).strip().splitlines()), "")[:200]
        raise ArtifactError(
            "config.json must describe a model that transformers builds",
            f"that of {folder} fails with {type(error).__name__}: {cause}",
            "save the model by save_pretrained, with the version of transformers that is installed",
        ) from error


def _load(module: Module, arrays: Mapping[str, Array], folder: Path) -> None:
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


def _renamed(module: Module, state: Mapping[str, Tensor], arrays: Mapping[str, Array]) -> dict[str, Array]:
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
