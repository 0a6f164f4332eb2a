# SPDX-License-Identifier: Apache-2.0
"""Zip archives that are written by hand, each field as it has to be or as a test wants it, and checkpoints of torch in them."""

import struct
import zlib
from dataclasses import dataclass, field

from pickles_by_hand import checkpoint


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
