# SPDX-License-Identifier: Apache-2.0
"""`.bt` files of numpy arrays. bfloat16 and float8 arrays are those of ml_dtypes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np  # noqa: F401  a name that bintensors has

from ..._frameworks import framework
from ..._frameworks import is_little_endian as _is_little_endian  # noqa: F401
from ..._options import Sync
from ..._progress import shown as _shown
from ..safetensors.numpy import _TYPES as _TYPES
from ..safetensors.numpy import Array, _flatten, _view2np
from ..safetensors.numpy import _getdtype as _getdtype
from ..safetensors.numpy import _tobytes as _tobytes
from . import _serialization
from ._safe_open import open_model
from ._safe_open import safe_open as safe_open
from ._serialization import Hasher, deserialize, spec
from ._serialization import serialize as serialize
from ._serialization import serialize_file as serialize_file
from ._wording import worded

if TYPE_CHECKING:
    from ..._progress import Shown

__all__ = ["load", "load_file", "save", "save_file", "save_with_checksum"]


def save(tensor_dict: Mapping[str, Array], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file that holds these arrays."""
    kept: list[Array] = []
    return _serialization.save(_flatten(tensor_dict, kept, spec), metadata)


def save_with_checksum(
    tensor_dict: Mapping[str, Array], metadata: dict[str, str] | None = None, hasher: Hasher = hashlib.sha1
) -> tuple[bytes, bytes]:
    """The digest of a file that holds these arrays, and its bytes, in this order."""
    return _serialization.with_checksum(save(tensor_dict, metadata), hasher)


def save_file(
    tensor_dict: Mapping[str, Array],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    sync: Sync = "replace",
    progress: Shown = False,
) -> None:
    """Writes a file that holds these arrays; see `coffer.numpy.save_file`."""
    kept: list[Array] = []
    _serialization.save_file(_flatten(tensor_dict, kept, spec), filename, metadata, sync, progress)


@worded
def load(data: bytes) -> dict[str, Array]:
    """The arrays of a file that is in memory, copied."""
    return _view2np(deserialize(data))


@worded
def load_file(filename: str | os.PathLike[str], *, progress: Shown = False) -> dict[str, Array]:
    """The arrays of a file, each with memory of its own: they are read, in large pieces, by threads."""
    model = open_model(filename)
    with _shown(progress, filename) as advance:
        return framework("numpy").all(model, advance)
