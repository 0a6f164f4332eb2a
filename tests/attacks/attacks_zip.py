# SPDX-License-Identifier: Apache-2.0
"""Zip archives that contradict themselves, or that two programs would read in two ways."""

import struct
import zlib

from pickles_by_hand import checkpoint, stream
from zips_by_hand import Archive, DATA, Member, added, changed, deflated, members, torch_file


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
