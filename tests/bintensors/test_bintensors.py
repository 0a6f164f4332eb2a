# SPDX-License-Identifier: Apache-2.0
"""The Rust package of bintensors, by its Python binding, against ours: the vectors, files that are nearly right, what is written.

Every run tries the same files. COFFER_BT_VECTORS names a folder of further vectors with a manifest.json, where there is one.
COFFER_BINTENSORS_CASES changes the number of files that are nearly right.
"""

import collections
import hashlib
import json
import os
import pathlib
import random
import struct
import time

import bintensors
import coffer_ctypes
import conftest
import make_bintensors as make
import rust_package

CASES = int(os.environ.get("COFFER_BINTENSORS_CASES", "40000"))
CASES_FROM_VECTORS = 20  # changed versions of each vector, on top
MAX = 2**64 - 1
NAMES = ["a", "b", "ab", "", "a.weight", "é", "😀", "a\0", "x\ny", "__metadata__", "\x7f", "x" * 17, "y" * 300]
SPELLINGS = {dtype: name for dtype, name in zip(make.DTYPES, (
    "bool uint8 int8 float8_e5m2 float8_e4m3fn int16 uint16 float16 bfloat16 int32 uint32 float32 float64 int64 uint64"
).split())}  # fmt: skip


def parse(content, hidden_bytes=True):
    return coffer_ctypes.parse(content, hidden_bytes=hidden_bytes, format="BINTENSORS")


def tensors_of(content, verdict):
    return {t.name: (t.dtype, t.shape, content[t.offset : t.offset + t.size]) for t in verdict.tensors}


# ---- Comparing -----------------------------------------------------------------------------------------------------


class Comparison:
    """Counts what both said, and keeps what they should not have said."""

    def __init__(self, path):
        self.path = path
        self.counts = collections.Counter()
        self.codes = collections.Counter()
        self.differences = collections.Counter()
        self.wrong = []

    def compare(self, content):
        theirs, error = rust_package.deserialize(content)
        ours = parse(content)
        self.codes[ours.code] += 1
        if theirs is not None and ours.accepted:
            self.counts["accepted by both"] += 1
            self.compare_values(content, theirs, ours)
            self.compare_strict(content, ours)
        elif error is not None and ours.code in rust_package.CLASSES[error]:
            self.counts["refused by both, for the same reason"] += 1
        elif (found := rust_package.difference(content, error, ours)) is not None:
            self.differences[found] += 1
        else:
            said = "%s at %d: %s" % (ours.code, ours.offset, ours.message)
            self.wrong.append((content, "the package says %s, ours %s" % (error, said)))

    def compare_values(self, content, theirs, ours):
        if tensors_of(content, ours) != theirs or len(theirs) != len(ours.tensors):
            self.wrong.append((content, "tensors differ: %r, %r" % (theirs, ours.tensors)))
        if self.counts["accepted by both"] % 8 == 0:
            self.path.write_bytes(content)
            metadata, names = rust_package.open_file(self.path)
            if metadata != (ours.metadata if ours.has_metadata else None) or names != [t.name for t in ours.tensors]:
                self.wrong.append((content, "a file's metadata or names differ: %r, %r" % (metadata, names)))

    def compare_strict(self, content, ours):
        """Unasked, hidden bytes are refused, and nothing else than them; and the content tells the format."""
        strict = coffer_ctypes.parse(content)
        if strict.code == "PADDING" and "PADDING" in ours.notes and ours.notes["PADDING"] == strict.offset:
            self.differences[rust_package.difference(content, None, strict)] += 1
        elif strict != ours:
            self.wrong.append((content, "unasked, ours says %s at %d" % (strict.code, strict.offset)))

    def expect_nothing_wrong(self):
        for content, what in self.wrong[:20]:
            print(what, content, sep="\n  ")
        assert len(self.wrong) == 0

    def lines(self, seconds):
        counts = ", ".join("%d %s" % (n, what) for what, n in self.counts.items())
        yield "bintensors: %d files in %.0f s: %s" % (sum(self.codes.values()), seconds, counts)
        yield "  differences: " + ", ".join("%s %d" % item for item in sorted(self.differences.items()))
        yield "  codes: " + ", ".join("%s %d" % item for item in self.codes.most_common())


# ---- Files that are nearly right -----------------------------------------------------------------------------------


