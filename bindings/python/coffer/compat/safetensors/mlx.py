# SPDX-License-Identifier: Apache-2.0
"""Files of mlx arrays, by way of numpy's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np  # noqa: F401  a name that the reference has

from ..._frameworks import from_mlx, map_values, to_mlx
from ..._options import Backend, Sync
from ..._progress import Shown
from . import numpy
from ._safe_open import safe_open as safe_open
from ._wording import for_framework

if TYPE_CHECKING:
    from ..._native import Algorithm


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


@for_framework
def _np2mx(numpy_dict: dict[str, Any]) -> dict[str, mx.array]:
    return map_values(to_mlx, numpy_dict)


def _mx2np(mx_dict: dict[str, mx.array]) -> dict[str, Any]:
    return map_values(from_mlx, mx_dict)
