# SPDX-License-Identifier: Apache-2.0
"""The vectors of bintensors, for make_vectors.py. A header is a list of pieces; HERE stands before the byte of the verdict."""

import struct

DTYPES = "BOOL U8 I8 F8_E5M2 F8_E4M3 I16 U16 F16 BF16 I32 U32 F32 F64 I64 U64".split()
SIZES = [1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8]
HERE = None
MAX = 2**64 - 1
# Well-formed in both layouts, with one tensor of another name and dtype in each.
AMBIGUOUS = b"\0\1\6\1\0\0\0\1\4\x0b\1\0\0\0"
NAMES = set()
ITEMS = []  # (file name, bytes)


# ---- Building ------------------------------------------------------------------------------------------------------


def number(value):
    """In the fewest bytes."""
    if value <= 250:
        return bytes([value])
    width = 2 if value < 2**16 else 4 if value < 2**32 else 8
    return long_number(value, width)


def long_number(value, width):
    return bytes([{2: 251, 4: 252, 8: 253}[width]]) + value.to_bytes(width, "little")


def string(text):
    text = text if isinstance(text, bytes) else text.encode()
    return number(len(text)) + text


def dims(*shape):
    return number(len(shape)) + b"".join(map(number, shape))


def info(dtype="U8", shape=(1,), begin=0, end=1):
    return number(DTYPES.index(dtype)) + dims(*shape) + number(begin) + number(end)


def tensor(name="a", *rest, **fields):
    return string(name) + info(*rest, **fields)


def header(*tensors, metadata=b"\0", pad=True):
    """Metadata, the count and the tensors; entries that are HERE are no tensors."""
    count = sum(1 for item in tensors if item is not HERE)
    return finish([metadata, number(count), *tensors], pad)


def finish(pieces, pad=True):
    """(bytes, the mark's place in them or None): pieces joined and padded."""
    content, at = b"", None
    for piece in pieces:
        if piece is HERE:
            at = len(content)
        else:
            content += piece
    return content + b" " * (-len(content) % 8 if pad else 0), at


def far(made):
    """With so much padding that nothing is near the header's end."""
    return made[0] + b" " * 128, made[1]


def pairs(*items):
    return b"\1" + number(len(items)) + b"".join(string(key) + string(value) for key, value in items)


def frame(content, size, length=None):
    body = bytes(1 + i % 251 for i in range(size))
    return struct.pack("<Q", len(content) if length is None else length) + content + body


def put(name, content):
    if name in NAMES:
        raise SystemExit("two vectors are named " + name)
    NAMES.add(name)
    ITEMS.append((name, content))


def ok(topic, made, size=0, ending="bt"):
    content, at = made
    assert at is None, topic
    put("ok__%s.%s" % (topic, ending), frame(content, size))


def said(word, what, topic, made, size, ending):
    content, at = made
    put("%s_%s_at%d__%s.%s" % (word, what, 8 + at, topic, ending), frame(content, size))


def err(code, topic, made, size=0, ending="bt"):
    said("err", code, topic, made, size, ending)


def note(kind, topic, made, size=0, ending="bt"):
    said("note", kind, topic, made, size, ending)


def raw(code, at, topic, content):
    put("err_%s_at%d__%s.bt" % (code, at, topic), content)


# ---- Layout B, accepted ----------------------------------------------------------------------------------------------


