# SPDX-License-Identifier: Apache-2.0
"""Files of jax arrays, by way of numpy's. jax makes float64 and int64 of 32 bits, unless it was told otherwise."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp  # noqa: F401  names that the reference has
import numpy as np  # noqa: F401
from jax import Array

from ..._frameworks import from_flax, map_values, to_flax
from ..._options import Backend, Sync
from ..._progress import Shown
from . import numpy
from ._safe_open import safe_open as safe_open

if TYPE_CHECKING:
    from ..._native import Algorithm


def save(tensors: dict[str, Array], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file that holds these arrays."""
    return numpy.save(_jnp2np(tensors), metadata=metadata)


def save_file(
    tensors: dict[str, Array],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    sync: Sync = "replace",
    digests: Algorithm | None = None,
    progress: Shown = False,
) -> None:
    """Writes a file that holds these arrays; see `coffer.numpy.save_file`."""
    arrays = _jnp2np(tensors)
    numpy.save_file(arrays, filename, metadata=metadata, sync=sync, digests=digests, progress=progress)


def load(data: bytes) -> dict[str, Array]:
    """The arrays of a file that is in memory."""
    return _np2jnp(numpy.load(data))


def load_file(
    filename: str | os.PathLike[str], *, backend: Backend = "mmap", verify: bool = False, progress: Shown = False
) -> dict[str, Array]:
    """The arrays of a file; see `coffer.numpy.load_file`."""
    return _np2jnp(numpy.load_file(filename, backend=backend, verify=verify, progress=progress))


def _np2jnp(numpy_dict: dict[str, Any]) -> dict[str, Array]:
    return map_values(to_flax, numpy_dict)


def _jnp2np(jnp_dict: dict[str, Array]) -> dict[str, Any]:
    return map_values(from_flax, jnp_dict)
