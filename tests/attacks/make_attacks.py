#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes files that are meant to mislead, crash or fill a reader of checkpoints.

    tests/attacks/make_attacks.py FOLDER

Nothing in them does harm when it is run: what a loader would call is `print`, or would not be found. The tests make them in memory
(`attacks()`) and expect each to be refused, or reported as what it is.
"""

import pathlib
import struct
import sys
import zlib
from dataclasses import dataclass, field

# ---- pickles, written by hand -----------------------------------------------------------------------------------------


def text(value):
    value = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return b"X" + struct.pack("<I", len(value)) + value


def number(value):
    return b"\x8a\x09" + value.to_bytes(9, "little", signed=True) if abs(value) >= 2**31 else b"J" + struct.pack("<i", value)


def name(module, attribute):
    return b"c" + module.encode() + b"\n" + attribute.encode() + b"\n"


def tuple_of(*parts):
    return b"(" + b"".join(parts) + b"t"


def dict_of(*pairs):
    return b"}(" + b"".join(key + value for key, value in pairs) + b"u"


def call(function, *arguments):
    return function + tuple_of(*arguments) + b"R"


def storage(key="0", count=4, kind="FloatStorage", module="torch"):
    parts = [text("storage"), name(module, kind), text(key), text("cpu"), number(count)]
    return tuple_of(*parts) + b"Q"


def tensor(sizes=(2, 2), strides=(2, 1), offset=0, of=None):
    return call(name("torch._utils", "_rebuild_tensor_v2"), storage() if of is None else of, number(offset),
                tuple_of(*map(number, sizes)), tuple_of(*map(number, strides)), b"\x89",
                call(name("collections", "OrderedDict")))


def stream(body, protocol=2):
    return b"\x80" + bytes([protocol]) + body + b"."


def checkpoint(value=None):
    return stream(dict_of((text("w"), tensor() if value is None else value)))


# ---- archives, written by hand ----------------------------------------------------------------------------------------


@dataclass
class Member:
    """A member; what is None is as it has to be."""

    name: bytes
    data: bytes
    flags: int = 0x0800
    method: int = 0
    plain: bytes | None = None  # before it was compressed
    crc: int | None = None
    size: int | None = None
    stored: int | None = None
    local_name: bytes | None = None
    local_sizes: tuple | None = None  # CRC, stored size, size
    local_flags: int | None = None
    local_method: int | None = None
    local_extra: bytes = b""
    extra: bytes = b""
    offset: int | None = None
    disk: int = 0
    absent: bool = False  # only in the directory


@dataclass
class Archive:
    members: list
    before: bytes = b""
    behind: bytes = b""
    comment: bytes = b""
    count: int | None = None
    directory: int | None = None
    directory_size: int | None = None
    zip64: bytes = b""  # between directory and end
    disks: tuple = (0, 0)
    offsets: list = field(default_factory=list)

    def head(self, member):
        plain = member.data if member.plain is None else member.plain
        crc = zlib.crc32(plain) if member.crc is None else member.crc
        stored = len(member.data) if member.stored is None else member.stored
        size = len(plain) if member.size is None else member.size
        return crc, stored, size

    def local(self, member):
        crc, stored, size = self.head(member) if member.local_sizes is None else member.local_sizes
        called = member.name if member.local_name is None else member.local_name
        flags = member.flags if member.local_flags is None else member.local_flags
        method = member.method if member.local_method is None else member.local_method
        return struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, flags, method, 0, 0, crc, stored, size, len(called),
                           len(member.local_extra)) + called + member.local_extra + member.data

    def entry(self, member, offset):
        crc, stored, size = self.head(member)
        at = offset if member.offset is None else member.offset
        return struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, member.flags, member.method, 0, 0, crc, stored, size,
                           len(member.name), len(member.extra), 0, member.disk, 0, 0, at) + member.name + member.extra

    def bytes(self):
        out = bytearray(self.before)
        entries = b""
        for member in self.members:
            offset = len(out)
            out += b"" if member.absent else self.local(member)
            entries += self.entry(member, offset)
        at = len(out)
        out += entries + self.zip64
        count = len(self.members) if self.count is None else self.count
        out += struct.pack("<4sHHHHIIH", b"PK\5\6", *self.disks, count & 0xFFFF, count & 0xFFFF,
                           len(entries) if self.directory_size is None else self.directory_size,
                           at if self.directory is None else self.directory, len(self.comment)) + self.comment
        return bytes(out + self.behind)


DATA = struct.pack("<4f", 1, 2, 3, 4)


def members(pickle=None, data=DATA, **data_fields):
    return [Member(b"a/data.pkl", checkpoint() if pickle is None else pickle), Member(b"a/data/0", data, **data_fields),
            Member(b"a/version", b"3\n")]


def torch_file(pickle=None, **fields):
    """A checkpoint of torch, as torch itself would load it."""
    return Archive(members(pickle), **fields).bytes()


def changed(place, **fields):
    """A checkpoint of which one member is otherwise."""
    all_of_them = members()
    for key, value in fields.items():
        setattr(all_of_them[place], key, value)
    return Archive(all_of_them).bytes()


def added(*more, **fields):
    return Archive(members() + list(more), **fields).bytes()


def deflated(data, **fields):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return {"method": 8, "plain": data, "data": packer.compress(data) + packer.flush(), **fields}


def zip64_end(count, size, offset, record_at, disks=1, rest=44):
    return struct.pack("<4sQHHIIQQQQ", b"PK\6\6", rest, 45, 45, 0, 0, count, count, size, offset) + \
        struct.pack("<4sIQI", b"PK\6\7", 0, record_at, disks)


def two_ends():
    """Two directories, each right for its end record; the first is before the last one's comment."""
    inner = Archive([Member(b"a/data.pkl", checkpoint(), offset=None)]).bytes()
    outer = Archive([Member(b"b/data.pkl", stream(b"N"))], before=b"").bytes()
    return inner + outer[:-22] + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(outer) - 22 - outer.rindex(b"PK\1\2"),
                                             len(inner) + outer.rindex(b"PK\1\2"), 0)


