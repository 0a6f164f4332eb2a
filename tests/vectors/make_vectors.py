#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the test vectors beside this file: small files whose names are their verdicts (see README.md).

The output is the same on every run and every machine. Run it after a change and commit what it wrote; with --check it
writes nothing and fails when the directory differs. Needs nothing but Python.

A header is given as text. Bytes that are not UTF-8 are written as lone surrogates: "\\udcff" is the byte 0xFF. The mark
※ stands before the byte where the verdict of the vector is: it is taken out, and its position goes into the name.
"""

import pathlib
import pickle
import struct
import sys

import make_bintensors

HERE = pathlib.Path(__file__).resolve().parent
MARK = "※"
MAX = 2**64 - 1
VECTORS = {}  # file name: bytes

DTYPE_BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip


# ---- Building ------------------------------------------------------------------------------------------------------


def tensor(dtype="U8", shape="[1]", offsets="[0,1]", more=""):
    """A tensor's object. Everything is text, so that it can be wrong."""
    return '{"dtype":"%s","shape":%s,"data_offsets":%s%s}' % (dtype, shape, offsets, more)


def unknown(value):
    """A header with a good tensor that has one more key, with this value. Its data is one byte."""
    return '{"a":%s}' % tensor(more=',"x":%s' % value)


def tidy(text):
    """The header padded with spaces to a multiple of 8, as writers do."""
    text += " " * (-len(encode(text.replace(MARK, ""))) % 8)
    return text


def encode(text):
    return text.encode("utf-8", "surrogateescape")


def data(size):
    """Bytes of data: all different for as long as that is possible, and none of them 0."""
    return bytes(1 + i % 251 for i in range(size))


def frame(text, size, length=None):
    """The file of a header's text and `size` bytes of data, and the mark's place. `length` may be untrue."""
    before, mark, after = text.partition(MARK)
    header = encode(before) + encode(after)
    length = len(header) if length is None else length
    return struct.pack("<Q", length) + header + data(size), 8 + len(encode(before)) if mark else None


def put(name, content):
    if name in VECTORS:
        raise SystemExit("two vectors are named " + name)
    VECTORS[name] = content


def ok(topic, text, size=0, pad=True):
    content, _ = frame(tidy(text) if pad else text, size)
    put("ok__%s.safetensors" % topic, content)


def note(kind, topic, text, size=0, pad=True):
    content, at = frame(tidy(text) if pad else text, size)
    put("note_%s_at%d__%s.safetensors" % (kind, at, topic), content)


def unaligned(topic, text, size, begin, pad=True):
    """Where the data of a tensor is not aligned, the place is that of its first byte, `begin` within the data."""
    content, _ = frame(tidy(text) if pad else text, size)
    put("note_UNALIGNED_at%d__%s.safetensors" % (len(content) - size + begin, topic), content)


def err(code, topic, text, size=0, pad=True):
    """A header that is refused at its mark."""
    content, at = frame(tidy(text) if pad else text, size)
    put("err_%s_at%d__%s.safetensors" % (code, at, topic), content)


def raw(code, at, topic, content, ending="safetensors"):
    put("err_%s_at%d__%s.%s" % (code, at, topic, ending), content)


# ---- Accepted ------------------------------------------------------------------------------------------------------


def accepted_frames():
    ok("no_tensors", "{}")
    ok("no_tensors_unpadded", "{}", pad=False)
    airy = '{\n"a"\t:\r\n { "dtype" : "U8" ,\n"shape" : [ 1 ] , "data_offsets":[ 0\t,1 ] } }'
    ok("white_space_of_all_kinds", airy, 1)
    ok("much_padding", "{}" + " " * 1024)
    ok("header_not_a_multiple_of_8", '{"a":%s}' % tensor(), 1, pad=False)
    # Both are good files that begin as a pickle does; only a file that is not good may be taken for something else.
    begin = '{"a":%s}' % tensor()
    ok("begins_like_a_pickle", begin + " " * (0x0280 - len(begin)), 1)
    ok("begins_like_gzip", begin + " " * (0x8B1F - len(begin)), 1, pad=False)
    polyglot()


def polyglot():
    """A good file that is a good pickle too: its length is the opcode of a string that swallows the header's start."""
    text = '{"__metadata__":{"x":"N."}}'
    swallowed = 6 + text.index("N.")  # the six high bytes of the length, then the header up to the N
    length = 0x55 | swallowed << 8
    content, _ = frame(text + " " * (length - len(text)), 0)
    if pickle.loads(content) is not None:  # our own constant: it pushes a string, then None, and stops
        raise SystemExit("the polyglot is no pickle any more")
    put("ok__polyglot_pickle.safetensors", content)


def accepted_dtypes():
    members, begin = [], 0
    for dtype, bits in sorted(DTYPE_BITS.items(), key=lambda item: -item[1]):
        size = 8 * bits // 8
        ok("dtype_" + dtype, '{"a":%s}' % tensor(dtype, "[2,4]", "[0,%d]" % size), size)
        members.append('"%s":%s' % (dtype.lower(), tensor(dtype, "[8]", "[%d,%d]" % (begin, begin + size))))
        begin += size
    ok("dtypes_all", "{%s}" % ",".join(members), begin)
    ok("dtype_spelt_with_escapes", '{"a":%s}' % tensor("\\u0046\\u00332", "[1]", "[0,4]"), 4)
    ok("f4_pairs", '{"a":%s}' % tensor("F4", "[3,2]", "[0,3]"), 3)
    ok("f4_no_elements", '{"a":%s}' % tensor("F4", "[0]", "[0,0]"))
    ok("f6_four_elements", '{"a":%s}' % tensor("F6_E2M3", "[4]", "[0,3]"), 3)
    ok("c64_aligned_to_4", '{"a":%s,"b":%s}' % (tensor("F32", "[1]", "[0,4]"), tensor("C64", "[1]", "[4,12]")), 12)


def accepted_shapes():
    ok("scalar", '{"a":%s}' % tensor("F32", "[]", "[0,4]"), 4)
    ok("empty_tensor", '{"a":%s}' % tensor("F32", "[0]", "[0,0]"))
    ok("empty_tensor_inner_zero", '{"a":%s}' % tensor("F32", "[3,0,5]", "[0,0]"))
    ok("zero_hides_a_later_overflow", '{"a":%s}' % tensor("U8", "[0,%d,%d]" % (MAX, MAX), "[0,0]"))
    ok("largest_dimension_then_zero", '{"a":%s}' % tensor("U64", "[%d,0]" % MAX, "[0,0]"))
    digits = ",".join("98765432109876543210"[20 - i :] for i in range(1, 20) if i not in (1, 11))
    ok("dimensions_of_every_length", '{"a":%s}' % tensor("U8", "[0,%s,%d]" % (digits, MAX), "[0,0]"))
    ok("rank_64", '{"a":%s}' % tensor("U8", "[%s]" % ",".join("1" * 64)), 1)
    ok("rank_10000", '{"a":%s}' % tensor("U8", "[%s]" % ",".join("1" * 10000)), 1)
    ok("white_space_in_shape", '{"a":%s}' % tensor("U8", "[\n1\n,\t1 ]"), 1)
    spaced = tensor(offsets="[0 ,1]"), tensor(offsets="[1 , 2 ]")
    ok("white_space_in_offsets", '{"a":%s,"b":%s}' % spaced, 2)


