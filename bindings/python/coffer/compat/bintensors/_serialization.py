# SPDX-License-Identifier: Apache-2.0
"""serialize, serialize_file and deserialize for `.bt` files, and what the frameworks' modules have beneath them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ... import _native
from ..._dtypes import FORMAT
from ..._errors import Error
from ..._options import Sync
from ..._progress import shown
from ..safetensors._serialization import TensorSpec, as_bytes, checked, contents, described, entries
from ..safetensors._wording import as_text, file_path, wrong_type
from ._wording import BintensorError, reading_failed, worded, writing_failed

if TYPE_CHECKING:
    from ..._progress import Shown
    from ..safetensors._serialization import DeserializedTensor

Hasher = Callable[[bytes], Any]  # of hashlib: what it gives has a digest()


def serialize(tensor_dict: dict[str, dict[str, Any]], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file that holds these tensors, each {"dtype": "float32", "shape": [2, 3], "data": bytes}."""
    return to_bytes(_entries(tensor_dict), metadata)


def serialize_file(
    filename: str | os.PathLike[str],
    tensor_dict: dict[str, dict[str, Any]],
    metadata: dict[str, str] | None = None,
    *,
    sync: Sync = "replace",
) -> None:
    """Writes a file that holds these tensors; see `serialize`. It takes the place of an older one when it is complete.

    `sync` says when it is made to survive a power cut: "replace" before an older file is replaced, "always", or "never".
    """
    to_file(_entries(tensor_dict), filename, metadata, sync)


def deserialize(bytes: bytes) -> list[tuple[str, DeserializedTensor]]:  # noqa: A002  the reference's name
    """The tensors of a file that is in memory, in its order, each with a copy of its bytes."""
    try:
        return contents(bytes, _native.Model.open(as_bytes(bytes), format="bintensors").infos())
    except Error as error:
        reading_failed(error, "deserializing")


# ---- Beneath the frameworks' modules ----------------------------------------------------------------------------------


def spec(*, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int) -> TensorSpec:
    """A tensor to write, of a dtype that bintensors has."""
    _covered(dtype)
    return TensorSpec(dtype=dtype, shape=shape, data_ptr=data_ptr, data_len=data_len)


def save(specs: dict[str, TensorSpec], metadata: dict[str, str] | None) -> bytes:
    """The bytes of a file."""
    return to_bytes(entries(specs), metadata)


def save_file(
    specs: dict[str, TensorSpec],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None,
    sync: Sync,
    progress: Shown = False,
) -> None:
    """Writes a file."""
    to_file(entries(specs), filename, metadata, sync, progress)


def with_checksum(content: bytes, hasher: Hasher) -> tuple[bytes, bytes]:
    """The digest of a file's bytes, and the bytes."""
    return hasher(content).digest(), content


def to_bytes(declared: list[_native.Entry], metadata: dict[str, str] | None) -> bytes:
    try:
        return _native.serialize(declared, checked(metadata), format="bintensors")
    except Error as error:
        writing_failed(error, "serializing:")


def to_file(
    declared: list[_native.Entry],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None,
    sync: Sync,
    progress: Shown = False,
) -> None:
    path = file_path(filename)
    text = checked(metadata)
    try:
        with shown(progress, path) as advance:
            _native.serialize_file(declared, path, text, sync=sync, format="bintensors", progress=advance)
    except Error as error:
        writing_failed(error, "seralizing")  # as it is spelt there


# ---- Tensors as dicts -------------------------------------------------------------------------------------------------


_described = worded(described)


def _entries(tensor_dict: Mapping[str, Mapping[str, Any]]) -> list[_native.Entry]:
    if not isinstance(tensor_dict, dict):
        raise wrong_type("tensor_dict", tensor_dict, "dict")
    found: list[_native.Entry] = []
    for name, tensor in tensor_dict.items():
        as_text("tensor_dict", name)
        if not isinstance(tensor, dict):
            raise wrong_type("tensor_dict", tensor, "dict")
        found.append((name, *_described(tensor)))
        _covered(tensor["dtype"])
    return found


@cache
def _covered(name: str) -> str:
    """The name in files of a framework's dtype; the library knows which of them bintensors has."""
    try:
        _native.serialize([("", FORMAT[name], [0], b"")], format="bintensors")
    except (KeyError, Error):
        raise BintensorError(f"dtype {name} is not covered") from None
    return FORMAT[name]
