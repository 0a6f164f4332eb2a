# SPDX-License-Identifier: Apache-2.0
"""A reader of packed files, written from docs/packed.md and from nothing else: the original's bytes, by Python alone."""

import json
import struct


def original(file):
    """The original file's bytes, of those of a packed one."""
    length = struct.unpack_from("<Q", file)[0]
    outer = json.loads(file[8 : 8 + length])
    metadata = outer.pop("__metadata__")
    size = int(metadata["coffer.packed"].split(":")[1])
    header = metadata["coffer.header"].encode()
    inner = json.loads(header)
    inner.pop("__metadata__", None)
    result = bytearray(struct.pack("<Q", len(header)) + header + bytes(size - 8 - len(header)))
    for name, tensor in inner.items():
        stored = outer[name]
        begin, end = (8 + length + place for place in stored["data_offsets"])
        first, last = (8 + len(header) + place for place in tensor["data_offsets"])
        plain = (tensor["dtype"], tensor["shape"]) == (stored["dtype"], stored["shape"])
        result[first:last] = file[begin:end] if plain else unpacked(file[begin:end])
    return bytes(result)


def unpacked(blob):
    """The bytes of a packed tensor's elements."""
    assert blob[:10] == b"cofferPK\x01\x00"
    size, planes, rotation, tables = blob[10:14]
    chunks, elements = struct.unpack_from("<I4xQ", blob, 16)
    codes = [code(blob[64 + 128 * table : 192 + 128 * table]) for table in range(tables)]
    at, result = 64 + 128 * tables + 16 * chunks, []
    for chunk in range(chunks):
        sixteenths, top, others, modes = struct.unpack_from("<HBBI", blob, 64 + 128 * tables + 16 * chunk)
        count, place, columns = min(65536, elements - 65536 * chunk), at, []
        for plane in range(planes):
            column, place = symbols(blob, place, modes >> 4 * plane & 15, count, planes > size, codes, top if plane == planes - 1 else others)
            columns.append(column)
        for parts in zip(*columns):
            value = sum(part << (8 * size // planes * i) for i, part in enumerate(parts))
            rotated = (value >> rotation | value << (8 * size - rotation)) & ((1 << 8 * size) - 1)
            result.append(rotated.to_bytes(size, "little"))
        at += 16 * sixteenths
    return b"".join(result)


def symbols(blob, at, mode, count, halves, codes, table):
    """A plane's symbols, and where the next plane begins."""
    if mode == 1:
        return [blob[at]] * count, at + 1
    if mode == 0 and halves:
        packed = blob[at : at + (count + 63) // 64 * 32]
        return [packed[i // 64 * 32 + i % 32] >> 4 * (i % 64 // 32) & 15 for i in range(count)], at + len(packed)
    if mode == 0:
        return list(blob[at : at + count]), at + count
    lengths, place, found = struct.unpack_from("<32H", blob, at), at + 64, []
    for stream, length in enumerate(lengths):
        bits, position = int.from_bytes(blob[place : place + length], "little"), 0
        for _ in range(min(2048, max(0, count - 2048 * stream))):
            prefix = 1
            while prefix not in codes[table]:
                prefix, position = prefix << 1 | bits >> position & 1, position + 1
            found.append(codes[table][prefix])
        place += length
    return found, place


def code(table):
    """The symbols by their codes, each after a one that keeps its zeros."""
    lengths = [table[symbol // 2] >> 4 * (symbol % 2) & 15 for symbol in range(256)]
    number, found = 0, {}
    for length in range(1, 12):
        for symbol in (symbol for symbol in range(256) if lengths[symbol] == length):
            found[1 << length | number], number = symbol, number + 1
        number <<= 1
    return found
