# SPDX-License-Identifier: Apache-2.0
"""From tensors to torch."""

import numpy as np
import pytest
import torch
from ways import EVERYTHING, refused

# Of F4 torch has a dtype, in pairs: what comes has the bytes of the file.
WAYS = {
    "torch()": lambda tensor: tensor.torch(),
    "as_tensor": torch.as_tensor,
    "tensor": torch.tensor,
    "from_dlpack": torch.from_dlpack,
}


def as_array(tensor):
    wide = tensor if tensor.dtype.is_complex or not tensor.dtype.is_floating_point else tensor.double()
    return wide.numpy()


@pytest.mark.parametrize("way", WAYS)
def test_every_dtype(way):
    def values(tensor):
        if tensor.dtype == "F4":
            made = WAYS[way](tensor)
            assert made.dtype == torch.float4_e2m1fn_x2 and made.view(torch.uint8).tolist() == list(tensor.tobytes())
            raise NotImplementedError("its values are not compared")
        return WAYS[way](tensor)

    assert refused(values, as_array) == {"F4", "F6_E2M3", "F6_E3M2"}


@pytest.mark.parametrize("way", [torch.asarray, lambda tensor: torch.frombuffer(tensor, dtype=torch.float32)])
def test_what_takes_bytes_for_numbers_gets_none(way):
    """asarray makes float32 of one dimension of whatever has bytes to give."""
    assert refused(way, np.asarray) == EVERYTHING
