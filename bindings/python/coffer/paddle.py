# SPDX-License-Identifier: Apache-2.0
"""Files of paddle tensors."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import paddle

from ._devices import device as _device_of
from ._frameworks import PaddleFramework
from ._frameworks import paddle_dtype as _getdtype  # noqa: F401  a name that the reference has
from ._progress import Shown, shown
from ._safe_open import Backend, open_model
from ._serialization import Sync, TensorSpec, open_bytes, serialize, serialize_file

if TYPE_CHECKING:
    from ._native import Algorithm


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
    return PaddleFramework(device).all(open_bytes(data))


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
    framework = PaddleFramework(_device_of(device))
    model = open_model(filename, "pread" if progress else backend, verify)
    with shown(progress, filename) as advance:
        return framework.all(model, advance)


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
