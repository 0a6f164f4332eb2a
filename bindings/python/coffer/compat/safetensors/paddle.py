# SPDX-License-Identifier: Apache-2.0
"""Files of paddle tensors."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from ..._dtypes import FORMAT, paddle_dtype
from ..._frameworks import framework
from ..._frameworks import paddle_size as _size
from ..._options import Backend, Sync
from ..._progress import shown
from . import numpy
from ._devices import device as _device_of
from ._safe_open import load_all, open_model
from ._safe_open import safe_open as safe_open
from ._serialization import TensorSpec, open_bytes, serialize, serialize_file
from ._serialization import deserialize as deserialize
from ._wording import for_framework

_getdtype = for_framework(paddle_dtype)

# The dtypes that this version of paddle has. What it calls uint16 is bfloat16.
_TYPES: dict[str, paddle.dtype] = {
    name: getattr(paddle, ours) for ours, name in FORMAT.items() if hasattr(paddle, ours) and name != "U16"
}
# By the bits in their names; bool has none.
_SIZE: dict[paddle.dtype, int] = {
    dtype: int((re.search(r"\d+", str(dtype)) or ["8"])[0]) // 8 for dtype in _TYPES.values()
}
# numpy's dtypes of the same sizes, its own ones.
NPDTYPES: dict[paddle.dtype, type] = {
    dtype: numpy._TYPES.get(name, np.float16 if _SIZE[dtype] == 2 else np.uint8) for name, dtype in _TYPES.items()
}

if TYPE_CHECKING:
    from ..._native import Algorithm
    from ..._progress import Shown


def save(tensors: dict[str, paddle.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file that holds these tensors, which have to be contiguous."""
    kept: list[Any] = []
    return serialize(_flatten(tensors, kept), metadata)


def save_file(
    tensors: dict[str, paddle.Tensor],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    sync: Sync = "replace",
    digests: Algorithm | None = None,
    progress: Shown = False,
) -> None:
    """Writes a file that holds these tensors, which have to be contiguous; see `coffer.torch.save_file`."""
    kept: list[Any] = []
    specs = _flatten(tensors, kept)
    serialize_file(specs, filename, metadata, sync=sync, digests=digests, progress=progress)


def load(data: bytes, device: str = "cpu") -> dict[str, paddle.Tensor]:
    """The tensors of a file that is in memory."""
    return load_all(framework("paddle", device), open_bytes(data))


def load_file(
    filename: str | os.PathLike[str],
    device: str | int = "cpu",
    *,
    backend: Backend = "mmap",
    progress: Shown = False,
    verify: bool = False,
) -> dict[str, paddle.Tensor]:
    """The tensors of a file. On the CPU they view a private map of it, unless they are read (backend "pread", and with `progress`);
    see `coffer.torch.load_file`."""
    wanted = framework("paddle", _device_of(device))
    model = open_model(filename, "pread" if progress else backend, verify)
    with shown(progress, filename) as advance:
        return load_all(wanted, model, advance)


# ---- To and from memory -----------------------------------------------------------------------------------------------


def _flatten(tensors: dict[str, paddle.Tensor], keep_alive_buffer: list[Any]) -> dict[str, TensorSpec]:
    """What to write. The tensors put into `keep_alive_buffer` hold the memory."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, paddle.Tensor] but received {type(tensors)}")
    found = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, paddle.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected paddle.Tensor but received {type(tensor)}")
        held = _materialized(tensor, name)
        keep_alive_buffer.append(held)
        dtype = str(held.dtype).removeprefix("paddle.")
        found[name] = TensorSpec(dtype=dtype, shape=held.shape, data_ptr=held.data_ptr(), data_len=_size(held))
    return found


def _materialized(tensor: paddle.Tensor, name: str) -> paddle.Tensor:
    """The tensor in the CPU's memory."""
    if _size(tensor) and not tensor.is_contiguous():
        raise ValueError(
            f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It either means you are "
            "trying to save tensors which are reference of each other in which case it's recommended to save only the "
            "full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to pack it before "
            "saving."
        )
    return tensor.cpu()


def _tobytes(tensor: paddle.Tensor, name: str) -> bytes:
    """A tensor's values as a file has them."""
    held = _materialized(tensor, name)
    return ctypes.string_at(held.data_ptr(), _size(held)) if _size(held) else b""


def _to_ndarray(tensor: paddle.Tensor, name: str) -> tuple[np.ndarray[Any, Any], paddle.Tensor]:
    """The bytes of a tensor as a numpy array, and the tensor that holds them."""
    held = _materialized(tensor, name)
    memory = (ctypes.c_ubyte * _size(held)).from_address(held.data_ptr()) if _size(held) else b""
    return np.frombuffer(memoryview(memory), np.uint8), held


def _view2paddle(safeview: Iterable[tuple[str, Any]], device: str) -> dict[str, paddle.Tensor]:
    """The tensors of what `deserialize` gave."""
    found = {}
    for name, view in safeview:
        dtype = _getdtype(view["dtype"])
        if view["data"]:
            made = paddle.base.core.frombuffer(view["data"], dtype).reshape(view["shape"])
        else:
            made = paddle.empty(view["shape"], dtype=dtype)
        found[name] = made if device == "cpu" else made.to(device)
    return found


def _np2paddle(numpy_dict: dict[str, np.ndarray[Any, Any]], device: str = "cpu") -> dict[str, paddle.Tensor]:
    return {name: paddle.to_tensor(array, place=device) for name, array in numpy_dict.items()}


def _paddle2np(paddle_dict: dict[str, paddle.Tensor]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in paddle_dict.items()}
