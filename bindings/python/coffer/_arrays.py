# SPDX-License-Identifier: Apache-2.0
"""What tensors do by way of numpy and torch: views where their memory allows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._dtypes import FORMAT, numpy_dtype
from ._dtypes import framework_shape
from ._frameworks import is_host, to_flax, torch_dtype

if TYPE_CHECKING:
    import numpy as np

    from ._native import Tensor

    Array = np.ndarray[Any, np.dtype[Any]]


def to_numpy(tensor: Tensor) -> Array:
    import numpy as np

    # Read-only: an array that changes a file's other views is nobody's wish.
    return np.ndarray(tensor.shape, numpy_dtype(tensor.dtype), buffer=tensor.memory())


def to_array(tensor: Tensor, dtype: Any, copy: bool | None) -> Array:
    """numpy's protocol: a view where it can be one, but for `copy` True; where it can be none, `copy` False is a ValueError."""
    import numpy as np

    view = to_numpy(tensor)
    wanted = view.dtype if dtype is None else np.dtype(dtype)
    if wanted == view.dtype:
        return view.copy() if copy else view
    if copy is False:
        raise ValueError(f"values of {tensor.dtype} become {wanted} only in a copy")
    return view.astype(wanted)


def astype(tensor: Tensor, dtype: Any) -> Array:
    """A file's name of a dtype goes first: to numpy "F16" would be a complex number, and "U8" a text."""
    name = FORMAT.get(dtype, dtype) if isinstance(dtype, str) else None
    return to_numpy(tensor).astype(numpy_dtype(name) if name in FORMAT.values() else dtype)


def iterate(tensor: Tensor) -> Iterator[Tensor]:
    """The parts along the first dimension, unread."""
    if tensor.ndim == 0:
        raise TypeError("a tensor without dimensions cannot be iterated over: item() is its value")
    return (tensor[i] for i in range(len(tensor)))


def to_jax(tensor: Tensor) -> Any:
    return to_flax(to_numpy(tensor))


def to_torch(tensor: Tensor, device: Any) -> Any:
    import torch

    dtype = torch_dtype(tensor.dtype)
    shape = framework_shape(tensor.dtype, tensor.shape)
    if tensor.nbytes == 0:
        return torch.empty(shape, dtype=dtype, device=device)
    if not is_host(device):
        from ._torch_staging import Staging

        return Staging(device, [tensor.nbytes]).copied(tensor)
    # torch has no read-only tensors, so of a read-only map it gets a copy.
    memory = tensor.memory(writable=True) if tensor.writable else tensor.read()
    made = torch.frombuffer(memory, dtype=torch.uint8).view(dtype).view(shape)
    return made if device is None else made.to(device)
