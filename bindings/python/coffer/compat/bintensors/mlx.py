# SPDX-License-Identifier: Apache-2.0
"""`.bt` files of mlx arrays, by way of numpy's."""

from __future__ import annotations

import hashlib
import os

import mlx.core as mx  # noqa: F401  names that bintensors has
import numpy as np  # noqa: F401
from mlx.core import array as Array

from ..._options import Sync
from ..safetensors.mlx import _mx2np, _np2mx
from . import numpy
from ._safe_open import safe_open as safe_open
from ._serialization import Hasher, with_checksum

__all__ = ["load", "load_file", "save", "save_file", "save_with_checksum"]


def save(tensors: dict[str, Array], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file that holds these arrays."""
    return numpy.save(_mx2np(tensors), metadata)


def save_with_checksum(
    tensor_dict: dict[str, Array], metadata: dict[str, str] | None = None, hasher: Hasher = hashlib.sha1
) -> tuple[bytes, bytes]:
    """The digest of a file that holds these arrays, and its bytes, in this order."""
    return with_checksum(save(tensor_dict, metadata), hasher)


def save_file(
    tensors: dict[str, Array],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    sync: Sync = "replace",
) -> None:
    """Writes a file that holds these arrays; see `coffer.numpy.save_file`."""
    numpy.save_file(_mx2np(tensors), filename, metadata, sync=sync)


def load(data: bytes) -> dict[str, Array]:
    """The arrays of a file that is in memory."""
    return _np2mx(numpy.load(data))


def load_file(filename: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays of a file."""
    return _np2mx(numpy.load_file(filename))
