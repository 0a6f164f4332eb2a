# SPDX-License-Identifier: Apache-2.0
"""Files of torch tensors, and of modules.

Tensors that share memory cannot be saved as such: a file holds every byte once, for one tensor. `save_file` refuses them;
`save_model` keeps one name of each group, and `load_model` knows that the others are the same.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ._dtypes import FORMAT
from ._devices import device as _device_of
from ._frameworks import TorchFramework, torch_dtype as _getdtype, typed as _typed
from ._progress import Shown, shown as _shown
from ._safe_open import Backend, open_model
from ._safe_open import safe_open as safe_open
from ._serialization import (
    Described,
    Sync,
    TensorSpec,
    contents,
    deserialize,
    open_bytes,
    serialize,
    serialize_file,
    serialize_model,
)

if TYPE_CHECKING:
    from ._native import Algorithm

Tensor = torch.Tensor

# The dtypes that this version of torch has.
_TYPES: dict[str, torch.dtype] = {
    name: getattr(torch, ours) for ours, name in FORMAT.items() if hasattr(torch, ours)
}
_SIZE: dict[torch.dtype, int] = {dtype: dtype.itemsize for dtype in _TYPES.values()}
# None where this version has none, for those who ask the reference for them.
_float8_e4m3fn = _TYPES.get("F8_E4M3")
_float8_e4m3fnuz = _TYPES.get("F8_E4M3FNUZ")
_float8_e5m2 = _TYPES.get("F8_E5M2")
_float8_e5m2fnuz = _TYPES.get("F8_E5M2FNUZ")
_float8_e8m0 = _TYPES.get("F8_E8M0")
_float4_e2m1_x2 = _TYPES.get("F4")
_SPEC_NAMES: dict[torch.dtype, str] = {dtype: str(dtype).removeprefix("torch.") for dtype in _TYPES.values()}

# Bytes of tensors that are copied one by one rather than with all others.
_SMALL = 1 << 17

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
    model = open_bytes(data)
    infos = model.infos()
    small = [name for name, _, _, _, size in infos if size <= _SMALL]
    # Of small tensors, making them takes the time, and of large ones copying them, which bytearray does as fast as anything.
    made = TorchFramework("cpu").some(model, small) if small else {}
    if len(small) < len(infos):
        made.update(_view2torch(contents(data, [info for info in infos if info[4] > _SMALL])))
        made = {info[0]: made[info[0]] for info in infos}
    return made


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
    framework = TorchFramework(_device_of(device))
    model = open_model(filename, "pread" if progress else backend, verify)
    with _shown(progress, filename) as advance:
        return framework.all(model, advance)


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
    tensors = model.state_dict()
    metadata = dict(metadata) if metadata else {}
    for kept, others in _remove_duplicate_names(tensors).items():
        for name in others:
            metadata.setdefault(name, kept)
            del tensors[name]
    if force_contiguous:
        tensors = _packed(tensors)
    try:
        save(tensors, filename, metadata or None)
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
    shared = _remove_duplicate_names(model.state_dict(), preferred_names=tensors.keys())
    result = model.load_state_dict(tensors, strict=False)
    missing, unexpected = set(result.missing_keys), list(result.unexpected_keys)
    for others in shared.values():
        for name in others:
            if name in missing:
                missing.remove(name)
            else:
                unexpected.append(name)
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


def storage_ptr(tensor: Tensor) -> int:
    """The address of a tensor's memory; 0 where it has none, as on the meta device."""
    try:
        return tensor.untyped_storage().data_ptr()
    except NotImplementedError:  # a sparse tensor
        return 0


def storage_size(tensor: Tensor) -> int:
    """Bytes of the memory that a tensor is a part of."""
    return tensor.untyped_storage().nbytes()


def _end_ptr(tensor: Tensor) -> int:
    """The address behind a tensor's last element in memory."""
    if tensor.numel() == 0:
        return tensor.data_ptr()
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((length - 1) * stride for length, stride in steps)
    return tensor.data_ptr() + (last + 1) * tensor.element_size()


