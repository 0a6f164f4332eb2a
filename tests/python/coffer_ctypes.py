# SPDX-License-Identifier: Apache-2.0
"""The part of include/coffer/*.h that the tests use, by ctypes, and thin Python around it.

The shared library is the one that COFFER_LIB names. Constants are read from the headers, so that they are written once.
"""

import ctypes
import os
import pathlib
import re
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import NamedTuple, Optional

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = "".join(path.read_text() for path in sorted(ROOT.glob("include/coffer/*.h")))


def _enum(prefix):
    return {name: int(value) for name, value in re.findall(r"\b%s([A-Z0-9_]+) = (\d+)" % prefix, HEADER)}


CODES = {"OK": 0, "NEED_MORE": 1} | {"ERR_" + name: value for name, value in _enum("COFFER_ERR_").items()}
CODE_NAMES = {value: name.removeprefix("ERR_") for name, value in CODES.items()}
NOTES = _enum("COFFER_NOTE_")
FORMATS = _enum("COFFER_FORMAT_")
_DTYPE_ENUM = HEADER.partition("typedef enum coffer_dtype {")[2].partition("}")[0]
DTYPES = {name: int(value) for name, value in re.findall(r"\bCOFFER_([A-Z0-9_]+) = ([1-9]\d*)", _DTYPE_ENUM)}


# ---- The structs ---------------------------------------------------------------------------------------------------


class Error(ctypes.Structure):
    _fields_ = [
        ("code", c_int), ("os_error", c_int32), ("http_status", c_int32), ("reserved_32", c_uint32),
        ("offset", c_uint64), ("expected", c_uint64), ("actual", c_uint64),
        ("message", c_char * 384), ("path", c_char * 512), ("tensor", c_char * 160), ("reserved", c_uint64 * 8),
    ]  # fmt: skip


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", c_void_p), ("shape", POINTER(c_uint64)), ("offset", c_uint64), ("size", c_uint64),
        ("name_len", c_uint32), ("rank", c_uint32), ("dtype", c_int), ("shard", c_uint32),
    ]  # fmt: skip


class Pair(ctypes.Structure):
    _fields_ = [("key", c_void_p), ("value", c_void_p), ("key_len", c_size_t), ("value_len", c_size_t)]


class Note(ctypes.Structure):
    _fields_ = [("count", c_uint64), ("offset", c_uint64)]


class ParseOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("file_size", c_uint64), ("max_header_size", c_uint64),
        ("all_notes", c_bool), ("unknown_dtypes", c_bool), ("hidden_bytes", c_bool), ("format", c_int),
    ]  # fmt: skip


class OpenOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("allocator", c_void_p), ("max_header_size", c_uint64), ("access", c_int),
        ("populate", c_bool), ("all_notes", c_bool), ("unknown_dtypes", c_bool), ("hidden_bytes", c_bool),
        ("format", c_int), ("verify", c_int), ("select", c_void_p), ("select_count", c_size_t), ("token", c_char_p),
        ("timeout_ms", c_uint32), ("to_fetch", c_bool), ("partial", c_bool),
    ]  # fmt: skip


class HeaderOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("alignment", c_uint64), ("slack", c_uint64), ("max_header_size", c_uint64),
        ("format", c_int), ("empty_metadata", c_bool),
    ]  # fmt: skip


class ModelWriterOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("max_shard_size", c_uint64), ("balanced", c_bool), ("force", c_bool),
        ("files", c_void_p),
    ]  # fmt: skip


# ---- The functions -------------------------------------------------------------------------------------------------


def _load():
    path = os.environ.get("COFFER_LIB")
    if not path:
        raise RuntimeError("COFFER_LIB must name the shared library to test")
    return ctypes.CDLL(path)


def _declare(lib, name, result, *arguments):
    function = getattr(lib, name)
    function.restype = result
    function.argtypes = arguments
    return function


LIB = _load()
_libc_allocator = _declare(LIB, "coffer_libc_allocator", c_void_p)
_dtype_name = _declare(LIB, "coffer_tensor_dtype_name", c_char_p, POINTER(Tensor))
_parse = _declare(LIB, "coffer_parse", c_int, POINTER(c_void_p), POINTER(c_uint64), c_char_p, c_size_t, c_void_p,
                  POINTER(ParseOptions), POINTER(Error))  # fmt: skip
