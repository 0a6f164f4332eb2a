# SPDX-License-Identifier: Apache-2.0
"""Arrays that callers give: what is written, and what is read into.

Bytes are taken as they are, and so is memory of unsigned bytes: an array of uint8 is a view of bytes to everybody. Everything else
has a dtype. Where that is not the tensor's, numbers are cast if the dtype that they go to has every number of the one that
they come from. Otherwise it is an error: the bytes of one dtype are other numbers in another. What is contiguous and of the tensor's
dtype never comes here, since the extension takes it as it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from ._arrays import astype, to_torch, values
from ._dtypes import file_shape, format_name, numpy_dtype
from ._errors import Error, ReadOnlyError, WrongTypeError, build, wrong_argument, wrong_type
from ._frameworks import framework, framework_of_object

if TYPE_CHECKING:
    import numpy as np

    from ._native import BufferLike, Tensor

    Array = np.ndarray[Any, np.dtype[Any]]

# That of what is no more than bytes.
_BYTES = "U8"


# ---- What is written --------------------------------------------------------------------------------------------------


def bytes_for(data: Any, dtype: str, name: str) -> BufferLike:
    """The bytes of an array, as a tensor of that dtype has them."""
    given, shape, memory = _bytes_of(data, name)
    if given in (dtype, _BYTES):
        return memory
    _check(given, dtype, f"'{name}' is {dtype}, and what is written to it is {given}", name)
    return _bytes_of(values(given, shape, memory, numpy_dtype(dtype)), name)[2]


def _bytes_of(data: Any, name: str) -> tuple[str, Sequence[int], BufferLike]:
    """The dtype, the shape and the bytes of an array, as files have them."""
    if isinstance(data, _native.Tensor):
        return data.dtype, data.shape, data.memory()
    kept: list[Any] = []
    origin = framework_of_object(data)
    array = _dense(data) if origin is not None else _array_of(data, name)
    ((_, framework_dtype, shape, address, size),) = framework(origin or "numpy").described({name: array}, kept)
    dtype = format_name(framework_dtype, name)
    memory: Any = (ctypes.c_ubyte * size).from_address(address) if size else bytearray()
    if size:
        memory.kept = kept
    return dtype, file_shape(dtype, shape), memory


def _dense(data: Any) -> Any:
    """The same without gaps, of those frameworks whose tensors may have them. What is sparse stays so, and is refused."""
    is_sparse = str(getattr(data, "layout", "strided")).rpartition(".")[2] != "strided"
    return data.contiguous() if hasattr(data, "contiguous") and not is_sparse else data


def _array_of(data: Any, name: str) -> Array:
    """numpy's array of what is no framework's."""
    import numpy as np

    for take, has in ((_from_buffer, True), (np.from_dlpack, hasattr(data, "__dlpack__")), (np.asarray, hasattr(data, "__array__"))):
        try:
            if has:
                return take(data)
        except (BufferError, RuntimeError, TypeError, ValueError):
            continue
    raise wrong_type(f"'{name}' is written from bytes or an array, not from an object of the type {type(data).__name__}")


def _from_buffer(data: Any) -> Array:
    import numpy as np

    return np.asarray(memoryview(data))


def _check(given: str, wanted: str, wrong: str, name: str) -> None:
    if not _native.is_exact(given, wanted):
        message = f"{wrong}, but {wanted} does not have every number of {given}: cast it first, or view it as uint8 for bytes as they are"
        raise build(WrongTypeError, "ARGUMENT", {"message": message, "tensor": name})


# ---- What is read into ------------------------------------------------------------------------------------------------


def read_into(tensor: Tensor, target: Any) -> None:
    """Reads a tensor into an array, which keeps its dtype and its strides."""
    if isinstance(target, _native.Tensor):
        _compare(tensor.dtype, target.dtype, tensor)
        tensor.read_into(target.memory(writable=True))
    elif framework_of_object(target) == "torch":
        _into_torch(tensor, target)
    else:
        _into_array(tensor, _room(target, tensor.name))


def _room(target: Any, name: str) -> Array:
    """numpy's array of memory that can be written to."""
    import numpy as np

    try:
        array: Array = target if isinstance(target, np.ndarray) else np.asarray(memoryview(target))
    except (TypeError, ValueError):
        message = f"'{name}' is read into a writable buffer or an array of numpy or torch, not into {type(target).__name__}"
        raise wrong_type(message) from None
    if not array.flags.writeable:
        raise build(ReadOnlyError, "ARGUMENT", {"message": f"'{name}' cannot be read into memory that is read-only"})
    return array


def _into_array(tensor: Tensor, array: Array) -> None:
    import numpy as np

    given = format_name(array.dtype.name, tensor.name)
    if given == _BYTES:
        _compare_sizes(array.size, tensor.nbytes, tensor)
        array[...] = np.frombuffer(tensor.memory(), np.uint8).reshape(array.shape)
        return
    _compare(tensor.dtype, given, tensor)
    _compare_sizes(array.size, tensor.size, tensor)
    array[...] = astype(tensor, array.dtype.newbyteorder("=")).reshape(array.shape)


def _into_torch(tensor: Tensor, target: Any) -> None:
    import torch

    from ._torch_memory import NAMES

    if not isinstance(target, torch.Tensor) or target.layout != torch.strided or target.dtype not in NAMES:
        raise wrong_type(f"'{tensor.name}' is read into a dense tensor of a dtype that files have, not into {target!r:.80}")
    given = format_name(NAMES[target.dtype], tensor.name)
    if given == _BYTES:
        source = torch.frombuffer(tensor.read(), dtype=torch.uint8) if tensor.nbytes else torch.empty(0, dtype=torch.uint8)
    else:
        _compare(tensor.dtype, given, tensor)
        source = to_torch(tensor, None)
    _compare_sizes(target.numel(), source.numel(), tensor)
    try:
        with torch.no_grad():
            target.copy_(source.reshape(target.shape))
    except RuntimeError as error:
        raise wrong_argument(f"'{tensor.name}' cannot be read into the tensor of torch: {error}") from error


def _compare(dtype: str, given: str, tensor: Tensor) -> None:
    _check(dtype, given, f"'{tensor.name}' is {dtype}, and what it is read into is {given}", tensor.name)


def _compare_sizes(given: int, wanted: int, tensor: Tensor) -> None:
    if given != wanted:
        message = f"the array's size is not the tensor's: {wanted} elements expected, {given} given"
        raise build(Error, "BUFFER_SIZE", {"message": message, "tensor": tensor.name, "expected": wanted, "actual": given})
