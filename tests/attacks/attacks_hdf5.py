# SPDX-License-Identifier: Apache-2.0
"""Files of Keras, HDF5, that lie."""

import struct


HDF5_NONE = 2**64 - 1
HDF5_F32 = struct.pack("<B3sIHHBBBBI", 0x11, bytes([0x20, 0x1f, 0]), 4, 0, 32, 23, 8, 0, 23, 127)


def hdf5_space(*sizes):
    return struct.pack("<BBB5x", 1, len(sizes), 0) + struct.pack(f"<{len(sizes)}Q", *sizes)


def hdf5_message(kind, data, flags=0):
    data += bytes(-len(data) % 8)
    return struct.pack("<HHB3x", kind, len(data), flags) + data


def hdf5_header(*messages):
    body = b"".join(messages)
    return struct.pack("<BxHII4x", 1, len(messages), 1, len(body)) + body


def hdf5_texts(name, *texts):
    """An attribute: a list of texts of one length."""
    size = max([len(text) for text in texts] + [1])
    parts = [name.encode() + b"\0", struct.pack("<BBBBI", 0x13, 0, 0, 0, size), hdf5_space(len(texts))]
    return hdf5_message(12, struct.pack("<BxHHH", 1, *map(len, parts)) + b"".join(part + bytes(-len(part) % 8) for part in parts)
                        + b"".join(text.encode().ljust(size, b"\0") for text in texts))


def hdf5_dataset(sizes=(3, 2), kind=HDF5_F32, address=0, size=None, layout=None, more=()):
    size = 24 if size is None else size
    layout = struct.pack("<BBQQ", 3, 1, address, size) if layout is None else layout
    return hdf5_header(hdf5_message(1, hdf5_space(*sizes)), hdf5_message(3, kind), hdf5_message(8, layout), *more)


class Hdf5:
    """A file with one group of datasets. `data`: where the first one's bytes are; `at`: where each part is."""

    def __init__(self, *entries, root=(), level=0, kinds=(), data=bytes(24)):
        """entries: name and a function from the address of its bytes to a header; those of data follow each other."""
        self.at = {"root": 96}
        names, offsets = b"\0" * 8, []
        for name, _ in entries:
            offsets.append(len(names))
            names += name + bytes(8 - len(name) % 8)
        root_size = len(hdf5_header(hdf5_message(17, bytes(16)), *root))
        self.at["tree"] = 96 + root_size
        self.at["heap"] = self.at["tree"] + 48
        self.at["names"] = self.at["heap"] + 32
        self.at["snod"] = self.at["names"] + len(names)
        self.at["data"] = self.at["snod"] + 8 + 40 * len(entries)
        self.at["objects"] = self.at["data"] + len(data) * len(entries)
        objects, addresses = b"", []
        for i, (_, make) in enumerate(entries):
            addresses.append(self.at["objects"] + len(objects))
            objects += make(self.at["data"] + i * len(data)) if callable(make) else make
        self.at["end"] = self.at["objects"] + len(objects)
        snod = b"SNOD" + struct.pack("<BxH", 1, len(entries))
        for i, offset in enumerate(offsets):
            snod += struct.pack("<QQII16x", offset, addresses[i], kinds[i] if kinds else 0, 0)
        self.bytes = bytearray(
            b"\x89HDF\r\n\x1a\n" + bytes([0, 0, 0, 0, 0, 8, 8, 0]) + struct.pack("<HHI", 4, 16, 0) + struct.pack("<QQQQ", 0, HDF5_NONE, self.at["end"], HDF5_NONE)
            + struct.pack("<QQII16x", 0, 96, 0, 0)
            + hdf5_header(hdf5_message(17, struct.pack("<QQ", self.at["tree"], self.at["heap"])), *root)
            + b"TREE" + struct.pack("<BBHQQQQQ", 0, level, 1, HDF5_NONE, HDF5_NONE, 0, self.at["snod"], 8)
            + b"HEAP" + struct.pack("<B3xQQQ", 0, len(names), 1, self.at["names"]) + names + snod + data * len(entries) + objects)

    def patched(self, part, offset, form, *values):
        out = bytearray(self.bytes)
        struct.pack_into("<" + form, out, self.at[part] + offset, *values)
        return bytes(out)


