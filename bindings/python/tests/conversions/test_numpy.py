# SPDX-License-Identifier: Apache-2.0
"""From tensors to numpy."""

import numpy as np
import pytest
from ways import PACKED, refused

WAYS = {
    "asarray": np.asarray,
    "array": np.array,
    "numpy()": lambda tensor: tensor.numpy(),
    "__array__": lambda tensor: tensor.__array__(),
    "stack": lambda tensor: np.stack([tensor, tensor])[1],
    "iteration": lambda tensor: np.array([*map(np.asarray, tensor)] if tensor.ndim else tensor.item(), tensor.numpy().dtype)
    .reshape(tensor.shape),
    "tolist": lambda tensor: np.array(tensor.tolist(), tensor.numpy().dtype).reshape(tensor.shape),
    "astype": lambda tensor: tensor.astype(tensor.dtype),
    "memory": lambda tensor: np.frombuffer(tensor.memory(), np.uint8).view(tensor.numpy().dtype).reshape(tensor.shape),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_dtype(way):
    assert refused(WAYS[way], np.asarray) == set(PACKED)


def test_by_dlpack():
    """Which numpy has no types for what is in ml_dtypes."""
    narrow = {"BF16", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0"}
    assert refused(np.from_dlpack, np.asarray) == narrow | set(PACKED)


def test_memoryviews():
    """The buffer protocol has formats for numbers of C."""
    narrow = {"BF16", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0"}
    assert refused(memoryview, np.asarray) == narrow | set(PACKED)
