# SPDX-License-Identifier: Apache-2.0
"""Files of mlx arrays."""

from __future__ import annotations

from mlx.core import array as Array

from ._whole import Files

__all__ = ["load", "load_file", "save", "save_file"]

_FILES = Files[Array]("mlx")
save, save_file, load, load_file = _FILES.save, _FILES.save_file, _FILES.load, _FILES.load_file