def zip_attacks():
    plain = torch_file()
    directory_at = plain.rindex(b"PK\1\2a/data.pkl"[:4])
    yield "duplicate", added(Member(b"a/data.pkl", stream(b"N")))
    yield "case", added(Member(b"a/DATA.PKL", stream(b"N")))
    yield "local-name", changed(0, local_name=b"a/DATA.pkl")
    yield "local-name-longer", changed(0, local_name=b"a/data.pkl/x")
    yield "overlap", changed(1, offset=0)
    yield "same-place", changed(2, offset=0)
    yield "crc", changed(1, crc=7)
    yield "crc-of-pickle", changed(0, crc=7)
    yield "one-crc-0", changed(1, crc=0)
    for i, sizes in enumerate([(0, 16, 16), (7, 16, 16), (zlib.crc32(DATA), 15, 16), (zlib.crc32(DATA), 16, 17),
                               (zlib.crc32(DATA), 0, 0), (0, 0xFFFFFFFF, 0xFFFFFFFF), (0, 0, 16)]):
        yield f"local-sizes-{i}", changed(1, local_sizes=sizes)
    yield "local-zip64-lie", changed(1, local_sizes=(zlib.crc32(DATA), 0xFFFFFFFF, 0xFFFFFFFF),
                                     local_extra=struct.pack("<HHQQ", 1, 16, 17, 17))
    yield "zip64-cut", changed(1, size=0xFFFFFFFF, stored=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 8, 16))
    yield "zip64-none", changed(1, size=0xFFFFFFFF)
    yield "zip64-2^63", changed(1, size=0xFFFFFFFF, stored=0xFFFFFFFF, extra=struct.pack("<HHQQ", 1, 16, 2**63, 2**63))
    yield "zip64-2^64-1", changed(1, size=0xFFFFFFFF, stored=0xFFFFFFFF, extra=struct.pack("<HHQQ", 1, 16, 2**64 - 1, 2**64 - 1))
    yield "zip64-offset", changed(1, offset=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 8, 2**64 - 20))
    yield "zip64-twice", changed(1, extra=struct.pack("<HHQHHQ", 1, 8, 1, 1, 8, 2))
    yield "extra-cut", changed(1, extra=struct.pack("<HH", 7, 60000))
    yield "other-name", changed(0, extra=struct.pack("<HHBI", 0x7075, 15, 1, 0) + b"a/evil.pkl")
    yield "size", changed(1, size=17, stored=17)
    yield "stored-not-size", changed(1, size=17)
    yield "count-less", torch_file(count=2)
    yield "count-more", torch_file(count=4)
    yield "count-65535", torch_file(count=65535)
    yield "directory-before", torch_file(directory=0)
    yield "directory-beyond", torch_file(directory=2**31)
    yield "directory-size", torch_file(directory_size=10**6)
    yield "two-ends", two_ends()
    yield "end-in-comment", torch_file(comment=b"xx" + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0, 0, 0, 0, 0))
    yield "end-behind", torch_file(behind=struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 3, 3, 100, directory_at, 0))
    yield "comment-cut", torch_file()[:-2] + b"\xff\xff"
    yield "several-disks", torch_file(disks=(1, 1))
    yield "other-disk", changed(1, disk=1)
    yield "zip64-contradicts", torch_file(zip64=zip64_end(3, 1, 0, 0))
    for bit in (0x1, 0x20, 0x40, 0x2000):
        yield f"flag-{bit:x}", changed(1, flags=0x0800 | bit)
    for method in (1, 9, 12, 93, 95, 99):
        yield f"method-{method}", changed(1, method=method)
    yield "local-method", changed(1, local_method=8)
    yield "local-flags", changed(1, local_flags=0x0808)
    bomb = deflated(bytes(1 << 20))
    yield "bomb-1032", Archive([members()[0], Member(b"a/data/0", **bomb), members()[2]]).bytes()
    yield "bomb-beyond", Archive([members()[0], Member(b"a/data/0", **{**bomb, "size": 1 << 31}), members()[2]]).bytes()
    yield "bomb-pickle", Archive([Member(b"a/data.pkl", **deflated(b"\x80\2" + b"N0" * (1 << 20) + b".")), *members()[1:]]).bytes()
    yield "deflated-cut", Archive([Member(b"a/data.pkl", b"\xed", method=8, plain=checkpoint()), *members()[1:]]).bytes()
    yield "deflated-garbage", Archive([Member(b"a/data.pkl", b"\xff" * 90, method=8, plain=checkpoint()), *members()[1:]]).bytes()
    short = deflated(checkpoint())
    yield "deflated-short", Archive([Member(b"a/data.pkl", **{**short, "size": len(checkpoint()) + 1}), *members()[1:]]).bytes()
    yield "deflated-long", Archive([Member(b"a/data.pkl", **{**short, "size": len(checkpoint()) - 1}), *members()[1:]]).bytes()
    for i, called in enumerate([b"../x", b"a/../../x", b"/etc/x", b"a\\x", b"a/x\0y", b"", b".."]):
        yield f"name-{i}", added(Member(called, b"1"))
    yield "folder-with-bytes", added(Member(b"a/folder/", b"1"))
    yield "before", torch_file(before=b"MZ" * 10)
    yield "only-in-directory", added(Member(b"a/ghost", b"123", absent=True))
    yield "beyond", changed(1, offset=2**31)
    yield "no-storage", Archive([members()[0], members()[2]]).bytes()
    yield "short-storage", Archive(members(data=DATA[:-4])).bytes()
    yield "long-storage", Archive(members(data=DATA + b"1234")).bytes()
    yield "two-pickles", added(Member(b"b/data.pkl", checkpoint()))
    yield "empty", Archive([]).bytes()
    for cut in range(1, len(plain), 7):
        yield f"cut-{cut:04}", plain[:cut]


# ---- pickles ----------------------------------------------------------------------------------------------------------