_table_free = _declare(LIB, "coffer_table_free", None, c_void_p)
_count = _declare(LIB, "coffer_count", c_size_t, c_void_p)
_table_count = _declare(LIB, "coffer_table_count", c_size_t, c_void_p)
_table_at = _declare(LIB, "coffer_table_at", POINTER(Tensor), c_void_p, c_size_t)
_table_format = _declare(LIB, "coffer_table_format", c_int, c_void_p)
_table_has_metadata = _declare(LIB, "coffer_table_has_metadata", c_bool, c_void_p)
_table_metadata_count = _declare(LIB, "coffer_table_metadata_count", c_size_t, c_void_p)
_table_metadata_at = _declare(LIB, "coffer_table_metadata_at", c_bool, c_void_p, c_size_t, POINTER(Pair))
_table_note = _declare(LIB, "coffer_table_note", Note, c_void_p, c_int)
_open = _declare(LIB, "coffer_open", c_int, POINTER(c_void_p), c_char_p, POINTER(OpenOptions), POINTER(Error))
_close = _declare(LIB, "coffer_close", None, c_void_p)
_shard_table = _declare(LIB, "coffer_shard_table", c_void_p, c_void_p, c_size_t)
_read = _declare(LIB, "coffer_read", c_int, c_void_p, POINTER(Tensor), c_void_p, c_uint64, c_void_p, POINTER(Error))
_header_new = _declare(LIB, "coffer_header_new", c_int, POINTER(c_void_p), c_void_p, POINTER(Error))
_header_free = _declare(LIB, "coffer_header_free", None, c_void_p)
_header_add = _declare(LIB, "coffer_header_add", c_int, c_void_p, c_char_p, c_size_t, c_int, POINTER(c_uint64),
                       c_size_t, POINTER(Error))  # fmt: skip
_header_set_metadata = _declare(LIB, "coffer_header_set_metadata", c_int, c_void_p, c_char_p, c_size_t, c_char_p,
                                c_size_t, POINTER(Error))  # fmt: skip
_header_build = _declare(LIB, "coffer_header_build", c_int, c_void_p, POINTER(HeaderOptions), POINTER(c_void_p),
                         POINTER(c_uint64), POINTER(c_void_p), POINTER(Error))  # fmt: skip
_header_at = _declare(LIB, "coffer_header_at", POINTER(Tensor), c_void_p, c_size_t)
_model_writer_open = _declare(LIB, "coffer_model_writer_open", c_int, POINTER(c_void_p), c_void_p, c_char_p,
                              POINTER(ModelWriterOptions), POINTER(Error))  # fmt: skip
_model_writer_shard_of = _declare(LIB, "coffer_model_writer_shard_of", c_size_t, c_void_p, c_size_t)
_model_writer_write = _declare(LIB, "coffer_model_writer_write", c_int, c_void_p, c_size_t, c_uint64, c_char_p, c_uint64,
                               POINTER(Error))  # fmt: skip
_model_writer_finish = _declare(LIB, "coffer_model_writer_finish", c_int, c_void_p, POINTER(Error))
_model_writer_free = _declare(LIB, "coffer_model_writer_free", None, c_void_p)

ALLOCATOR = _libc_allocator()


# ---- In Python -----------------------------------------------------------------------------------------------------


class TensorInfo(NamedTuple):
    name: str
    dtype: str
    shape: list
    offset: int
    size: int


class Verdict(NamedTuple):
    """What the library says of a file: its code's name, and what the header states or where and why it is refused."""

    code: str
    offset: int = 0
    message: str = ""
    tensors: Optional[list] = None  # of TensorInfo, in order of offset
    metadata: Optional[dict] = None
    notes: Optional[dict] = None  # kind: first position, of those seen
    format: Optional[int] = None
    has_metadata: Optional[bool] = None

    @property
    def accepted(self):
        return self.code == "OK"


def _tensor_info(tensor):
    return TensorInfo(
        ctypes.string_at(tensor.name, tensor.name_len).decode(),
        _dtype_name(byref(tensor)).decode(),
        tensor.shape[: tensor.rank],
        tensor.offset,
        tensor.size,
    )


def _metadata(table):
    pair, metadata = Pair(), {}
    for i in range(_table_metadata_count(table)):
        _table_metadata_at(table, i, byref(pair))
        key = ctypes.string_at(pair.key, pair.key_len).decode()
        metadata[key] = ctypes.string_at(pair.value, pair.value_len).decode()
    return metadata


