# SPDX-License-Identifier: Apache-2.0
"""Arrow IPC files and tensors, out of FlatBuffers written by hand, that lie."""

import struct

ENDING = "arrow"


class FlatNumber:
    def __init__(self, width, value):
        self.bytes = (value % 2 ** (8 * width)).to_bytes(width, "little")


class FlatStruct(FlatNumber):
    def __init__(self, *numbers):
        self.bytes = b"".join((n % 2**64).to_bytes(8, "little") for n in numbers)


def flat_put(out, value):
    """Appends a table (a dict by slots), a vector (a list of tables, of structs, or a text), and gives its place."""
    out += bytes(-len(out) % 8)
    if isinstance(value, str | bytes):
        value = value.encode() if isinstance(value, str) else value
        at = len(out)
        out += struct.pack("<I", len(value)) + value + b"\0"
        return at
    if isinstance(value, list):
        out += bytes(4)
        at = len(out)
        out += struct.pack("<I", len(value))
        fields = []
        for item in value:
            fields.append(len(out))
            out += item.bytes if isinstance(item, FlatNumber) else bytes(4)
        for field, item in zip(fields, value):
            if not isinstance(item, FlatNumber):
                out[field:field + 4] = struct.pack("<I", flat_put(out, item) - field)
        return at
    slots = max(value, default=-1) + 1
    vtable = len(out)
    out += bytes(4 + 2 * slots)
    out += bytes(-len(out) % 8)
    at = len(out)
    out += struct.pack("<i", at - vtable) + bytes(4)
    fields = {}
    for slot, item in value.items():
        out += bytes(-len(out) % 8)
        fields[slot] = len(out)
        out += item.bytes if isinstance(item, FlatNumber) else bytes(4)
    out[vtable:vtable + 4 + 2 * slots] = struct.pack(f"<{2 + slots}H", 4 + 2 * slots, len(out) - at, *(fields[i] - at if i in fields else 0 for i in range(slots)))
    for slot, item in value.items():
        if not isinstance(item, FlatNumber):
            out[fields[slot]:fields[slot] + 4] = struct.pack("<I", flat_put(out, item) - fields[slot])
    return at


def flat_of(table):
    out = bytearray(8)
    out[:4] = struct.pack("<I", flat_put(out, table))
    return bytes(out + bytes(-len(out) % 8))


def arrow_message(kind, header, body=b"", size=None):
    head = flat_of({0: FlatNumber(2, 4), 1: FlatNumber(1, kind), 2: header, 3: FlatNumber(8, len(body) if size is None else size)})
    return b"\xff\xff\xff\xff" + struct.pack("<I", len(head)) + head + body


FLOAT = {0: FlatNumber(2, 1)}


def arrow_tensor(sizes=(3, 2), strides=None, kind=3, of=None, data=(0, 24), body=bytes(24), size=None, **more):
    tensor_of = {0: FlatNumber(1, kind), 1: FLOAT if of is None else of, 2: [{0: FlatNumber(8, n)} for n in sizes], 4: FlatStruct(*data)}
    if strides is not None:
        tensor_of[3] = [FlatNumber(8, n) for n in strides]
    return arrow_message(4, tensor_of, body, size)


def arrow_field(called="w", kind=3, of=None, **more):
    return {0: called, 2: FlatNumber(1, kind), 3: FLOAT if of is None else of} | {int(slot[1:]): value for slot, value in more.items()}


def arrow_list(size=2, kind=3, **more):
    return arrow_field("w", 16, {0: FlatNumber(4, size)}, _5=[arrow_field("item", kind, **more)])


def arrow_batch(rows=3, nodes=((3, 0), (6, 0)), buffers=((0, 0), (0, 0), (0, 24)), body=bytes(24), **more):
    return arrow_message(3, {0: FlatNumber(8, rows), 1: [FlatStruct(*n) for n in nodes], 2: [FlatStruct(*b) for b in buffers]} |
                         {int(slot[1:]): value for slot, value in more.items()}, body)


def arrow_file(fields=None, batches=None, blocks=None, schema=None, footer_size=None, order=0):
    out, places = b"ARROW1\0\0", []
    for batch in [arrow_batch()] if batches is None else batches:
        places.append(len(out))
        out += batch
    table = {0: FlatNumber(2, order), 1: [arrow_list()] if fields is None else fields} if schema is None else schema
    footer = flat_of({0: FlatNumber(2, 4), 1: table, 3: [FlatStruct(at, 0, 0) for at in (places if blocks is None else blocks)]})
    return out + footer + struct.pack("<I", len(footer) if footer_size is None else footer_size) + b"ARROW1"


def good_files():
    yield "good-tensor", arrow_tensor()
    yield "good-strides", arrow_tensor(strides=(4, 12))
    yield "good-file", arrow_file()
    yield "good-swapped", arrow_file(order=1)
    yield "good-batches", arrow_file(batches=[arrow_batch(), arrow_batch(0, ((0, 0), (0, 0))), arrow_batch()])