def plain_pickle_attacks():
    """Streams that a loader would refuse, or that no program writes."""
    yield "empty", b""
    yield "only-proto", b"\x80\2"
    yield "proto-9", b"\x80\x09N."
    yield "no-stop", b"\x80\2N"
    yield "stop-on-empty", b"\x80\2."
    yield "mark-left", b"\x80\2(."
    for opcode in b"0123aestlud\x85\x86\x87\x81\x90\x91\x92\x93\x94RbQqr":
        argument = {ord("q"): b"\0", ord("r"): b"\0\0\0\0"}.get(opcode, b"")
        yield f"underflow-{opcode:02x}", b"\x80\4" + bytes([opcode]) + argument + b"."
        yield f"mark-below-{opcode:02x}", b"\x80\4N(" + bytes([opcode]) + argument + b"N0."
    yield "memo-missing", b"\x80\2h\7."
    yield "memo-huge-missing", b"\x80\2j\xff\xff\xff\xff."
    yield "text-2^63", b"\x80\4\x8d" + struct.pack("<Q", 2**63) + b"x."
    yield "text-2^64-1", b"\x80\4\x8d" + struct.pack("<Q", 2**64 - 1) + b"x."
    yield "bytes-2^32-1", b"\x80\4B" + struct.pack("<I", 2**32 - 1) + b"x."
    yield "bytearray-2^63", b"\x80\5\x96" + struct.pack("<Q", 2**63) + b"x."
    yield "long-2^31", b"\x80\2\x8b" + struct.pack("<I", 2**31) + b"x."
    yield "long-2^31-1", b"\x80\2\x8b" + struct.pack("<I", 2**31 - 1) + b"x."
    yield "string-negative", b"\x80\2T" + struct.pack("<i", -1) + b"x."
    yield "frame-past-end", b"\x80\4\x95" + struct.pack("<Q", 100) + b"N."
    yield "frame-2^64-1", b"\x80\4\x95" + struct.pack("<Q", 2**64 - 1) + b"N."
    yield "frame-nested", b"\x80\4\x95" + struct.pack("<Q", 11) + b"\x95" + struct.pack("<Q", 2) + b"N."
    yield "frame-crossed", b"\x80\4\x95" + struct.pack("<Q", 3) + b"X\3\0\0\0abc."
    yield "utf8", b"\x80\2X\1\0\0\0\xff."
    yield "ext1", b"\x80\2\x82\1."
    yield "ext2", b"\x80\2\x83\1\0."
    yield "ext4", b"\x80\2\x84\1\0\0\0."
    yield "buffer", b"\x80\5\x97."
    yield "readonly", b"\x80\5N\x98."
    yield "unknown-opcode", b"\x80\2\xff."
    yield "build-on-int", b"\x80\2K\1}b."
    yield "reduce-text", b"\x80\2" + text("os") + b")R."
    yield "reduce-none", b"\x80\2" + name("builtins", "print") + b"NR."
    yield "append-to-dict", b"\x80\2}K\1a."
    yield "items-to-tuple", b"\x80\2)K\1K\2s."
    yield "odd-dict", b"\x80\2}(K\1K\2K\3u."
    yield "global-nul", b"\x80\2cos\0x\nsystem\n."
    yield "global-not-utf8", b"\x80\2c\xff\nsystem\n."
    yield "global-long", b"\x80\2c" + b"a" * 70000 + b"\nx\n."
    yield "stack-global-bytes", b"\x80\4C\2osC\6system\x93."
    yield "stack-global-computed", b"\x80\4" + call(name("builtins", "str"), text("os")) + text("system") + b"\x93."
    yield "stack-global-nul", b"\x80\4" + text("os\0") + text("system") + b"\x93."
    yield "latin1-above-255", b"\x80\2" + call(name("_codecs", "encode"), text("Ā"), text("latin1")) + b"."
    yield "integer-words", b"Ione\n."
    yield "float-words", b"Fone\n."
    yield "put-negative", b"Np-1\n."
    yield "put-2^40", b"Np1099511627776\n."


def calls():
    """Ways to call what should not be called. `print` stands for it."""
    hello = tuple_of(text("called"))
    yield "global", name("builtins", "print") + hello + b"R"
    yield "python2", name("__builtin__", "eval") + hello + b"R"
    yield "stack-global", text("builtins") + text("eval") + b"\x93" + hello + b"R"
    yield "memo", text("eval") + b"q\1" + b"0" + text("builtins") + b"h\1\x93" + hello + b"R"
    yield "inst", b"(" + text("called") + b"ibuiltins\neval\n"
    yield "obj", b"(" + name("builtins", "eval") + text("called") + b"o"
    yield "newobj", name("builtins", "eval") + hello + b"\x81"
    yield "newobj-ex", name("builtins", "eval") + hello + b"}\x92"
    yield "dotted", text("builtins") + text("object.__subclasses__") + b"\x93)R"
    yield "look-alike", name("torch._utiIs", "_rebuild_tensor_v2") + hello + b"R"
    yield "homograph", name("tоrch._utils", "_rebuild_tensor_v2") + hello + b"R"
    yield "newline", text("os\n") + text("system") + b"\x93" + hello + b"R"
    yield "build", name("some.place", "Thing") + b")\x81" + dict_of((text("__setstate__"), name("builtins", "eval"))) + b"b"
    yield "module-attribute", name("builtins", "__dict__") + text("len") + text("called") + b"s"
    yield "environment", name("os", "environ") + text("A") + text("B") + b"s"
    yield "changed-function", name("torch._utils", "_rebuild_tensor_v2") + b"N" + dict_of((text("__defaults__"), b"N")) + b"\x86b"
    yield "changed-class", name("argparse", "Namespace") + b"N" + dict_of((text("__init__"), b"N")) + b"\x86b"
    yield "changed-items", name("torch", "Size") + b"K\1a"
    yield "popped", name("builtins", "eval") + hello + b"R0" + text("harmless")
    yield "arguments-computed", name("builtins", "eval") + call(name("builtins", "tuple"), b"](" + text("x") + b"e") + b"R"
    yield "paddle-eval", call(name("builtins", "eval"), text("data"), dict_of((text("data"), text("no array"))))
    yield "paddle-eval-other", call(name("builtins", "eval"), text("data "), dict_of((text("data"), text("no array"))))
    yield "bytes-inside", call(name("torch.storage", "_load_from_bytes"), b"C\3abc")


