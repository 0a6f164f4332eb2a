# SPDX-License-Identifier: Apache-2.0
"""Files of numpy arrays. bfloat16 and float8 arrays are those of ml_dtypes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._dtypes import FORMAT, numpy_dtype
from ..._frameworks import described_arrays, framework
from ..._frameworks import is_little_endian as _is_little_endian
from ..._options import Backend, Sync
from ..._progress import shown
from ._safe_open import load_all, open_model
from ._safe_open import safe_open as safe_open
from ._serialization import TensorSpec, deserialize, serialize, serialize_file
from ._wording import for_framework

if TYPE_CHECKING:
    from ..._native import Algorithm
    from ..._progress import Shown

Array = np.ndarray[Any, np.dtype[Any]]

_getdtype = for_framework(numpy_dtype)
# The dtypes that numpy has by itself.
_TYPES: dict[str, type] = {
    name: bool if ours == "bool" else getattr(np, ours) for ours, name in FORMAT.items() if hasattr(np, ours)
}


def save(tensor_dict: Mapping[str, Array], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file that holds these arrays."""
    kept: list[Array] = []
    return serialize(_flatten(tensor_dict, kept), metadata)


def save_file(
    tensor_dict: Mapping[str, Array],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    sync: Sync = "replace",
    digests: Algorithm | None = None,
    progress: Shown = False,
) -> None:
    """Writes a file that holds these arrays. It takes the place of an older one when it is complete.

    `sync` says when it is made to survive a power cut: "replace" before an older file is replaced, "always", or "never".
    `digests` ("sha256", "xxh3-128") records those of the arrays in the metadata, for `verify` of `load_file`. `progress` is called
    with the bytes done and in all, or shows a bar, when it is True and tqdm is installed.
    """
    kept: list[Array] = []
    specs = _flatten(tensor_dict, kept)
    serialize_file(specs, filename, metadata, sync=sync, digests=digests, progress=progress)


def load(data: bytes) -> dict[str, Array]:
    """The arrays of a file that is in memory, copied."""
    return _view2np(deserialize(data))


def load_file(
    filename: str | os.PathLike[str], *, backend: Backend = "mmap", verify: bool = False, progress: Shown = False
) -> dict[str, Array]:
    """The arrays of a file, each with memory of its own, whatever the backend: they are read, in large pieces, by threads.

    With `verify` they are held against the digests that the file records, on the way. `progress` is called with the bytes done and
    in all, or shows a bar, when it is True and tqdm is installed.
    """
    model = open_model(filename, backend, verify)
    with shown(progress, filename) as advance:
        return load_all(framework("numpy"), model, advance)


def _view2np(safeview: Iterable[tuple[str, Any]]) -> dict[str, Array]:
    """The arrays of what `deserialize` gave."""
    return {
        name: np.ndarray(found["shape"], _getdtype(found["dtype"]), buffer=found["data"]) for name, found in safeview
    }


def _flatten(
    tensor_dict: Mapping[str, Array], keep_alive_buffer: list[Array], spec: Callable[..., TensorSpec] = TensorSpec
) -> dict[str, TensorSpec]:
    """What to write, as `spec` makes it. The arrays put into `keep_alive_buffer` hold the memory."""
    return {
        name: spec(dtype=dtype, shape=shape, data_ptr=address, data_len=size)
        for name, dtype, shape, address, size in described_arrays(tensor_dict, keep_alive_buffer)
    }


def _tobytes(tensor: Array) -> bytes:
    """An array's values as a file has them."""
    return (tensor if _is_little_endian(tensor) else tensor.byteswap()).tobytes()
