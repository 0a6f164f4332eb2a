# SPDX-License-Identifier: Apache-2.0
"""Files of torch tensors, and of modules.

Tensors that share memory cannot be saved as such: a file holds every byte once, for one tensor. `save_file` refuses them;
`save_model` keeps one name of each group, and `load_model` knows that the others are the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from torch import Tensor
from torch.nn import Module

from . import _torch_load, _torch_memory, _whole
from ._errors import Error, wrong_argument
from ._options import Reading, Writing, size_of

if TYPE_CHECKING:
    from ._file import File
    from ._native import Staging
    from ._plan import Rules
    from ._progress import Shown

_FRAMEWORK = _whole.of_name("torch")


# ---- Tensors ----------------------------------------------------------------------------------------------------------


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None, *, contiguous: bool = False) -> bytes:
    """The bytes of a file that holds these tensors, which have to be dense and contiguous, and must not share memory.

    With `contiguous` those that are not contiguous are copied, rather than refused.
    """
    return _whole.save_bytes(_FRAMEWORK, _torch_memory.packed(tensors) if contiguous else tensors, metadata)


def save_file(
    tensors: Mapping[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    contiguous: bool = False,
    **options: Unpack[Writing],
) -> None:
    """Writes a file that holds these tensors, which have to be dense and contiguous, and must not share memory.

    With `contiguous` those that are not contiguous are copied, rather than refused. The other options are those of
    `coffer.save_file`.
    """
    _whole.save_path(_FRAMEWORK, _torch_memory.packed(tensors) if contiguous else tensors, filename, metadata, **options)


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file that is in memory, copied."""
    return _whole.load_bytes(_FRAMEWORK, data)


def load_file(filename: str | os.PathLike[str], device: Any = "cpu", **options: Unpack[Reading]) -> dict[str, Tensor]:
    """The tensors of a file.

    On the CPU they view a private map of the file: what is changed in memory never reaches the file, and the map lives as long as
    the last of them. With backend "pread" each has memory of its own, read by threads. The options are those of
    `coffer.load_file`.
    """
    return _whole.load_path(_whole.of_name("torch", device), filename, **options)


# ---- Modules ----------------------------------------------------------------------------------------------------------


def save_model(
    model: Module,
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
    *,
    max_shard_size: int | str | None = None,
    **options: Unpack[Writing],
) -> None:
    """Writes a module's parameters and buffers. Of tensors that share memory one is written; the metadata name it for the others.

    With `force_contiguous`, tensors that are not contiguous are copied, rather than refused. With `max_shard_size`, in bytes or as
    "5GB", a model that has more is written as several files beside each other, of which `load_model` takes the index: `filename`
    and ".index.json". The other options are those of `coffer.save_file`.
    """
    tensors, found = _torch_memory.without_duplicates(model, metadata, _no_whole)
    if force_contiguous:
        tensors = _torch_memory.packed(tensors)
    limit = 0 if max_shard_size is None else size_of(max_shard_size)
    _whole.save_path(_FRAMEWORK, tensors, filename, found, max_shard_size=limit, **options)


def load_model(
    model: Module, filename: str | os.PathLike[str], strict: bool = True, device: Any = "cpu", **options: Unpack[Reading]
) -> tuple[set[str], list[str]]:
    """Loads a file into a module; the names that were missing in the file, and those that the module does not have.

    A name that shares its memory with one that the file has is not missing. With `strict`, missing and unexpected names are an
    error. The options are those of `coffer.load_file`.
    """
    missing, unexpected = _torch_memory.load_into(model, load_file(filename, device, **options), _no_whole)
    if strict and (missing or unexpected):
        raise _torch_load.does_not_fit(os.fspath(filename), type(model).__name__, missing, unexpected)
    return missing, unexpected


def load_into(
    target: Module | Mapping[str, Tensor],
    source: str | os.PathLike[str] | File,
    strict: bool = True,
    *,
    rank: int = 0,
    world: int = 1,
    rules: Rules | None = None,
    staging: Staging | None = None,
    verify: bool = True,
    progress: Shown = None,
) -> tuple[set[str], list[str]]:
    """Loads a model into the memory of a module's parameters and buffers, or of a mapping of names to tensors: nothing else is made of
    it. Returns the names that were missing in the model, and those that the target does not have.

    source       a path, a URL, or what coffer.open gave
    strict       whether missing and unexpected names are an error, before anything is read
    rank, world  the target has what this rank of so many takes of each tensor, by the rules of `coffer.Plan.all`
    staging      as in `coffer.load`, like `verify` and `progress`

    A tensor of another dtype than the target's is read first, and cast by torch; so is one for a target that shares memory with
    another, or is on a device that only torch reaches. When reading fails, the target may have some of the tensors.
    """
    return _torch_load.into(target, source, strict, rank, world, rules, staging, verify, progress)


def _no_whole(names: set[str]) -> Error:
    listed = ", ".join(f"'{name}'" for name in sorted(names))
    return wrong_argument(f"{listed} share memory, and none of them takes all of it: copy them with clone() to save them")
