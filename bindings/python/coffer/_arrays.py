# SPDX-License-Identifier: Apache-2.0
"""What Tensor.numpy and Tensor.torch do: views where the tensor's memory allows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._dtypes import numpy_dtype
from ._frameworks import framework_shape, torch_dtype

if TYPE_CHECKING:
    from ._native import Tensor


def to_numpy(tensor: Tensor) -> Any:
    import numpy as np

    # By way of a memoryview, which is read-only: an array that changes a file's other views is nobody's wish.
    return np.ndarray(tensor.shape, numpy_dtype(tensor.dtype), buffer=memoryview(tensor))


def to_torch(tensor: Tensor, device: Any) -> Any:
    import torch

    dtype = torch_dtype(tensor.dtype)
    shape = framework_shape(tensor.dtype, tensor.shape)
    if tensor.nbytes == 0:
        return torch.empty(shape, dtype=dtype, device=device)
    # torch has no read-only tensors, so of a read-only map it gets a copy.
    memory = tensor if tensor.writable else tensor.read()
    made = torch.frombuffer(memory, dtype=torch.uint8).view(dtype).view(shape)
    return made if device is None else made.to(device)