def graphs():
    """Shapes that grow, and are legal."""
    laughs = b"]" + b"".join(b"q" + bytes([i]) + b"](h" + bytes([i]) + b"h" + bytes([i]) + b"e" for i in range(60))
    yield "laughs", laughs
    yield "dup-laughs", b"]" + b"".join(b"2\x86" for _ in range(60))
    yield "cycle", b"]q\0h\0a"
    yield "cycle-of-dict", dict_of((text("w"), tensor()), (text("self"), b"h\0")).replace(b"}", b"}q\0", 1)
    yield "depth", b"](" * 100000 + b"e" * 100000
    yield "depth-of-tuples", b")" + b"\x85" * 100000
    yield "memo-sparse", b"".join(b"Nr" + struct.pack("<I", i * 0x01010101 & 0xFFFFFFFF) + b"0" for i in range(20000)) + b"N"
    yield "memo-largest", b"Nr\xff\xff\xff\xff0j\xff\xff\xff\xff"
    yield "names", dict_of(*[(text(f"k{i}"), tensor()) for i in range(2000)])


def pickle_attacks():
    yield from ((f"plain-{called}", bytes_) for called, bytes_ in plain_pickle_attacks())
    yield from ((f"call-{called}", stream(body, 4)) for called, body in calls())
    yield from ((f"call-inside-{called}", torch_file(stream(dict_of((text("w"), tensor()), (text("x"), body)), 4)))
                for called, body in calls())
    yield "second", stream(text("harmless")) + stream(call(name("builtins", "eval"), text("called")))
    objects = npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
                  stream(call(name("builtins", "eval"), text("called"))))
    yield "array-beside", Archive([*members(), Member(b"a/x.npy", objects)]).bytes()
    yield "array-without-ending-beside", Archive([*members(), Member(b"a/x", objects)]).bytes()
    yield "behind-stop", torch_file(checkpoint() + stream(call(name("builtins", "eval"), text("called"))))


def graph_attacks():
    yield from ((called, torch_file(stream(body))) for called, body in graphs())


# ---- tensors ----------------------------------------------------------------------------------------------------------


def tensor_attacks():
    def one(value):
        return torch_file(checkpoint(value))

    yield "beyond", one(tensor((2, 3), (3, 1)))
    yield "offset", one(tensor(offset=1))
    yield "offset-2^62", one(tensor(offset=2**62))
    yield "size-negative", one(tensor((-2, 2)))
    yield "stride-negative", one(tensor(strides=(-2, 1)))
    yield "size-2^62", one(tensor((2**62, 4), (0, 1)))
    yield "product-wraps", one(tensor((2**32, 2**32), (1, 1)))
    yield "stride-wraps", one(tensor((2, 2), (2**62, 2**62)))
    yield "expanded", one(tensor((2**20, 2**20), (0, 0)))
    yield "ranks-differ", one(tensor((2, 2), (1,)))
    yield "count-negative", one(tensor(of=storage(count=-4)))
    yield "count-2^62", one(tensor(of=storage(count=2**62)))
    yield "key-up", one(tensor(of=storage("../../etc")))
    yield "key-empty", one(tensor(of=storage("")))
    yield "key-absolute", one(tensor(of=storage("/etc/passwd")))
    yield "id-a-text", one(tensor(of=text("storage") + b"Q"))
    yield "id-short", one(tensor(of=tuple_of(text("storage")) + b"Q"))
    yield "id-other", one(tensor(of=tuple_of(text("module"), text("x")) + b"Q"))
    yield "storage-unknown", one(tensor(of=storage(kind="SecretStorage")))
    yield "rebuild-few", one(call(name("torch._utils", "_rebuild_tensor_v2"), storage()))
    yield "sizes-texts", one(call(name("torch._utils", "_rebuild_tensor_v2"), storage(), number(0), tuple_of(text("2")),
                                  tuple_of(text("1")), b"\x89", b"N"))
    yield "name-empty-and-collision", torch_file(stream(dict_of(
        (text("a.b"), tensor()), (text("a"), dict_of((text("b"), tensor()))))))
    yield "name-surrogate", torch_file(stream(dict_of((b"X\3\0\0\0\xed\xa0\x80", tensor()))))
    yield "name-metadata", torch_file(stream(dict_of((text("__metadata__"), tensor()))))


# ---- NumPy's ----------------------------------------------------------------------------------------------------------


def npy(header, data=bytes(24), version=1):
    header = header.encode("latin-1") if isinstance(header, str) else header
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + data


