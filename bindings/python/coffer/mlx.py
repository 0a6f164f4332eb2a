# SPDX-License-Identifier: Apache-2.0
"""Files of mlx arrays, by way of numpy's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from . import numpy
from ._dtypes import numpy_dtype
from ._frameworks import to_mlx
from ._progress import Shown
from ._safe_open import Backend
from ._safe_open import safe_open as safe_open
from ._serialization import Sync

if TYPE_CHECKING:
    from ._native import Algorithm


def save(tensors: dict[str, mx.array], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file that holds these arrays."""
    return numpy.save(_mx2np(tensors), metadata=metadata)


def save_file(
    tensors: dict[str, mx.array],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    sync: Sync = "replace",
    digests: Algorithm | None = None,
    progress: Shown = False,
) -> None:
    """Writes a file that holds these arrays; see `coffer.numpy.save_file`."""
    arrays = _mx2np(tensors)
    numpy.save_file(arrays, filename, metadata=metadata, sync=sync, digests=digests, progress=progress)


def load(data: bytes) -> dict[str, mx.array]:
    """The arrays of a file that is in memory."""
    return _np2mx(numpy.load(data))


def load_file(
    filename: str | os.PathLike[str], *, backend: Backend = "mmap", verify: bool = False, progress: Shown = False
) -> dict[str, mx.array]:
    """The arrays of a file; see `coffer.numpy.load_file`."""
    return _np2mx(numpy.load_file(filename, backend=backend, verify=verify, progress=progress))


def _np2mx(numpy_dict: dict[str, Any]) -> dict[str, mx.array]:
    return {name: to_mlx(array) for name, array in numpy_dict.items()}


def _mx2np(mx_dict: dict[str, mx.array]) -> dict[str, Any]:
    return {name: _array(value) for name, value in mx_dict.items()}


def _array(value: Any) -> Any:
    if getattr(value, "dtype", None) == mx.bfloat16:  # which numpy cannot take from a buffer
        return np.array(value.view(mx.uint16)).view(numpy_dtype("BF16"))
    return np.array(value)
