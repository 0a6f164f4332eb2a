# SPDX-License-Identifier: Apache-2.0
"""serialize, serialize_file, deserialize and TensorSpec: files from tensors in memory, and back, without a framework."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence

from ... import _native
from ..._dtypes import FORMAT, is_packed
from ..._errors import Error
from .. import SafetensorError
from ._wording import as_text, file_path, reading_failed, writing_failed, wrong_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    from ..._options import Sync
    from ..._progress import Shown

    class DeserializedTensor(TypedDict):
        """A tensor as `deserialize` gives it."""

        shape: list[int]
        dtype: str
        data: bytearray

    # A tensor to write, as releases of safetensors up to 0.7 have it: {"dtype": "float32", "shape": [2, 3], "data": bytes}.
    Described = dict[str, Any]

# What safetensors 0.8 says that it supports, in its order.
_SUPPORTED = (
    "bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float16, float32, float64, bfloat16, float8_e4m3fn, "
    "float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu, float4_e2m1fn_x2, complex64"
)


class TensorSpec:
    """A tensor to write: what it is, and where in memory its bytes are.

    dtype     the framework's name, "float32"; afterwards that of the format, "F32"
    shape     lengths; of float4_e2m1fn_x2 in pairs, as torch has them, and the last is doubled here
    data_ptr  the address of its first byte; the memory has to stay there until the file is written
    data_len  bytes
    """

    __slots__ = ("_data_len", "_data_ptr", "_dtype", "_shape")

    _data_len: int
    _data_ptr: int
    _dtype: str
    _shape: list[int]

    def __new__(cls, *, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int) -> TensorSpec:
        name = as_text("dtype", dtype)
        self = super().__new__(cls)
        lengths = lengths_of(shape)
        self._data_ptr = _unsigned("data_ptr", data_ptr)
        self._data_len = _unsigned("data_len", data_len)
        if name not in FORMAT:
            raise SafetensorError(f'Unknown dtype "{name}". Supported dtypes: {_SUPPORTED}')
        self._dtype = FORMAT[name]
        self._shape = _in_elements(lengths) if is_packed(self._dtype) else lengths
        return self

    @property
    def dtype(self) -> str:
        """The name in files, "F32"."""
        return self._dtype

    @property
    def shape(self) -> list[int]:
        """As the file will have it."""
        return self._shape.copy()

    @property
    def data_ptr(self) -> int:
        return self._data_ptr

    @property
    def data_len(self) -> int:
        return self._data_len

    def __repr__(self) -> str:
        where = f"data_ptr={self._data_ptr}, data_len={self._data_len}"
        return f"TensorSpec(dtype='{self._dtype}', shape={self._shape}, {where})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("cannot pickle 'TensorSpec' object: the memory it points to stays behind")


def serialize(
    tensor_dict: Mapping[str, TensorSpec] | Mapping[str, Described], metadata: dict[str, str] | None = None
) -> bytes:
    """The bytes of a file that holds these tensors, each a `TensorSpec`, or a dict {"dtype": "float32", "shape": [2, 3], "data": bytes}.

    The memory that each `TensorSpec` points to has to be valid until the call returns.
    """
    try:
        return _native.serialize(entries(tensor_dict), checked(metadata))
    except Error as error:
        writing_failed(error)


def serialize_file(
    tensor_dict: Mapping[str, TensorSpec] | Mapping[str, Described],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    sync: Sync = "replace",
    digests: _native.Algorithm | None = None,
    progress: Shown = False,
) -> None:
    """Writes a file that holds these tensors; see `serialize`. It takes the place of an older one when it is complete.

    The memory that each `TensorSpec` points to has to be valid until the call returns. `sync` says when the bytes are made to
    survive a power cut: "replace" before an older file is replaced, "always", or "never". `digests` records those of the tensors.
    `progress` is called with the bytes done and in all, or shows a bar, when it is True and tqdm is installed.
    """
    from ..._progress import shown  # which takes longer to import than this

    declared = entries(tensor_dict)
    path = file_path(filename)
    try:
        with shown(progress, path) as advance:
            _native.serialize_file(declared, path, checked(metadata), sync=sync, digests=digests, progress=advance)
    except Error as error:
        writing_failed(error)


def serialize_model(
    tensor_dict: dict[str, TensorSpec],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None,
    max_shard_size: int | str,
    progress: Shown = False,
) -> None:
    """Writes these tensors to as many files as the limit asks for, and their index."""
    from ..._options import size_of  # which take longer to import than this
    from ..._progress import shown

    limit = size_of(max_shard_size)
    declared = entries(tensor_dict)
    path = file_path(filename)
    try:
        with shown(progress, path) as advance:
            _native.serialize_model(declared, path, checked(metadata), max_shard_size=limit, progress=advance)
    except Error as error:
        writing_failed(error)


def deserialize(bytes: bytes) -> list[tuple[str, DeserializedTensor]]:  # noqa: A002  the reference's name
    """The tensors of a file that is in memory, each with a copy of its bytes."""
    return contents(bytes, open_bytes(bytes).infos())


def contents(
    data: bytes, infos: Iterable[tuple[str, str, tuple[int, ...], int, int]]
) -> list[tuple[str, DeserializedTensor]]:
    """Tensors of a file that is in memory, as `Model.infos` has them, each with a copy of its bytes."""
    found: list[tuple[str, DeserializedTensor]] = []
    view = memoryview(data)
    for name, dtype, shape, offset, size in infos:
        copy = bytearray(view[offset : offset + size])
        found.append((name, {"shape": list(shape), "dtype": dtype, "data": copy}))
    return found


def open_bytes(data: object) -> _native.Model:
    """A file that is in memory, as a model."""
    try:
        return _native.Model.open(as_bytes(data), format="safetensors")
    except Error as error:
        reading_failed(error, "deserializing")


def as_bytes(data: object) -> memoryview:
    """The argument `bytes` of deserialize."""
    if not isinstance(data, bytes):
        raise wrong_type("bytes", data, "bytes")
    return memoryview(data)


def entries(tensor_dict: Mapping[str, TensorSpec] | Mapping[str, Described]) -> list[_native.Entry]:
    """What the extension writes of them."""
    if not isinstance(tensor_dict, dict):
        raise wrong_type("tensor_dict", tensor_dict, "dict")
    found: list[_native.Entry] = []
    for name, spec in tensor_dict.items():
        as_text("tensor_dict", name)
        if isinstance(spec, dict) and spec.keys() >= {"dtype", "shape", "data"}:
            found.append((name, *described(spec)))
        elif isinstance(spec, TensorSpec):
            found.append((name, spec._dtype, spec._shape, (spec._data_ptr, spec._data_len)))
        else:
            raise wrong_type("tensor_dict", spec, "TensorSpec")
    return found


def described(tensor: Mapping[str, Any]) -> tuple[str, list[int], bytes]:
    """A tensor as a dict, {"dtype": "float32", "shape": [2, 3], "data": bytes}: its dtype and shape in files, and its bytes."""
    shape, dtype, data = (_item(tensor, key) for key in ("shape", "dtype", "data"))
    name = as_text("dtype", dtype)
    if not isinstance(data, bytes):
        raise wrong_type("data", data, "bytes")
    if name not in FORMAT:
        raise SafetensorError(f"dtype {name} is not covered")
    lengths = lengths_of(shape)
    return FORMAT[name], _in_elements(lengths) if is_packed(FORMAT[name]) else lengths, data


def _item(tensor: Mapping[str, Any], key: str) -> Any:
    try:
        return tensor[key]
    except KeyError:
        raise SafetensorError(f"Missing `{key}` in {tensor}") from None


def checked(metadata: object) -> dict[str, str] | None:
    """The argument `metadata`."""
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        raise wrong_type("metadata", metadata, "dict")
    for text in (*metadata, *metadata.values()):
        as_text("metadata", text)
    return metadata


def _unsigned(argument: str | None, value: object) -> int:
    """An integer of 64 bits without a sign."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise TypeError(f"argument '{argument}': {error}") from None
    number.to_bytes(8, "little")  # an OverflowError says what is wrong
    return number


def lengths_of(shape: Sequence[int]) -> list[int]:
    """The argument `shape`."""
    if isinstance(shape, str):
        raise TypeError("argument 'shape': Can't extract `str` to `Vec`")
    if not hasattr(shape, "__getitem__") or isinstance(shape, dict):
        raise wrong_type("shape", shape, "Sequence")
    return [_unsigned("shape", length) for length in shape]


def _in_elements(lengths: list[int]) -> list[int]:
    """The shape in elements of one in pairs."""
    if not lengths:
        return lengths
    if lengths[-1] >= 2**63:
        raise SafetensorError(f"F4 last-dim {lengths[-1]} doubled to logical shape overflows usize")
    return [*lengths[:-1], 2 * lengths[-1]]