def attacks():
    tensor_, file_ = arrow_tensor(), arrow_file()
    for called, good in (("tensor", tensor_), ("file", file_)):
        for cut in range(9, len(good) - 1, 23):
            yield f"{called}-cut-{cut:03}", good[:cut]
        yield f"{called}-more", good + bytes(8)
    yield "tensor-sizes-wrap", arrow_tensor((2**62, 4))
    yield "tensor-size-negative", arrow_tensor((-3, -2))
    yield "tensor-65", arrow_tensor((1,) * 65)
    yield "tensor-few-bytes", arrow_tensor(data=(0, 20))
    yield "tensor-data-beyond", arrow_tensor(data=(8, 24))
    yield "tensor-data-2^64", arrow_tensor(data=(2**64 - 8, 24))
    yield "tensor-body-beyond", arrow_tensor(size=2**62)
    yield "tensor-strides-few", arrow_tensor(strides=(8,))
    yield "tensor-strides-beyond", arrow_tensor(strides=(16, 4))
    yield "tensor-strides-negative", arrow_tensor(strides=(-8, 4))
    yield "tensor-expanded", arrow_tensor((2**20, 2**10), (0, 0))
    yield "tensor-int-24", arrow_tensor(kind=2, of={0: FlatNumber(4, 24)})
    yield "tensor-of-text", arrow_tensor(kind=5)
    yield "tensor-of-99", arrow_tensor(kind=99)
    yield "tensor-sparse", arrow_message(5, {0: FLOAT})
    yield "stream", arrow_message(1, {1: [arrow_field()]}) + arrow_batch()
    yield "message-2^31", b"\xff\xff\xff\xff" + struct.pack("<I", 2**31 - 8) + tensor_[8:]
    yield "root-beyond", tensor_[:8] + struct.pack("<I", len(tensor_) - 48) + tensor_[12:]
    yield "root-itself", tensor_[:8] + struct.pack("<I", 4) + tensor_[12:]
    yield "footer-2^31", arrow_file(footer_size=2**31)
    yield "footer-0", arrow_file(footer_size=0)
    yield "footer-small", arrow_file(footer_size=8)
    yield "no-schema", arrow_file(schema=FlatNumber(4, 2**31))
    yield "blocks-beyond", arrow_file(blocks=[2**63])
    yield "blocks-twice", arrow_file(blocks=[8, 8])
    yield "blocks-of-no-batch", arrow_file(blocks=[16])
    yield "blocks-many", arrow_file(blocks=[8] * 5000)
    yield "batch-of-tensor", arrow_file(batches=[arrow_tensor()])
    yield "compressed", arrow_file(batches=[arrow_batch(_3={0: FlatNumber(1, 0)})])
    yield "nodes-few", arrow_file(batches=[arrow_batch(nodes=((3, 0),))])
    yield "nodes-length", arrow_file(batches=[arrow_batch(nodes=((3, 0), (5, 0)))])
    yield "nodes-2^63", arrow_file(batches=[arrow_batch(2**63, ((2**63, 0), (0, 0)))])
    yield "nodes-wrap", arrow_file(batches=[arrow_batch(2**62, ((2**62, 0), (2**63, 0)))])
    yield "missing", arrow_file(batches=[arrow_batch(nodes=((3, 0), (6, 1)))])
    yield "buffers-few", arrow_file(batches=[arrow_batch(buffers=((0, 0), (0, 0)))])
    yield "buffer-short", arrow_file(batches=[arrow_batch(buffers=((0, 0), (0, 0), (0, 20)))])
    yield "buffer-beyond", arrow_file(batches=[arrow_batch(buffers=((0, 0), (0, 0), (8, 24)))])
    yield "buffer-negative", arrow_file(batches=[arrow_batch(buffers=((0, 0), (0, 0), (-8, 24)))])
    yield "names-twice", arrow_file([arrow_field(), arrow_field()], [arrow_batch(3, ((3, 0),) * 2, ((0, 0), (0, 12)) * 2)])
    yield "name-no-utf-8", arrow_file([arrow_field(b"\xff\xfe")], [arrow_batch(6, ((6, 0),), ((0, 0), (0, 24)))])
    yield "struct", arrow_file([arrow_field(kind=13, _5=[arrow_field()])])
    yield "list-of-lists", arrow_file([arrow_list(kind=16)])
    yield "list-without-child", arrow_file([arrow_field(kind=16, of={0: FlatNumber(4, 2)})])
    yield "list-size-negative", arrow_file([arrow_list(-1)])
    yield "bits", arrow_file([arrow_field(kind=6)], [arrow_batch(6, ((6, 0),), ((0, 0), (0, 24)))])
    yield "dictionary", arrow_file([arrow_field(_4={})], [arrow_batch(6, ((6, 0),), ((0, 0), (0, 24)))])


# What refusals say.
SENTENCES = {
    "tensor-cut-078": "reaches past the end", "tensor-more": "no message where one begins",
    "tensor-sizes-wrap": "fewer bytes than its sizes", "tensor-size-negative": "below 0", "tensor-data-beyond": "not in the body",
    "tensor-strides-few": "another number of strides", "tensor-strides-beyond": "does not lie within its storage",
    "tensor-expanded": "too much to write", "tensor-of-text": "an Arrow tensor of text", "tensor-sparse": "that is sparse",
    "stream": "an Arrow stream", "message-2^31": "larger than 16 MiB", "footer-2^31": "does not end with a footer",
    "no-schema": "has no schema", "blocks-twice": "not in order", "blocks-many": "more batches than the file",
    "batch-of-tensor": "no record batch", "compressed": "are compressed", "nodes-length": "another length than the batch",
    "missing": "some of which are missing", "buffer-short": "shorter than its column",
    "buffer-negative": "not in the body of its batch", "struct": "is of structures", "list-of-lists": "is of lists of one length",
    "bits": "single bits", "dictionary": "a dictionary's values",
}
