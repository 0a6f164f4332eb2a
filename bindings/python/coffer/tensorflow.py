# SPDX-License-Identifier: Apache-2.0
"""Files of tensorflow tensors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Unpack

from tensorflow import Tensor

from . import _whole
from ._options import Reading, Writing

_FRAMEWORK = _whole.of_name("tensorflow")


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file that holds these tensors."""
    return _whole.save_bytes(_FRAMEWORK, tensors, metadata)


def save_file(
    tensors: Mapping[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    **options: Unpack[Writing],
) -> None:
    """Writes a file that holds these tensors. The options are those of `coffer.save_file`."""
    _whole.save_path(_FRAMEWORK, tensors, filename, metadata, **options)


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file that is in memory."""
    return _whole.load_bytes(_FRAMEWORK, data)


def load_file(filename: str | os.PathLike[str], **options: Unpack[Reading]) -> dict[str, Tensor]:
    """The tensors of a file. The options are those of `coffer.load_file`."""
    return _whole.load_path(_FRAMEWORK, filename, **options)