def _verdict(status, err, table):
    if status != 0:
        return Verdict(CODE_NAMES[status], err.offset, err.message.decode())
    notes = {}
    for name, kind in NOTES.items():
        note = _table_note(table, kind)
        if note.count:
            notes[name] = note.offset
    tensors = [_tensor_info(_table_at(table, i).contents) for i in range(_table_count(table))]
    said = _table_format(table), _table_has_metadata(table)
    return Verdict("OK", 0, "", tensors, _metadata(table), notes, *said)


def parse(content, all_notes=False, unknown_dtypes=False, hidden_bytes=False, format="ANY"):
    """coffer_parse of a whole file."""
    table, err = c_void_p(), Error()
    flags = all_notes, unknown_dtypes, hidden_bytes
    options = ParseOptions(ctypes.sizeof(ParseOptions), len(content), 0, *flags, FORMATS[format])
    status = _parse(byref(table), None, content, len(content), ALLOCATOR, byref(options), byref(err))
    verdict = _verdict(status, err, table)
    _table_free(table)
    return verdict


def open_and_read(path, access=0):
    """coffer_open of a file, then coffer_read of every tensor: the verdict and the tensors' bytes by name."""
    model, err = c_void_p(), Error()
    options = OpenOptions(ctypes.sizeof(OpenOptions), None, 0, access)
    status = _open(byref(model), os.fsencode(path), byref(options), byref(err))
    table = _shard_table(model, 0) if status == 0 else None
    verdict = _verdict(status, err, table)
    data = {}
    for i, tensor in enumerate(verdict.tensors or []):
        buffer = ctypes.create_string_buffer(max(tensor.size, 1))
        status = _read(model, _table_at(table, i), buffer, tensor.size, None, byref(err))
        if status != 0:
            raise RuntimeError("coffer_read: " + err.message.decode())
        data[tensor.name] = buffer.raw[: tensor.size]
    _close(model)
    return verdict, data


def _check(status, err):
    if status != 0:
        raise ValueError("%s: %s" % (CODE_NAMES[status], err.message.decode()))


def _declare_all(header, tensors, metadata, err):
    """Makes a header of (name, dtype, shape, bytes)."""
    _check(_header_new(byref(header), ALLOCATOR, byref(err)), err)
    for name, dtype, shape, _ in tensors:
        name, dims = name.encode(), (c_uint64 * len(shape))(*shape)
        _check(_header_add(header, name, len(name), DTYPES[dtype], dims, len(shape), byref(err)), err)
    for key, value in (metadata or {}).items():
        key, value = key.encode(), value.encode()
        _check(_header_set_metadata(header, key, len(key), value, len(value), byref(err)), err)


def save_model(path, tensors, metadata=None, max_shard_size=0, balanced=False, write=True):
    """Writes a model of (name, dtype, shape, bytes), by coffer_model_writer; returns the number of each tensor's file."""
    options = ModelWriterOptions(ctypes.sizeof(ModelWriterOptions), max_shard_size, balanced, False, None)
    header, writer, err = c_void_p(), c_void_p(), Error()
    try:
        _declare_all(header, tensors, metadata, err)
        _check(_model_writer_open(byref(writer), header, os.fsencode(path), byref(options), byref(err)), err)
        for i, (_, _, _, body) in enumerate(tensors if write else []):
            _check(_model_writer_write(writer, i, 0, body, len(body), byref(err)), err)
        if write:
            _check(_model_writer_finish(writer, byref(err)), err)
        return [_model_writer_shard_of(writer, i) for i in range(len(tensors))]
    finally:
        _model_writer_free(writer)
        _header_free(header)


def serialize(tensors, metadata=None, format="SAFETENSORS", empty_metadata=False):
    """A whole file of (name, dtype, shape, bytes): the header by coffer_header_build, the bodies where it says."""
    options = HeaderOptions(ctypes.sizeof(HeaderOptions), 0, 0, 0, FORMATS[format], empty_metadata)
    header, err = c_void_p(), Error()
    bytes_at, size = c_void_p(), c_uint64()
    try:
        _declare_all(header, tensors, metadata, err)
        _check(_header_build(header, byref(options), byref(bytes_at), byref(size), None, byref(err)), err)
        content = bytearray(ctypes.string_at(bytes_at, size.value))
        for i, (_, _, _, body) in enumerate(tensors):
            tensor = _header_at(header, i).contents
            assert tensor.size == len(body)
            content.extend(bytes(max(0, tensor.offset + tensor.size - len(content))))
            content[tensor.offset : tensor.offset + tensor.size] = body
        return bytes(content)
    finally:
        _header_free(header)
