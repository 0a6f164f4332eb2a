# SPDX-License-Identifier: Apache-2.0
"""`.bt` files of torch tensors, and of modules. Tensors that share memory are treated as in `coffer.torch`."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import torch

from ..._frameworks import framework
from ..._load import everything
from ..._options import Sync
from ..._torch_memory import end_ptr as _end_ptr  # noqa: F401  names that bintensors has
from ..._torch_memory import is_complete as _is_complete  # noqa: F401
from ..._torch_memory import storage_ptr as storage_ptr
from ..._torch_memory import storage_size as storage_size
from ..safetensors._devices import device as _device_of
from ..safetensors.torch import _SIZE as _SIZE
from ..safetensors.torch import _TYPES as _TYPES
from ..safetensors.torch import Tensor, _flatten_as_ptr, _load_model, _save_model, _view2torch
from ..safetensors.torch import _filter_shared_not_shared as _filter_shared_not_shared
from ..safetensors.torch import _find_shared_tensors as _find_shared_tensors
from ..safetensors.torch import _flatten as _flatten
from ..safetensors.torch import _float8_e4m3fn as _float8_e4m3fn
from ..safetensors.torch import _float8_e5m2 as _float8_e5m2
from ..safetensors.torch import _getdtype as _getdtype
from ..safetensors.torch import _remove_duplicate_names as _remove_duplicate_names
from ..safetensors.torch import _tobytes as _tobytes
from . import _serialization
from ._safe_open import open_model
from ._safe_open import safe_open as safe_open
from ._serialization import Hasher, deserialize, spec
from ._serialization import serialize as serialize
from ._serialization import serialize_file as serialize_file
from ._wording import worded

if TYPE_CHECKING:
    from ..._progress import Shown

__all__ = ["load", "load_file", "load_model", "save", "save_file", "save_model", "save_with_checksum"]


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file that holds these tensors, which have to be dense and contiguous, and must not share memory."""
    kept: list[Any] = []
    return _serialization.save(_flatten_as_ptr(tensors, kept, spec), metadata)


def save_with_checksum(
    tensor_dict: dict[str, Tensor], metadata: dict[str, str] | None = None, hasher: Hasher = hashlib.sha1
) -> tuple[bytes, bytes]:
    """The digest of a file that holds these tensors, and its bytes, in this order."""
    return _serialization.with_checksum(save(tensor_dict, metadata), hasher)


def save_file(
    tensors: dict[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    sync: Sync = "replace",
    progress: Shown = False,
) -> None:
    """Writes a file that holds these tensors; see `coffer.torch.save_file`."""
    kept: list[Any] = []
    _serialization.save_file(_flatten_as_ptr(tensors, kept, spec), filename, metadata, sync, progress)


@worded
def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file that is in memory, copied."""
    return _view2torch(deserialize(data))


@worded
def load_file(filename: str | os.PathLike[str], device: str | int = "cpu") -> dict[str, Tensor]:
    """The tensors of a file. On the CPU they view a private map of it; see `coffer.torch.load_file`."""
    return everything(framework("torch", _device_of(device)), open_model(filename))


def save_model(
    model: torch.nn.Module, filename: str, metadata: dict[str, str] | None = None, force_contiguous: bool = True
) -> None:
    """Writes a module's parameters and buffers; see `coffer.torch.save_model`."""
    _save_model(save_file, model, filename, metadata, force_contiguous)


def load_model(
    model: torch.nn.Module, filename: str | os.PathLike[str], strict: bool = True, device: str | int = "cpu"
) -> tuple[set[str], list[str]]:
    """Loads a file into a module; see `coffer.torch.load_model`."""
    return _load_model(model, load_file(filename, device=device), strict)
