#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes checkpoints of distributed trainings, right ones and ones that contradict themselves. Each is a dict: name of a file → bytes.

The pickles are written by hand, by the functions of pickles_by_hand.py, and need no torch.
"""

import itertools
import json
import struct

from pickles_by_hand import call, dict_of, name, storage, stream, tensor, text, tuple_of
from pickles_by_hand import number as number_of_nine_bytes
from zips_by_hand import Archive, Member


def number(value):
    """As pickle writes whole numbers; those of pickles_by_hand.py have a byte more than there is room for."""
    return b"\x8a\x08" + value.to_bytes(8, "little", signed=True) if abs(value) >= 2**31 else number_of_nine_bytes(value)


METADATA = "torch.distributed.checkpoint.metadata"
FILESYSTEM = "torch.distributed.checkpoint.filesystem"


def new(module, kind, state):
    """An object of a class, which is given a state."""
    return name(module, kind) + b")\x81" + state + b"b"


def attributes(**values):
    return dict_of(*((text(key), value) for key, value in values.items()))


def list_of(*items):
    return b"](" + b"".join(items) + b"e"


def size_of(sizes):
    return call(name("torch", "Size"), tuple_of(*map(number, sizes)))


# ---- torch.distributed.checkpoint ---------------------------------------------------------------------------------------


def floats(starts, sizes, shape):
    """The elements of a box of a tensor whose elements are 0, 1, 2, ….: bytes of F32."""
    values = []
    for index in itertools.product(*(range(start, start + size) for start, size in zip(starts, sizes, strict=False))):
        place = 0
        for at, of in zip(index, shape, strict=False):
            place = place * of + at
        values.append(float(place))
    return struct.pack(f"<{len(values)}f", *values)


def steps_of(sizes):
    steps = []
    step = 1
    for size in reversed(sizes):
        steps.insert(0, step)
        step *= size
    return steps


def part_archive(starts, sizes, shape, pickle=None, data=None):
    """What torch.save writes of one part."""
    data = floats(starts, sizes, shape) if data is None else data
    value = tensor(sizes, steps_of(sizes), 0, storage(count=len(data) // 4)) if pickle is None else pickle
    return Archive([Member(b"archive/data.pkl", stream(value)), Member(b"archive/byteorder", b"little"),
                    Member(b"archive/data/0", data), Member(b"archive/version", b"3\n")]).bytes()


def part_safetensors(starts, sizes, shape, *, called="w", dtype="F32", stated=None, more=b""):
    """What torch writes of one process's parts with SerializationFormat.SAFETENSORS."""
    data = floats(starts, sizes, shape)
    header = json.dumps({"__metadata__": {"DCP_VERSION": "1.0"},
                         called: {"dtype": dtype, "shape": list(stated or sizes), "data_offsets": [0, len(data)]}}).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data + more


def chunk(starts, sizes):
    return new(METADATA, "ChunkStorageMetadata", attributes(offsets=size_of(starts), sizes=size_of(sizes)))


def stored(shape, chunks, dtype=None):
    properties = new(METADATA, "TensorProperties", tuple_of(name("torch", "float32") if dtype is None else dtype))
    return new(METADATA, "TensorStorageMetadata",
               attributes(properties=properties, size=size_of(shape), chunks=list_of(*chunks)))


def index_of(called, starts):
    return new(METADATA, "MetadataIndex", attributes(fqn=text(called), offset=size_of(starts), index=number(0)))


def place_of(path, offset, length, **more):
    return new(FILESYSTEM, "_StorageInfo",
               attributes(relative_path=text(path), offset=number(offset), length=number(length), **more))


GRID = tuple(((row, column), (2, 3)) for row in (0, 2) for column in (0, 3))


def checkpoint(parts=GRID, shape=(4, 6), *, drop=(), double=(), swap=None, archive=part_archive, where=None, root=None, stored_as=None,
               more=()):
    """A tensor "w" of F32, in parts (starts, sizes), which lie in two files in turn. `where` replaces what is said of the place of part
    0."""
    files = {"__0_0.distcp": b"", "__1_0.distcp": b""}
    places = []
    for i, (starts, sizes) in enumerate(parts):
        path = f"__{i % 2}_0.distcp"
        bytes_ = archive(starts, sizes, shape)
        place = place_of(path, len(files[path]), len(bytes_))
        if i == 0 and where is not None:
            place = where(path, len(files[path]), len(bytes_))
        if i not in drop:
            places.append((index_of("w", starts), place))
        files[path] += bytes_
    tensors = dict_of((text("w"), stored(shape, [chunk(*part) for part in parts]) if stored_as is None else stored_as), *more)
    value = new(METADATA, "Metadata", attributes(state_dict_metadata=tensors, planner_data=b"N", storage_data=dict_of(*places)))
    return {".metadata": stream(value if root is None else root, 2)} | files


ROWS = (((0, 0), (2, 6)), ((2, 0), (2, 6)))
COLUMNS = (((0, 0), (4, 2)), ((0, 2), (4, 4)))


