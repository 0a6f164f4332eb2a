# SPDX-License-Identifier: Apache-2.0
"""Files of paddle tensors."""

from __future__ import annotations

import math
import os
from typing import Any

import paddle

from ._devices import device as _device_of
from ._frameworks import PaddleFramework
from ._frameworks import paddle_dtype as _getdtype  # noqa: F401  a name that the reference has
from ._safe_open import Backend, open_model
from ._serialization import Sync, TensorSpec, open_bytes, serialize, serialize_file


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
    return PaddleFramework(device).all(open_bytes(data))


def load_file(
    filename: str | os.PathLike[str], device: str | int = "cpu", *, backend: Backend = "mmap"
) -> dict[str, paddle.Tensor]:
    """The tensors of a file. On the CPU they view a private map of it, unless they are read (backend "pread")."""
    return PaddleFramework(_device_of(device)).all(open_model(filename, backend))


def _flatten(tensors: dict[str, paddle.Tensor], keep_alive_buffer: list[Any]) -> dict[str, TensorSpec]:
    """What to write. The tensors put into `keep_alive_buffer` hold the memory."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, paddle.Tensor] but received {type(tensors)}")
    found = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, paddle.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected paddle.Tensor but received {type(tensor)}")
        if math.prod(tensor.shape) and not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It either means you are "
                "trying to save tensors which are reference of each other in which case it's recommended to save only the "
                "full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to pack it before "
                "saving."
            )
        held = tensor.cpu()
        keep_alive_buffer.append(held)
        size = math.prod(held.shape) * held.element_size()
        dtype = str(held.dtype).removeprefix("paddle.")
        found[name] = TensorSpec(dtype=dtype, shape=held.shape, data_ptr=held.data_ptr(), data_len=size)
    return found
