# SPDX-License-Identifier: Apache-2.0
"""Files of jax arrays. jax makes float64 and int64 of 32 bits, unless it was told otherwise."""

from __future__ import annotations

from jax import Array

from ._whole import Files

__all__ = ["load", "load_file", "save", "save_file"]

_FILES = Files[Array]("flax")
save, save_file, load, load_file = _FILES.save, _FILES.save_file, _FILES.load, _FILES.load_file
