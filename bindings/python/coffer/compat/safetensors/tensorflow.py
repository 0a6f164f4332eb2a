# SPDX-License-Identifier: Apache-2.0
"""Files of tensorflow tensors, by way of numpy's arrays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np  # noqa: F401  a name that the reference has
import tensorflow as tf

from ..._frameworks import from_tensorflow, map_values, to_tensorflow
from ..._options import Backend, Sync
from ..._progress import Shown
from . import numpy
from ._safe_open import safe_open as safe_open
from ._wording import for_framework

if TYPE_CHECKING:
    from ..._native import Algorithm


def save(tensors: dict[str, tf.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file that holds these tensors."""
    return numpy.save(_tf2np(tensors), metadata=metadata)


def save_file(
    tensors: dict[str, tf.Tensor],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    sync: Sync = "replace",
    digests: Algorithm | None = None,
    progress: Shown = False,
) -> None:
    """Writes a file that holds these tensors; see `coffer.numpy.save_file`."""
    arrays = _tf2np(tensors)
    numpy.save_file(arrays, filename, metadata=metadata, sync=sync, digests=digests, progress=progress)


def load(data: bytes) -> dict[str, tf.Tensor]:
    """The tensors of a file that is in memory."""
    return _np2tf(numpy.load(data))


def load_file(
    filename: str | os.PathLike[str], *, backend: Backend = "mmap", verify: bool = False, progress: Shown = False
) -> dict[str, tf.Tensor]:
    """The tensors of a file; see `coffer.numpy.load_file`."""
    return _np2tf(numpy.load_file(filename, backend=backend, verify=verify, progress=progress))


@for_framework
def _np2tf(numpy_dict: dict[str, Any]) -> dict[str, tf.Tensor]:
    return map_values(to_tensorflow, numpy_dict)


def _tf2np(tf_dict: dict[str, tf.Tensor]) -> dict[str, Any]:
    return map_values(from_tensorflow, tf_dict)
