# SPDX-License-Identifier: Apache-2.0
"""The reference implementation against ours, over a large number of files that are nearly right.

Headers are made as trees (so that what is wrong is wrong in one place and a good part stays right), changed as trees,
written in odd spellings, changed again as tokens and as bytes, and framed, sometimes wrongly. The verdicts must agree,
and where both accept, names, dtypes, shapes, bytes and metadata. The list of allowed differences is that of
docs/format.md; each must occur. Every run tries the same files. COFFER_DIFFERENTIAL_CASES changes their number.
"""

import collections
import json
import os
import random
import re
import struct
import time

import coffer_ctypes
import reference
import safetensors

CASES = int(os.environ.get("COFFER_DIFFERENTIAL_CASES", "200000"))
CASES_FROM_VECTORS = 40  # changed versions of each vector, on top
DTYPES = list(coffer_ctypes.DTYPES)
BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6} | {
    name: size * 8
    for size, names in (
        (1, "BOOL U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ"), (2, "I16 U16 F16 BF16"), (4, "I32 U32 F32"),
        (8, "C64 F64 I64 U64"),
    )
    for name in names.split()
}  # fmt: skip
MAX = 2**64 - 1


# ---- Trees: objects are lists of pairs, so that keys can come twice; Raw is text that is written as it is ----------


class Raw(str):
    pass


NAMES = [
    "a", "b", "ab", "", "a.weight", "A.Weight", "é", "😀", "a\0", "x\ny", "shape", "dtype", "__metadata__ ", "\x7f",
    '"\\/',
]  # fmt: skip
NUMBERS = [
    "0", "1", "2", "-0", "-1", "+1", "01", "1.0", "1e2", "0e0", "16.0", "1E+2", "1e-2", ".5", "1.", "1e", "-", "0x1",
    "18446744073709551615", "18446744073709551616", "9223372036854775808", "2305843009213693951", "2305843009213693952",
    "4294967296", "1e308", "1e309", "1.8e308", "-1e309", "0e999", "1e-99999999999", "1e99999999999", "0.1e309",
    "10e308",
    "0." + "0" * 30 + "1e340", "1" * 309, "1" * 310, "9" * 309, "1" * 400 + "e-100", "0e99999999999", "5e-324",
]  # fmt: skip
WORDS = ["null", "true", "false", "True", "nul", "NaN", "Infinity", "[]", "{}", '""', '"a"', "[[]]", '{"a":null}']


def number_beside_the_largest_double(rng):
    """Spelt in one of many ways: this is where a reader that is not exact shows itself."""
    digits = "17976931348623157" + "".join(rng.choices("0123456789", k=rng.randrange(8)))
    if rng.random() < 0.3:
        digits = str(int(digits) + rng.randrange(-30, 30))
    point = rng.randrange(1, len(digits))
    return "%s.%se%d" % (digits[:point], digits[point:], 309 - point + rng.choice((0, 0, 0, 0, 1, -1)))


def number_of_any_spelling(rng):
    def digits(most):
        return "".join(rng.choices("0123456789", k=rng.randrange(1, most)))

    number = rng.choice(("", "-")) + (digits(30).lstrip("0") or "0")
    if rng.random() < 0.6:
        number += "." + digits(30)
    if rng.random() < 0.9:
        exponent = rng.choice((rng.randrange(400), rng.randrange(250, 320), 2147483640, 2147483647, 2147483648, 10**11))
        number += rng.choice("eE") + rng.choice(("", "", "+", "-")) + rng.choice(("", "0", "00")) + str(exponent)
    return number


