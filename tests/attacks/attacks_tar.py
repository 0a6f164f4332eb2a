# SPDX-License-Identifier: Apache-2.0
"""Archives (tar) that lie: checkpoints of torch 0.1.10 and before, and models of NeMo."""

import struct

from pickles_by_hand import dict_of, name, number, stream, text, tuple_of
from zips_by_hand import DATA, torch_file


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


def nemo_file(*more, weights=b"./model_weights.ckpt", data=None, kind=b"0"):
    """As tarfile packs the folder that NeMo fills."""
    data = torch_file() if data is None else data
    return tar_file(tar_member(b"./", b"", b"5"), tar_member(b"./model_config.yaml", b"target: nemo\n"),
                    tar_member(weights, data, kind), *more)


def nemo_attacks():
    good = torch_file()
    yield "no-weights", nemo_file(weights=b"./weights.ckpt")
    yield "twice", nemo_file(tar_member(b"model_weights.ckpt", good))
    yield "link", nemo_file(data=b"", kind=b"2")
    yield "folder-of-weights", nemo_file(weights=b"./model_weights/.metadata")
    yield "rank", nemo_file(weights=b"./mp_rank_00/model_weights.ckpt")
    yield "rank-besides", nemo_file(tar_member(b"./mp_rank_01/model_weights.ckpt", good))
    yield "no-archive", nemo_file(data=bytes(2000))
    yield "empty-weights", nemo_file(data=b"")
    yield "weights-cut", nemo_file(data=good[:-9])
    yield "many", nemo_file(*[tar_member(b"./t", b"")] * 1000)
    yield "cut", nemo_file()[:1700]
