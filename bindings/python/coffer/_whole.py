# SPDX-License-Identifier: Apache-2.0
"""Files as a whole, loaded and saved for a framework: what `coffer.numpy`, `coffer.torch` and their siblings do, and
`coffer.load_file` and `coffer.save_file`, which are these functions for whichever framework it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from . import _native
from ._dtypes import file_shape, format_name
from ._errors import wrong_argument, wrong_type
from ._frameworks import Framework, framework, framework_of, framework_of_object
from ._load import everything
from ._options import Backend, Reading, Sync, Writing
from ._progress import shown

if TYPE_CHECKING:
    from ._native import Access, Algorithm
    from ._progress import Shown

Tensor = TypeVar("Tensor")

# "auto" reads on network file systems, where a map is slow, and may end the process when the connection breaks.
_ACCESS: dict[str, Access] = {"mmap": "auto", "pread": "read"}


def load_file(
    filename: str | os.PathLike[str], framework: str = "numpy", device: Any = "cpu", **options: Unpack[Reading]
) -> dict[str, Any]:
    """The tensors of a file, of a model of several files by its index, or behind a URL.

    framework  "numpy" (the default), "torch", "flax", "tensorflow", "mlx" or "paddle", or another of their names ("np", "pt" …)
    device     where they go, of those frameworks that have devices
    backend    "mmap", the default: tensors of torch and paddle view a private map of the file; "pread": they are read
    verify     whether tensors are held against the digests that the file records
    progress   is called with the bytes done and in all; True shows a bar, where tqdm is installed
    """
    return load_path(of_name(framework, device), filename, **options)


def save_file(
    tensors: Mapping[str, Any],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    **options: Unpack[Writing],
) -> None:
    """Writes a file that holds these tensors, of one framework, which is known by the first of them; or `coffer.Tensor` of files
    that are open, whose bytes go from file to file. It takes the place of an older one when it is complete.

    sync      when it is made to survive a power cut: "replace", the default, before an older file is replaced; "always"; "never"
    digests   "sha256" or "xxh3-128" records those of the tensors in the metadata
    progress  as in `load_file`
    packed    whether tensors are packed, without loss: a third smaller of BF16, and readable by Coffer alone
    """
    _check(tensors)
    name, first = next(iter(tensors.items()), ("", None))
    if isinstance(first, _native.Tensor):
        _copy(tensors, filename, metadata, **options)
        return
    origin = framework_of_object(first) if tensors else "numpy"
    if origin is None:
        what = f"'{name}' is of the type {type(first).__name__}"
        raise wrong_type(f"only tensors of numpy, torch, jax, tensorflow, mlx, paddle or coffer can be saved, and {what}")
    save_path(framework(origin), tensors, filename, metadata, **options)


def of_name(name: str, device: Any = "cpu") -> Framework:
    """The framework that a caller names."""
    return framework(framework_of(name), device)


# ---- For one framework ------------------------------------------------------------------------------------------------


class Files(Generic[Tensor]):
    """The functions of a module for a framework without devices. The module takes the methods as its functions, and lists them in
    `__all__`, so that its help shows them."""

    def __init__(self, name: str) -> None:
        self._name = name

    def save(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
        """The bytes of a file that holds these tensors."""
        return save_bytes(of_name(self._name), tensors, metadata)

    def save_file(
        self,
        tensors: Mapping[str, Tensor],
        filename: str | os.PathLike[str],
        metadata: Mapping[str, str] | None = None,
        **options: Unpack[Writing],
    ) -> None:
        """Writes a file that holds these tensors. The options are those of `coffer.save_file`."""
        save_path(of_name(self._name), tensors, filename, metadata, **options)

    def load(self, data: bytes) -> dict[str, Tensor]:
        """The tensors of a file that is in memory."""
        return load_bytes(of_name(self._name), data)

    def load_file(self, filename: str | os.PathLike[str], **options: Unpack[Reading]) -> dict[str, Tensor]:
        """The tensors of a file. The options are those of `coffer.load_file`."""
        return load_path(of_name(self._name), filename, **options)


def load_path(
    framework: Framework,
    filename: str | os.PathLike[str],
    *,
    backend: Backend = "mmap",
    verify: bool = False,
    progress: Shown = False,
) -> dict[str, Any]:
    """The tensors of a file; the options are those of `Reading`."""
    if backend not in _ACCESS:
        raise wrong_argument(f"there is no backend '{backend}': mmap, pread")
    path = os.fspath(filename)
    access = "read" if progress else _ACCESS[backend]  # of a map there would be nothing to show
    model = _native.Model.open(os.fsdecode(path), access=access, format="safetensors", verify=verify)
    with shown(progress, path) as advance:
        return everything(framework, model, advance)


def load_bytes(framework: Framework, data: bytes) -> dict[str, Any]:
    """The tensors of a file that is in memory, copied."""
    if not isinstance(data, bytes):
        raise wrong_type(f"a file in memory must be of the type bytes, not {type(data).__name__}")
    return framework.of_bytes(data, _native.Model.open(data, format="safetensors"))


def save_path(
    framework: Framework,
    tensors: Mapping[str, Any],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None,
    *,
    sync: Sync = "replace",
    digests: Algorithm | None = None,
    progress: Shown = False,
    packed: bool = False,
    max_shard_size: int = 0,
) -> None:
    """Writes a file that holds these tensors, or with a limit as many as it takes, and their index; the other options are those of
    `Writing`."""
    kept: list[Any] = []
    entries = _entries(framework, tensors, kept)
    with shown(progress, filename) as advance:
        if max_shard_size == 0:
            _native.serialize_file(entries, filename, metadata, sync=sync, digests=digests, progress=advance, packed=packed)
        else:
            _native.serialize_model(
                entries,
                filename,
                metadata,
                max_shard_size=max_shard_size,
                sync=sync,
                digests=digests,
                progress=advance,
                packed=packed,
            )


def save_bytes(framework: Framework, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None) -> bytes:
    """The bytes of a file that holds these tensors."""
    kept: list[Any] = []
    return _native.serialize(_entries(framework, tensors, kept), metadata)


def _entries(framework: Framework, tensors: Mapping[str, Any], kept: list[Any]) -> list[_native.Entry]:
    """What the extension writes of tensors; what is put into `kept` holds the memory."""
    _check(tensors)
    found: list[_native.Entry] = []
    for name, framework_dtype, shape, address, size in framework.described(tensors, kept):
        dtype = format_name(framework_dtype, name)
        found.append((name, dtype, file_shape(dtype, shape), (address, size)))
    return found


def _check(tensors: object) -> None:
    """Raises what is wrong with a mapping of names to tensors."""
    if not isinstance(tensors, Mapping):
        raise wrong_type(f"only a mapping of names to tensors can be saved, not {type(tensors).__name__}")
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise wrong_type(f"a tensor's name is a str, not {name!r:.80} of the type {type(name).__name__}")
        if tensor is None:
            raise wrong_type(f"'{name}' is None, and not a tensor")


def _copy(
    tensors: Mapping[str, _native.Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None,
    *,
    sync: Sync = "replace",
    digests: Algorithm | None = None,
    progress: Shown = False,
    packed: bool = False,
) -> None:
    """`save_file` of tensors of files that are open."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, _native.Tensor):
            raise wrong_type(f"'{name}' is not a tensor of coffer, as the first is, but of the type {type(tensor).__name__}")
    with shown(progress, filename) as advance:
        _native.copy_tensors(tensors.items(), filename, metadata, sync=sync, digests=digests, progress=advance, packed=packed)
