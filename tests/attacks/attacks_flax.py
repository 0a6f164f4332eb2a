# SPDX-License-Identifier: Apache-2.0
"""Files of flax, MessagePack, that lie."""

import struct
from dataclasses import dataclass


def msg(value):
    """MessagePack of texts, bytes, numbers, lists, and of maps, which may be tuples of pairs, so that keys may repeat."""
    if isinstance(value, Raw):
        return value.bytes
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return bytes([value]) if 0 <= value < 128 else b"\xd3" + struct.pack(">q", value)
    if isinstance(value, str):
        body = value.encode("utf-8", "surrogatepass")
        return (bytes([0xa0 | len(body)]) if len(body) < 32 else b"\xdb" + struct.pack(">I", len(body))) + body
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, list):
        return bytes([0x90 | len(value)]) + b"".join(map(msg, value))
    pairs = list(value.items()) if isinstance(value, dict) else list(value)
    head = bytes([0x80 | len(pairs)]) if len(pairs) < 16 else b"\xde" + struct.pack(">H", len(pairs))
    return head + b"".join(msg(key) + msg(item) for key, item in pairs)


@dataclass
class Raw:
    bytes: bytes


def flax_extension(body, kind=1, size=None):
    return Raw(b"\xc9" + struct.pack(">I", len(body) if size is None else size) + bytes([kind]) + body)


def flax_array(shape=(3, 2), dtype="float32", data=bytes(24), kind=1):
    return flax_extension(msg([Raw(msg(list(shape))) if isinstance(shape, tuple) else shape, dtype, data]), kind)


def flax_chunked(shape=None, chunks=None, **more):
    half = flax_array((3,), data=bytes(12))
    return {"__msgpack_chunked_array__": True, "shape": {"0": 3, "1": 2} if shape is None else shape,
            "chunks": {"0": half, "1": half} if chunks is None else chunks, **more}


def flax_file(value=None):
    return msg({"w": flax_array()} if value is None else value)


def flax_attacks():
    good = flax_file()
    half = flax_array((3,), data=bytes(12))
    whole = msg([[3, 2], "float32", bytes(24)])
    for cut in range(0, len(good), 5):
        yield f"cut-{cut:02}", good[:cut]
    yield "more", good + b"\xc0"
    yield "empty", b""
    yield "no-map", msg([1, 2, 3])
    yield "reserved-byte", msg({"w": Raw(b"\xc1")})
    yield "map-2^32", b"\xdf\xff\xff\xff\xff" + good[1:]
    yield "map-more", b"\x82" + good[1:]
    yield "list-2^32", b"\x81\xa1w\xdd\xff\xff\xff\xff" + bytes(64)
    yield "depth", b"\x81\xa1w" * 5000 + flax_array().bytes
    yield "depth-of-lists", b"\x81\xa1w" + b"\x91" * 100000 + flax_array().bytes
    yield "key-number", msg(((7, flax_array()),))
    yield "key-bytes-no-utf-8", msg(((b"\xff\xfe", flax_array()),))
    yield "key-no-utf-8", b"\x81\xa2\xff\xfe" + flax_array().bytes
    yield "key-long", msg((("k" * 9000, flax_array()),))
    yield "key-nil", msg(((None, flax_array()),))
    yield "key-twice", msg((("w", flax_array()), ("w", flax_array()),))
    yield "key-twice-of-maps", msg((("a", {"w": flax_array()}), ("a", {"x": flax_array()}),))
    yield "name-twice", msg((("a.b", flax_array()), ("a", {"b": flax_array()}),))
    yield "name-reserved", msg({"__metadata__": flax_array()})
    yield "extension-long", msg({"w": flax_extension(whole, size=len(whole) + 1)})
    yield "extension-short", msg({"w": flax_extension(whole, size=len(whole) - 1), "x": 1})
    yield "extension-2^32", msg({"w": flax_extension(whole, size=2**32 - 1)})
    yield "extension-rest", msg({"w": flax_extension(whole + b"\xc0")})
    yield "extension-empty", msg({"w": flax_extension(b"")})
    yield "extension-other", msg({"x": flax_array(), "y": flax_extension(whole, kind=77)})
    yield "array-of-two", msg({"w": flax_extension(msg([[3, 2], "float32"]))})
    yield "array-of-four", msg({"w": flax_extension(msg([[3, 2], "float32", bytes(24), 1]))})
    yield "array-bytes-beyond", msg({"w": flax_extension(msg([[3, 2], "float32"])[:1].replace(b"\x92", b"\x93")
                                                         + msg([3, 2]) + msg("float32") + b"\xc6\0\0\1\0" + bytes(24))})
    yield "array-text", msg({"w": flax_array(data="x" * 24)})
    yield "shape-few", msg({"w": flax_array((3, 1))})
    yield "shape-many", msg({"w": flax_array((3, 3))})
    yield "shape-negative", msg({"w": flax_array((-3, -2))})
    yield "shape-wraps", msg({"w": flax_array((2**62, 4), data=b"")})
    yield "shape-text", msg({"w": flax_array(("3", 2))})
    yield "shape-no-list", msg({"w": flax_array(6)})
    yield "rank-65", msg({"w": flax_extension(b"\x93\xdc\0\x41" + b"\1" * 65 + msg("float32") + msg(bytes(4)))})
    yield "dtype-number", msg({"w": flax_array(dtype=7)})
    yield "dtype-unknown", msg({"w": flax_array(dtype="float7")})
    yield "dtype-complex128", msg({"w": flax_array((1,), "complex128", bytes(16))})
    yield "dtype-float4", msg({"w": flax_array((24,), "float4_e2m1fn")})
    yield "chunks-gap", msg({"w": flax_chunked(chunks={"0": half, "2": half})})
    yield "chunks-order", msg({"w": flax_chunked(chunks={"1": half, "0": half})})
    yield "chunks-twice", msg({"w": flax_chunked(chunks=(("0", half), ("0", half)))})
    yield "chunks-few", msg({"w": flax_chunked(chunks={"0": half})})
    yield "chunks-none", msg({"w": flax_chunked(chunks={})})
    yield "chunks-dtypes", msg({"w": flax_chunked(chunks={"0": half, "1": flax_array((3,), "int32", bytes(12))})})
    yield "chunks-rank", msg({"w": flax_chunked(chunks={"0": half, "1": flax_array((3, 1), data=bytes(12))})})
    yield "chunks-no-array", msg({"w": flax_chunked(chunks={"0": half, "1": bytes(12)})})
    yield "chunks-scalar", msg({"w": flax_chunked(chunks={"0": half, "1": flax_array((3,), data=bytes(12), kind=3)})})
    yield "chunked-false", msg({"w": flax_chunked() | {"__msgpack_chunked_array__": False}})
    yield "chunked-more", msg({"w": flax_chunked(more=1)})
    yield "chunked-alone", msg({"w": {"__msgpack_chunked_array__": True}})
    yield "chunked-shape", msg({"w": flax_chunked(shape={"0": 3, "1": 3})})
    yield "chunked-shape-gap", msg({"w": flax_chunked(shape={"0": 3, "2": 2})})
    yield "chunked-shape-negative", msg({"w": flax_chunked(shape={"0": -3, "1": -2})})
    yield "chunked-shape-wraps", msg({"w": flax_chunked(shape={"0": 2**62, "1": 4})})
