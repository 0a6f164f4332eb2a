# SPDX-License-Identifier: Apache-2.0
"""GGUF files that lie."""

import struct
from dataclasses import dataclass


GGUF_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
GGUF_TEXT, GGUF_ARRAY = 8, 9


def gguf_text(value, order="<", size=None):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack(order + "Q", len(value) if size is None else size) + value


def gguf_value(kind, value, order="<"):
    """A value without its type. Of an array: (type of the elements, list)."""
    if kind == GGUF_TEXT:
        return gguf_text(value, order)
    if kind == GGUF_ARRAY:
        of, values = value
        return struct.pack(order + "IQ", of, len(values)) + b"".join(gguf_value(of, v, order) for v in values)
    return struct.pack(order + GGUF_FORMATS[kind], value)


def gguf_key(key, kind, value, order="<"):
    body = value if isinstance(value, bytes) and kind != GGUF_TEXT else gguf_value(kind, value, order)
    return gguf_text(key, order) + struct.pack(order + "I", kind) + body


@dataclass
class GgufTensor:
    """A tensor as GGUF describes it: the innermost dimension first. Without an offset it follows the one before it."""

    name: str | bytes
    dimensions: tuple
    kind: int
    data: bytes
    offset: int | None = None
    rank: int | None = None


def gguf_file(keys=(), tensors=(), order="<", version=3, alignment=32, counts=None, gap=0):
    """keys are (key, type, value); counts says other numbers of tensors and keys than there are."""
    infos, data = b"", b""
    for t in tensors:
        data += bytes(-len(data) % alignment + gap)
        offset = len(data) if t.offset is None else t.offset
        infos += gguf_text(t.name, order) + struct.pack(order + "I", len(t.dimensions) if t.rank is None else t.rank)
        infos += b"".join(struct.pack(order + "Q", d) for d in t.dimensions) + struct.pack(order + "IQ", t.kind, offset)
        data += t.data
    told = (len(tensors), len(keys)) if counts is None else counts
    head = b"GGUF" + struct.pack(order + "IQQ", version, *told)
    head += b"".join(gguf_key(*key, order=order) for key in keys) + infos
    return head + bytes(-len(head) % alignment) + data


GGUF_KEYS = (("general.architecture", GGUF_TEXT, "test"), ("test.count", 4, 7))


def gguf_good(**fields):
    tensor_fields = {"name": "w", "dimensions": (3, 2), "kind": 0, "data": bytes(24)} | fields
    return gguf_file(GGUF_KEYS, [GgufTensor(**tensor_fields)])


def gguf_two(second):
    return gguf_file(GGUF_KEYS, [GgufTensor("w", (3, 2), 0, bytes(24)), GgufTensor("x", (3, 2), 0, bytes(24), second)])


def gguf_keys(*keys):
    return gguf_file((*GGUF_KEYS, *keys), [GgufTensor("w", (3, 2), 0, bytes(24))])


def gguf_attacks():
    good = gguf_good()
    for size in range(4, len(good)):
        yield f"cut-{size:04}", good[:size]
    for version in (0, 1, 4, 0x20000000):
        yield f"version-{version:x}", gguf_file(GGUF_KEYS, version=version)
    for called, counts in (("tensors", (1 << 40, 2)), ("tensors-2^64", (2**64 - 1, 2)), ("keys", (1, 1 << 40)), ("keys-2^64", (1, 2**64 - 1)),
                           ("tensors-more", (3, 2)), ("keys-more", (1, 3))):
        yield f"count-{called}", gguf_file(GGUF_KEYS, [GgufTensor("w", (3, 2), 0, bytes(24))], counts=counts)
    for called, dimensions in (("2^32", (1 << 32, 1 << 32)), ("2^63", (1 << 63, 2)), ("wraps-to-6", (2**64 - 1, 2**64 - 6)),
                               ("beyond", (3, 3)), ("size-wraps", (1 << 62, 2)), ("zero-and-huge", (2**64 - 1, 2**64 - 1, 0))):
        yield f"dimensions-{called}", gguf_good(dimensions=dimensions)
    yield "rank-5", gguf_good(dimensions=(3, 2, 1, 1, 1))
    yield "rank-2^31", gguf_good(rank=1 << 31)
    for alignment in (0, 3, 48, 1 << 21, 1 << 31):
        yield f"alignment-{alignment}", gguf_keys(("general.alignment", 4, alignment))
    yield "alignment-text", gguf_keys(("general.alignment", GGUF_TEXT, "32"))
    yield "alignment-negative", gguf_keys(("general.alignment", 5, -32))
    yield "overlap", gguf_two(0)
    for called, offset in (("unaligned", 33), ("beyond", 1 << 20), ("2^64", 2**64 - 32), ("at-the-end", 64)):
        yield f"offset-{called}", gguf_two(offset)
    for called, kind in (("removed", 4), ("of-programs", 9), ("unknown", 43), ("2^32", 2**32 - 1), ("blocks", 12)):
        yield f"type-{called}", gguf_good(kind=kind)
    for size in (66, 142):
        yield f"type-of-a-fork-{size}", gguf_file(GGUF_KEYS, [GgufTensor("w", (64, 1), 42, bytes(size)), GgufTensor("x", (2,), 0, bytes(8))])
    yield "rows-not-blocks", gguf_good(kind=2, data=bytes(18), dimensions=(16, 2))
    yield "name-twice", gguf_file(GGUF_KEYS, [GgufTensor("w", (2,), 0, bytes(8)), GgufTensor("w", (2,), 0, bytes(8))])
    yield "name-no-utf-8", gguf_good(name=b"w\xff")
    yield "name-metadata", gguf_good(name="__metadata__")
    yield "key-twice", gguf_keys(("a", 4, 1), ("a", 4, 2))
    yield "key-no-utf-8", gguf_keys((b"\xff", 4, 1))
    yield "key-many-times", gguf_keys(*[("a", 0, 1)] * 20000)
    yield "key-tensors", gguf_keys(("tensors", GGUF_TEXT, "{}"))
    for called, size in (("2^63", 1 << 63), ("2^64", 2**64 - 1), ("beyond", 1 << 20)):
        empty = gguf_key("a", GGUF_TEXT, "")
        yield f"text-{called}", gguf_keys(("a", GGUF_TEXT, "")).replace(empty, empty[:-8] + struct.pack("<Q", size))
        yield f"key-{called}", gguf_keys().replace(gguf_text("test.count"), gguf_text("test.count", size=size))
        yield f"array-{called}", gguf_keys(("a", GGUF_ARRAY, struct.pack("<IQ", 12, size)))
        yield f"texts-{called}", gguf_keys(("a", GGUF_ARRAY, struct.pack("<IQ", 8, size)))
    yield "array-of-arrays", gguf_keys(("a", GGUF_ARRAY, struct.pack("<IQ", 9, 1) + struct.pack("<IQB", 0, 1, 1)))
    yield "array-of-13", gguf_keys(("a", GGUF_ARRAY, struct.pack("<IQ", 13, 1) + b"\0"))
    yield "value-of-13", gguf_keys(("a", 13, b"\0"))