def unknown_value(rng, depth=0):
    kind = rng.randrange(9 if depth < 4 else 6)
    if kind < 2:
        return rng.choice(("x", "é", "", "a\0"))
    if kind == 2:
        return Raw(rng.choice(NUMBERS) if rng.random() < 0.8 else number_beside_the_largest_double(rng))
    if kind == 3:
        return Raw(rng.choice(WORDS))
    if kind == 4:
        return rng.randrange(1000)
    if kind == 5:
        levels = rng.choice((1, 5, 123, 124, 125, 126, 127, 128, 300))
        closed = levels if rng.random() < 0.9 else levels - 1
        return Raw(rng.choice(("[" * levels + "]" * closed, '{"y":' * levels + "0" + "}" * closed)))
    if kind == 6:
        return [unknown_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return Object((rng.choice("xyzw"), unknown_value(rng, depth + 1)) for _ in range(rng.randrange(4)))


class Object(list):
    """A list of pairs that is written as an object."""


def number_of_any_length(rng):
    return min(MAX, rng.randrange(10 ** rng.randrange(1, 21)))


def text_of_any_length(rng):
    """Mostly plain, with something at any place that needs to be looked at."""
    text = [rng.choice("abc._019 /:;<=>?@[]^`{|}~!#$%&'()*+,-") for _ in range(rng.randrange(1, 50))]
    if rng.random() < 0.3:
        text.insert(rng.randrange(len(text) + 1), rng.choice('"\\\n\0\x1f\x7f\x80é€😀'))
    return "".join(text)


def good_tensor(rng, begin):
    dtype = rng.choice(DTYPES)
    if rng.random() < 0.15:
        shape = [0] + [number_of_any_length(rng) for _ in range(rng.randrange(1, 5))]
        return Object([("dtype", dtype), ("shape", shape), ("data_offsets", [begin, begin])]), begin
    shape = [rng.choice((0, 1, 1, 2, 3, 4, 8)) for _ in range(rng.randrange(4))]
    elements = 1
    for dimension in shape:
        elements *= dimension
    if elements * BITS[dtype] % 8:
        shape.append(8)
        elements *= 8
    size = elements * BITS[dtype] // 8
    return Object([("dtype", dtype), ("shape", shape), ("data_offsets", [begin, begin + size])]), begin + size


def good_header(rng):
    """A tree that both accept, and the size of its data."""
    root, end = Object(), 0
    count = rng.choice((0, 1, 1, 2, 2, 3, 5)) if rng.random() < 0.97 else rng.randrange(60, 80)
    for i in range(count):
        name = rng.choice((rng.choice(NAMES), "t%d" % i, text_of_any_length(rng)))
        if any(name == key for key, _ in root):
            name += str(i)
        tensor, end = good_tensor(rng, end)
        root.append((name, tensor))
    if rng.random() < 0.4:
        keys = rng.sample(NAMES, rng.randrange(3))
        values = (*NAMES, text_of_any_length(rng))
        value = Raw("null") if rng.random() < 0.1 else Object((key, rng.choice(values)) for key in keys)
        root.insert(rng.randrange(len(root) + 1), ("__metadata__", value))
    if rng.random() < 0.3:
        rng.shuffle(root)
    return root, end


# ---- Changing trees ------------------------------------------------------------------------------------------------


def containers(node, found):
    if isinstance(node, list):
        found.append(node)
        for item in node:
            containers(item[1] if isinstance(item, tuple) else item, found)
    return found


def move_ranges(rng, root):
    """Moves a tensor's range, or lets two tensors change theirs: holes and overlaps where everything else is right."""
    ranges = [dict(value).get("data_offsets") for _, value in root if isinstance(value, Object)]
    ranges = [found for found in ranges if type(found) is list and len(found) == 2]
    if not ranges:
        return
    one, other = rng.choice(ranges), rng.choice(ranges)
    if rng.random() < 0.3:
        one[:], other[:] = other[:], one[:]
    else:
        by = rng.choice((-4, -1, 1, 4, 16))
        one[:] = [max(0, at + by) if isinstance(at, int) else at for at in one]


def change_tree(rng, root):
    """One change of an entry of an object or array that is chosen at random."""
    if rng.random() < 0.1:
        move_ranges(rng, root)
        return
    node = rng.choice(containers(root, []))
    kind = rng.randrange(14)
    if kind == 0 or not node:
        entry = (rng.choice(NAMES + ["x", "__metadata__", "data_offsets"]), unknown_value(rng))
        node.insert(rng.randrange(len(node) + 1), entry if isinstance(node, Object) else rng.randrange(3))
        return
    i = rng.randrange(len(node))
    if kind == 1:
        del node[i]
    elif kind == 2:
        node.insert(rng.randrange(len(node) + 1), node[i])
    elif kind == 3:
        rng.shuffle(node)
    elif isinstance(node, Object):
        change_member(rng, node, i, kind)
    else:
        node[i] = change_element(rng, node[i])


def change_member(rng, node, i, kind):
    key, value = node[i]
    if kind == 4:
        node[i] = (node[rng.randrange(len(node))][0], value)
    elif kind == 5:
        node[i] = (rng.choice(NAMES + ["dtype", "shape", "__metadata__"]), value)
    elif kind == 6:
        node[i] = (key, unknown_value(rng))
    elif kind == 7:
        node.append((rng.choice("xy"), unknown_value(rng)))
    elif kind == 8 and isinstance(value, Object):
        node[i] = (key, [item[1] for item in value])  # the form in which a tensor is an array
    elif kind == 9 and isinstance(value, str):
        node[i] = (key, Object([(value, rng.choice((Raw("null"), Object(), [])))]))  # a dtype as an object
    elif kind == 10 and key == "dtype":
        node[i] = (key, rng.choice(DTYPES + ["u8", "F128", "", "F8_E4M3FN"]))
    elif isinstance(value, str) and not isinstance(value, Raw):
        node[i] = (key, rng.choice(NAMES))
    elif isinstance(value, list) and value and not isinstance(value, Object):
        at = rng.randrange(len(value))
        value[at] = change_element(rng, value[at])


def change_element(rng, value):
    if isinstance(value, int) and rng.random() < 0.6:
        return max(0, value + rng.choice((-8, -2, -1, 1, 1, 2, 8)))
    return rng.choice((Raw(rng.choice(NUMBERS)), Raw(rng.choice(WORDS)), rng.randrange(9), 0, MAX, 2**32))


# ---- Writing trees -------------------------------------------------------------------------------------------------

CODE_UNITS = [0x41, 0xD7FF, 0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xE000, 0xFFFF]
SPACES = ["", " ", "\n", "\t", "\r\n", "  "]


class Spelling:
    """How a tree becomes text: plainly, with a space behind each colon and comma, as Python's json module has it, and with white
    space and escapes wherever they are allowed."""

    def __init__(self, rng):
        self.rng = rng
        self.odd = rng.random() < 0.35
        self.gap = " " if rng.random() < 0.3 else ""

    def space(self):
        return self.rng.choice(SPACES) if self.odd and self.rng.random() < 0.3 else ""

    def string(self, text):
        if not self.odd or self.rng.random() < 0.5:
            return json.dumps(text, ensure_ascii=self.odd)
        return '"%s"' % "".join(self.character(c) for c in text)

    def character(self, c):
        if self.rng.random() < 0.003:
            return "".join("\\u%04x" % self.rng.choice(CODE_UNITS) for _ in range(2))
        if self.rng.random() < 0.3 or c in '"\\' or c < " ":
            units = c.encode("utf-16-be")
            form = self.rng.choice(("\\u%04x", "\\u%04X"))
            return "".join(form % unit for unit in struct.unpack(">%dH" % (len(units) // 2), units))
        return c

    def write(self, node):
        s = self.space
        if isinstance(node, Raw):
            return s() + node + s()
        if isinstance(node, str):
            return s() + self.string(node) + s()
        if isinstance(node, Object):
            members = (s() + self.string(key) + s() + ":" + self.gap + self.write(value) for key, value in node)
            return s() + "{" + ("," + self.gap).join(members) + s() + "}" + s()
        if isinstance(node, list):
            return s() + "[" + ("," + self.gap).join(map(self.write, node)) + s() + "]" + s()
        return s() + str(node) + s()


# ---- Changing text and bytes ---------------------------------------------------------------------------------------

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[-+.0-9eE]+|[a-z]+|[^\S ]+| +|.', re.S)
TOKENS = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"null", b"true", b"0", b"1", b" ", b"\n", b'"dtype"', b'"shape"',
    b'"U8"', b'"data_offsets"', b'"__metadata__"', b'"a"', b"//", b"/**/", b"\0", b"'a'", b"[]", b"{}", b",,",
]  # fmt: skip
PIECES = [
    b"\\", b"\\u", b"\\ud800", b"\\udc00", b"\\ud83d\\ude00", b"\\u0000", b"\\n", b"\\x", b"\\/", b"\\u00e9", b'\\"',
    b"\x00", b"\x1f", b"\x7f", b"\n", b"\xc3\xa9", b"\xc3", b"\xa9", b"\xff", b"\xc0\x80", b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"\xf0\x9f\x98\x80", b"\xef\xbb\xbf", b"\xc2\x85", b"\xe2\x80\xa8",
    b'"', b" ", b"\x0b", b"\xc2\xa0",
]  # fmt: skip


def change_tokens(rng, header):
    tokens = TOKEN.findall(header)
    i, k = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    kind = rng.randrange(7)
    if kind == 0:
        del tokens[i]
    elif kind == 1:
        tokens.insert(i, tokens[k])
    elif kind == 2:
        tokens[i], tokens[k] = tokens[k], tokens[i]
    elif kind == 3:
        tokens[i] = rng.choice(TOKENS)
    elif kind == 4:
        tokens.insert(i, rng.choice(TOKENS))
    elif kind == 5:
        tokens[i:i] = tokens[min(i, k) : max(i, k)]
    else:
        numbers = [at for at, token in enumerate(tokens) if token[:1].isdigit()]
        if numbers:
            tokens[rng.choice(numbers)] = rng.choice(NUMBERS).encode()
    return b"".join(tokens)


def change_bytes(rng, header):
    header = bytearray(header)
    at = rng.randrange(len(header))
    kind = rng.randrange(7)
    if kind == 0:
        header[at] ^= 1 << rng.randrange(8)
    elif kind == 6:
        digits = [found.start() for found in re.finditer(rb"[0-9]", header)]
        if digits:
            header[rng.choice(digits)] = rng.choice(b"/0123456789:;-+.eE ,]o\xb1")
    elif kind == 1:
        header[at] = rng.randrange(256)
    elif kind == 2:
        del header[at : at + rng.choice((1, 1, 1, 2, 8))]
    elif kind == 3:
        header[at:at] = rng.choice(PIECES)
    elif kind == 4:
        del header[at:]
    else:
        quotes = [found.end() for found in re.finditer(rb'"', header)]
        place = rng.choice(quotes) if quotes else at
        header[place:place] = rng.choice(PIECES)
    return bytes(header)


def change_header(rng, header):
    return (change_tokens if rng.random() < 0.5 else change_bytes)(rng, header) if header else header


def frame(rng, header, data_size):
    """The file; now and then with a length or an end that is not right."""
    body = bytes(1 + i % 251 for i in range(min(data_size, 4096)))
    length = len(header)
    kind = rng.randrange(60)
    if kind == 0:
        length = max(0, length + rng.choice((-8, -1, 1, 2, 8)))
    elif kind == 1:
        length = rng.choice((0, 1, 100000000, 100000001, 2**32, 2**63, MAX))
    elif kind == 2:
        body = body[:-1]
    elif kind == 3:
        body += rng.choice((b"\0", b"\n", body, b"\0" * 4096))
    content = struct.pack("<Q", length) + header + body
    return content[: rng.randrange(len(content))] if kind == 4 else content


def made_file(rng):
    root, end = good_header(rng)
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        change_tree(rng, root)
    spelling = Spelling(rng)
    header = spelling.write(root).encode("utf-8", "surrogatepass")
    header += b" " * (-len(header) % 8) if not spelling.odd else b""
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        header = change_header(rng, header)
    return frame(rng, header, end)


def changed_vector(rng, content):
    """A vector with something changed in its header; the frame is made to fit unless it did not before."""
    header_size = int.from_bytes(content[:8], "little")
    if header_size > len(content) - 8 or header_size == 0 or header_size > 4096:
        at = rng.randrange(len(content) + 1)
        return content[:at] + rng.choice(PIECES) + content[at:]
    header = change_header(rng, content[8 : 8 + header_size])
    return struct.pack("<Q", len(header)) + header + content[8 + header_size :]


# ---- Comparing -----------------------------------------------------------------------------------------------------


class Comparison:
    """Counts what both said, and keeps what they should not have said."""

    def __init__(self, path):
        self.path = path
        self.counts = collections.Counter()
        self.codes = collections.Counter()
        self.deviations = collections.Counter()
        self.wrong = []

    def compare(self, content):
        theirs, ours = reference.deserialize(content), coffer_ctypes.parse(content)
        self.codes[ours.code] += 1
        if theirs is not None and ours.accepted:
            self.counts["accepted by both"] += 1
            self.compare_values(content, theirs, ours)
        elif theirs is None and not ours.accepted and ours.code != "NEED_MORE":
            self.counts["refused by both"] += 1
        elif theirs is not None and (found := reference.deviation(content, ours)) is not None:
            self.deviations[found] += 1
        else:
            self.wrong.append((content, "the reference %s, ours says %s at %d: %s" % (
                "refuses" if theirs is None else "accepts", ours.code, ours.offset, ours.message)))  # fmt: skip

    def compare_values(self, content, theirs, ours):
        mine = {t.name: (t.dtype, t.shape, content[t.offset : t.offset + t.size]) for t in ours.tensors}
        if mine != theirs or len(mine) != len(ours.tensors):
            self.wrong.append((content, "tensors differ: %r, %r" % (theirs, mine)))
        header_size = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + header_size]).get("__metadata__") or {}
        if metadata != ours.metadata:
            self.wrong.append((content, "metadata differs: %r, %r" % (metadata, ours.metadata)))
        if self.counts["accepted by both"] % 64 == 0 or (metadata and self.counts["accepted by both"] % 8 == 0):
            self.compare_file(content, theirs, ours)

    def compare_file(self, content, theirs, ours):
        """Through a file, as users do: the reference's metadata can be had in this way only."""
        self.counts["of these, through a file"] += 1
        self.path.write_bytes(content)
        backend = "mmap" if self.counts["of these, through a file"] % 2 else "pread"
        with safetensors.safe_open(self.path, "np", backend=backend) as model:
            metadata, names = model.metadata() or {}, set(model.keys())
        opened, data = coffer_ctypes.open_and_read(self.path, access=0 if backend == "mmap" else 2)
        if metadata != ours.metadata or names != set(theirs):
            self.wrong.append((content, "a file's metadata or names differ: %r, %r" % (metadata, names)))
        if opened != ours or data != {name: body for name, (_, _, body) in theirs.items()}:
            self.wrong.append((content, "coffer_open says other things than coffer_parse"))

    def expect_nothing_wrong(self):
        for content, what in self.wrong[:20]:
            print(what, content, sep="\n  ")
        assert len(self.wrong) == 0

    def lines(self, title, seconds):
        counts = ", ".join("%d %s" % (n, what) for what, n in self.counts.items())
        yield "%s: %d files in %.0f s: %s" % (title, sum(self.codes.values()), seconds, counts)
        if self.deviations:
            yield "  deviations: " + ", ".join("%s %d" % item for item in sorted(self.deviations.items()))
        yield "  codes: " + ", ".join("%s %d" % item for item in self.codes.most_common())


def test_the_reference_and_ours_agree(vectors, figures, tmp_path):
    rng = random.Random("coffer")
    comparison = Comparison(tmp_path / "case.safetensors")
    started = time.monotonic()
    for path in vectors:
        content = path.read_bytes()
        if content:
            comparison.compare(content)
            for _ in range(CASES_FROM_VECTORS):
                comparison.compare(changed_vector(rng, content) or b"\0")
    for _ in range(CASES):
        content = made_file(rng)
        if content:
            comparison.compare(content)
    figures.extend(comparison.lines("differential test", time.monotonic() - started))
    comparison.expect_nothing_wrong()
    assert set(comparison.deviations) == reference.documented_deviations()
    assert comparison.counts["accepted by both"] > CASES / 10


def test_numbers_that_nobody_wants(figures, tmp_path):
    """In values that are ignored any number may stand that a double can hold, by the reference's own arithmetic."""
    rng = random.Random("numbers")
    comparison = Comparison(tmp_path / "case.safetensors")
    started = time.monotonic()
    for i in range(CASES // 8):
        number = number_beside_the_largest_double(rng) if i % 2 else number_of_any_spelling(rng)
        header = b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":%s}}' % number.encode()
        comparison.compare(struct.pack("<Q", len(header)) + header)
    figures.extend(comparison.lines("numbers that are skipped", time.monotonic() - started))
    comparison.expect_nothing_wrong()
    assert min(comparison.codes["OK"], comparison.codes["NUMBER"]) > CASES / 80