def hdf5_one(called=b"w", root=(), kinds=(), address=None, **fields):
    return Hdf5((called, lambda at: hdf5_dataset(address=at if address is None else address, **fields)), root=root, kinds=kinds)


def hdf5_two(first=b"a", second=b"b"):
    return Hdf5((first, lambda at: hdf5_dataset(address=at)), (second, lambda at: hdf5_dataset(address=at)))


def hdf5_chunked(kind=3, filters=b"", **fields):
    layout = struct.pack("<BBBQIII", kind, 2, 3, HDF5_NONE, 2, 2, 4)
    return hdf5_one(layout=layout, more=(hdf5_message(11, filters),) if filters else (), **fields)


def hdf5_filter(number):
    return struct.pack("<BB6xHHHHI4x", 1, 1, number, 0, 0, 1, 1)


def hdf5_tree(chunks, sizes=(3, 2), chunk=(2, 2), filters=b"", level=0, entries=None, data=b"", kind=1):
    """A dataset with a tree of chunks: for each its stored bytes, its mask, its first indices, and where it is after the tree."""
    begin = hdf5_one().at["data"]
    tree = b"TREE" + struct.pack("<BBHQQ", kind, level, len(chunks) if entries is None else entries, HDF5_NONE, HDF5_NONE)
    size = len(tree) + 40 * len(chunks) + 32
    for stored, mask, indices, at in chunks:
        tree += struct.pack("<IIQQQQ", stored, mask, *indices, 0, (begin + size + at) % 2**64)
    tree = tree.ljust(size, b"\0") + (data or bytes(64))
    layout = struct.pack("<BBBQIII", 3, 2, 3, begin, *chunk, 4)
    return bytes(Hdf5((b"w", lambda at: hdf5_dataset(sizes=sizes, layout=layout, more=(hdf5_message(11, filters),) if filters else ())), data=tree).bytes)


HDF5_CHUNKS = ((16, 0, (0, 0), 0), (16, 0, (2, 0), 16))


def hdf5_chunk_attacks():
    first, second = HDF5_CHUNKS
    yield "missing", hdf5_tree((first,))
    yield "order", hdf5_tree((second, first))
    yield "twice", hdf5_tree((first, first))
    yield "more", hdf5_tree((*HDF5_CHUNKS, (16, 0, (4, 0), 32)))
    yield "overlap", hdf5_tree((first, (16, 0, (2, 0), 8)))
    yield "beyond", hdf5_tree((first, (16, 0, (2, 0), 2**40)))
    yield "address-wraps", hdf5_tree((first, (16, 0, (2, 0), 2**64 - 1000)))
    yield "short", hdf5_tree((first, (15, 0, (2, 0), 16)))
    yield "long", hdf5_tree((first, (2**32 - 1, 0, (2, 0), 16)))
    yield "level-1", hdf5_tree(HDF5_CHUNKS, level=1)
    yield "level-255", hdf5_tree(HDF5_CHUNKS, level=255)
    yield "of-group", hdf5_tree(HDF5_CHUNKS, kind=0)
    yield "entries", hdf5_tree(HDF5_CHUNKS, entries=65535)
    yield "size-0", hdf5_tree(HDF5_CHUNKS, chunk=(0, 2))
    yield "size-2^32", hdf5_tree(HDF5_CHUNKS, chunk=(2**32 - 1, 2**32 - 1))
    yield "size-large", hdf5_tree(HDF5_CHUNKS, chunk=(2**20, 2**20))
    yield "many", hdf5_tree(HDF5_CHUNKS, sizes=(2**40, 2**10), chunk=(1, 1))
    yield "cycle", hdf5_tree(((16, 0, (0, 0), -136), (16, 0, (2, 0), -136)), level=1)
    yield "bomb", hdf5_tree(((64, 0, (0, 0), 0),), sizes=(1024, 1024), chunk=(1024, 1024), filters=hdf5_filter(1))