def accepted():
    ok("no_tensors", header())
    ok("shortest_file", header(pad=False))
    ok("metadata_empty", header(metadata=pairs()))
    ok("metadata_one_key", header(metadata=pairs(("k", "v"))))
    strings = [("", ""), ("a", "1"), ("b", "\0"), ("é", "😀\n"), ("B", "x" * 300)]
    ok("metadata_of_many_short_pairs", header(metadata=pairs(*((chr(i), "") for i in range(1, 128)))))
    ok("metadata_any_strings_in_any_order", header(metadata=pairs(*strings)))
    ok("one_tensor", header(tensor("weight", "F32", (2, 3), 0, 24)), 24)
    begin, tensors = 0, []
    for dtype, size in reversed(list(zip(DTYPES, SIZES))):
        ok("dtype_" + dtype, header(tensor("a", dtype, (2, 4), 0, 8 * size)), 8 * size)
        tensors.append(tensor(dtype.lower(), dtype, (3,), begin, begin + 3 * size))
        begin += 3 * size
    ok("dtypes_all", header(*tensors), begin)
    ok("scalar", header(tensor("a", "I64", (), 0, 8)), 8)
    ok("no_elements", header(tensor("a", "F32", (0,), 0, 0), tensor("b", "U8", (3, 0, 2**33), 0, 0)))
    ok("zero_before_an_overflow", header(tensor("a", "U64", (0, 2**63, 2**63), 0, 0)))
    widths = header(tensor("a", "U8", (0, 250, 251, 65535, 65536, 2**32 - 1, 2**32, MAX), 0, 0))
    ok("dimensions_of_every_width", widths)
    ok("dimensions_of_every_width_far", far(widths))
    ok("rank_8_and_9", far(header(tensor("a", "U8", (1,) * 8, 0, 1), tensor("b", "U8", (1,) * 9, 1, 2))), 2)
    ok("rank_300", header(tensor("a", "U8", (1,) * 300, 0, 1)), 1)
    sizes, begin, tensors = [250, 1, 65284, 1, 3], 0, []
    for i, size in enumerate(sizes):
        tensors.append(tensor("t%d" % i, "U8", (size,), begin, begin + size))
        begin += size
    ok("offsets_of_every_width", header(*tensors), begin)
    ok("count_251", header(*(tensor("t%d" % i, "U8", (0,), 0, 0) for i in range(251))))
    names = ["x" * 250, "y" * 251, "z" * 65536, "é", "😀", "a.weight", "__metadata__", "metadata", '"\\', "sixteen bytes!!!"]
    ok("names", header(*(tensor(name, "U8", (0,), 0, 0) for name in names)))
    ok("dtypes_in_any_order", header(tensor("a", "U8", (4,), 0, 4), tensor("b", "F32", (1,), 4, 8)), 8)
    ok("much_padding", finish([header()[0], b" " * 1024]))
    ok("header_not_a_multiple_of_8", header(tensor("a"), pad=False), 1)
    ok("name_at_the_headers_end", header(tensor("abcdefghijklmnopqrst", "U8", (), 0, 1), pad=False), 1)
    ok("bool_of_any_value", header(tensor("a", "BOOL", (4,), 0, 4)), 4)


def noted():
    note("LONG_NUMBER", "count", finish([b"\0", HERE, long_number(1, 2), tensor()]), 1)
    items = [("name_length", 1), (None, b"a"), ("dtype", 1), ("rank", 1), ("dimension", 1), ("begin", 0), ("end", 1)]
    for i, (what, value) in enumerate(items):
        for width in {None: (), "dtype": (2, 4)}.get(what, (2, 4, 8)):
            pieces = [number(item) if name else item for name, item in items]
            pieces[i : i + 1] = [HERE, long_number(value, width)]
            note("LONG_NUMBER", "%s_in_%d" % (what, width), finish([b"\0\1", *pieces]), 1)
            note("LONG_NUMBER", "%s_in_%d_far" % (what, width), far(finish([b"\0\1", *pieces])), 1)
    for value, width in ((250, 2), (65535, 4), (2**32 - 1, 8)):
        shape = [b"\2\0", HERE, long_number(value, width)]
        made = finish([b"\0\1", string("a"), number(1), *shape, b"\0\0"])
        note("LONG_NUMBER", "dimension_%d" % value, made)
        note("LONG_NUMBER", "dimension_%d_far" % value, far(made))
    note("LONG_NUMBER", "of_metadata", finish([b"\1", HERE, long_number(1, 8), string("k"), string("v"), b"\0"]))
    note("EMPTY_NAME", "name", header(HERE, tensor("")), 1)
    for topic, name in (("newline", "a\nb"), ("nul", "a\0"), ("del", "\x7f"), ("c1", "\x85"), ("behind_letters", "é\1")):
        note("CONTROL_NAME", topic, header(HERE, tensor(name)), 1)
    for topic, padding in (("nul", b"\0" * 4), ("garbage", b"PK\3\4 and so on")):
        note("PADDING", topic, finish([header(tensor(), pad=False)[0], b" ", HERE, padding]), 1)
    note("CONTROL_NAME", "layout_a_is_not_guessed", finish([AMBIGUOUS[:2], HERE, AMBIGUOUS[2:]]))
    note("CASE", "names", header(tensor("a"), HERE, tensor("A", "U8", (1,), 1, 2)), 2)
    content, _ = header(tensor("a", "U8", (1,), 0, 1), tensor("b", "F32", (1,), 1, 5))
    put("note_UNALIGNED_at%d__after_a_byte.bt" % (8 + len(content) + 1), frame(content, 5))
    content, _ = header(tensor("a", "I16", (1,), 0, 2), pad=False)
    content += b" " * (len(content) % 2 == 0)
    put("note_UNALIGNED_at%d__odd_header.bt" % (8 + len(content)), frame(content, 2))