def npy_attacks():
    def of(descr="'<f4'", order="False", shape="(2, 3)", data=bytes(24)):
        return npy(f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n", data)

    yield "empty-header", npy("")
    yield "not-a-dict", npy("[1]")
    yield "unended", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)")
    yield "behind", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} + 1")
    yield "twice", npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}")
    yield "unknown-key", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}")
    yield "missing-key", npy("{'descr': '<f4', 'shape': (2, 3)}")
    yield "expression", of(shape="(__import__('os').system('x'),)")
    yield "nested", of(shape="(" * 3000 + ")" * 3000)
    yield "shape-int", of(shape="6")
    yield "shape-no-comma", of(shape="(6)")
    yield "shape-negative", of(shape="(-1, 6)")
    yield "shape-2^64", of(shape="(18446744073709551616,)")
    yield "product-wraps", of(shape="(4294967296, 4294967296, 6)")
    yield "product-wraps-to-size", of(shape="(6, 6148914691236517206)", data=bytes(16))
    yield "shape-65", of(shape="(" + "1, " * 65 + ")")
    yield "short", of(data=bytes(23))
    yield "long", of(data=bytes(25))
    yield "objects", of("'|O'", data=b"\x80\2N.")
    yield "objects-call", of("'|O'", data=stream(call(name("builtins", "eval"), text("called"))))
    yield "structure", of("[('a', '<f4')]")
    yield "text", of("'<U2'")
    yield "dates", of("'<M8[ns]'")
    yield "long-double", of("'<f16'", data=bytes(96))
    yield "void", of("'|V1'", data=bytes(6))
    yield "type-unknown", of("'<q9'")
    yield "type-empty", of("''")
    yield "type-escape", of("'\\x3cf4'")
    yield "order-int", of(order="1")
    yield "version-9", b"\x93NUMPY\x09\0" + bytes(100)
    yield "header-2^32", b"\x93NUMPY\2\0\xff\xff\xff\xff" + bytes(100)
    yield "header-long", npy("{" + " " * 20000 + "}", version=2)
    yield "header-beyond", b"\x93NUMPY\1\0\xff\x20{"
    good = of()
    for cut in range(7, len(good), 5):
        yield f"cut-{cut:03}", good[:cut]


def npz_attacks():
    """Pickles where arrays should be. NumPy loads those of objects when it is told to."""
    called = stream(call(name("builtins", "eval"), text("called")))
    objects = npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", called)
    plain = Member(b"x.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }"))
    yield "objects", Archive([plain, Member(b"o.npy", objects)]).bytes()
    yield "objects-deflated", Archive([plain, Member(b"o.npy", **deflated(objects))]).bytes()
    yield "pickle-member", Archive([plain, Member(b"hidden.pkl", called)]).bytes()
    yield "pickle-as-array", Archive([plain, Member(b"hidden.npy", called)]).bytes()
    yield "pickle-without-ending", Archive([plain, Member(b"hidden", called)]).bytes()
    yield "objects-without-ending", Archive([plain, Member(b"o", objects)]).bytes()
    yield "objects-as-storage", Archive([plain, Member(b"x/data/o", objects)]).bytes()
    yield "duplicate", Archive([plain, plain]).bytes()


def program_attacks():
    """What torch.export's loader unpickles where its description says so: weights and constants."""
    called = stream(call(name("builtins", "eval"), text("called")))
    old = b"c__builtin__\neval\n(S'called'\ntR."
    python2 = b"U\x08builtinsU\x04eval\x93U\x06called\x85R."
    kind = Member(b"a/archive_format", b"pt2")
    inner = Archive([Member(b"w/data.pkl", called), Member(b"w/version", b"3\n")]).bytes()
    yield "weight", Archive([kind, Member(b"a/data/weights/weight_0", called)]).bytes()
    yield "weight-protocol-0", Archive([kind, Member(b"a/data/weights/weight_0", old)]).bytes()
    yield "weight-of-strings", Archive([kind, Member(b"a/data/weights/weight_0", python2)]).bytes()
    yield "weight-deflated", Archive([kind, Member(b"a/data/weights/weight_0", **deflated(old))]).bytes()
    yield "weight-archive", Archive([kind, Member(b"a/data/weights/weight_0", inner)]).bytes()
    yield "constant", Archive([kind, Member(b"a/data/constants/opaque_obj_0", called)]).bytes()


# ---- tar --------------------------------------------------------------------------------------------------------------


def pax(**records):
    """The records of a pax header, each with its own length in front."""
    out = b""
    for key, value in records.items():
        line = b" %s=%s\n" % (key.replace("__", ".").encode(), value)
        size = len(line) + 1
        while len(str(size)) + len(line) != size:
            size = len(str(size)) + len(line)
        out += b"%d" % size + line
    return out


def tar_member(called, data, kind=b"0", link=b"", size=None):
    head = bytearray(512)
    head[0:len(called)] = called
    head[100:108] = b"0000644\0"
    head[108:124] = b"0000000\0" * 2
    size = len(data) if size is None else size
    head[124:136] = size if isinstance(size, bytes) else b"%011o\0" % size
    head[136:148] = b"00000000000\0"
    head[148:156] = b" " * 8
    head[156:157] = kind
    head[157:157 + len(link)] = link
    head[257:265] = b"ustar\x0000"
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + data + bytes(-len(data) % 512)


def tar_file(*members_, end=bytes(1024)):
    return b"".join(members_) + end


def tar_parts():
    storages = stream(number(1)) + stream(tuple_of(number(7), text("cpu"), name("torch", "FloatStorage"))) + \
        struct.pack("<q", 4) + DATA + stream(b"]")
    tensors = stream(number(1)) + stream(tuple_of(number(1), number(7), name("torch", "FloatTensor"))) + \
        struct.pack("<iiqqqqq", 2, 0, 2, 2, 2, 1, 0)
    return storages, tensors, tar_member(b"pickle", stream(dict_of((text("w"), b"K\1Q"))))


