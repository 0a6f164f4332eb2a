# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of TensorFlow that lie."""

import struct

from wire_by_hand import varint, wire


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(crc):
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def tf_block(entries, restarts=(0,), kind=0, crc=None, shared=None):
    """A block with its trailer. `shared`: what each entry says that it shares with the one before it."""
    body, before = b"", b""
    for i, (key, value) in enumerate(entries):
        same = 0
        while i % 16 and same < min(len(key), len(before)) and key[same] == before[same]:
            same += 1
        body += varint(same if shared is None or i == 0 else shared) + varint(len(key) - same) + varint(len(value)) + key[same:] + value
        before = key
    body += struct.pack(f"<{len(restarts)}I", *restarts) + struct.pack("<I", len(restarts)) + bytes([kind])
    return body + struct.pack("<I", masked(crc32c(body)) if crc is None else crc)


def tf_tensor(kind=1, sizes=(3, 2), size=24, offset=0, shard=0, crc=0, more=b""):
    shape = b"".join(wire(2, wire(1, d)) for d in sizes)
    return (wire(1, kind) + wire(2, shape) + (wire(3, shard) if shard else b"") + (wire(4, offset) if offset else b"") + (wire(5, size) if size else b"")
            + wire(6, struct.pack("<I", masked(crc)), 5) + more)


TF_HEAD = wire(1, 1) + wire(3, wire(1, 1))


def tf_index(*entries, head=TF_HEAD, handle=None, footer=None, **block):
    data = tf_block([*([(b"", head)] if head is not None else []), *entries], **block)
    empty = tf_block([])
    handle = varint(0) + varint(len(data) - 5) if handle is None else handle
    index = tf_block([(b"\xff", handle)])
    footer = varint(len(data)) + varint(len(empty) - 5) + varint(len(data) + len(empty)) + varint(len(index) - 5) if footer is None else footer
    return data + empty + index + footer.ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")


def tf_slices(*boxes):
    """The keys of boxes of w, whose numbers are below 64, and what its own entry says of them."""
    keys = [b"\0w\0\1\1" + bytes([len(box)]) + bytes(0x80 + n for extent in box for n in extent) for box in boxes]
    return keys, b"".join(wire(7, b"".join(wire(1, wire(1, begin) + wire(2, size)) for begin, size in box)) for box in boxes)


def tf_sliced(*boxes, whole=None, **fields):
    """w, of 3 x 2, in slices, of which the first is described otherwise."""
    keys, slices = tf_slices(*boxes)
    own = [tf_tensor(**{"sizes": [size for _, size in box], "size": 8, **(fields if i == 0 else {})}) for i, box in enumerate(boxes)]
    return tf_index(*sorted(dict(zip(keys, own, strict=True)).items()), (b"w", tf_tensor(size=0, more=slices, **(whole or {}))))


def tf_attacks():
    good = tf_index((b"w", tf_tensor()))
    for cut in range(1, 48, 9):
        yield f"cut-{cut:02}", good[cut:]
    yield "block-crc", tf_index((b"w", tf_tensor()), crc=5)
    yield "block-snappy", tf_index((b"w", tf_tensor()), kind=1)
    for called, handle in (("beyond", varint(2**40) + varint(5)), ("wraps", varint(2**64 - 1) + varint(2**64 - 1)), ("cut", b"\x80"), ("varint-11", b"\x80" * 10 + b"\1"),
                           ("huge", varint(0) + varint(2**63))):
        yield f"handle-{called}", tf_index((b"w", tf_tensor()), handle=handle)
        yield f"index-{called}", tf_index((b"w", tf_tensor()), footer=varint(0) + varint(0) + handle)
    yield "shared", tf_index((b"\0w", tf_tensor()), (b"\0x", tf_tensor()), shared=9)
    yield "order", tf_index((b"\0x", tf_tensor()), (b"\0w", tf_tensor()))
    yield "twice", tf_index((b"\0w", tf_tensor()), (b"\0w", tf_tensor()))
    for called, restarts in (("many", (0,) * 60), ("inside", (0, 3)), ("beyond", (0, 2**31)), ("none-at-0", (5,))):
        yield f"restarts-{called}", tf_index((b"\0w", tf_tensor()), restarts=restarts)
    yield "leveldb", tf_index((b"w", tf_tensor()), head=None)
    yield "version-1", tf_index((b"w", tf_tensor()), head=wire(1, wire(1, b"x")))
    yield "files-0", tf_index((b"w", tf_tensor()), head=wire(3, b""))
    yield "files-2^40", tf_index((b"w", tf_tensor()), head=wire(1, 2**40))
    yield "empty", tf_index(head=None)
    for called, fields in (("shard", {"shard": 7}), ("shard-negative", {"shard": -1}), ("size", {"size": 23}), ("sizes", {"sizes": (2**62, 8)}),
                           ("size-negative", {"sizes": (-1, 2)}), ("rank-65", {"sizes": (1,) * 65, "size": 4}), ("kind-0", {"kind": 0}),
                           ("kind-99", {"kind": 99}), ("kind-complex128", {"kind": 18, "size": 96}), ("kind-int4", {"kind": 29, "size": 6}),
                           ("offset", {"offset": 2**63}), ("size-twice", {"more": wire(5, 24)}), ("slice", {"more": wire(7, b"")}),
                           ("slices-none", {"size": 0, "more": wire(7, wire(1, b"")) * 3}), ("wire", {"more": b"\x0f"})):
        yield f"tensor-{called}", tf_index((b"w", tf_tensor(**fields)))
    rows = ((0, 1), (0, 2)), ((1, 2), (0, 2))
    for called, boxes, fields in (("beyond", (((0, 1), (1, 2)), rows[1]), {}), ("rank", (((0, 1),), rows[1]), {}), ("dtype", rows, {"kind": 3}),
                                  ("shape", rows, {"sizes": (2, 1)}), ("size", rows, {"size": 7}), ("twice", (rows[0], rows[0]), {}),
                                  ("sizes", rows, {"whole": {"sizes": (2**62, 8)}}), ("nothing", (((0, 0), (0, 2)),), {"size": 0})):
        yield f"sliced-{called}", tf_sliced(*boxes, **fields)
    yield "slice-missing", tf_index((b"w", tf_tensor(size=0, more=tf_slices(*rows)[1])))
    yield "slice-of-nothing", tf_index((b"\0w\0\1\1\1\x80\x80", tf_tensor()))
    yield "no-data", good
