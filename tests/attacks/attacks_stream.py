# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of torch before 1.6, streams of pickles, that lie."""

import struct

from pickles_by_hand import dict_of, name, number, stream, tensor, text, tuple_of
from zips_by_hand import DATA

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