def _is_complete(tensor: Tensor) -> bool:
    """Whether a tensor takes all of its memory."""
    return tensor.data_ptr() == storage_ptr(tensor) and tensor.nelement() * tensor.element_size() == storage_size(tensor)


def _find_shared_tensors(state_dict: dict[str, Tensor]) -> list[set[str]]:
    """The names in groups, one for each piece of memory; tensors without memory are left out."""
    groups: dict[tuple[torch.device, int, int], set[str]] = {}
    for name, tensor in state_dict.items():
        if tensor.device.type == "meta":
            continue
        address = storage_ptr(tensor)
        size = storage_size(tensor) if address else 0
        if size:
            groups.setdefault((tensor.device, address, size), set()).add(name)
    return _filter_shared_not_shared(list(groups.values()), state_dict)


def _filter_shared_not_shared(tensors: list[set[str]], state_dict: dict[str, Tensor]) -> list[set[str]]:
    """The groups, divided where tensors are in the same memory, but do not overlap."""
    found: list[set[str]] = []
    for names in tensors:
        if len(names) == 1:
            found.append(names)
            continue
        end = -1
        for first, last, name in sorted(_place(state_dict[name], name) for name in names):
            if first >= end:
                found.append(set())
            found[-1].add(name)
            end = max(end, last)
    return found


def _place(tensor: Tensor, name: str) -> tuple[int, int, str]:
    return tensor.data_ptr(), _end_ptr(tensor), name


def _remove_duplicate_names(
    state_dict: dict[str, Tensor],
    *,
    preferred_names: Iterable[str] | None = None,
    discard_names: Iterable[str] | None = None,
) -> dict[str, list[str]]:
    """For each group that shares memory the name to keep, and those to leave out.

    Kept is a tensor that takes all of the memory: one of preferred_names, else one that is not of discard_names, the first in
    order of the names.
    """
    preferred = set(preferred_names or ())
    discarded = set(discard_names or ())
    found: dict[str, list[str]] = defaultdict(list)
    for names in _find_shared_tensors(state_dict):
        complete = {name for name in names if _is_complete(state_dict[name])}
        if not complete:
            raise RuntimeError(
                "Error while trying to find names to remove to save state dict, but found no suitable name to keep for "
                f"saving amongst: {names}. None is covering the entire storage.Refusing to save/load the model since you "
                f"could be storing much more memory than needed. Please refer to {_SHARING} for more information. Or open "
                "an issue."
            )
        kept = min(complete & preferred or complete - discarded or complete)
        if len(names) > 1:
            found[kept] = sorted(names - {kept})
    return found


# ---- To and from memory -----------------------------------------------------------------------------------------------


def _packed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _flatten_as_ptr(
    tensors: dict[str, Tensor], keep_alive_buffer: list[Any], spec: Callable[..., TensorSpec] = TensorSpec
) -> dict[str, TensorSpec]:
    """What to write, as `spec` makes it. The tensors put into `keep_alive_buffer` hold the memory."""
    _evaluate_tensors_for_save(tensors)
    found = {}
    for name, tensor in tensors.items():
        dtype = _SPEC_NAMES[tensor.dtype]
        held = _materialized(tensor)
        keep_alive_buffer.append(held)
        size = held.numel() * held.element_size()
        found[name] = spec(dtype=dtype, shape=tensor.shape, data_ptr=held.data_ptr(), data_len=size)
    return found


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


def _materialized(tensor: Tensor) -> Tensor:
    """The tensor's values in the CPU's memory, as they are, not as they would be once conjugated or negated."""
    if tensor.device.type != "cpu":
        tensor = tensor.to("cpu")
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor.detach()


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


def _view2torch(safeview: Iterable[tuple[str, Any]]) -> dict[str, Tensor]:
    """The tensors of what `deserialize` gave."""
    found = {}
    for name, view in safeview:
        dtype, shape = _getdtype(view["dtype"]), tuple(view["shape"])
        data = view["data"]
        flat = torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)
        found[name] = _typed(flat, dtype, view["dtype"], shape)
    return found
