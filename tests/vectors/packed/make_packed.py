#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the packed files beside this one, whose names are their verdicts: ok__TOPIC, or err_CODE__TOPIC for a tensor that
cannot be unpacked. It is a second writer of the format, as slow as it is short, and needs nothing but Python; with --check it
writes nothing and fails when the folder differs. Checksums are those of docs/packed.md, so that each file has one fault."""

import hashlib
import heapq
import json
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
MASK = 2**64 - 1
RAW, CONST, HUFF = 0, 1, 2
FILES = {}


def xxh3(data):
    """XXH3-64 by the library's own secret; see src/codec/xxh3_64.c, which is compared with xxHash in the unit tests."""
    text = (HERE.parents[2] / "src/codec/xxh3_64.c").read_text(encoding="utf-8")
    body = text[text.index("xxh3_secret[XXH3_SECRET_SIZE] = {") :]
    secret = bytes(int(word, 16) for word in body[body.index("{") + 1 : body.index("}")].replace(",", " ").split())
    p64 = [0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5]
    p32 = [0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D]
    size = len(data)

    def key(at):
        return struct.unpack_from("<Q", secret, at)[0]

    def word(at):
        return struct.unpack_from("<Q", data, at)[0]

    def fold(a, b):
        return (a * b & MASK) ^ (a * b >> 64)

    def end(value):
        value = (value & MASK) ^ (value & MASK) >> 37
        value = value * 0x165667919E3779F9 & MASK
        return value ^ value >> 32

    if size <= 16:
        assert size > 8
        low, high = word(0) ^ key(24) ^ key(32), word(size - 8) ^ key(40) ^ key(48)
        return end(size + int.from_bytes(low.to_bytes(8, "little"), "big") + high + fold(low, high))
    if size <= 128:
        value = size * p64[0]
        for i in range((size - 1) // 32, -1, -1):
            value += fold(word(16 * i) ^ key(32 * i), word(16 * i + 8) ^ key(32 * i + 8))
            at = size - 16 * (i + 1)
            value += fold(word(at) ^ key(32 * i + 16), word(at + 8) ^ key(32 * i + 24))
        return end(value)
    if size <= 240:
        keys = [16 * i if i < 8 else 16 * (i - 8) + 3 for i in range(size // 16)]
        mixed = [fold(word(16 * i) ^ key(at), word(16 * i + 8) ^ key(at + 8)) for i, at in enumerate(keys)]
        value = end(size * p64[0] + sum(mixed[:8])) + sum(mixed[8:])
        return end(value + fold(word(size - 16) ^ key(119), word(size - 8) ^ key(127)))
    sums = [p32[2], p64[0], p64[1], p64[2], p64[3], p32[1], p64[4], p32[0]]

    def stripe(at, first):
        for i in range(8):
            mixed = word(at + 8 * i) ^ key(first + 8 * i)
            sums[i ^ 1] = sums[i ^ 1] + word(at + 8 * i) & MASK
            sums[i] = sums[i] + (mixed & 0xFFFFFFFF) * (mixed >> 32) & MASK

    for i in range((size - 1) // 64):
        stripe(64 * i, 8 * (i % 16))
        if i % 16 == 15 and size > 64 * (i + 1):
            sums = [((s ^ s >> 47 ^ key(128 + 8 * k)) * p32[0]) & MASK for k, s in enumerate(sums)]
    stripe(size - 64, 121)
    value = size * p64[0] + sum(fold(sums[i] ^ key(11 + 8 * i), sums[i + 1] ^ key(19 + 8 * i)) for i in range(0, 8, 2))
    return end(value)


def lengths_of(symbols):
    """The lengths of a Huffman code, none above 11 for what is packed here."""
    counts = {symbol: symbols.count(symbol) for symbol in set(symbols)}
    heap = [(count, symbol, (symbol,)) for symbol, count in counts.items()]
    heapq.heapify(heap)
    lengths = [0] * 256
    while len(heap) > 1:
        a, b = heapq.heappop(heap), heapq.heappop(heap)
        for symbol in a[2] + b[2]:
            lengths[symbol] += 1
        heapq.heappush(heap, (a[0] + b[0], min(a[1], b[1]), a[2] + b[2]))
    assert max(lengths) <= 11
    return lengths


def streams(symbols, lengths):
    number, codes = 0, {}
    for length in range(1, 12):
        for symbol in range(256):
            if lengths[symbol] == length:
                codes[symbol], number = f"{number:0{length}b}", number + 1
        number <<= 1
    parts = []
    for first in range(0, len(symbols), 2048):
        bits = "".join(codes[symbol] for symbol in symbols[first : first + 2048])
        bits += "0" * (-len(bits) % 8)
        parts.append(bytes(int(bits[i : i + 8][::-1], 2) for i in range(0, len(bits), 8)))
    return struct.pack("<32H", *([len(part) for part in parts] + [0] * (32 - len(parts)))) + b"".join(parts)


def halves(symbols):
    packed = bytearray((len(symbols) + 63) // 64 * 32)
    for i, symbol in enumerate(symbols):
        packed[i // 64 * 32 + i % 32] |= symbol << 4 * (i % 64 // 32)
    return bytes(packed)


def pack(elements, size, modes, rotation=1, nibbles=False):
    """A packed tensor of one chunk."""
    count, planes = len(elements) // size, len(modes)
    width = 8 * size // planes
    values = [int.from_bytes(elements[i : i + size], "little") for i in range(0, len(elements), size)]
    values = [(value << rotation | value >> (8 * size - rotation)) & ((1 << 8 * size) - 1) for value in values]
    columns = [[value >> width * plane & ((1 << width) - 1) for value in values] for plane in range(planes)]
    tables, chunk, numbers = [], b"", [0, 0]
    for plane, (mode, column) in enumerate(zip(modes, columns)):
        if mode == HUFF:
            lengths = lengths_of(column)
            numbers[0 if plane == planes - 1 else 1] = len(tables)
            tables.append(bytes(lengths[2 * i] | lengths[2 * i + 1] << 4 for i in range(128)))
            chunk += streams(column, lengths)
        elif mode == CONST:
            assert len(set(column)) == 1
            chunk += bytes(column[:1])
        else:
            chunk += halves(column) if nibbles else bytes(column)
    chunk += bytes(-len(chunk) % 16)
    word = sum(mode << 4 * plane for plane, mode in enumerate(modes))
    index = b"".join(tables) + struct.pack("<HBBIQ", len(chunk) // 16, *numbers, word, xxh3(elements))
    head = b"cofferPK" + bytes([1, 0, size, planes, rotation, len(tables), 0, 0])
    head += struct.pack("<IIQQ16x", 1, 0, count, 64 + len(index) + len(chunk))
    return summed(head + bytes(8) + index, len(index)) + chunk


def summed(blob, index_size):
    """With the checksum of head and index."""
    whole = blob[:56] + struct.pack("<Q", xxh3(blob[64 : 64 + index_size]))
    return whole[:56] + struct.pack("<Q", xxh3(whole)) + blob[64:]


def write(name, dtype, elements, blob, size, ending=b""):
    """A packed file with one packed tensor, and a plain one."""
    used = len(blob)
    blob += bytes(-(used + 16) % 64 + 16)
    blob = blob[: len(blob) - len(ending)] + ending
    plain = b"plain by its shape"

    def header(objects, metadata=None):
        text = json.dumps(({"__metadata__": metadata} if metadata else {}) | objects, separators=(",", ":")).encode()
        return text + b" " * (-len(text) % 8)

    def places(first, kind, shape, second):
        return {
            "packed": {"dtype": kind, "shape": shape, "data_offsets": [0, first]},
            "plain": {"dtype": "U8", "shape": [second], "data_offsets": [first, first + second]},
        }

    inner = header(places(len(elements), dtype, [len(elements) // size], len(plain)))
    original = struct.pack("<Q", len(inner)) + inner + elements + plain
    assert len(blob) < len(elements), name
    outer = header(
        places(len(blob), "U8", [len(blob)], len(plain)),
        {"coffer.packed": f"1:{len(original)}:{hashlib.sha256(original).hexdigest()}", "coffer.header": inner.decode()},
    )
    FILES[f"{name}.safetensors"] = struct.pack("<Q", len(outer)) + outer + blob + plain


def number(state):
    return (state * 1103515245 + 12345) % 2**31


def make(count, size, top, step=1):
    """Elements whose top byte is one of few, most of them frequent."""
    state, result = count, bytearray()
    for _ in range(count):
        for place in range(size):
            state = number(state)
            result.append(top + step * (state >> 9 & state >> 12 & state >> 16 & 7) if place == size - 1 else state >> 12 & 255)
    return bytes(result)


def changed(blob, at, value):
    return blob[:at] + bytes([value]) + blob[at + 1 :]


def all_files():
    bf16, f32, e4m3, i8 = make(3000, 2, 58), make(1500, 4, 58), make(4000, 1, 9, 8), make(3000, 1, 1)
    raw_huff = pack(bf16, 2, [RAW, HUFF])
    write("ok__bf16_raw_huff", "BF16", bf16, raw_huff, 2)
    write("ok__bf16_without_rotation", "BF16", bf16, pack(bf16, 2, [RAW, HUFF], 0), 2)
    write("ok__f32_three_raw", "F32", f32, pack(f32, 4, [RAW, RAW, RAW, HUFF]), 4)
    low = bytes(byte if i % 4 > 1 else 0 for i, byte in enumerate(f32))
    write("ok__f32_constants_and_two_tables", "F32", low, pack(low, 4, [CONST, CONST, HUFF, HUFF], 0), 4)
    write("ok__e4m3_halves", "F8_E4M3", e4m3, pack(e4m3, 1, [RAW, HUFF], nibbles=True), 1)
    write("ok__i8_bytes", "I8", i8, pack(i8, 1, [HUFF], 0), 1)
    same = b"\x07\x11" * 1000
    write("ok__constant", "F16", same, pack(same, 2, [CONST, CONST]), 2)
    index = raw_huff[13] * 128 + 16
    chunk = 64 + index
    head = {"version": (8, 2), "kind": (9, 1), "element_size": (10, 4), "planes": (11, 3), "rotation": (12, 2),
            "reserved": (14, 1), "chunks": (16, 2), "elements": (24, 1), "used": (33, 255), "magic": (0, 67)}  # fmt: skip
    for topic, (at, value) in head.items():
        write(f"err_PACK_HEAD__{topic}", "BF16", bf16, summed(changed(raw_huff, at, value), index), 2)
    record = 64 + 128
    for topic, at, value in [("length", record, 1), ("table", record + 2, 1), ("unused_table", record + 3, 1),
                             ("mode", record + 4, 0x30), ("plane", record + 5, 1)]:  # fmt: skip
        write(f"err_PACK_TABLE__{topic}", "BF16", bf16, summed(changed(raw_huff, at, value), index), 2)
    write("err_PACK_TABLE__checksum", "BF16", bf16, changed(raw_huff, 56, raw_huff[56] ^ 1), 2)
    used = next(i for i in range(64, 192) if raw_huff[i])
    for topic, value in [("incomplete", 0), ("too_long", 0xCC), ("overfull", 0x11)]:
        write(f"err_PACK_CODE__{topic}", "BF16", bf16, summed(changed(raw_huff, used, value), index), 2)
    lengths = chunk + 3000
    first = raw_huff[lengths] | raw_huff[lengths + 1] << 8
    moved = struct.pack("<HH", first - 1, (raw_huff[lengths + 2] | raw_huff[lengths + 3] << 8) + 1)
    write("err_PACK_STREAM__one_byte_of_another", "BF16", bf16, raw_huff[:lengths] + moved + raw_huff[lengths + 4 :], 2)
    write("err_PACK_STREAM__beyond_the_chunk", "BF16", bf16, changed(raw_huff, lengths + 1, 255), 2)
    write("err_PACK_STREAM__without_symbols", "BF16", bf16, changed(raw_huff, lengths + 4, 1), 2)
    write("err_PACK_STREAM__zeros", "BF16", bf16, raw_huff, 2, ending=b"\x01")
    write("err_PACK_CHECKSUM__raw_plane", "BF16", bf16, changed(raw_huff, chunk, raw_huff[chunk] ^ 1), 2)
    write("err_PACK_CHECKSUM__of_the_record", "BF16", bf16, summed(changed(raw_huff, record + 8, 0), index), 2)


def main():
    all_files()
    there = {path.name: path.read_bytes() for path in HERE.glob("*.safetensors")}
    if "--check" in sys.argv[1:]:
        return 0 if there == FILES else "make_packed: the folder is not what this program writes"
    for name in there.keys() - FILES.keys():
        (HERE / name).unlink()
    for name, content in FILES.items():
        (HERE / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