def accepted_ranges():
    a, b, c = (tensor("U8", "[2]", "[%d,%d]" % (i, i + 2)) for i in (0, 2, 4))
    none = tensor("U8", "[0]", "[%d,%d]")
    ok("three_tensors", '{"a":%s,"b":%s,"c":%s}' % (a, b, c), 6)
    ok("header_order_reversed", '{"c":%s,"b":%s,"a":%s}' % (c, b, a), 6)
    ok("header_order_mixed", '{"b":%s,"c":%s,"a":%s}' % (b, c, a), 6)
    ok("empty_tensors_share_an_offset", '{"a":%s,"b":%s}' % (none % (0, 0), none % (0, 0)))
    ok("empty_tensor_before_all", '{"a":%s,"e":%s}' % (a, none % (0, 0)), 2)
    ok("empty_tensor_between", '{"e":%s,"b":%s,"a":%s}' % (none % (2, 2), b, a), 4)
    ok("empty_tensor_after_all", '{"e":%s,"a":%s}' % (none % (2, 2), a), 2)
    members = ['"layer.%d.weight":%s' % (i, tensor("U8", "[1]", "[%d,%d]" % (i, i + 1))) for i in range(300)]
    ok("tensors_300", "{%s}" % ",".join(members), 300)


def accepted_strings():
    for topic, name in (
        ("short_escapes", '\\"\\\\\\/'),
        ("hex_escapes", "\\u0061\\u00E9\\u20ac\\uABCD"),
        ("escaped_surrogate_pair", "\\ud83d\\ude00"),
        ("escaped_highest_code_point", "\\uDBFF\\uDFFF"),
        ("escaped_lowest_pair", "\\ud800\\udc00"),
        ("escapes_beside_the_surrogates", "\\ud7ff\\ue000"),
        ("escaped_noncharacter", "\\uffff"),
        ("utf8_of_2_bytes", "\u00a0é\u07ff"),
        ("utf8_of_3_bytes", "\u0800€\uffff"),
        ("utf8_of_4_bytes", "\U00010000😀\U0010ffff"),
        ("utf8_beside_the_surrogates", "\ud7ff\ue000"),
        ("byte_order_mark_in_a_name", "\ufeffa"),
        ("slashes_and_dots", "../../etc/passwd"),
        ("white_space_in_a_name", " a b "),
        ("name_of_5000_bytes", "n" * 5000),
        ("name_of_5000_escaped_bytes", "\\u006e" * 5000),
        ("dunder_metadata_in_other_case", "__METADATA__"),
        ("name_like_a_field", "data_offsets"),
    ):
        ok("name__" + topic, '{"%s":%s}' % (name, tensor()), 1)
    second = tensor("U8", "[1]", "[1,2]")
    ok("name__prefix_of_another", '{"ab":%s,"a":%s}' % (tensor(), second), 2)
    ok("name__composed_and_decomposed", '{"\u00e9":%s,"e\u0301":%s}' % (tensor(), second), 2)
    ok("name__case_beyond_ascii", '{"ä":%s,"Ä":%s}' % (tensor(), second), 2)
    ok("fields_reversed", '{"a":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}}', 1)
    ok("fields_rotated", '{"a":{"shape":[1],"data_offsets":[0,1],"dtype":"U8"}}', 1)
    ok("fields_spelt_with_escapes", '{"a":{"d\\u0074ype":"U8","\\u0073hape":[1],"data\\u005foffsets":[0,1]}}', 1)


def accepted_metadata():
    ok("metadata_one", '{"__metadata__":{"format":"pt"}}')
    ok("metadata_several_unsorted", '{"__metadata__":{"z":"1","a":"2","m":"3"}}')
    ok("metadata_none", '{"__metadata__":{}}')
    ok("metadata_of_empty_strings", '{"__metadata__":{"":""}}')
    ok("metadata_unicode", '{"__metadata__":{"é€😀":"\\u00e9\\u20ac\\ud83d\\ude00"}}')
    ok("metadata_control_characters", '{"__metadata__":{"a\\nb":"\\b\\f\\n\\r\\t\\u0000\\u001f"}}')
    ok("metadata_json_in_a_value", '{"__metadata__":{"config":"{\\"a\\": [1, 2]}"}}')
    ok("metadata_key_named_metadata", '{"__metadata__":{"__metadata__":"x"}}')
    ok("metadata_key_named_as_a_tensor", '{"__metadata__":{"a":"x"},"a":%s}' % tensor(), 1)
    ok("metadata_keys_of_two_cases", '{"__metadata__":{"a":"1","A":"2"}}')
    ok("metadata_last", '{"a":%s,"__metadata__":{"k":"v"}}' % tensor(), 1)
    middle = '{"a":%s,"__metadata__":{"k":"v"},"b":%s}' % (tensor(), tensor("U8", "[0]", "[0,0]"))
    ok("metadata_in_the_middle", middle, 1)
    ok("metadata_spelt_with_escapes", '{"\\u005f_metadata_\\u005F":{"k":"v"}}')
    ok("metadata_value_of_5000_bytes", '{"__metadata__":{"k":"%s"}}' % ("v" * 5000))


# ---- Accepted with a note ------------------------------------------------------------------------------------------


