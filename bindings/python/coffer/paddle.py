# SPDX-License-Identifier: Apache-2.0
"""Files of paddle tensors, which have to be contiguous to be saved."""

from __future__ import annotations

import os
from typing import Any, Unpack

from paddle import Tensor

from . import _whole
from ._options import Reading

__all__ = ["load", "load_file", "save", "save_file"]

_FILES = _whole.Files[Tensor]("paddle")
save, save_file = _FILES.save, _FILES.save_file


def load(data: bytes, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors of a file that is in memory."""
    return _whole.load_bytes(_whole.of_name("paddle", device), data)


def load_file(filename: str | os.PathLike[str], device: Any = "cpu", **options: Unpack[Reading]) -> dict[str, Tensor]:
    """The tensors of a file. On the CPU they view a private map of it, unless they are read; see `coffer.torch.load_file`."""
    return _whole.load_path(_whole.of_name("paddle", device), filename, **options)
