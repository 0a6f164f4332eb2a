# SPDX-License-Identifier: Apache-2.0
"""From tensors to paddle."""

import ctypes
import math

import ml_dtypes
import numpy as np
import paddle
from ways import EVERYTHING, PACKED, refused


def as_array(made):
    """By its bytes: paddle's own arrays of bfloat16 and float8 are integers."""
    raw = ctypes.string_at(made.data_ptr(), math.prod(made.shape) * made.element_size())
    name = str(made.dtype).removeprefix("paddle.")
    return np.frombuffer(raw, getattr(np, name, None) or getattr(ml_dtypes, name)).reshape(made.shape)


def test_by_dlpack():
    """Whose uint16 is paddle's bfloat16, so that is left out here."""

    def way(tensor):
        if tensor.dtype == "U16":
            raise NotImplementedError
        return paddle.from_dlpack(tensor)

    assert refused(way, as_array) == {"U16", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0", *PACKED}


def test_to_tensor_takes_arrays_alone():
    assert refused(paddle.to_tensor, np.asarray) == EVERYTHING