def tar_attacks():
    storages, tensors, pickle = tar_parts()

    def of(storages=storages, tensors=tensors):
        return tar_file(tar_member(b"storages", storages), tar_member(b"tensors", tensors), pickle)

    yield "link", tar_file(tar_member(b"storages", b"", b"2", b"/etc/passwd"), tar_member(b"tensors", tensors), pickle)
    yield "hard-link", tar_file(tar_member(b"storages", b"", b"1", b"/etc/passwd"), tar_member(b"tensors", tensors), pickle)
    yield "device", tar_file(tar_member(b"storages", b"", b"3"), tar_member(b"tensors", tensors), pickle)
    yield "absolute", tar_file(tar_member(b"/storages", storages), tar_member(b"/tensors", tensors), pickle)
    yield "up", tar_file(tar_member(b"../storages", storages), tar_member(b"../tensors", tensors), pickle)
    yield "size-beyond", tar_file(tar_member(b"storages", storages, size=8**11 - 1), pickle)
    yield "count-lie", of(storages.replace(struct.pack("<q", 4), struct.pack("<q", 5)))
    yield "count-negative", of(storages.replace(struct.pack("<q", 4), struct.pack("<q", -4)))
    yield "count-2^62", of(storages.replace(struct.pack("<q", 4), struct.pack("<q", 2**62)))
    yield "storages-2^31", of(stream(number(2**31 - 1)))
    yield "tensors-2^31", of(tensors=stream(number(2**31 - 1)))
    yield "cut", of()[:700]
    rest = (tar_member(b"tensors", tensors), pickle)
    for called, records in (("size", pax(size=b"%d" % 2**62)), ("size-2^64", pax(size=b"18446744073709551616")),
                            ("size-negative", pax(size=b"-1")), ("sparse", pax(GNU__sparse__major=b"1")),
                            ("length", b"99 path=storages\n"), ("length-0", b"0 path=x\n"), ("no-equals", b"9 storage\n"),
                            ("no-end", b"15 path=storages"), ("other-name", pax(path=b"other"))):
        yield f"pax-{called}", tar_file(tar_member(b"x", records, b"x"), tar_member(b"storages", storages), *rest)
    yield "pax-of-all", tar_file(tar_member(b"g", pax(path=b"storages"), b"g"), tar_member(b"storages", storages), *rest)
    yield "pax-large", tar_file(tar_member(b"storages", storages), tar_member(b"x", bytes(70000), b"x"), *rest)
    yield "pax-many", tar_file(tar_member(b"storages", storages), *[tar_member(b"x", pax(path=b"tensors"), b"x")] * 20, *rest)
    yield "long-name", tar_file(tar_member(b"x", b"other\0", b"L"), tar_member(b"storages", storages), *rest)
    yield "named-by-pax-too", tar_file(tar_member(b"storages", storages), *rest, tar_member(b"x", pax(path=b"pickle"), b"x"),
                                       tar_member(b"other", stream(b"N")))
    for called, size in (("beyond", b"\x80" + (2**40).to_bytes(11, "big")), ("2^64", b"\x80\0\0\1" + bytes(8)),
                         ("negative", b"\xff" * 12)):
        yield f"base-256-{called}", tar_file(tar_member(b"storages", storages[:100], size=size), *rest)


# ---- streams ----------------------------------------------------------------------------------------------------------


MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."


def stream_file(pickle=None, keys=None, storages=None, version=1001):
    info = dict_of((text("protocol_version"), number(1001)), (text("little_endian"), b"\x88"), (text("type_sizes"), b"}"))
    return MAGIC + stream(number(version)) + stream(info) + (legacy() if pickle is None else pickle) + \
        (stream(b"](" + text("0") + b"e") if keys is None else keys) + \
        (struct.pack("<q", 4) + DATA if storages is None else storages)


def legacy():
    of = tuple_of(text("storage"), name("torch", "FloatStorage"), text("0"), text("cpu"), number(4), b"N") + b"Q"
    return stream(dict_of((text("w"), tensor(of=of))))


def stream_attacks():
    binary = stream(dict_of((text("w"), tensor(of=b"P('storage', 'FloatStorage', '0', 'cpu', 4)\n"))))
    yield "protocol-0", stream_file(pickle=binary)
    yield "count-lie", stream_file(storages=struct.pack("<q", 5) + DATA)
    yield "count-negative", stream_file(storages=struct.pack("<q", -4) + DATA)
    yield "count-2^62", stream_file(storages=struct.pack("<q", 2**62) + DATA)
    yield "keys-twice", stream_file(keys=stream(b"](" + text("0") + text("0") + b"e"))
    yield "keys-none", stream_file(keys=stream(b"]"))
    yield "keys-no-list", stream_file(keys=stream(b"N"))
    yield "version", stream_file(version=1002)
    yield "no-storages", stream_file(storages=b"")
    good = stream_file()
    for cut in range(20, len(good), 11):
        yield f"cut-{cut:03}", good[:cut]


# ---- all of them ------------------------------------------------------------------------------------------------------

# ---- GGUF -------------------------------------------------------------------------------------------------------------

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


# ---- Arrow (FlatBuffers) ----------------------------------------------------------------------------------------------


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


def arrow_attacks():
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


# ---- ONNX (Protocol Buffers) ------------------------------------------------------------------------------------------


