# SPDX-License-Identifier: Apache-2.0
"""Files of tensorflow tensors, by way of numpy's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ..._frameworks import from_tensorflow, map_values, to_tensorflow
from . import numpy
from ._by_numpy import ByNumpy
from ._safe_open import safe_open as safe_open
from ._wording import for_framework

# The modules are there because the reference has them.
__all__ = ["load", "load_file", "np", "numpy", "safe_open", "save", "save_file", "tf"]


@for_framework
def _np2tf(numpy_dict: dict[str, Any]) -> dict[str, tf.Tensor]:
    return map_values(to_tensorflow, numpy_dict)


def _tf2np(tf_dict: dict[str, tf.Tensor]) -> dict[str, Any]:
    return map_values(from_tensorflow, tf_dict)


_TENSORFLOW = ByNumpy[tf.Tensor](_np2tf, _tf2np)
save, save_file, load, load_file = _TENSORFLOW.save, _TENSORFLOW.save_file, _TENSORFLOW.load, _TENSORFLOW.load_file