# ---- Layout B, refused -----------------------------------------------------------------------------------------------


def refused_frames():
    raw("EMPTY", 0, "no_bytes", b"")
    raw("TOO_SHORT", 0, "seven_bytes", b"\x10\0\0\0\0\0\0")
    whole = frame(*header(tensor())[:1], 1)
    raw("HEADER_LENGTH", 0, "length_0", b"\0" * 8 + b"\0\0")
    raw("HEADER_TOO_LARGE", 0, "length_100000001", struct.pack("<Q", 100000001) + whole[8:])
    raw("HEADER_TOO_LARGE", 0, "length_max", struct.pack("<Q", MAX) + whole[8:])
    raw("HEADER_TRUNCATED", 0, "length_100000000", struct.pack("<Q", 100000000) + whole[8:])
    raw("HEADER_TRUNCATED", 0, "one_byte_missing", whole[:-2])
    raw("DATA_TRUNCATED", len(whole) - 1, "no_data", whole[:-1])
    raw("TRAILING_BYTES", len(whole), "one_byte", whole + b"x")
    raw("DATA_TRUNCATED", 40, "near_the_largest_size", frame(header(tensor("a", "U8", (2**60,), 0, 2**60))[0], 0))


def refused_ends():
    """Every item of a header, cut before it and within it."""

    def end(topic, *pieces):
        err("HEADER_ENDS", topic, finish(pieces, pad=False))

    end("before_count", b"\0", HERE)
    end("within_count", b"\0", HERE, b"\xfb\1")
    end("before_pairs", b"\1", HERE)
    end("too_many_pairs", b"\1", HERE, b"\2", string("a"), string(""))
    end("before_value", b"\1\1", string("key"), HERE)
    end("within_value", b"\1\1", string("k"), HERE, b"\2a")
    end("within_name", b"\0\1", HERE, b"\6abcde")
    end("before_dtype", b"\0\1", string("abcd"), HERE)
    end("within_dtype", b"\0\1", string("abc"), HERE, b"\xfb")
    end("before_rank", b"\0\1", string("abc"), b"\1", HERE)
    end("too_many_dimensions", b"\0\1", string("ab"), b"\1", HERE, b"\2\1")
    end("before_begin", b"\0\1", string("a"), b"\1\1\1", HERE)
    end("before_end", b"\0\1", string("a"), b"\1\1\1\0", HERE)
    end("within_end", b"\0\1", string("a"), b"\1\1\1\0", HERE, b"\xfc\1\0\0")
    end("within_8_bytes", b"\0\1", string("a"), b"\1\1\1\0", HERE, b"\xfd" + b"\1" * 7)
    err("HEADER_ENDS", "count_one_more", finish([b"\0\2", tensor(), HERE]), 1)
    for topic, count in (("of_the_limit", 1388889), ("below_the_limit", 1388888), ("max", MAX)):
        end("count_" + topic, b"\0", HERE, number(count), b"\0" * 20)
    end("count_of_one_that_could_fit", b"\0", HERE, b"\3", b"\0" * 14)
    end("name_of_100000000", b"\0\1", HERE, number(100000000), b"\0" * 20)
    end("name_of_max", b"\0\1", HERE, number(MAX), b"\0" * 20)
    end("rank_of_max", b"\0\1", string("a"), b"\1", HERE, number(MAX), b"\0" * 20)


def refused_spelling():

    def marker(topic, *pieces):
        err("NUMBER", topic, finish(pieces))
        err("NUMBER", topic + "_far", far(finish(pieces)))

    marker("sixteen_bytes", b"\0", HERE, b"\xfe" + b"\0" * 16)
    marker("reserved", b"\0", HERE, b"\xff" + b"\0" * 16)
    marker("dtype_of_8_bytes", b"\0\1", string("a"), HERE, b"\xfd\1" + b"\0" * 7, b"\0" * 4)
    marker("dimension", b"\0\1", string("a"), b"\1\2\1", HERE, b"\xfe\1\1\1")
    marker("begin", b"\0\1", string("a"), b"\1\1\1", HERE, b"\xff\1\1\1")
    marker("end", b"\0\1", string("a"), b"\1\1\1\0", HERE, b"\xfe\1\1\1")
    for tag in (15, 250, 251, 65536):
        made = finish([b"\0\1", string("a"), HERE, number(tag), b"\0\0\1"])
        err("DTYPE", "number_%d" % tag, made, 1)
        err("DTYPE", "number_%d_far" % tag, far(made), 1)
    for topic, before, bad in (("byte_ff", b"", b"\xff"), ("cut", b"ab", b"\xc3"), ("surrogate", b"a", b"\xed\xa0\x80"),
                               ("overlong", b"", b"\xc0\x80"), ("behind_16_letters", b"x" * 17, b"\x80y")):  # fmt: skip
        length = bytes([len(before) + len(bad)])
        err("UTF8", "name_" + topic, finish([b"\0\1", length, before, HERE, bad, info()]), 1)
    err("UTF8", "metadata_key", finish([b"\1\1\1", HERE, b"\xff", string("v"), b"\0"]))
    err("UTF8", "metadata_value", finish([b"\1\1", string("k"), b"\2a", HERE, b"\xff", b"\0"]))
    content, _ = finish([b"\2\0"])
    put("err_TYPE_at8__metadata_neither_there_nor_not.bt", frame(content, 0))
    put("err_TYPE_at8__safetensors.bt", frame(b"{}", 0))