def good_pieces(rng):
    """(the header's items, the size of the data): numbers as int, anything else as bytes."""
    pieces, end = [], 0
    if rng.random() < 0.5:
        pairs = [(rng.choice(NAMES), rng.choice(NAMES)) for _ in range(rng.randrange(4))]
        pairs = dict(pairs).items() if rng.random() < 0.8 else pairs
        pieces += [b"\1", len(pairs)]
        for text in (text.encode() for pair in pairs for text in pair):
            pieces += [len(text), text]
    else:
        pieces += [b"\0"]
    names = rng.sample(NAMES, rng.choice((0, 1, 1, 2, 3, 5)))
    pieces += [len(names)]
    for name in names:
        tag = rng.randrange(15)
        shape = [rng.choice((0, 1, 1, 2, 3, 250, 251)) for _ in range(rng.randrange(4))]
        shape = [0, *(rng.choice((2**16, 2**32, MAX)) for _ in shape)] if rng.random() < 0.1 else shape
        size = make.SIZES[tag]
        for dimension in shape:
            size = min(size * dimension, 10**6)
        shape = shape if size < 10**6 else [0]
        size = size if size < 10**6 else 0
        pieces += [len(name.encode()), name.encode(), tag, len(shape), *shape, end, end + size]
        end += size
    return pieces, end


def changed_number(rng, value):
    kind = rng.randrange(6)
    if kind < 3:
        return make.long_number(value, rng.choice([w for w in (2, 4, 8) if value < 256**w]))
    if kind == 3:
        return make.number(min(MAX, max(0, value + rng.choice((-8, -1, 1, 1, 2, 8)))))
    if kind == 4:
        return make.number(rng.choice((0, 1, 14, 15, 250, 251, 65535, 65536, 2**32, 2**61, 2**63, MAX - 24, MAX)))
    return bytes([rng.choice((251, 252, 253, 254, 255))]) + rng.randbytes(rng.choice((0, 1, 2, 4, 8, 16)))


def change_pieces(rng, pieces):
    i = rng.randrange(len(pieces))
    kind = rng.randrange(8)
    if kind < 4 and isinstance(pieces[i], int):
        pieces[i] = changed_number(rng, pieces[i])
    elif kind == 4:
        del pieces[i]
    elif kind == 5:
        pieces.insert(i, pieces[rng.randrange(len(pieces))])
    elif kind == 6:
        k = rng.randrange(len(pieces))
        pieces[i], pieces[k] = pieces[k], pieces[i]


