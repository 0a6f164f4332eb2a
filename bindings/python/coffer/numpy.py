# SPDX-License-Identifier: Apache-2.0
"""Files of numpy arrays. bfloat16 and float8 arrays are those of ml_dtypes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from . import _whole
from ._options import Reading, Writing

Array = np.ndarray[Any, np.dtype[Any]]

_FRAMEWORK = _whole.of_name("numpy")


def save(tensor_dict: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file that holds these arrays."""
    return _whole.save_bytes(_FRAMEWORK, tensor_dict, metadata)


def save_file(
    tensor_dict: Mapping[str, Array],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    **options: Unpack[Writing],
) -> None:
    """Writes a file that holds these arrays. The options are those of `coffer.save_file`."""
    _whole.save_path(_FRAMEWORK, tensor_dict, filename, metadata, **options)


def load(data: bytes) -> dict[str, Array]:
    """The arrays of a file that is in memory, copied."""
    return _whole.load_bytes(_FRAMEWORK, data)


def load_file(filename: str | os.PathLike[str], **options: Unpack[Reading]) -> dict[str, Array]:
    """The arrays of a file, each with memory of its own, whatever the backend: they are read, in large pieces, by threads. The options are those of `coffer.load_file`."""
    return _whole.load_path(_FRAMEWORK, filename, **options)