def varint(value, least=1):
    """With more bytes than it needs, if that is asked for."""
    out = b""
    while value > 127 or len(out) + 1 < least:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def wire(number, value, kind=None):
    """A field: of an integer, of bytes or of a text, or of the bytes of a number of a certain kind."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | (2 if kind is None else kind)) + (varint(len(value)) if kind is None else b"") + value


def onnx_tensor(called="w", dims=(3, 2), kind=1, data=bytes(24), more=b""):
    """`data`: its raw_data; None: none."""
    return b"".join(wire(1, d) for d in dims) + wire(2, kind) + wire(8, called) + (b"" if data is None else wire(9, data)) + more


def onnx_graph(*tensors, more=b""):
    return b"".join(wire(5, tensor) for tensor in tensors) + more


def onnx_file(*tensors, graph=b"", more=b"", version=10):
    return wire(1, version) + wire(2, "test") + wire(7, onnx_graph(*(tensors or [onnx_tensor()]), more=graph)) + more


def onnx_external(*pairs, dims=(3, 2), kind=1):
    entries = b"".join(wire(13, wire(1, key) + wire(2, value)) for key, value in pairs)
    return onnx_tensor("x", dims, kind, None, entries + wire(14, 1))


def onnx_numbers(packed, count=6, field=5, kind=6, **fields):
    return onnx_file(onnx_tensor("w", (count,), kind, None, wire(field, packed), **fields))


def onnx_attacks():
    good = onnx_file()
    for cut in range(1, len(good), 9):
        yield f"cut-{cut:02}", good[:cut]
    yield "more", good + b"\0"
    yield "varint-11", wire(1, 10) + b"\x38" + b"\x80" * 10 + b"\1" + good[2:]
    yield "varint-2^64", wire(1, 10) + b"\x28" + b"\xff" * 9 + b"\2" + good[2:]
    yield "tag-0", good + b"\2\0"
    yield "group", good + b"\x7b\x7c"
    yield "kind-6", good + b"\x7e\0"
    yield "length-2^63", good + b"\x72" + varint(2**63)
    yield "graph-twice", good + wire(7, onnx_graph(onnx_tensor("x")))
    yield "version-twice", good + wire(1, 11)
    yield "graph-of-number", wire(1, 10) + wire(2, "t") + wire(7, onnx_graph(onnx_tensor())) + wire(25, 7)
    graph = onnx_graph(onnx_tensor())
    for _ in range(30):
        graph = wire(1, wire(2, "o") + wire(5, wire(1, "g") + wire(6, graph)))
    yield "depth", wire(1, 10) + wire(2, "t") + wire(7, graph)
    yield "sparse", onnx_file(graph=wire(15, wire(1, onnx_tensor("s"))))
    yield "name-twice", onnx_file(onnx_tensor(), onnx_tensor())
    yield "name-none", onnx_file(onnx_tensor(""))
    yield "name-no-utf-8", onnx_file(onnx_tensor(b"\xff\xfe"))
    yield "name-long", onnx_file(onnx_tensor("n" * 9000))
    yield "name-reserved", onnx_file(onnx_tensor("__metadata__"))
    yield "name-two", onnx_file(onnx_tensor(more=wire(8, "v")))
    yield "type-two", onnx_file(onnx_tensor(more=wire(2, 6)))
    yield "type-none", onnx_file(wire(1, 6) + wire(8, "w") + wire(9, bytes(24)))
    yield "type-0", onnx_file(onnx_tensor(kind=0))
    yield "type-29", onnx_file(onnx_tensor(kind=29))
    yield "type-2^32", onnx_file(onnx_tensor(kind=2**32 + 1))
    yield "type-text", onnx_file(onnx_tensor(kind=1, more=wire(2, b"\1")))
    yield "raw-two", onnx_file(onnx_tensor(more=wire(9, bytes(24))))
    yield "raw-short", onnx_file(onnx_tensor(data=bytes(23)))
    yield "raw-long", onnx_file(onnx_tensor(data=bytes(25)))
    yield "raw-none", onnx_file(onnx_tensor(data=None))
    yield "raw-and-numbers", onnx_file(onnx_tensor(more=wire(4, bytes(24))))
    yield "raw-and-external", onnx_file(onnx_tensor(more=wire(13, wire(1, "location") + wire(2, "d")) + wire(14, 1)))
    yield "raw-and-text", onnx_file(onnx_tensor(more=wire(6, b"a")))
    yield "segment", onnx_file(onnx_tensor(more=wire(3, wire(1, 0) + wire(2, 3))))
    yield "dims-negative", onnx_file(onnx_tensor(dims=(-3, -2)))
    yield "dims-wrap", onnx_file(onnx_tensor(dims=(2**62, 4), data=b""))
    yield "dims-65", onnx_file(onnx_tensor(dims=(1,) * 65, data=bytes(4)))
    yield "dims-cut", onnx_file(wire(1, b"\x03\x82") + wire(2, 1) + wire(8, "w") + wire(9, bytes(24)))
    yield "dims-fixed", onnx_file(wire(1, bytes(8), 1) + onnx_tensor())
    yield "complex128", onnx_file(onnx_tensor(dims=(1,), kind=15, data=bytes(16)))
    yield "int4", onnx_file(onnx_tensor(dims=(2,), kind=22, data=b"a"))
    yield "float4-odd", onnx_file(onnx_tensor(dims=(3,), kind=23, data=b"ab"))
    yield "numbers-field", onnx_numbers(b"\1" * 6, field=7)
    yield "numbers-parts", onnx_file(onnx_tensor("w", (6,), 6, None, wire(5, b"\1\2\3") * 2))
    yield "numbers-apart", onnx_file(onnx_tensor("w", (2,), 6, None, wire(5, 1) + wire(12, "doc") + wire(5, 2)))
    yield "numbers-mixed", onnx_file(onnx_tensor("w", (3,), 6, None, wire(5, 1) + wire(5, b"\1\2")))
    yield "numbers-tag-long", onnx_file(onnx_tensor("w", (1,), 6, None, b"\xa8\0\1"))
    yield "numbers-fields", onnx_file(onnx_tensor("w", (6,), 6, None, wire(5, b"\1" * 3) + wire(7, b"\1" * 3)))
    yield "numbers-few", onnx_numbers(b"\1" * 5)
    yield "numbers-single-few", onnx_file(onnx_tensor("w", (3,), 6, None, wire(5, 1) * 2))
    yield "numbers-single-many", onnx_file(onnx_tensor("w", (3,), 6, None, wire(5, 1) * 4))
    yield "floats-few", onnx_numbers(bytes(20), field=4, kind=1)
    yield "floats-kind", onnx_file(onnx_tensor("w", (3,), 1, None, wire(4, bytes(8), 1) * 3))
    yield "external-parent", onnx_file(onnx_external(("location", "../w.bin")))
    yield "external-absolute", onnx_file(onnx_external(("location", "/etc/passwd")))
    yield "external-folder", onnx_file(onnx_external(("location", "a/../../w")))
    yield "external-url", onnx_file(onnx_external(("location", "https://host/w")))
    yield "external-escape", onnx_file(onnx_external(("location", "%2e%2e")))
    yield "external-missing", onnx_file(onnx_external(("location", "no-such-file")))
    yield "external-none", onnx_file(onnx_external(("offset", "0")))
    yield "external-empty", onnx_file(onnx_external(("location", "")))
    yield "external-twice", onnx_file(onnx_external(("location", "a"), ("location", "b")))
    yield "external-offset-twice", onnx_file(onnx_external(("location", "a"), ("offset", "0"), ("offset", "4")))
    yield "external-offset-text", onnx_file(onnx_external(("location", "a"), ("offset", "0x10")))
    yield "external-offset-negative", onnx_file(onnx_external(("location", "a"), ("offset", "-1")))
    yield "external-offset-2^64", onnx_file(onnx_external(("location", "a"), ("offset", str(2**64))))
    yield "external-length", onnx_file(onnx_external(("location", "a"), ("length", "20")))
    yield "external-location-2", onnx_file(onnx_tensor(more=wire(14, 2)))
    yield "external-key-twice", onnx_file(onnx_tensor(data=None, more=wire(14, 1) + wire(13, wire(1, "location") * 2 + wire(2, "a"))))


# ---- flax (MessagePack) -----------------------------------------------------------------------------------------------


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


# ---- HDF5 -------------------------------------------------------------------------------------------------------------

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


# ---- TensorFlow's checkpoints -----------------------------------------------------------------------------------------


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
    yield "slice-of-nothing", tf_index((b"\0w\0\1\1\1\x80\x80", tf_tensor()))
    yield "no-data", good


def polyglot_attacks():
    """Pickles that do not begin as one, or that are called otherwise: pickle.load runs them all the same."""
    system = name("os", "system") + tuple_of(text("id")) + b"R"
    yield "without-proto", system + b"."
    yield "protocol-0", b"cos\nsystem\n(S'id'\ntR."
    yield "proto-0", b"\x80\0" + system + b"."
    yield "proto-1", b"\x80\1" + system + b"."
    yield "after-values", b"N(K\1K\2t0" + system + b"."
    yield "after-64-kib", b"N0" * 40000 + system + b"."
    yield "framed", b"\x95" + struct.pack("<Q", 8000 + len(system)) + b"N0" * 4000 + system + b"."
    yield "without-stop", system
    yield "before-an-archive", system + b"." + torch_file()
    yield "before-an-array", system + b"." + npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n")
    yield "before-text", system + b".\n# a text that nobody would take for a program\n"


def script_attacks():
    """Classes of __torch__, which only the loader of TorchScript takes out of the archive."""
    script = stream(name("__torch__.model", "Net") + b")\x81}b")
    yield "plain", script
    yield "without-code", Archive([Member(b"a/data.pkl", script), Member(b"a/version", b"3\n")]).bytes()
    yield "other-folder", Archive([Member(b"a/data.pkl", script), Member(b"a/b/constants.pkl", stream(b")"))]).bytes()


def attacks():
    """(name, bytes) of every file."""
    for kind, ending, make in (("zip", "pt", zip_attacks), ("pickle", "pkl", pickle_attacks), ("graph", "pt", graph_attacks),
                               ("tensor", "pt", tensor_attacks), ("npy", "npy", npy_attacks), ("npz", "npz", npz_attacks),
                               ("program", "pt2", program_attacks), ("tar", "tar", tar_attacks),
                               ("stream", "pt", stream_attacks), ("polyglot", "bin", polyglot_attacks),
                               ("script", "pt", script_attacks), ("gguf", "gguf", gguf_attacks),
                               ("flax", "msgpack", flax_attacks), ("onnx", "onnx", onnx_attacks), ("arrow", "arrow", arrow_attacks),
                               ("hdf5", "h5", hdf5_attacks), ("hdf5-chunk", "h5", hdf5_chunk_attacks), ("tf", "index", tf_attacks)):
        for called, bytes_ in make():
            yield f"{kind}-{called}.{ending}", bytes_


def good_files():
    """What the attacks are changes of: each converts."""
    yield "good.pt", torch_file()
    yield "good-deflated.pt", Archive([Member(b"a/data.pkl", **deflated(checkpoint())), *members()[1:]]).bytes()
    yield "good-stream.pt", stream_file()
    storages, tensors, pickle = tar_parts()
    yield "good.tar", tar_file(tar_member(b"storages", storages), tar_member(b"tensors", tensors), pickle)
    yield "good-pax.tar", tar_file(tar_member(b"x", pax(path=b"storages", size=b"%d" % len(storages)), b"x"),
                                   tar_member(b"storages", storages, size=0), tar_member(b"tensors", tensors), pickle)
    yield "good-base-256.tar", tar_file(tar_member(b"storages", storages, size=b"\x80" + len(storages).to_bytes(11, "big")),
                                        tar_member(b"tensors", tensors), pickle)
    yield "good.gguf", gguf_good()
    yield "good-big-endian.gguf", gguf_file(GGUF_KEYS, [GgufTensor("w", (3, 2), 0, bytes(24))], order=">")
    yield "good-aligned.gguf", gguf_file((("general.alignment", 4, 1024),), [GgufTensor("w", (3, 2), 0, bytes(24))], alignment=1024)
    yield "good.msgpack", flax_file()
    yield "good-chunked.msgpack", flax_file({"w": flax_chunked()})
    yield "good-tensor.arrow", arrow_tensor()
    yield "good-strides.arrow", arrow_tensor(strides=(4, 12))
    yield "good-file.arrow", arrow_file()
    yield "good-swapped.arrow", arrow_file(order=1)
    yield "good-batches.arrow", arrow_file(batches=[arrow_batch(), arrow_batch(0, ((0, 0), (0, 0))), arrow_batch()])
    yield "good.h5", bytes(hdf5_one().bytes)
    yield "good-chunked.h5", hdf5_tree(((24, 0, (0, 0), 0),), chunk=(3, 2))
    yield "good.onnx", onnx_file()
    yield "good-numbers.onnx", onnx_numbers(b"".join(varint(i % 2**64) for i in (-1, 2**31 - 1, -2**31, 0, 127, 128)))
    yield "good-single-numbers.onnx", onnx_file(onnx_tensor("w", (3,), 1, None, wire(4, bytes(4), 5) * 3))
    yield "good.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n")
    yield "good.npz", Archive([Member(b"x.npy", npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, )}"))]).bytes()


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for called, bytes_ in (*attacks(), *good_files()):
        (folder / called.replace("^", "")).write_bytes(bytes_)


if __name__ == "__main__":
    main()
