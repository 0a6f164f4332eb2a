# SPDX-License-Identifier: Apache-2.0
"""Files of paddle tensors."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import paddle

from ._devices import device as _device_of
from ._dtypes import FORMAT
from ._frameworks import PaddleFramework
from ._frameworks import paddle_dtype as _getdtype
from ._safe_open import Backend, open_model
from ._serialization import Sync, TensorSpec, deserialize, serialize, serialize_file


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
) -> None:
    """Writes a file that holds these tensors, which have to be contiguous; see `coffer.torch.save_file`."""
    kept: list[Any] = []
    serialize_file(_flatten(tensors, kept), filename, metadata, sync=sync)


def load(data: bytes, device: str = "cpu") -> dict[str, paddle.Tensor]:
    """The tensors of a file that is in memory."""
    return {name: _from_bytes(found, device) for name, found in deserialize(data)}


def load_file(
    filename: str | os.PathLike[str], device: str | int = "cpu", *, backend: Backend = "mmap"
) -> dict[str, paddle.Tensor]:
    """The tensors of a file. On the CPU they view a private map of it, unless they are read (backend "pread")."""
    return PaddleFramework(_device_of(device)).all(open_model(filename, backend))


def _from_bytes(found: Any, device: str) -> paddle.Tensor:
    dtype = _getdtype(found["dtype"])
    flat = paddle.to_tensor(np.frombuffer(found["data"], np.uint8), place=device)
    if not len(found["data"]):
        return paddle.empty(found["shape"], dtype)
    return flat.view(dtype).reshape(found["shape"])


def _flatten(tensors: dict[str, paddle.Tensor], keep_alive_buffer: list[Any]) -> dict[str, TensorSpec]:
    """What to write. The tensors put into `keep_alive_buffer` hold the memory."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, paddle.Tensor] but received {type(tensors)}")
    found = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, paddle.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected paddle.Tensor but received {type(tensor)}")
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It either means you are "
                "trying to save tensors which are reference of each other in which case it's recommended to save only the "
                "full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to pack it before "
                "saving."
            )
        held = tensor.cpu()
        keep_alive_buffer.append(held)
        size = held.numel().item() * held.element_size()
        dtype = str(held.dtype).removeprefix("paddle.")
        found[name] = TensorSpec(dtype=dtype, shape=held.shape, data_ptr=held.data_ptr(), data_len=size)
    return found


_TYPES = {name: getattr(paddle, ours) for ours, name in FORMAT.items() if hasattr(paddle, ours) and ours != "uint16"}
