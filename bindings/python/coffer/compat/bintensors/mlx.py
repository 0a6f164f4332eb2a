# SPDX-License-Identifier: Apache-2.0
"""`.bt` files of mlx arrays, by way of numpy's."""

from __future__ import annotations

import mlx.core as mx  # noqa: F401  names that bintensors has
import numpy as np  # noqa: F401
from mlx.core import array as Array

from ..safetensors.mlx import _mx2np, _np2mx
from . import numpy as numpy
from ._by_numpy import ByNumpy
from ._safe_open import safe_open as safe_open

__all__ = ["load", "load_file", "save", "save_file", "save_with_checksum"]

_MLX = ByNumpy[Array](_np2mx, _mx2np)
save, save_with_checksum, save_file = _MLX.save, _MLX.save_with_checksum, _MLX.save_file
load, load_file = _MLX.load, _MLX.load_file
