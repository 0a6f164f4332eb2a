# SPDX-License-Identifier: Apache-2.0
"""From tensors to mlx, which has no float64: it becomes float32, as mlx does with numpy's."""

import mlx.core as mx
import numpy as np
from ways import PACKED, refused


def as_array(made):
    return np.array(made.astype(mx.float32) if made.dtype == mx.bfloat16 else made)


def test_every_dtype():
    narrow = {"F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0"}
    assert refused(mx.array, as_array) == narrow | set(PACKED)