def noted():
    for topic, blank in (("space", " "), ("line_feed", "\n"), ("all_kinds", "\t\r\n ")):
        note("LEADING_SPACE", topic, "※%s{}" % blank)
    noted_unknown_keys()
    note("NULL_METADATA", "null", '{"__metadata__":※null}')
    note("NULL_METADATA", "spelt_with_escapes", '{"__metadat\\u0061__":※null,"a":%s}' % tensor(), 1)
    for topic, name in (
        ("nul", "a\\u0000b"),
        ("nul_at_the_end", "a\\u0000"),
        ("terminal_escape", "\\u001b[31mred"),
        ("line_feed", "a\\nb"),
        ("backspace", "\\b"),
        ("unit_separator", "\\u001F"),
        ("delete_raw", "a\x7fb"),
        ("c1_next_line_raw", "a\x85b"),
        ("c1_escape", "\\u009b31m"),
    ):
        note("CONTROL_NAME", topic, '{※"%s":%s}' % (name, tensor()), 1)
    two = '{"a":%s,※"a\\u0000":%s}' % (tensor(), tensor("U8", "[1]", "[1,2]"))
    note("CONTROL_NAME", "differs_by_a_nul", two, 2)
    note("EMPTY_NAME", "one", '{※"":%s}' % tensor(), 1)
    one, four = tensor(), tensor("F32", "[1]", "[1,5]")
    unaligned("f32_behind_u8", '{"a":%s,"b":%s}' % (one, four), 5, 1)
    unaligned("f32_before_u8_in_the_header", '{"b":%s,"a":%s}' % (four, one), 5, 1)
    unaligned("f64_at_4", '{"a":%s,"b":%s}' % (tensor("F32", "[1]", "[0,4]"), tensor("F64", "[1]", "[4,12]")), 12, 4)
    unaligned("empty_f32_behind_u8", '{"a":%s,"b":%s}' % (one, tensor("F32", "[0]", "[1,1]")), 1, 1)
    unaligned("header_of_odd_length", '{"ab":%s}' % tensor("U16", "[1]", "[0,2]"), 2, 0, pad=False)
    note("PADDING", "line_feed", '{"a":%s}※\n' % tensor(), 1)
    note("PADDING", "tab_behind_spaces", "{}  ※\t   ")
    note("PADDING", "carriage_return_last", "{}     ※\r", pad=False)
    other = tensor("U8", "[1]", "[1,2]")
    note("CASE", "one_letter", '{"a.Weight":%s,※"a.weight":%s}' % (tensor(), other), 2)
    note("CASE", "all_letters", '{"ABC":%s,※"abc":%s}' % (tensor(), other), 2)
    note("UNKNOWN_DTYPE", "f128", '{"a":%s}' % tensor("F128", "[1]", "[0,16]").replace('"F128', '※"F128'), 16)
    note("UNKNOWN_DTYPE", "any_size", '{"a":%s}' % tensor("INT3", "[7]", "[0,3]").replace('"INT3', '※"INT3'), 3)
    note("UNKNOWN_DTYPE", "empty", '{"a":%s}' % tensor("", "[0]", "[0,0]").replace('""', '※""'))


