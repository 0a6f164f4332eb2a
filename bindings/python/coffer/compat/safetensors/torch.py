# SPDX-License-Identifier: Apache-2.0
"""Files of torch tensors, and of modules.

Tensors that share memory cannot be saved as such: a file holds every byte once, for one tensor. `save_file` refuses them;
`save_model` keeps one name of each group, and `load_model` knows that the others are the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ... import _torch_memory
from ..._dtypes import torch_dtype
from ..._frameworks import framework, of_memory
from ..._options import Backend, Sync
from ..._progress import shown as _shown
from ..._torch_memory import end_ptr as _end_ptr  # noqa: F401  names that the reference has
from ..._torch_memory import is_complete as _is_complete  # noqa: F401
from ..._torch_memory import materialized as _materialized
from ..._torch_memory import packed as _packed
from ..._torch_memory import storage_ptr as storage_ptr
from ..._torch_memory import storage_size as storage_size
from ._devices import device as _device_of
from ._safe_open import load_all, open_model
from ._safe_open import safe_open as safe_open
from ._serialization import TensorSpec, open_bytes, serialize, serialize_file, serialize_model
from ._serialization import deserialize as deserialize
from ._wording import for_framework

if TYPE_CHECKING:
    from ..._native import Algorithm, Model
    from ..._progress import Shown
    from ._serialization import Described

Tensor = torch.Tensor

_getdtype = for_framework(torch_dtype)
_TYPES = _torch_memory.DTYPES
_SIZE: dict[torch.dtype, int] = {dtype: dtype.itemsize for dtype in _TYPES.values()}
# None where this version has none, for those who ask the reference for them.
_float8_e4m3fn = _TYPES.get("F8_E4M3")
_float8_e4m3fnuz = _TYPES.get("F8_E4M3FNUZ")
_float8_e5m2 = _TYPES.get("F8_E5M2")
_float8_e5m2fnuz = _TYPES.get("F8_E5M2FNUZ")
_float8_e8m0 = _TYPES.get("F8_E8M0")
_float4_e2m1_x2 = _TYPES.get("F4")
_SPEC_NAMES = _torch_memory.NAMES

_SHARING = "https://huggingface.co/docs/safetensors/torch_shared_tensors"


# ---- Tensors ----------------------------------------------------------------------------------------------------------


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None, *, contiguous: bool = False) -> bytes:
    """The bytes of a file that holds these tensors, which have to be dense and contiguous, and must not share memory.

    With `contiguous` those that are not contiguous are copied, rather than refused.
    """
    kept: list[Any] = []
    return serialize(_flatten_as_ptr(_packed(tensors) if contiguous else tensors, kept), metadata)


def save_file(
    tensors: dict[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    contiguous: bool = False,
    sync: Sync = "replace",
    digests: Algorithm | None = None,
    progress: Shown = False,
) -> None:
    """Writes a file that holds these tensors, which have to be dense and contiguous, and must not share memory.

    The file takes the place of an older one when it is complete. With `contiguous`, tensors that are not contiguous are copied,
    rather than refused. `sync` says when the file is made to survive a power cut: "replace" before an older one is replaced,
    "always", or "never". `digests` ("sha256", "xxh3-128") records those of the tensors in the metadata, for `verify` of
    `load_file`. `progress` is as there.
    """
    kept: list[Any] = []
    specs = _flatten_as_ptr(_packed(tensors) if contiguous else tensors, kept)
    serialize_file(specs, filename, metadata, sync=sync, digests=digests, progress=progress)


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file that is in memory, copied."""
    return _of_bytes(data, open_bytes(data))


@for_framework
def _of_bytes(data: bytes, model: Model) -> dict[str, Tensor]:
    """The tensors of a file that is in memory, copied."""
    return framework("torch").of_bytes(data, model)


def load_file(
    filename: str | os.PathLike[str],
    device: str | int = "cpu",
    *,
    backend: Backend = "mmap",
    progress: Shown = False,
    verify: bool = False,
) -> dict[str, Tensor]:
    """The tensors of a file.

    On the CPU they view a private map of the file: what is changed in memory never reaches the file, and the map lives as long as
    the last of them. With backend "pread" each has memory of its own, read by threads. So it has with `progress`, which is called
    with the bytes done and in all, or shows a bar, when it is True and tqdm is installed: of a map there would be nothing to
    show. With `verify` tensors are held against the digests that the file records.
    """
    wanted = framework("torch", _device_of(device))
    model = open_model(filename, "pread" if progress else backend, verify)
    with _shown(progress, filename) as advance:
        return load_all(wanted, model, advance)


# ---- Modules ----------------------------------------------------------------------------------------------------------


def save_model(
    model: torch.nn.Module,
    filename: str,
    metadata: dict[str, str] | None = None,
    force_contiguous: bool = True,
    *,
    max_shard_size: int | str | None = None,
    progress: Shown = False,
) -> None:
    """Writes a module's parameters and buffers. Of tensors that share memory one is written; the metadata name it for the others.

    With `force_contiguous`, tensors that are not contiguous are copied, rather than refused. With `max_shard_size`, in bytes or as
    "5GB", a model that has more is written as several files beside each other, of which `load_model` takes the index:
    `filename` and ".index.json".
    """
    one = partial(save_file, progress=progress)
    save = one if max_shard_size is None else partial(_save_files, max_shard_size=max_shard_size, progress=progress)
    _save_model(save, model, filename, metadata, force_contiguous)