def change_bytes(rng, header):
    header = bytearray(header)
    at = rng.randrange(len(header))
    kind = rng.randrange(6)
    if kind == 0:
        header[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        header[at] = rng.choice((0, 1, 2, 14, 15, 0x20, 0x80, 250, 251, 252, 253, 254, 255))
    elif kind == 2:
        del header[at : at + rng.choice((1, 1, 2, 8))]
    elif kind == 3:
        header[at:at] = rng.randbytes(rng.choice((1, 1, 2, 8)))
    elif kind == 4:
        del header[at:]
    else:
        header += rng.choice((b" ", b"\0", b"PK", b"\n"))
    return bytes(header)


def frame(rng, header, data_size):
    body = bytes(1 + i % 251 for i in range(min(data_size, 4096))) + bytes(max(0, data_size - 4096))
    length = len(header)
    kind = rng.randrange(50)
    if kind == 0:
        length = max(0, length + rng.choice((-8, -1, 1, 2, 8)))
    elif kind == 1:
        length = rng.choice((0, 1, 100000000, 100000001, 2**32, 2**63, MAX))
    elif kind == 2:
        body = body[:-1]
    elif kind == 3:
        body += b"x"
    content = struct.pack("<Q", length) + header + body
    return content[: rng.randrange(1, len(content))] if kind == 4 else content


def made_file(rng):
    pieces, end = good_pieces(rng)
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        change_pieces(rng, pieces)
    header = b"".join(make.number(piece) if isinstance(piece, int) else piece for piece in pieces)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        header = change_bytes(rng, header) if header else header
    return frame(rng, header + b" " * (-len(header) % 8), end)


def changed_vector(rng, content):
    length = int.from_bytes(content[:8], "little")
    if length == 0 or length > min(len(content) - 8, 4096):
        return content
    header = change_bytes(rng, content[8 : 8 + length])
    return struct.pack("<Q", len(header)) + header + content[8 + length :]


def test_the_package_and_ours_agree(tmp_path):
    rng = random.Random("bintensors")
    comparison = Comparison(tmp_path / "case.bt")
    started = time.monotonic()
    for name, content in make.ITEMS or make.build():
        if content and not name.endswith(".alpha.bt"):
            comparison.compare(content)
            for _ in range(CASES_FROM_VECTORS):
                comparison.compare(changed_vector(rng, content))
    for _ in range(CASES):
        comparison.compare(made_file(rng))
    conftest.FIGURES.extend(comparison.lines(time.monotonic() - started))
    comparison.expect_nothing_wrong()
    # B3 takes a header that is larger than any here.
    assert set(comparison.differences) | {"B3"} == rust_package.documented_differences()
    assert comparison.counts["accepted by both"] > CASES / 10


def test_more_than_the_package_would_set_aside():
    """B3: its readers give up before they have read a header of 14 MB; ours reads it, and would not have written it."""
    count = 1388889
    entries = b"".join(b"\3%c%c%c\1\1\0\0\0" % (1 + i % 120, 1 + i // 120 % 120, 1 + i // 14400) for i in range(count))
    header = b"\0" + make.number(count) + entries
    content = struct.pack("<Q", len(header)) + header
    assert rust_package.deserialize(content) == (None, "DecoderError")
    assert len(parse(content).tensors) == count


# ---- What is written -----------------------------------------------------------------------------------------------


def by_the_package(tensors, metadata):
    items = {name: {"dtype": SPELLINGS[dtype], "shape": shape, "data": body} for name, dtype, shape, body in tensors}
    return bytes(bintensors.serialize(items, metadata))


def random_tensors(rng):
    for name in rng.sample(NAMES, rng.randrange(len(NAMES))):
        if name != "__metadata__":
            dtype = rng.choice(make.DTYPES)
            shape = [rng.choice((0, 1, 2, 3, 5)) for _ in range(rng.randrange(4))]
            size = make.SIZES[make.DTYPES.index(dtype)]
            for dimension in shape:
                size *= dimension
            yield name, dtype, shape, rng.randbytes(size)


def test_same_bytes():
    rng = random.Random("same bytes")
    for _ in range(3000):
        tensors = list(random_tensors(rng))
        metadata = rng.choice((None, {}, {rng.choice(NAMES): rng.choice(NAMES) for _ in range(rng.randrange(5))}))
        content = coffer_ctypes.serialize(tensors, metadata, "BINTENSORS", metadata is not None)
        assert content == by_the_package(tensors, metadata)
        verdict = parse(content, hidden_bytes=False)
        assert tensors_of(content, verdict) == {name: (dtype, shape, body) for name, dtype, shape, body in tensors}
        assert (verdict.metadata if verdict.has_metadata else None) == metadata
        assert verdict.format == coffer_ctypes.FORMATS["BINTENSORS"]


# ---- Further vectors -----------------------------------------------------------------------------------------------


def further_vectors():
    folder = os.environ.get("COFFER_BT_VECTORS")
    manifest = json.loads(pathlib.Path(folder, "manifest.json").read_text()) if folder else {"vectors": []}
    return [(vector, pathlib.Path(folder, vector["file"]).read_bytes()) for vector in manifest["vectors"]]


def test_further_vectors():
    for vector, content in further_vectors():
        if vector["layout"] == "A":
            check_alpha(vector, content)
        elif "expect" in vector:
            check_accepted(vector, content)
        else:
            check_refused(vector, content)


def check_accepted(vector, content, format="BINTENSORS"):
    ours = coffer_ctypes.parse(content, hidden_bytes=True, format=format)
    assert rust_package.difference(content, None, ours) is not None or ours.accepted, vector["file"]
    if not ours.accepted:
        return
    wanted, start = vector["expect"], 8 + vector["expect"]["header_len"]
    assert (ours.metadata if ours.has_metadata else None) == wanted["metadata"], vector["file"]
    found = [{"name": t.name, "dtype": t.dtype, "shape": t.shape, "data_offsets": [t.offset - start, t.offset - start + t.size],
              "sha256": hashlib.sha256(content[t.offset : t.offset + t.size]).hexdigest()} for t in ours.tensors]  # fmt: skip
    assert found == wanted["tensors"], vector["file"]
    if vector["canonical"] and format == "BINTENSORS":
        tensors = [(name, *rest) for name, rest in tensors_of(content, ours).items()]
        assert coffer_ctypes.serialize(tensors, ours.metadata, format, ours.has_metadata) == content, vector["file"]


def check_refused(vector, content):
    ours = parse(content)
    if content:
        agreed = ours.code in rust_package.CLASSES[vector["error_class"]]
        assert agreed or rust_package.difference(content, vector["error_class"], ours) is not None, vector["file"]


def check_alpha(vector, content):
    """What the package of then took although an index leads nowhere, or twice to one tensor, is refused."""
    if "expect" in vector:
        check_accepted(vector, content, "BINTENSORS_ALPHA")
    else:
        assert not coffer_ctypes.parse(content, format="BINTENSORS_ALPHA").accepted, vector["file"]