def noted_unknown_keys():
    for topic, value in (
        ("null", "null"),
        ("true", "true"),
        ("false", "false"),
        ("string", '"\\u00e9é\\n"'),
        ("object", '{"y":{"z":[]},"dtype":"F4"}'),
        ("array", '[1,"a",[],{}]'),
        ("number_zero", "0"),
        ("number_negative", "-1"),
        ("number_minus_zero", "-0"),
        ("number_fraction", "0.5"),
        ("number_exponents", "[1e2,1E+2,1e-2,1.5e0]"),
        ("number_above_64_bits", "18446744073709551616"),
        ("number_largest_exponent", "1e308"),
        ("number_largest_double", "1.7976931348623157e308"),
        ("number_with_digits_that_do_not_fit", "1797693134862315" + "0" * 20 + ".5e272"),
        ("number_zero_with_an_exponent", "0e999"),
        ("number_too_small_for_a_double", "1e-99999999999"),
        ("number_of_309_ones", "1" * 309),
        ("number_of_400_digits_behind_the_point", "0." + "0" * 398 + "1"),
        ("depth_127_arrays", "[" * 125 + "]" * 125),
        ("depth_127_objects", '{"y":' * 124 + "{}" + "}" * 124),
        ("siblings_are_not_depth", "[%s]" % ",".join(["[[]]"] * 200)),
    ):
        text = unknown(value).replace('"x":', '※"x":', 1)
        note("UNKNOWN_KEY", topic, text, 1)
    note("UNKNOWN_KEY", "first", '{"a":{※"x":0,"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1)
    note("UNKNOWN_KEY", "as_long_as_a_field", '{"a":%s}' % tensor(more=',※"data_offsetz":1'), 1)
    note("UNKNOWN_KEY", "field_in_other_case", '{"a":%s}' % tensor(more=',※"Dtype":"U8"'), 1)
    note("UNKNOWN_KEY", "empty_key", '{"a":%s}' % tensor(more=',※"":0'), 1)
    note("UNKNOWN_KEY", "field_with_a_nul", '{"a":%s}' % tensor(more=',※"shape\\u0000":0'), 1)
    note("UNKNOWN_KEY", "same_keys_in_different_objects", unknown('[{"x":1},{"x":2}]').replace('"x":', '※"x":', 1), 1)


# ---- Refused: the frame --------------------------------------------------------------------------------------------


def largest(i):
    """Member `i` of those with as many bytes as a tensor can have. Eight of them end beyond 2^64."""
    size = 2**61 - 1
    return '"%d":%s' % (i, tensor("U8", "[%d]" % size, "[%d,%d]" % (i * size, (i + 1) * size)))


def refused_frames():
    good = '{"a":%s}' % tensor()
    raw("EMPTY", 0, "no_bytes", b"")
    raw("TOO_SHORT", 0, "one_byte", b"\x02")
    raw("TOO_SHORT", 0, "seven_bytes", b"\x02" + b"\0" * 6)
    raw("HEADER_LENGTH", 0, "zero_then_a_header", b"\0" * 8 + b"{}")
    raw("HEADER_LENGTH", 0, "zero_then_data", b"\0" * 8 + data(8))
    for topic, length in (("one_above_the_limit", 100000001), ("2_to_the_32", 2**32), ("2_to_the_63", 2**63),
                          ("2_to_the_64_less_1", MAX), ("2_to_the_64_less_8", MAX - 7)):  # fmt: skip
        raw("HEADER_TOO_LARGE", 0, topic, frame("{}", 0, length)[0])
    raw("HEADER_TRUNCATED", 0, "one_byte_past_the_end", frame("{}", 0, 3)[0])
    raw("HEADER_TRUNCATED", 0, "at_the_limit", frame("{}", 0, 100000000)[0])
    raw("HEADER_TRUNCATED", 0, "only_a_length", struct.pack("<Q", 64))
    raw("HEADER_TRUNCATED", 0, "in_the_middle", frame(good, 1)[0][:-20])
    raw("HEADER_TRUNCATED", 0, "length_that_begins_as_bzip2_does", b"BZh\0\0\0\0\0" + encode(good))
    end = 8 + len(tidy(good))
    raw("DATA_TRUNCATED", end, "no_data", frame(tidy(good), 0)[0])
    many = '{"a":%s}' % tensor("U8", "[9]", "[0,9]")
    raw("DATA_TRUNCATED", 8 + len(tidy(many)) + 8, "one_byte_missing", frame(tidy(many), 8)[0])
    for topic, count in (("largest_tensor", 1), ("seven_largest_tensors", 7)):
        content = frame(tidy("{%s}" % ",".join(largest(i) for i in range(count))), 0)[0]
        raw("DATA_TRUNCATED", len(content), topic, content)
    raw("TRAILING_BYTES", end + 1, "one_byte", frame(tidy(good), 2)[0])
    raw("TRAILING_BYTES", end + 1, "a_line_feed", frame(tidy(good), 1)[0] + b"\n")
    raw("TRAILING_BYTES", end + 1, "zeros", frame(tidy(good), 1)[0] + b"\0" * 4096)
    raw("TRAILING_BYTES", 16, "no_tensors", frame(tidy("{}"), 5)[0])
    raw("TRAILING_BYTES", 16, "a_second_file", frame(tidy("{}"), 0)[0] * 2)


# ---- Refused: the text ---------------------------------------------------------------------------------------------


def refused_json():
    for topic, text in (
        ("blank", "        ※"),
        ("ends_in_root", "{※"),
        ("ends_in_a_name", '{"a※'),
        ("ends_in_an_escape", '{"a\\※'),
        ("ends_behind_a_name", '{"a"※'),
        ("ends_behind_a_colon", '{"a":※'),
        ("ends_in_a_tensor", '{"a":{※'),
        ("ends_behind_a_field", '{"a":{"dtype":"U8"※'),
        ("ends_before_a_dtype", '{"a":{"dtype":"※'),
        ("ends_in_a_dtype", '{"a":{"dtype":"F3※'),
        ("ends_before_the_dtype_of_the_second", '{"a":%s,"b":{"dtype":"※' % tensor()),
        ("ends_in_the_offsets_of_the_second", '{"a":%s,"b":{"dtype":"U8","shape":[1],"data_offsets":[1※' % tensor()),
        ("ends_in_a_shape", '{"a":{"shape":[1※'),
        ("ends_behind_a_comma", '{"a":{"shape":[1,※'),
        ("ends_behind_a_tensor", '{"a":%s※' % tensor()),
        ("ends_in_metadata", '{"__metadata__":{"a":"b"※'),
        ("ends_in_a_value_behind_a_long_key", '{"__metadata__":{"%s":"b※' % ("k" * 1000)),
        ("ends_in_an_unknown_value", '{"a":{"x":[1※'),
        ("ends_in_a_literal", '{"a":{"x":※nul'),
    ):
        err("JSON", topic, text, pad=False)
    for topic, text in (
        ("trailing_comma_in_root", '{"a":%s,※}' % tensor()),
        ("trailing_comma_in_a_tensor", '{"a":%s}' % tensor(more=",※")),
        ("trailing_comma_in_a_shape", '{"a":%s}' % tensor(shape="[1,※]")),
        ("trailing_comma_in_offsets", '{"a":%s}' % tensor(offsets="[0,1,※]")),
        ("trailing_comma_in_metadata", '{"__metadata__":{"k":"v",※}}'),
        ("trailing_comma_in_an_unknown_array", unknown("[1,※]")),
        ("trailing_comma_in_an_unknown_object", unknown('{"y":1,※}')),
        ("leading_comma", '{※,"a":%s}' % tensor()),
        ("two_commas", '{"a":%s,※,"b":%s}' % (tensor(), tensor("U8", "[0]", "[0,0]"))),
        ("missing_comma_in_root", '{"a":%s※"b":%s}' % (tensor(), tensor("U8", "[0]", "[0,0]"))),
        ("missing_comma_in_a_shape", '{"a":%s}' % tensor(shape="[1 ※1]")),
        ("missing_colon", '{"a"※%s}' % tensor()),
        ("equals_for_a_colon", '{"a"※=%s}' % tensor()),
        ("single_quotes", "{※'a':%s}" % tensor()),
        ("key_without_quotes", "{※a:%s}" % tensor()),
        ("metadata_key_without_quotes", '{"__metadata__":{※a:"b"}}'),
        ("metadata_key_is_a_number", '{"__metadata__":{"a":"b",※1:"b"}}'),
        ("key_is_a_number", "{※1:%s}" % tensor()),
        ("line_comment", '{※// none\n"a":%s}' % tensor()),
        ("block_comment", '{"a":%s※/**/}' % tensor()),
        ("hash_comment", "{}※# none"),
        ("wrong_closing_bracket", '{"a":%s}' % tensor(shape="[1※}")),
        ("second_closing_brace", '{"a":%s}※}' % tensor()),
        ("second_value", '{"a":%s}※{}' % tensor()),
        ("second_value_behind_space", "{} ※null"),
        ("nul_padding", "{}※\0\0\0\0\0\0"),
        ("nul_behind_spaces", "{}  ※\0"),
        ("nul_between_tokens", '{※\0"a":%s}' % tensor()),
        ("form_feed_between_tokens", '{※\f"a":%s}' % tensor()),
        ("vertical_tab_padding", "{}※\v"),
        ("no_break_space", "{}※\u00a0"),
        ("byte_order_mark", "※\ufeff{}"),
        ("garbage", "※garbage"),
        ("literal_in_capitals", unknown("※True")),
        ("literal_cut", unknown("※nul")),
        ("literal_prolonged", unknown("null※l")),
        ("nan", unknown("※NaN")),
        ("infinity", unknown("※Infinity")),
        ("minus_infinity", unknown("-※Infinity")),
        ("plus_sign_in_a_shape", '{"a":%s}' % tensor(shape="[※+1]")),
        ("plus_sign_in_an_unknown_value", unknown("※+1")),
        ("number_begins_with_a_point", unknown("※.5")),
        ("number_ends_with_a_point", unknown("1.※")),
        ("number_without_exponent", unknown("1e※")),
        ("number_is_a_minus", unknown("-※")),
        ("number_in_hexadecimal", unknown("0※x10")),
        ("number_with_a_leading_zero", unknown("※01")),
        ("raw_line_feed_in_a_name", '{"a※\nb":%s}' % tensor()),
        ("raw_tab_in_metadata", '{"__metadata__":{"k":"a※\tb"}}'),
        ("raw_nul_in_a_name", '{"a※\0b":%s}' % tensor()),
        ("raw_unit_separator_in_an_unknown_value", unknown('"※\x1f"')),
        ("raw_control_in_an_unknown_key", '{"a":%s}' % tensor(more=',"x※\x01":0')),
        ("escape_x", '{"※\\x41":%s}' % tensor()),
        ("escape_quote", "{\"※\\'\":%s}" % tensor()),
        ("escape_capital_u", '{"※\\U0041":%s}' % tensor()),
        ("escape_zero", '{"__metadata__":{"k":"※\\0"}}'),
        ("escape_short_hex", '{"※\\u00e":%s}' % tensor()),
        ("escape_bad_hex", '{"※\\u00g0":%s}' % tensor()),
        ("escape_bad_hex_in_an_unknown_value", unknown('"※\\u+123"')),
    ):
        err("JSON", topic, text, 1)
    err("JSON", "shape_begins_with_a_comma", '{"a":%s}' % tensor(shape="[※,1]"), 1)
    err("JSON", "offsets_begin_with_a_comma", '{"a":%s}' % tensor(offsets="[※,1]"), 1)
    err("JSON", "offsets_begin_with_a_comma_behind_a_tensor", '{"a":%s,"b":%s}' % (tensor(), tensor(offsets="[※,2]")), 2)
    err("JSON", "offsets_without_a_comma", '{"a":%s}' % tensor(offsets="[0 ※1]"), 1)


def refused_utf8():
    for topic, text in (
        ("lone_continuation", "※\udc80"),
        ("overlong_2_bytes", "※\udcc0\udc80"),
        ("overlong_2_bytes_highest", "※\udcc1\udcbf"),
        ("overlong_3_bytes", "a※\udce0\udc9f\udcbf"),
        ("overlong_4_bytes", "ab※\udcf0\udc8f\udcbf\udcbf"),
        ("raw_surrogate", "※\udced\udca0\udc80"),
        ("raw_surrogate_pair", "※\udced\udca0\udcbd\udced\udcb8\udc80"),
        ("above_10ffff", "※\udcf4\udc90\udc80\udc80"),
        ("lead_byte_f5", "※\udcf5\udc80\udc80\udc80"),
        ("byte_fe", "※\udcfe"),
        ("byte_ff", "é※\udcff"),
        ("latin_1", "caf※\udce9"),
        ("cut_2_bytes", "※\udcc3"),
        ("cut_3_bytes", "※\udce2\udc82"),
        ("cut_4_bytes", "※\udcf0\udc9f\udc98"),
        ("in_a_long_name", "n" * 61 + "※\udcff" + "n" * 61),
        ("high_surrogate_escape_at_the_end", "a※\\ud800"),
        ("high_surrogate_escape_then_a_letter", "※\\ud800a"),
        ("high_surrogate_escape_then_an_escape", "※\\uDBFF\\n"),
        ("high_surrogate_escape_then_a_bmp_escape", "※\\ud800\\u0041"),
        ("high_surrogate_escape_then_e000", "※\\ud800\\ue000"),
        ("high_surrogate_escape_then_bad_hex", "※\\ud800\\udc0g"),
        ("high_surrogate_escape_then_dbff", "※\\ud800\\udbff"),
        ("low_surrogate_escape", "※\\udc00"),
        ("surrogate_escapes_reversed", "※\\ude00\\ud83d"),
        ("two_high_surrogate_escapes", "※\\ud83d\\ud83d\\ude00"),
        ("good_pair_then_a_high_surrogate", "\\ud83d\\ude00※\\ud83d"),
    ):
        err("UTF8", "name__" + topic, '{"%s":%s}' % (text, tensor()), 1)
    bad = "※\udcff"
    err("UTF8", "metadata_key", '{"__metadata__":{"%s":"v"}}' % bad)
    err("UTF8", "metadata_value", '{"__metadata__":{"k":"%s"}}' % bad)
    err("UTF8", "metadata_value_escape", '{"__metadata__":{"k":"※\\udfff"}}')
    err("UTF8", "field", '{"a":{"dtype%s":"U8"}}' % bad)
    err("UTF8", "dtype", '{"a":%s}' % tensor("U8" + bad), 1)
    err("UTF8", "unknown_value", unknown('"%s"' % bad), 1)
    err("UTF8", "unknown_value_escape", unknown('["※\\udc00"]'), 1)
    err("UTF8", "unknown_nested_key", unknown('{"%s":0}' % bad), 1)


def refused_depth():
    err("DEPTH", "arrays", unknown("[" * 125 + "※[" + "]" * 126), 1)
    err("DEPTH", "objects", unknown('{"y":' * 125 + "※{}" + "}" * 125), 1)
    err("DEPTH", "mixed", unknown('[{"y":' * 62 + "[※{}]" + "}]" * 62), 1)
    err("DEPTH", "never_closed", '{"a":{"x":' + "[" * 125 + "※" + "[" * 5000, pad=False)


def refused_types():
    for topic, value in (("array", "[]"), ("string", '"a"'), ("number", "1"), ("null", "null"), ("true", "true")):
        err("TYPE", "root_is_" + topic, "※" + value)
    others = {"null": "null", "true": "true", "number": "1", "string": '"U8"'}
    others |= {"array": '["U8",[1],[0,1]]', "object": '{"U8":null}'}
    for topic, value in others.items():
        if topic != "object":
            err("TYPE", "tensor_is_" + topic, '{"a":※%s}' % value, 1)
        if topic != "string":
            err("TYPE", "dtype_is_" + topic, '{"a":{"dtype":※%s,"shape":[1],"data_offsets":[0,1]}}' % value, 1)
            err("TYPE", "metadata_value_is_" + topic, '{"__metadata__":{"k":※%s}}' % value)
        if topic != "array":
            err("TYPE", "shape_is_" + topic, '{"a":%s}' % tensor(shape="※" + value), 1)
            err("TYPE", "offsets_are_" + topic, '{"a":%s}' % tensor(offsets="※" + value), 1)
        if topic != "number":
            err("TYPE", "shape_holds_" + topic, '{"a":%s}' % tensor(shape="[1,※%s]" % value), 1)
            err("TYPE", "offsets_hold_" + topic, '{"a":%s}' % tensor(offsets="[0,※%s]" % value), 1)
        if topic not in ("null", "object"):
            err("TYPE", "metadata_is_" + topic, '{"__metadata__":※%s}' % value)
    err("TYPE", "metadata_is_a_tensor", '{"__metadata__":%s}' % tensor().replace("[1]", "※[1]"), 1)
    err("TYPE", "offsets_none", '{"a":%s}' % tensor(offsets="※[]"), 1)
    err("TYPE", "offsets_one", '{"a":%s}' % tensor(offsets="※[0]"), 1)
    err("TYPE", "offsets_three", '{"a":%s}' % tensor(offsets="※[0,1,1]"), 1)
    err("TYPE", "tensor_spelt_like_metadata", '{"__metadata__ ":※null}')


def refused_numbers():
    for topic, number in (
        ("negative", "-1"),
        ("minus_zero", "-0"),
        ("exponent", "1e0"),
        ("capital_exponent", "1E0"),
        ("fraction", "1.0"),
        ("leading_zero", "01"),
        ("two_zeros", "00"),
        ("2_to_the_64", "18446744073709551616"),
        ("20_nines", "9" * 20),
        ("400_digits", "1" * 400),
    ):
        err("NUMBER", "shape_" + topic, '{"a":%s}' % tensor(shape="[※%s]" % number), 1)
        err("NUMBER", "offsets_" + topic, '{"a":%s}' % tensor(offsets="[0,※%s]" % number), 1)
        err("NUMBER", "begin_" + topic, '{"a":%s}' % tensor(offsets="[※%s,1]" % number), 1)
    for topic, number in (
        ("1e309", "1e309"),
        ("1_8e308", "1.8e308"),
        ("minus_1e309", "-1e309"),
        ("huge_exponent", "1e99999999999"),
        ("400_digits", "1" * 400),
        # Below the largest double, but the reference's arithmetic, which is not exact, makes it infinite.
        ("infinite_to_the_reference", "1.797693134862315702e308"),
    ):
        err("NUMBER", "unknown_value_" + topic, unknown("※" + number), 1)
    err("NUMBER", "unknown_nested_1e400", unknown('{"y":[0,※1e400]}'), 1)


def refused_fields():
    for topic, text in (
        ("dtype", '{"a":{"shape":[1],"data_offsets":[0,1]※}}'),
        ("shape", '{"a":{"dtype":"U8","data_offsets":[0,1]※}}'),
        ("data_offsets", '{"a":{"dtype":"U8","shape":[1]※}}'),
        ("all", '{"a":{※}}'),
        ("all_behind_space", '{"a":{ ※}}'),
        ("all_but_unknown_ones", '{"a":{"offsets":[0,1],"type":"U8"※}}'),
        ("spelt_in_other_case", '{"a":{"Dtype":"U8","shape":[1],"data_offsets":[0,1]※}}'),
        ("metadata_in_other_case", '{"__Metadata__":{"k":"v"※}}'),
    ):
        err("MISSING_FIELD", topic, text, 1)


# ---- Refused: what the header says ---------------------------------------------------------------------------------


def refused_duplicates():
    one, next_one, none = tensor(), tensor("U8", "[1]", "[1,2]"), tensor("U8", "[0]", "[0,0]")
    err("DUPLICATE_NAME", "same_range", '{"a":%s,※"a":%s}' % (one, one), 1)
    err("DUPLICATE_NAME", "ranges_side_by_side", '{"a":%s,※"a":%s}' % (one, next_one), 2)
    err("DUPLICATE_NAME", "ranges_reversed", '{"a":%s,※"a":%s}' % (next_one, one), 2)
    err("DUPLICATE_NAME", "last_covers_all", '{"a":%s,※"a":%s}' % (one, tensor("U8", "[2]", "[0,2]")), 2)
    err("DUPLICATE_NAME", "spelt_with_an_escape", '{"ab":%s,※"a\\u0062":%s}' % (one, next_one), 2)
    err("DUPLICATE_NAME", "both_spelt_with_escapes", '{"\\u00e9":%s,※"é":%s}' % (one, next_one), 2)
    err("DUPLICATE_NAME", "surrogate_pair", '{"😀":%s,※"\\ud83d\\ude00":%s}' % (one, next_one), 2)
    err("DUPLICATE_NAME", "empty_names", '{"":%s,※"":%s}' % (one, next_one), 2)
    err("DUPLICATE_NAME", "empty_tensors", '{"a":%s,※"a":%s}' % (none, none))
    err("DUPLICATE_NAME", "not_beside_each_other", '{"a":%s,"b":%s,※"a":%s}' % (one, next_one, none), 2)
    err("DUPLICATE_NAME", "around_metadata", '{"a":%s,"__metadata__":{"a":"a"},※"a":%s}' % (one, none), 1)
    err("DUPLICATE_NAME", "before_a_hole", '{"a":%s,※"a":%s}' % (one, tensor("U8", "[1]", "[5,6]")), 6)
    for topic, text in (
        ("metadata", '{"__metadata__":{"k":"1",※"k":"2"}}'),
        ("metadata_same_value", '{"__metadata__":{"k":"1","l":"1",※"k":"1"}}'),
        ("metadata_spelt_with_an_escape", '{"__metadata__":{"k":"1",※"\\u006b":"2"}}'),
        ("metadata_empty_keys", '{"__metadata__":{"":"1",※"":"2"}}'),
        ("metadata_twice", '{"__metadata__":{},※"__metadata__":{}}'),
        ("metadata_null_twice", '{"__metadata__":null,※"__metadata__":null}'),
        ("metadata_null_then_object", '{"__metadata__":null,※"__metadata__":{"k":"v"}}'),
        ("metadata_twice_spelt_with_an_escape", '{"__metadata__":{},※"__metadata_\\u005f":{}}'),
        ("dtype", '{"a":%s}' % tensor(more=',※"dtype":"U8"')),
        ("shape", '{"a":%s}' % tensor(more=',※"shape":[1]')),
        ("data_offsets", '{"a":%s}' % tensor(more=',※"data_offsets":[0,1]')),
        ("field_spelt_with_an_escape", '{"a":%s}' % tensor(more=',※"dtyp\\u0065":"U8"')),
        ("unknown", '{"a":%s}' % tensor(more=',"x":1,※"x":2')),
        ("unknown_spelt_with_an_escape", '{"a":%s}' % tensor(more=',"x":1,"y":2,※"\\u0078":3')),
        ("unknown_nested", unknown('{"y":1,※"y":2}')),
        ("unknown_nested_behind_an_object", unknown('{"y":{"z":0},"z":1,※"y":{}}')),
        ("unknown_nested_deep", unknown('[0,{"p":{"q":[{"r":0,※"r":0}]}}]')),
    ):
        err("DUPLICATE_KEY", topic, text, 1)


def refused_dtypes():
    for topic, dtype in (
        ("lower_case", "u8"),
        ("empty", ""),
        ("f128", "F128"),
        ("c128", "C128"),
        ("numpy_name", "float32"),
        ("prolonged", "U8 "),
        ("prolonged_by_a_nul", "U8\\u0000"),
        ("cut", "F8_E4M"),
        ("f8_e4m3fn", "F8_E4M3FN"),
        ("of_5000_bytes", "U" * 5000),
        ("spelt_with_an_escape", "\\u0075int8"),
    ):
        err("DTYPE", topic, '{"a":%s}' % tensor(dtype).replace('"dtype":', '"dtype":※'), 1)
    # Behind a tensor whose dtype is the same but for the end.
    other = tensor("F8_E4M3FN__", offsets="[1,2]").replace('"dtype":', '"dtype":※')
    err("DTYPE", "ends_unlike_the_one_before", '{"a":%s,"b":%s}' % (tensor("F8_E4M3FNUZ"), other), 2)


def refused_sizes():
    def one(code, topic, dtype, shape, offsets, size=0):
        err(code, topic, '{※"a":%s}' % tensor(dtype, shape, offsets), size)

    half = 2**32
    one("OVERFLOW", "product_wraps_to_zero", "U8", "[%d,%d]" % (half, half), "[0,0]")
    one("OVERFLOW", "product_wraps_to_one", "U8", "[%d,%d]" % (MAX, MAX), "[0,1]", 1)
    one("OVERFLOW", "product_wraps_to_four", "U8", "[%d,4]" % (2**62 + 1), "[0,4]", 4)
    one("OVERFLOW", "product_before_a_zero", "U8", "[%d,%d,0]" % (MAX, MAX), "[0,0]")
    one("OVERFLOW", "bits_wrap_to_zero", "U8", "[%d]" % 2**61, "[0,0]")
    one("OVERFLOW", "bits_wrap_to_eight", "U8", "[%d]" % (2**61 + 1), "[0,1]", 1)
    one("OVERFLOW", "bits_of_64", "F64", "[%d]" % 2**58, "[0,0]")
    one("OVERFLOW", "bits_of_4", "F4", "[%d]" % 2**62, "[0,0]")
    one("OVERFLOW", "largest_dimension", "U8", "[%d]" % MAX, "[0,%d]" % MAX)
    one("OVERFLOW", "three_dimensions", "F32", "[2097152,2097152,4194304]", "[0,0]")
    odd = (("F4", "[1]"), ("F4", "[3,3]"), ("F4", "[]"), ("F6_E2M3", "[1]"), ("F6_E2M3", "[2]"), ("F6_E3M2", "[3]"))
    for dtype, shape in odd:
        topic = "%s_%s" % (dtype, "scalar" if shape == "[]" else shape[1:-1].replace(",", "x"))
        one("PARTIAL_BYTE", topic, dtype, shape, "[0,1]", 1)
    one("RANGE", "of_nothing", "U8", "[0]", "[1,0]", 1)
    one("RANGE", "as_long_as_the_tensor", "U8", "[4]", "[4,0]", 4)
    one("RANGE", "wraps_to_the_size", "U8", "[1]", "[%d,0]" % MAX)
    eight = ",".join(largest(i) for i in range(7)) + ",※" + largest(7)
    err("RANGE", "end_in_the_file_beyond_64_bits", "{%s}" % eight)
    one("RANGE", "begin_in_the_file_beyond_64_bits", "U8", "[0]", "[%d,%d]" % (MAX, MAX))
    one("SIZE", "too_short", "F32", "[2]", "[0,7]", 7)
    one("SIZE", "too_long", "F32", "[2]", "[0,9]", 9)
    one("SIZE", "in_elements", "F32", "[2]", "[0,2]", 2)
    one("SIZE", "scalar_of_nothing", "U8", "[]", "[0,0]")
    one("SIZE", "empty_tensor_of_a_byte", "U8", "[0]", "[0,1]", 1)
    one("SIZE", "of_another_dtype", "F64", "[1]", "[0,4]", 4)
    one("SIZE", "differs_by_2_to_the_32", "U8", "[1]", "[0,%d]" % (2**32 + 1), 1)
    one("SIZE", "f4_as_bytes", "F4", "[2]", "[0,2]", 2)


def refused_coverage():
    a, b = tensor("U8", "[4]", "[0,4]"), tensor("U8", "[4]", "[%d,%d]")
    empty = tensor("U8", "[0]", "[%d,%d]")
    err("HOLE", "at_the_start", '{※"a":%s}' % (b % (1, 5)), 5)
    err("HOLE", "between", '{"a":%s,※"b":%s}' % (a, b % (5, 9)), 9)
    err("HOLE", "between_in_reverse_order", '{※"b":%s,"a":%s}' % (b % (5, 9), a), 9)
    err("HOLE", "first_of_two", '{"c":%s,※"b":%s,"a":%s}' % (b % (20, 24), b % (5, 9), a), 24)
    err("HOLE", "empty_tensor_beyond_the_end", '{"a":%s,※"b":%s}' % (a, empty % (8, 8)), 4)
    err("HOLE", "only_an_empty_tensor", '{※"a":%s}' % (empty % (4, 4)), 4)
    err("HOLE", "at_the_digits_before_and_more", '{"a":%s,※"b":%s}' % (a, b % (41, 45)), 45)
    err("HOLE", "far_away", '{"a":%s,※"b":%s}' % (a, empty % (2**63, 2**63)), 4)
    err("OVERLAP", "same_range", '{"a":%s,※"b":%s}' % (a, a), 4)
    err("OVERLAP", "by_one_byte", '{"a":%s,※"b":%s}' % (a, b % (3, 7)), 7)
    err("OVERLAP", "contained", '{"a":%s,※"b":%s}' % (a, tensor("U8", "[2]", "[1,3]")), 4)
    err("OVERLAP", "contained_in_reverse_order", '{※"b":%s,"a":%s}' % (tensor("U8", "[2]", "[1,3]"), a), 4)
    err("OVERLAP", "same_start_shorter_first", '{※"b":%s,"a":%s}' % (a, tensor("U8", "[2]", "[0,2]")), 4)
    spaced = (b % (4, 8)).replace(":", " :")
    err("OVERLAP", "at_the_end_of_the_last_but_one", '{"a":%s,"b":%s,※"c":%s}' % (a, spaced, b % (4, 8)), 8)
    err("OVERLAP", "empty_tensor_inside", '{"a":%s,※"b":%s}' % (a, empty % (2, 2)), 4)


def refused_for_two_reasons():
    """What is wrong first, in the order of reading, is what is reported."""
    broken = '"b":{"dtype":'
    err("MISSING_FIELD", "two__before_broken_text", '{"a":{※},%s' % broken, 1)
    err("SIZE", "two__before_broken_text", '{※"a":%s,%s' % (tensor(offsets="[0,2]"), broken), 2)
    err("JSON", "two__before_a_hole", '{"a":%s※' % tensor(offsets="[1,2]"), 2, pad=False)
    err("DTYPE", "two__before_a_missing_field", '{"a":{"dtype":※"X"}}')
    err("DTYPE", "two__before_a_later_type", '{"a":{"dtype":※"X","shape":null}}')
    err("MISSING_FIELD", "two__before_an_overflow", '{"a":{"dtype":"U8","shape":[%d,%d]※}}' % (MAX, MAX))
    err("OVERFLOW", "two__before_a_range", '{※"a":%s}' % tensor("U8", "[%d,2]" % MAX, "[1,0]"))
    err("PARTIAL_BYTE", "two__before_a_range", '{※"a":%s}' % tensor("F4", "[1]", "[1,0]"))
    err("RANGE", "two__before_a_size", '{※"a":%s}' % tensor("U8", "[3]", "[2,1]"))
    err("SIZE", "two__before_a_duplicate_name", '{※"a":%s,"a":%s}' % (tensor(shape="[2]"), tensor()), 1)
    err("DUPLICATE_NAME", "two__before_an_overlap", '{"a":%s,"b":%s,※"a":%s}' % (tensor(), tensor(), tensor()), 1)
    large = tensor("U8", "[1000000000]", "[0,1000000000]"), tensor(offsets="[1000000001,1000000002]")
    err("HOLE", "two__of_a_byte_behind_a_gigabyte", '{"a":%s,※"b":%s}' % large)
    err("HOLE", "two__before_missing_data", '{※"a":%s}' % tensor(offsets="[1,2]"))
    err("OVERLAP", "two__before_trailing_bytes", '{"a":%s,※"b":%s}' % (tensor(), tensor()), 9)
    err("TYPE", "two__before_bad_utf8", '{"a":※1,"\udcff":1}')
    raw("HEADER_TRUNCATED", 0, "two__before_broken_text", frame("{[", 0, 9)[0])


# ---- Refused: something else ---------------------------------------------------------------------------------------


def foreign():
    lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0123456789abcdef" * 4 + b"\nsize 548105171\n"
    raw("IS_LFS_POINTER", 0, "pointer", lfs, "bin")
    page = b"<!DOCTYPE html>\n<html><head><title>404</title></head><body>Not found</body></html>\n"
    raw("IS_HTML", 0, "doctype", page, "bin")
    raw("IS_HTML", 0, "doctype_lower_case_behind_space", b"\r\n  <!doctype html><html></html>", "bin")
    raw("IS_HTML", 0, "html_element", b"<html>\n<head><title>Sign in</title></head></html>", "bin")
    raw("IS_HTML", 0, "html_in_capitals", b"<HTML><HEAD><TITLE>302 Moved</TITLE></HEAD></HTML>", "bin")
    page = b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code></Error>'
    raw("IS_HTML", 0, "xml_error", page, "bin")
    raw("IS_JSON", 0, "error_object", b'{"error":"Repository not found"}', "bin")
    index = b'{\n  "metadata": {"total_size": 1},\n  "weight_map": {"a": "model-00001-of-00001.safetensors"}\n}\n'
    raw("IS_JSON", 0, "shard_index", index, "bin")
    raw("IS_JSON", 0, "array", b'[{"generated_text": "hello"}]', "bin")
    zipped = b"PK\x03\x04\0\0\x08\x08\0\0" + b"\0" * 16 + b"\x10\0\x04\0archive/data.pklFB\x04\0ZZZZ\x80\x02."
    raw("IS_ZIP", 0, "torch_checkpoint", zipped, "bin")
    raw("IS_ZIP", 0, "length_below_the_limit", b"PK\x03\x04" + b"\0" * 22 + b"\x05\x00\x00\x00a.npy", "bin")
    raw("IS_ZIP", 0, "no_members", b"PK\x05\x06" + b"\0" * 18, "bin")
    raw("IS_PICKLE", 0, "protocol_2", b"\x80\x02}q\x00X\x01\x00\x00\x00aq\x01K\x01s.", "bin")
    raw("IS_PICKLE", 0, "protocol_4", b"\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s.", "bin")
    raw("IS_PICKLE", 0, "torch_before_1_6", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.", "bin")
    raw("IS_GGUF", 0, "of_123_tensors", b"GGUF\x03\x00\x00\x00{" + b"\0" * 15, "bin")
    raw("IS_GGUF", 0, "version_3", b"GGUF\x03\x00\x00\x00" + b"\0" * 16, "bin")
    raw("IS_HDF5", 0, "superblock", b"\x89HDF\r\n\x1a\n" + b"\0" * 16, "bin")
    npy = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"
    raw("IS_NUMPY", 0, "npy", npy.ljust(127) + b"\n\0\0\0\0", "bin")
    raw("IS_COMPRESSED", 0, "gzip", b"\x1f\x8b\x08\0\0\0\0\0\x02\xff\x03" + b"\0" * 9, "bin")
    raw("IS_COMPRESSED", 0, "zstandard", b"\x28\xb5\x2f\xfd\x04\x00\x41\x00\x00abcdefgh", "bin")
    raw("IS_COMPRESSED", 0, "xz", b"\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46" + b"\0" * 20, "bin")
    raw("IS_COMPRESSED", 0, "bzip2", b"BZh91AY&SY" + data(20), "bin")
    raw("IS_ZEROS", 0, "space_set_aside", b"\0" * 1024, "bin")
    raw("IS_TEXT", 0, "answer_of_a_server", b"Entry not found", "bin")
    raw("IS_TEXT", 0, "beyond_ascii", "Fichier introuvable\u00a0: \u4e16".encode(), "bin")
    raw("IS_TEXT", 0, "of_8_bytes", b"Not here", "bin")
    raw("TOO_SHORT", 0, "text_of_7_bytes", b"Nothing", "bin")
    raw("IS_TAR", 0, "of_one_file", b"name.txt".ljust(257, b"\0") + b"ustar\x0000" + b"\0" * 248, "bin")
    raw("IS_ELF", 0, "of_64_bits", b"\x7fELF\x02\x01\x01" + b"\0" * 57, "bin")
    raw("IS_COMPRESSED", 0, "zlib", b"\x78\x9c" + data(40), "bin")
    raw("IS_COMPRESSED", 0, "lzma", b"\x5d\0\0\x80\0" + b"\xff" * 8 + data(20), "bin")
    raw("IS_COMPRESSED", 0, "lz4", b"\x04\x22\x4d\x18" + data(40), "bin")
    raw("IS_COMPRESSED", 0, "7z", b"7z\xbc\xaf\x27\x1c\0\4" + data(40), "bin")
    raw("IS_OTHER", 0, "png", b"\x89PNG\r\n\x1a\n" + data(40), "bin")
    raw("IS_OTHER", 0, "sqlite", b"SQLite format 3\0" + data(40), "bin")
    raw("IS_CONVERTIBLE", 0, "arrow", b"ARROW1\0\0" + data(40), "bin")
    raw("IS_CONVERTIBLE", 0, "arrow_message", b"\xff\xff\xff\xff\x38\0\0\0\x10\0\0\0" + data(40), "bin")
    raw("IS_CONVERTIBLE", 0, "onnx", b"\x08\x07\x12\x07pytorch\x1a\x032.1:" + data(40), "bin")
    raw("IS_CONVERTIBLE", 0, "flax", b"\x81\xa6params\x82\xa4bias\xc7" + data(40), "bin")
    raw("IS_CONVERTIBLE", 0, "tensorflow", b"\0\0\6\x08\1\x1a\2\x08\1" + data(40), "bin")


# ---- The directory -------------------------------------------------------------------------------------------------


def build():
    for part in (
        accepted_frames, accepted_dtypes, accepted_shapes, accepted_ranges, accepted_strings, accepted_metadata, noted,
        refused_frames, refused_json, refused_utf8, refused_depth, refused_types, refused_numbers, refused_fields,
        refused_duplicates, refused_dtypes, refused_sizes, refused_coverage, refused_for_two_reasons, foreign,
    ):  # fmt: skip
        part()
    for name, content in make_bintensors.build():
        put(name, content)
    return VECTORS


def existing():
    return {path.name: path for path in HERE.iterdir() if path.suffix in (".safetensors", ".bin", ".bt")}


def main():
    wanted, there = build(), existing()
    stale = sorted(set(there) - set(wanted))
    changed = sorted(name for name in wanted if name not in there or there[name].read_bytes() != wanted[name])
    if "--check" in sys.argv[1:]:
        for name in stale + changed:
            print("differs:", name)
        return 1 if stale or changed else 0
    for name in stale:
        there[name].unlink()
    for name in changed:
        (HERE / name).write_bytes(wanted[name])
    print("%d vectors, %d bytes; %d written, %d removed" % (
        len(wanted), sum(map(len, wanted.values())), len(changed), len(stale)))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
