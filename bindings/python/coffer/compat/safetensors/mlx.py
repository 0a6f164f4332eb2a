# SPDX-License-Identifier: Apache-2.0
"""Files of mlx arrays, by way of numpy's."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from ..._frameworks import from_mlx, map_values, to_mlx
from . import numpy
from ._by_numpy import ByNumpy
from ._safe_open import safe_open as safe_open
from ._wording import for_framework

# The modules are there because the reference has them.
__all__ = ["load", "load_file", "mx", "np", "numpy", "safe_open", "save", "save_file"]


@for_framework
def _np2mx(numpy_dict: dict[str, Any]) -> dict[str, mx.array]:
    return map_values(to_mlx, numpy_dict)


def _mx2np(mx_dict: dict[str, mx.array]) -> dict[str, Any]:
    return map_values(from_mlx, mx_dict)


_MLX = ByNumpy[mx.array](_np2mx, _mx2np)
save, save_file, load, load_file = _MLX.save, _MLX.save_file, _MLX.load, _MLX.load_file
