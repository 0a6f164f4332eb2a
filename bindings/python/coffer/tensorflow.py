# SPDX-License-Identifier: Apache-2.0
"""Files of tensorflow tensors."""

from __future__ import annotations

from tensorflow import Tensor

from ._whole import Files

__all__ = ["load", "load_file", "save", "save_file"]

_FILES = Files[Tensor]("tensorflow")
save, save_file, load, load_file = _FILES.save, _FILES.save_file, _FILES.load, _FILES.load_file