def safetensors(parts=ROWS, where=None, **fields):
    """As torch has them: a place is that of the file."""
    return checkpoint(parts, where=where, archive=lambda *box: part_safetensors(*box, **fields))


def shifted(part, starts=None, sizes=None):
    """The grid with another part."""
    return tuple((starts or each[0], sizes or each[1]) if i == part else each for i, each in enumerate(GRID))


def dcp_attacks():
    """(name, files, status, what the message says)."""
    other = b"\x80\x02}."
    beyond = (2**62).to_bytes(9, "little")
    yield "gap", checkpoint(GRID[:3]), "VIEW", "leave a gap: none has the element at [2, 3]"
    yield "no-parts", checkpoint(()), "VIEW", 'no part of tensor "w" is there'
    yield "overlap", checkpoint(shifted(3, starts=(2, 2))), "VIEW", "that begin at [2, 0] and [2, 2] overlap"
    yield "twice", checkpoint((*GRID[:3], GRID[2])), "VIEW", ""
    yield "whole-and-part", checkpoint((((0, 0), (4, 6)), GRID[3])), "VIEW", "one part"
    yield "outside", checkpoint(shifted(3, starts=(3, 3))), "VIEW", "does not lie within it"
    yield "far-outside", checkpoint(shifted(3, starts=(2**63 - 1, 3))), "VIEW", ""
    yield "no-place", checkpoint(drop=(2,)), "VIEW", 'no file has the part of tensor "w" that begins at [2, 0]'
    yield "negative-start", checkpoint(shifted(3, starts=(-1, 3))), "PICKLE", "neither offsets nor sizes"
    yield "other-rank", checkpoint(shifted(3, starts=(0, 2, 3))), "PICKLE", "neither offsets nor sizes"
    yield "huge-shape", checkpoint((((0, 0), (1, 1)),), (2**40, 2**40)), "VIEW", "multiply to more than 2^64-1"
    yield "rank-65", checkpoint((((0,) * 65, (1,) * 65),), (1,) * 65), "PICKLE", ""
    for called, path in (("parent", "../__0_0.distcp"), ("absolute", "/etc/passwd"), ("empty-name", "a//__0_0.distcp"), ("up-again", "a/../__0_0.distcp"), ("empty", ""),
                         ("nul", "a\0b"), ("escaped", "%2e%2e")):
        yield f"path-{called}", checkpoint(where=lambda _, offset, size, path=path: place_of(path, offset, size)), "SHARD_NAME", ""
    for called, path in (("missing", "no.distcp"), ("folder", "a/__0_0.distcp")):
        yield f"path-{called}", checkpoint(where=lambda _, offset, size, path=path: place_of(path, offset, size)), "SHARD_MISSING", ""
    yield "file-cut", checkpoint() | {"__1_0.distcp": checkpoint()["__1_0.distcp"][:-9]}, "DAMAGED", "beyond the end of its file"
    for called, offset, length in (("offset", 2**62, None), ("length", None, 2**62), ("wraps", 2**63 - 1, 2**63 - 1), ("zero", None, 0)):
        def where(path, at, size, offset=offset, length=length):
            return place_of(path, at if offset is None else offset, size if length is None else length)
        yield f"place-{called}", checkpoint(where=where), "DAMAGED", ""
    yield "place-shifted", checkpoint(where=lambda path, at, size: place_of(path, at + 1, size)), "DAMAGED", ""
    yield "place-of-another", checkpoint((((0, 0), (2, 6)), ((2, 0), (2, 6))),
                                         where=lambda path, at, size: place_of("__1_0.distcp", at, size)), None, ""
    yield "place-negative", checkpoint(where=lambda path, at, size: place_of(path, -1, size)), "PICKLE", "a place in it"
    yield "place-huge", checkpoint(where=lambda path, at, size: new(FILESYSTEM, "_StorageInfo", attributes(
        relative_path=text(path), offset=b"\x8a\x09" + beyond, length=number(size)))), "PICKLE", "a place in it"
    yield "transformed", checkpoint(where=lambda path, at, size: place_of(path, at, size, transform_descriptors=list_of(text("zstd")))), \
        "UNSUPPORTED", 'by the extension "zstd"'
    yield "not-transformed", checkpoint(where=lambda path, at, size: place_of(path, at, size, transform_descriptors=b"N")), None, ""
    yield "other-size", checkpoint(archive=lambda starts, sizes, shape: part_archive(starts, (3, 2), shape)), "DAMAGED", \
        "not of the dtype or the size"
    double = tensor((2, 3), (3, 1), 0, storage(count=6, kind="DoubleStorage"))
    yield "other-dtype", checkpoint(archive=lambda *box: part_archive(*box, pickle=double, data=bytes(48))), "DAMAGED", \
        "not of the dtype or the size"
    yield "short-storage", checkpoint(archive=lambda *box: part_archive(*box, data=bytes(20))), "VIEW", ""
    gaps = tensor((2, 3), (4, 1), 0, storage(count=8))
    yield "gaps", checkpoint(archive=lambda *box: part_archive(*box, pickle=gaps, data=bytes(32))), "UNSUPPORTED", "has gaps"
    yield "no-tensor", checkpoint(archive=lambda *box: part_archive(*box, pickle=b"K\x01")), "PICKLE", "something else than a tensor"
    yield "dict", checkpoint(archive=lambda *box: part_archive(*box, pickle=dict_of((text("w"), tensor())), data=bytes(16))), "PICKLE", ""
    yield "no-archive", checkpoint(archive=lambda *box: bytes(500)), "DAMAGED", ""
    yield "other-class", {".metadata": stream(new(METADATA, "StorageMeta", attributes()))}, "PICKLE", "of another class"
    yield "no-dicts", checkpoint(root=new(METADATA, "Metadata", attributes())), "PICKLE", "no dict of tensors"
    yield "no-places", checkpoint(root=new(METADATA, "Metadata", attributes(state_dict_metadata=dict_of()))), "PICKLE", "where the parts"
    yield "no-state", checkpoint(root=name(METADATA, "Metadata") + b")\x81"), "PICKLE", ""
    yield "no-dtype", checkpoint(stored_as=stored((4, 6), [chunk(*part) for part in GRID], name("torch", "device"))), "PICKLE", "dtype"
    yield "chunks-no-list", checkpoint(stored_as=new(METADATA, "TensorStorageMetadata", attributes(
        properties=new(METADATA, "TensorProperties", tuple_of(name("torch", "float32"))), size=size_of((4, 6)), chunks=b"N"))), "PICKLE", ""
    yield "no-properties", checkpoint(stored_as=new(METADATA, "TensorStorageMetadata", attributes(
        size=size_of((4, 6)), chunks=list_of(*(chunk(*part) for part in GRID))))), "PICKLE", "dtype"
    yield "no-index", checkpoint(stored_as=stored((4, 6), [b"N"])), "PICKLE", "neither offsets nor sizes"
    yield "name-no-text", checkpoint(more=((number(1), stored((), [])),)), "PICKLE", "without a name"
    yield "safetensors-other-name", safetensors(called="v"), "VIEW", "none of that name"
    yield "safetensors-one-file", safetensors(where=lambda path, at, size: place_of("__1_0.distcp", 0, 48)), "VIEW", "only one of that name"
    yield "safetensors-other-shape", safetensors(stated=(1, 12)), "DAMAGED", "not of the dtype or the size"
    yield "safetensors-other-rank", safetensors(stated=(12,)), "DAMAGED", "not of the dtype or the size"
    yield "safetensors-other-dtype", safetensors(dtype="I32"), "DAMAGED", "not of the dtype or the size"
    yield "safetensors-shape-lies", safetensors(stated=(2**32, 2**32)), "OVERFLOW", ""
    yield "safetensors-and-more", safetensors(more=b"more"), "TRAILING_BYTES", ""
    yield "safetensors-cut", checkpoint(ROWS, archive=lambda *box: part_safetensors(*box)[:-1]), "DATA_TRUNCATED", ""
    yield "safetensors-header-beyond", checkpoint(ROWS, archive=lambda *box: struct.pack("<Q", 2**40) + b"{" + bytes(99)), "HEADER_TOO_LARGE", ""
    yield "nothing", checkpoint(root=new(METADATA, "Metadata", attributes(state_dict_metadata=dict_of(), storage_data=dict_of()))), \
        "ROOT", "no tensors"
    yield "lacking", checkpoint(stored_as=stored((4, 6), [chunk(*part) for part in GRID], name("torch", "complex32"))), "NO_EQUIVALENT", ""
    yield "name-reserved", checkpoint(more=((text("__metadata__"), stored((0,), [])),)), "NAME", ""
    yield "name-not-utf8", checkpoint(more=((text("\ud800"), stored((0,), [])),)), "NAME", ""
    yield "damaged", {".metadata": checkpoint()[".metadata"][:-40]}, "PICKLE", ""
    yield "other-pickle", {".metadata": other}, "ROOT", ""


def dcp_good():
    """(name, files): each is "w", [4, 6] of F32, whose elements are 0, 1, 2, …."""
    yield "safetensors", safetensors()
    yield "safetensors-columns", safetensors(COLUMNS)
    yield "grid", checkpoint()
    yield "rows", checkpoint(tuple(((row, 0), (1, 6)) for row in range(4)))
    yield "columns", checkpoint((((0, 0), (4, 1)), ((0, 1), (4, 4)), ((0, 5), (4, 1))))
    yield "one", checkpoint((((0, 0), (4, 6)),))
    yield "uneven", checkpoint((((0, 0), (3, 2)), ((3, 0), (1, 6)), ((0, 2), (3, 4))))
    yield "with-empty-parts", checkpoint((*GRID, ((4, 0), (0, 6)), ((4, 0), (0, 6))))
