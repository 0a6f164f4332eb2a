# SPDX-License-Identifier: Apache-2.0
"""What tensors do by way of numpy and torch: views where their memory allows them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from ._dtypes import FORMAT, framework_shape, numpy_dtype, torch_dtype
from ._errors import NoDtypeError
from ._frameworks import framework_of_object, is_host, to_flax

if TYPE_CHECKING:
    import numpy as np

    from ._native import BufferLike, Tensor

    Array = np.ndarray[Any, np.dtype[Any]]


def to_numpy(tensor: Tensor) -> Array:
    import numpy as np

    # Read-only: an array that changes a file's other views is nobody's wish.
    return np.ndarray(tensor.shape, numpy_dtype(tensor.dtype), buffer=tensor.memory())


def to_array(tensor: Tensor, dtype: Any, copy: bool | None) -> Array:
    """numpy's protocol: a view where it can be one, but for `copy` True; where it can be none, `copy` False is a ValueError."""
    import numpy as np

    if dtype is None or _is_its_own(tensor, np.dtype(dtype)):
        view = to_numpy(tensor)
        return view.copy() if copy else view
    if copy is False:
        raise ValueError(f"values of {tensor.dtype} become {np.dtype(dtype)} only in a copy")
    return astype(tensor, np.dtype(dtype))


def _is_its_own(tensor: Tensor, dtype: np.dtype[Any]) -> bool:
    try:
        return numpy_dtype(tensor.dtype) == dtype
    except NoDtypeError:
        return False


def astype(tensor: Tensor, dtype: Any) -> Array:
    """A file's name of a dtype goes first: to numpy "F16" would be a complex number, and "U8" a text."""
    import numpy as np

    name = FORMAT.get(dtype, dtype) if isinstance(dtype, str) else None
    wanted = numpy_dtype(name) if name in FORMAT.values() else np.dtype(dtype)
    return values(tensor.dtype, tensor.shape, tensor.memory(), wanted)


def values(dtype: str, shape: Sequence[int], memory: BufferLike, wanted: np.dtype[Any]) -> Array:
    """Elements of a file's dtype as another one of numpy's, in memory of their own. What numpy does not have is decoded by the library."""
    import numpy as np

    try:
        found: Array = np.ndarray(shape, numpy_dtype(dtype), buffer=memoryview(memory))  # type: ignore[arg-type]
        return found.astype(wanted)
    except NoDtypeError:
        return _decoded(dtype, math.prod(shape), memory, wanted).reshape(shape)


# Elements that are decoded at a time, to doubles.
_BLOCK = 1 << 20


def _decoded(dtype: str, count: int, memory: BufferLike, wanted: np.dtype[Any]) -> Array:
    import numpy as np

    found = np.empty(count, wanted)
    for first in range(0, found.size, _BLOCK):
        block = found[first : first + _BLOCK]
        block[...] = np.frombuffer(memoryview(_native.decode(dtype, memory, first, block.size)))
    return found


def equal(tensor: Tensor, other: Any) -> Any:
    """Where the elements of two arrays are equal, as the package of the other one says it."""
    ours, theirs = _comparable(tensor, other)
    return ours == theirs


def not_equal(tensor: Tensor, other: Any) -> Any:
    ours, theirs = _comparable(tensor, other)
    return ours != theirs


def _comparable(tensor: Tensor, other: Any) -> tuple[Any, Any]:
    if framework_of_object(other) == "torch":
        return to_torch(tensor, getattr(other, "device", None)), other
    return to_numpy(tensor), to_numpy(other) if isinstance(other, _native.Tensor) else other


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
        from ._torch_staging import TorchStaging

        return TorchStaging(device, [tensor.nbytes]).copied(tensor)
    # torch has no read-only tensors, so of a read-only map it gets a copy.
    memory = tensor.memory(writable=True) if tensor.writable else tensor.read()
    made = torch.frombuffer(memory, dtype=torch.uint8).view(dtype).view(shape)
    return made if device is None else made.to(device)