def refused_content():
    err("DUPLICATE_KEY", "metadata", finish([b"\1\2", string("k"), string("first"), HERE, string("k"), string(""), b"\0"]))
    err("DUPLICATE_NAME", "beside", header(tensor(), HERE, tensor("a", "U8", (1,), 1, 2)), 2)
    between = tensor("b", "U8", (1,), 1, 2)
    err("DUPLICATE_NAME", "not_beside", header(tensor(), between, HERE, tensor("a", "U8", (1,), 2, 3)), 3)
    err("HOLE", "at_the_start", header(HERE, tensor("a", "U8", (1,), 1, 2)), 2)
    err("HOLE", "between", header(tensor(), HERE, tensor("b", "U8", (1,), 2, 3)), 3)
    err("HOLE", "before_an_empty_tensor", header(tensor(), HERE, tensor("b", "U8", (0,), 2, 2)), 2)
    err("OVERLAP", "by_one_byte", header(tensor("a", "U8", (2,), 0, 2), HERE, tensor("b", "U8", (2,), 1, 3)), 3)
    err("OVERLAP", "same_range", header(tensor(), HERE, tensor("b")), 1)
    err("HOLE", "in_reverse_order", header(HERE, tensor("b", "U8", (1,), 1, 2), tensor()), 2)
    err("RANGE", "end_before_begin", header(tensor(), HERE, tensor("b", "U8", (0,), 1, 0)), 1)
    huge = [tensor("%x" % i, "U8", (2**60,), i * 2**60, (i + 1) * 2**60) for i in range(15)]
    rest = 2**60 - 24
    err("RANGE", "beyond_the_largest_file", header(*huge, HERE, tensor("x", "U8", (rest,), 15 * 2**60, 2**64 - 24)), 0)
    err("SIZE", "one_too_long", header(HERE, tensor("a", "U8", (1,), 0, 2)), 2)
    err("SIZE", "one_too_short", header(HERE, tensor("a", "F32", (1,), 0, 3)), 3)
    err("SIZE", "empty_but_not_by_its_shape", header(HERE, tensor("a", "U8", (1,), 0, 0)))
    err("OVERFLOW", "dimensions", header(HERE, tensor("a", "U8", (2**32, 2**32), 0, 0)))
    err("OVERFLOW", "dimensions_before_a_zero", header(HERE, tensor("a", "U8", (2**40, 2**40, 0), 0, 0)))
    err("OVERFLOW", "bits", header(HERE, tensor("a", "U64", (2**58,), 0, 2**61)))
    err("OVERFLOW", "largest_end", header(HERE, tensor("a", "U8", (MAX,), 0, MAX)))


def refused_for_two_reasons():
    bad = tensor("b", "U8", (1,), 7, 9)
    err("HEADER_ENDS", "two__before_a_hole", finish([b"\0\2", bad, HERE, b"\x7fabc" + b"\0" * 9]))
    err("PADDING", "two__before_a_hole", finish([b"\0\1", bad, HERE, b"x"]))
    err("DUPLICATE_NAME", "two__before_a_hole", header(bad, HERE, bad))
    err("DUPLICATE_KEY", "two__before_a_duplicate_name", finish([b"\1\2", string("k"), string(""), HERE,
        string("k"), string(""), b"\2", tensor(), tensor()]))  # fmt: skip
    err("HOLE", "two__before_an_overflow", header(HERE, tensor("a", "U8", (2**40, 2**40), 1, 2)))
    err("HOLE", "two__before_end_before_begin", header(HERE, tensor("a", "U8", (1,), 5, 1)))
    err("RANGE", "two__before_an_overflow", header(tensor("a"), HERE, tensor("b", "U8", (2**40, 2**40), 1, 0)), 1)
    err("OVERFLOW", "two__before_a_later_hole", header(HERE, tensor("a", "U8", (2**40, 2**40), 0, 1), bad))
    err("SIZE", "two__before_missing_data", header(HERE, tensor("a", "U8", (2,), 0, 3)))
    err("SIZE", "two__before_a_later_hole", header(HERE, tensor("a", "U8", (2,), 0, 3), bad))