def _save_model(
    save: Callable[..., None], model: torch.nn.Module, filename: str, metadata: dict[str, str] | None, force_contiguous: bool
) -> None:
    """`save_model`, by the `save_file` of this format or another."""
    tensors, metadata = _torch_memory.without_duplicates(model, metadata, _no_whole)
    if force_contiguous:
        tensors = _packed(tensors)
    try:
        save(tensors, filename, metadata)
    except ValueError as error:
        what = "Or use save_model(..., force_contiguous=True), read the docs for potential caveats."
        raise ValueError(f"{error} {what}") from error


def _save_files(
    tensors: dict[str, Tensor], filename: str, metadata: dict[str, str] | None, *, max_shard_size: int | str, progress: Shown
) -> None:
    """`save_file` to as many files as the limit asks for."""
    kept: list[Any] = []
    serialize_model(_flatten_as_ptr(tensors, kept), filename, metadata, max_shard_size, progress)


def load_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: str | int = "cpu",
    *,
    backend: Backend = "mmap",
    progress: Shown = False,
) -> tuple[set[str], list[str]]:
    """Loads a file into a module; the names that were missing in the file, and those that the module has not.

    A name that shares its memory with one that the file has is not missing. With `strict`, missing and unexpected names are a
    RuntimeError.
    """
    return _load_model(model, load_file(filename, device=device, backend=backend, progress=progress), strict)


def _load_model(model: torch.nn.Module, tensors: dict[str, Tensor], strict: bool) -> tuple[set[str], list[str]]:
    """`load_model` of a file's tensors."""
    missing, unexpected = _torch_memory.load_into(model, tensors, _no_whole)
    if strict and (missing or unexpected):
        raise RuntimeError(_mismatch(type(model).__name__, missing, unexpected))
    return missing, unexpected


def _mismatch(module: str, missing: Iterable[str], unexpected: Iterable[str]) -> str:
    said = f"Error(s) in loading state_dict for {module}:"
    for what, names in (("Missing", sorted(missing)), ("Unexpected", sorted(unexpected))):
        if names:
            listed = ", ".join(f'"{name}"' for name in names)
            said += f"\n    {what} key(s) in state_dict: {listed}"
    return said


# ---- Shared memory ----------------------------------------------------------------------------------------------------


def _find_shared_tensors(state_dict: dict[str, Tensor]) -> list[set[str]]:
    """The names in groups, one for each piece of memory; tensors without memory are left out."""
    return _torch_memory.find_shared(state_dict)


def _filter_shared_not_shared(tensors: list[set[str]], state_dict: dict[str, Tensor]) -> list[set[str]]:
    """The groups, divided where tensors are in the same memory, but do not overlap."""
    return _torch_memory.divide(tensors, state_dict)


def _remove_duplicate_names(
    state_dict: dict[str, Tensor],
    *,
    preferred_names: Iterable[str] | None = None,
    discard_names: Iterable[str] | None = None,
) -> dict[str, list[str]]:
    """For each group that shares memory the name to keep, and those to leave out."""
    return _torch_memory.duplicates(state_dict, _no_whole, preferred_names, discard_names)


def _no_whole(names: set[str]) -> Exception:
    return RuntimeError(
        "Error while trying to find names to remove to save state dict, but found no suitable name to keep for "
        f"saving amongst: {names}. None is covering the entire storage.Refusing to save/load the model since you "
        f"could be storing much more memory than needed. Please refer to {_SHARING} for more information. Or open "
        "an issue."
    )


# ---- To and from memory -----------------------------------------------------------------------------------------------


def _flatten_as_ptr(
    tensors: dict[str, Tensor], keep_alive_buffer: list[Any], spec: Callable[..., TensorSpec] = TensorSpec
) -> dict[str, TensorSpec]:
    """What to write, as `spec` makes it. The tensors put into `keep_alive_buffer` hold the memory."""
    _evaluate_tensors_for_save(tensors)
    return {
        name: spec(dtype=dtype, shape=shape, data_ptr=address, data_len=size)
        for name, dtype, shape, address, size in _torch_memory.described(tensors, keep_alive_buffer)
    }


def _flatten(tensors: dict[str, Tensor]) -> dict[str, Described]:
    """What to write, as dicts with copies of the bytes."""
    _evaluate_tensors_for_save(tensors)
    return {
        name: {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": tensor.shape, "data": _tobytes(tensor, name)}
        for name, tensor in tensors.items()
    }


def _tobytes(tensor: Tensor, name: str) -> bytes:
    """A tensor's values as a file has them."""
    _evaluate_tensors_for_save({name: tensor})
    found: bytes = _to_ndarray(tensor)[0].tobytes()
    return found


def _evaluate_tensors_for_save(tensors: dict[str, Tensor]) -> None:
    """Raises what is wrong with tensors that are to be saved."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
    sparse = [name for name, tensor in tensors.items() if tensor.layout != torch.strided]
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not support. You can make it a "
            "dense tensor before saving with `.to_dense()` but be aware this might make a much larger file than needed."
        )
    shared = [names for names in _find_shared_tensors(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(
            f"""
            Some tensors share memory, this will lead to duplicate memory on disk and potential differences when loading them again: {shared}.
            A potential way to correctly save your model is to use `save_model`.
            More information at {_SHARING}
            """
        )
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It either means you are "
                "trying to save tensors which are reference of each other in which case it's recommended to save only the "
                "full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to pack it before "
                "saving."
            )


def _to_ndarray(tensor: Tensor) -> tuple[Any, Tensor]:
    """The bytes of a tensor as a numpy array, and the tensor that holds them."""
    held = _materialized(tensor)
    flat = held.contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy(), held


@for_framework
def _view2torch(safeview: Iterable[tuple[str, Any]]) -> dict[str, Tensor]:
    """The tensors of what `deserialize` gave."""
    return {name: of_memory(view["data"], view["dtype"], tuple(view["shape"])) for name, view in safeview}