def hdf5_attacks():
    good = hdf5_one()
    for cut in range(1, len(good.bytes), 61):
        yield f"cut-{cut:04}", bytes(good.bytes[:cut])
    for version in (1, 4, 255):
        yield f"superblock-{version}", bytes(good.bytes[:8]) + bytes([version]) + bytes(good.bytes[9:])
    yield "offsets-4", bytes(good.bytes[:13]) + b"\4" + bytes(good.bytes[14:])
    yield "base", good.patched("root", -96 + 24, "Q", 8)
    yield "end-beyond", good.patched("root", -96 + 40, "Q", len(good.bytes) + 1)
    for called, address in (("nowhere", HDF5_NONE), ("beyond", 2**63), ("end", len(good.bytes) - 3), ("data", good.at["data"])):
        yield f"root-{called}", good.patched("root", -32, "Q", address)
        yield f"tree-{called}", good.patched("root", 24, "Q", address)
        yield f"heap-{called}", good.patched("root", 32, "Q", address)
        yield f"node-{called}", good.patched("tree", 32, "Q", address)
        yield f"object-{called}", good.patched("snod", 16, "Q", address)
        yield f"names-{called}", good.patched("heap", 24, "Q", address)
        yield f"name-{called}", good.patched("snod", 8, "Q", address)
    yield "tree-entries", good.patched("tree", 6, "H", 65535)
    yield "tree-of-chunks", good.patched("tree", 4, "B", 1)
    yield "tree-cycle", good.patched("tree", 5, "B", 1)[:good.at["tree"] + 32] + struct.pack("<Q", good.at["tree"]) + bytes(good.bytes[good.at["tree"] + 40:])
    yield "tree-level-255", good.patched("tree", 5, "B", 255)
    yield "node-entries", good.patched("snod", 6, "H", 65535)
    yield "group-cycle", good.patched("snod", 16, "Q", good.at["root"])
    yield "heap-size", good.patched("heap", 8, "Q", 2**63)
    yield "soft-link", hdf5_one(kinds=(2,)).bytes
    for called, name in (("slash", b"a/b"), ("dot", b"."), ("parent", b".."), ("empty", b""), ("no-utf-8", b"\xff\xfe"), ("long", b"n" * 2000),
                         ("reserved", b"__metadata__")):
        yield f"called-{called}", hdf5_one(called=name).bytes
    yield "called-twice", hdf5_two(b"a", b"a").bytes
    yield "overlap", hdf5_two().patched("objects", 80, "Q", hdf5_two().at["data"] + 28)
    yield "same-bytes", Hdf5(*[(name, lambda at: hdf5_dataset(address=Hdf5((b"a", bytes), (b"b", bytes)).at["data"])) for name in (b"a", b"b")]).bytes
    for called, sizes in (("2^32", (2**32, 2**32)), ("wraps", (2**63, 2)), ("zero-and-huge", (0, 2**63, 2**63)), ("few", (2, 2)), ("many", (4, 2)), ("33", (1,) * 33)):
        yield f"sizes-{called}", hdf5_one(sizes=sizes).bytes
    for called, address in (("beyond", 2**63), ("end", 10**6), ("nowhere", HDF5_NONE)):
        yield f"address-{called}", hdf5_one(address=address).bytes
    yield "bytes-more", hdf5_one(size=2**63).bytes
    yield "compact-short", hdf5_one(layout=struct.pack("<BBH", 3, 0, 24) + bytes(8)).bytes
    yield "layout-2", hdf5_one(layout=struct.pack("<BBB5xQ", 2, 2, 1, 0)).bytes
    yield "virtual", hdf5_one(layout=struct.pack("<BBQI", 4, 3, 0, 0)).bytes
    yield "external", hdf5_one(more=(hdf5_message(7, struct.pack("<B3xHHQ", 1, 1, 1, 0)),)).bytes
    yield "chunks-v4", hdf5_chunked(4).bytes
    for number in (4, 5, 6, 32000, 32015):
        yield f"filter-{number}", hdf5_chunked(filters=hdf5_filter(number)).bytes
    yield "filters-many", hdf5_chunked(filters=struct.pack("<BB6x", 1, 255)).bytes
    yield "shared-type", Hdf5((b"w", lambda at: hdf5_header(hdf5_message(1, hdf5_space(3, 2)), hdf5_message(3, bytes(16), 2), hdf5_message(8, struct.pack("<BBQQ", 3, 1, at, 24))))).bytes
    yield "no-space", Hdf5((b"w", lambda at: hdf5_header(hdf5_message(3, HDF5_F32), hdf5_message(8, struct.pack("<BBQQ", 3, 1, at, 24))))).bytes
    yield "message-long", good.patched("objects", 16 + 2, "H", 65528)
    yield "header-long", good.patched("objects", 8, "I", 2**32 - 1)
    yield "dense-links", hdf5_one(root=(hdf5_message(2, struct.pack("<BBQQ", 0, 0, 96, 96)),)).bytes
    yield "dense-attributes", hdf5_one(root=(hdf5_message(21, struct.pack("<BBQQ", 0, 0, 96, 96)),)).bytes
    link = struct.pack("<BBBB", 1, 8, 64, 1) + b"l" + struct.pack("<H", 9) + b"\0/etc/f\0w"
    yield "external-link", hdf5_one(root=(hdf5_message(6, link),)).bytes
    yield "user-link", hdf5_one(root=(hdf5_message(6, struct.pack("<BBBB", 1, 8, 200, 1) + b"l"),)).bytes
    continued = hdf5_one(root=(hdf5_message(16, struct.pack("<QQ", 112, 64)),))
    yield "continued-in-itself", continued.bytes
    for called, kind in (("struct", struct.pack("<BBBBI", 0x16, 1, 0, 0, 4)), ("reference", struct.pack("<BBBBI", 0x17, 0, 0, 0, 8)), ("class-15", struct.pack("<BBBBI", 0x1f, 0, 0, 0, 4)),
                         ("version-0", b"\x01" + HDF5_F32[1:]), ("vax", HDF5_F32[:1] + b"\x41" + HDF5_F32[2:]), ("size-0", HDF5_F32[:4] + bytes(4) + HDF5_F32[8:]),
                         ("bits-31", HDF5_F32[:10] + b"\x1f" + HDF5_F32[11:]), ("cut", HDF5_F32[:9])):
        yield f"type-{called}", hdf5_one(kind=kind).bytes
    layers = hdf5_texts("layer_names", "l")
    yield "labels-missing", Hdf5((b"l", hdf5_header(hdf5_texts("weight_names", "x"))), root=(layers,)).bytes
    yield "labels-parent", Hdf5((b"l", hdf5_header(hdf5_texts("weight_names", "../w"))), (b"w", lambda at: hdf5_dataset(address=at)), root=(layers,)).bytes
    yield "labels-count", hdf5_one(root=(hdf5_texts("layer_names", "l").replace(hdf5_space(1), hdf5_space(2**32)),)).bytes
    yield "labels-numbers", hdf5_one(root=(hdf5_texts("layer_names", "l").replace(b"\x13\0\0\0\1\0\0\0", b"\x17\0\0\0\1\0\0\0"),)).bytes
    anywhere = hdf5_texts("layer_names", "x" * 16).replace(b"\x13\0\0\0\x10\0\0\0", b"\x19\1\0\0\x10\0\0\0")
    for called, address in (("nowhere", HDF5_NONE), ("data", 300), ("beyond", 2**63)):
        yield f"text-{called}", hdf5_one(root=(anywhere.replace(b"x" * 16, struct.pack("<IQI", 5, address, 1)),)).bytes