# ---- Layout A --------------------------------------------------------------------------------------------------------


def alpha_header(infos, names, metadata=b"\0"):
    """`names` are (name, index), or HERE."""
    count = sum(1 for item in names if item is not HERE)
    map_ = []
    for item in names:
        map_ += [HERE] if item is HERE else [string(item[0]), number(item[1])]
    return [metadata, number(len(infos)), *infos, number(count), *map_]


def layout_a():
    ending = "alpha.bt"
    one = info("F32", (2, 3), 0, 24)
    ok("no_tensors", finish([b"\0\0\0"]), ending=ending)
    many = [info("U8", (), i, i + 1) for i in range(30)]
    names = [("name_%d" % i, i) for i in reversed(range(30))]
    ok("first_name_at_the_headers_end", finish(alpha_header(many, names), pad=False), 30, ending)
    ok("one_tensor", finish(alpha_header([one], [("weight", 0)])), 24, ending)
    two = [one, info("U8", (), 24, 25)]
    ok("names_in_any_order", finish(alpha_header(two, [("b", 1), ("a", 0)], pairs(("k", "v")))), 25, ending)
    note("CONTROL_NAME", "as_layout_b_too", finish([AMBIGUOUS[:8], HERE, AMBIGUOUS[8:]]), 0, ending)
    note("CONTROL_NAME", "newline", finish([b"\0\1", one, b"\1", HERE, string("a\n"), b"\0"]), 24, ending)
    note("LONG_NUMBER", "index", finish([b"\0\1", one, b"\1", string("a"), HERE, long_number(0, 2)]), 24, ending)
    err("MISSING_FIELD", "index_too_large", finish([b"\0\1", one, b"\1", string("a"), HERE, b"\1"]), 24, ending)
    err("MISSING_FIELD", "index_twice", finish([b"\0\2", *two, b"\2", string("a"), b"\0", string("b"), HERE, b"\0"]), 25, ending)
    err("MISSING_FIELD", "fewer_names", finish([b"\0\1", one, HERE, b"\0"]), 24, ending)
    err("MISSING_FIELD", "more_names", finish([b"\0\1", one, HERE, b"\2", string("a"), b"\0", string("b"), b"\0"]), 24, ending)
    names = [b"\2", string("a"), b"\0", HERE, string("a"), b"\1"]
    err("DUPLICATE_NAME", "names", finish([b"\0\2", *two, *names]), 25, ending)
    hole = info("U8", (), 25, 26)
    err("HOLE", "between", finish([b"\0\2", one, hole, b"\2", HERE, string("b"), b"\1", string("a"), b"\0"]), 26, ending)
    err("HEADER_ENDS", "before_names", finish([b"\0\1", one, HERE], pad=False), 24, ending)
    err("HEADER_ENDS", "too_many_tensors", finish([b"\0", HERE, b"\4", one], pad=False), 24, ending)
    err("HEADER_ENDS", "within_dimensions", finish([b"\0\2", b"\1\0\0\0\1", HERE, b"\3\1\1"], pad=False), 0, ending)
    err("HEADER_ENDS", "within_range", finish([b"\0\1", b"\1\1\1\0", HERE], pad=False), 0, ending)
    err("HEADER_ENDS", "too_many_names", finish([b"\0\1", one, HERE, b"\2", string(""), b""], pad=False), 24, ending)
    err("HEADER_ENDS", "within_name", finish([b"\0\1", one, b"\1", HERE, b"\3ab"], pad=False), 24, ending)
    err("HEADER_ENDS", "before_index", finish([b"\0\1", one, b"\1", string("ab"), HERE], pad=False), 24, ending)
    err("DTYPE", "number_15", finish([b"\0\1", HERE, b"\x0f\0\0\1", b"\1", string("a"), b"\0"]), 1, ending)
    err("PADDING", "behind_names", finish([*alpha_header([one], [("a", 0)]), HERE, b"x"]), 24, ending)


def build():
    for part in (
        accepted, noted, refused_frames, refused_ends, refused_spelling, refused_content, refused_for_two_reasons, layout_a,
    ):  # fmt: skip
        part()
    return ITEMS
