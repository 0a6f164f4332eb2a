# SPDX-License-Identifier: Apache-2.0
"""GGUF by the command: files that are made here byte by byte, little-endian and big-endian, as one file and as several, with plain types
and with blocks. That blocks become the right numbers, tests/unit/test_gguf.c and the tests with the package gguf say."""

import json
import os
import struct
import subprocess

import pytest
from attacks_gguf import GGUF_FORMATS, GgufTensor, gguf_file
from attacks_numpy import npy

CLI = os.environ["COFFER_CLI"]
U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64 = range(13)
PLAIN = {0: ("F32", 4), 1: ("F16", 2), 24: ("I8", 1), 25: ("I16", 2), 26: ("I32", 4), 27: ("I64", 8), 28: ("F64", 8), 30: ("BF16", 2)}
BLOCKS = {2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 10: ("Q2_K", 256, 84),
          11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 40: ("NVFP4", 64, 36)}
Q8_0 = struct.pack("<e32b", 0.5, *range(-16, 16))


def run(*arguments, code=0):
    done = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", timeout=300, check=False)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done


def convert(path, *options, code=0):
    """The metadata, and name → dtype, shape and bytes; of a failure what is said."""
    output = path.parent / "o.safetensors"
    output.unlink(missing_ok=True)
    done = run("convert", path, "-o", output, "-q", *options, code=code)
    if code != 0:
        assert not output.exists()
        return done.stderr
    blob = output.read_bytes()
    size = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:8 + size])
    metadata = header.pop("__metadata__", {})
    return metadata, {name: (entry["dtype"], tuple(entry["shape"]), blob[8 + size:][slice(*entry["data_offsets"])]) for name, entry in header.items()}


def write(path, *arguments, **fields):
    path.write_bytes(gguf_file(*arguments, **fields))
    return path


def pattern(size, seed=0):
    return bytes((i * 37 + seed * 11 + (i >> 7)) & 255 for i in range(size))


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("version", [2, 3])
def test_plain_types(tmp_path, order, version):
    tensors, expected = [], {}
    for kind, (dtype, size) in PLAIN.items():
        for dimensions in ((), (1,), (5, 3), (3, 0), (2, 3, 4, 5)):
            count = 1
            for d in dimensions:
                count *= d
            data = pattern(count * size, kind)
            name = f"{dtype}.{'x'.join(map(str, dimensions))}"
            stored = data if order == "<" else b"".join(data[i:i + size][::-1] for i in range(0, len(data), size))
            tensors.append(GgufTensor(name, dimensions, kind, stored))
            expected[name] = dtype, dimensions[::-1], data
    _, found = convert(write(tmp_path / "m.gguf", (), tensors, order=order, version=version))
    assert found == expected


def test_keys_become_metadata(tmp_path):
    keys = [("u8", U8, 255), ("i8", I8, -128), ("u16", U16, 65535), ("i16", I16, -1), ("u32", U32, 2**32 - 1), ("i32", I32, -2**31),
            ("f32", F32, 0.1), ("f32.nan", F32, float("nan")), ("f64", F64, 0.1), ("f64.inf", F64, float("-inf")), ("yes", BOOL, True),
            ("no", BOOL, False), ("text", TEXT, 'a "b"\n\u00e4'), ("empty", TEXT, ""), ("u64", U64, 2**64 - 1), ("i64", I64, -2**63),
            ("numbers", ARRAY, (I32, [1, -2, 3])), ("texts", ARRAY, (TEXT, ["a", "b"])), ("none", ARRAY, (F32, [])),
            ("sixty-four", ARRAY, (U8, [7] * 64)), ("long", ARRAY, (U8, [7] * 65)), ("long.texts", ARRAY, (TEXT, ["t"] * 65)),
            ("long.text", TEXT, "x" * 65537), ("no.utf-8", TEXT, b"\xff")]
    path = write(tmp_path / "m.gguf", keys, [GgufTensor("w", (1,), 0, bytes(4))])
    metadata, _ = convert(path)
    assert {key: json.loads(value) for key, value in metadata.items() if key != "format"} == {
        "gguf.u8": 255, "gguf.i8": -128, "gguf.u16": 65535, "gguf.i16": -1, "gguf.u32": 2**32 - 1, "gguf.i32": -2**31, "gguf.f32": 0.1,
        "gguf.f32.nan": "NaN", "gguf.f64": 0.1, "gguf.f64.inf": "-Infinity", "gguf.yes": True, "gguf.no": False,
        "gguf.text": 'a "b"\n\u00e4', "gguf.empty": "", "gguf.u64": 2**64 - 1, "gguf.i64": -2**63, "gguf.numbers": [1, -2, 3],
        "gguf.texts": ["a", "b"], "gguf.none": [], "gguf.sixty-four": [7] * 64,
        # The types that the values do not tell.
        "gguf:u8": "u8", "gguf:i8": "i8", "gguf:u16": "u16", "gguf:i16": "i16", "gguf:f32.nan": "f32", "gguf:f64": "f64", "gguf:f64.inf": "f64",
        "gguf:sixty-four": "u8"}
    told = json.loads(run("convert", "-n", "--json", path).stdout)
    notes = [finding["text"] for finding in told["findings"] if finding["weight"] == "note"]
    for key in ("long", "long.texts", "long.text", "no.utf-8"):
        assert any(f'"{key}"' in note for note in notes), notes


def test_alignment(tmp_path):
    for alignment in (1, 8, 64, 4096, 1 << 20):
        tensors = [GgufTensor("a", (3,), 24, b"abc"), GgufTensor("b", (1,), 0, b"1234")]
        path = write(tmp_path / "m.gguf", [("general.alignment", U32, alignment)], tensors, alignment=alignment)
        assert convert(path)[1] == {"a": ("I8", (3,), b"abc"), "b": ("F32", (1,), b"1234")}


def test_bytes_of_no_tensor_are_counted(tmp_path):
    """What lies between tensors is no error: other programs pad as they like."""
    path = write(tmp_path / "m.gguf", (), [GgufTensor("a", (2,), 0, bytes(8)), GgufTensor("b", (2,), 0, b"b" * 8)], gap=64)
    assert convert(path)[1] == {"a": ("F32", (2,), bytes(8)), "b": ("F32", (2,), b"b" * 8)}


def test_blocks_raw(tmp_path):
    tensors, expected = [GgufTensor("plain", (4,), 1, b"12345678")], {"plain": ("F16", (4,), b"12345678")}
    types = {"plain": {"type": "F16", "shape": [4]}}
    for kind, (called, elements, size) in BLOCKS.items():
        data = pattern(6 * size, kind)
        tensors.append(GgufTensor(called, (2 * elements, 3), kind, data))
        expected[called] = "U8", (3, 2 * size), data
        types[called] = {"type": called, "shape": [3, 2 * elements]}
    metadata, found = convert(write(tmp_path / "m.gguf", (), tensors), "--raw")
    assert found == expected
    assert list(json.loads(metadata["gguf.tensors"]).items()) == list(types.items())


def test_blocks_of_two_files_raw(tmp_path):
    first = write(tmp_path / "a.gguf", (), [GgufTensor("a", (32,), 8, Q8_0)])
    second = write(tmp_path / "b.gguf", (), [GgufTensor('b"', (32, 2), 2, pattern(36)), GgufTensor("plain", (1,), 0, b"1234")])
    metadata, found = convert(first, second, "--raw")
    assert json.loads(metadata["gguf.tensors"]) == {
        "a": {"type": "Q8_0", "shape": [32]}, 'b"': {"type": "Q4_0", "shape": [2, 32]}, "plain": {"type": "F32", "shape": [1]}}
    assert found == {"a": ("U8", (34,), Q8_0), 'b"': ("U8", (2, 18), pattern(36)), "plain": ("F32", (1,), b"1234")}
    write(tmp_path / "b.gguf", (), [GgufTensor("a", (32,), 2, pattern(18))])
    assert 'tensor "a" is in' in convert(first, second, "--raw", code=1)


def test_blocks_as_numbers(tmp_path):
    path = write(tmp_path / "m.gguf", (), [GgufTensor("w", (64, 2), 8, Q8_0 * 4), GgufTensor("v", (2,), 30, b"abcd")])
    numbers = [q / 2 for q in range(-16, 16)] * 4
    for dtype, expected in (("f32", struct.pack("<128f", *numbers)), ("f16", struct.pack("<128e", *numbers)),
                            ("bf16", b"".join(struct.pack("<f", x)[2:] for x in numbers))):
        metadata, found = convert(path, "--dequantize", dtype)
        assert found == {"w": (dtype.upper(), (2, 64), expected), "v": ("BF16", (2,), b"abcd")}
        assert "gguf.tensors" not in metadata


def test_blocks_are_not_guessed(tmp_path):
    tensors = [GgufTensor(f"{called}.{i}", (256,), kind, bytes(256 // elements * size)) for kind, (called, elements, size) in BLOCKS.items() for i in range(3)]
    said = convert(write(tmp_path / "m.gguf", (), tensors), code=1)
    assert "Q4_0 3, Q4_1 3, Q5_0 3, Q5_1 3, Q8_0 3, Q2_K 3, ...)" in said
    size = sum(3 * 256 // elements * size for _, elements, size in BLOCKS.values())
    assert f"(f32: 27.6 kB (27648 bytes); f16 and bf16: half of that), --raw keeps their bytes ({size} bytes)" in said
    assert said.endswith("leave out what it lacks: --skip-unsupported\n")


def test_blocks_are_left_out_if_that_is_wanted(tmp_path):
    path = write(tmp_path / "m.gguf", (), [GgufTensor("w", (32,), 8, Q8_0), GgufTensor("v", (2,), 30, b"abcd")])
    assert convert(path, "--skip-unsupported")[1] == {"v": ("BF16", (2,), b"abcd")}
    told = json.loads(run("convert", "-n", "--json", "--skip-unsupported", path).stdout)
    assert [(row["name"], row["fate"], row["reason"]) for row in told["plan"]] == [
        ("w", "skipped", "it is quantised in blocks of Q8_0"), ("v", "written", None)]
    assert told["account"]["skipped"] == 34


def test_types_that_nobody_published_are_refused(tmp_path):
    path = write(tmp_path / "m.gguf", (), [GgufTensor("w", (32,), 99, Q8_0)])
    assert "GGUF's type 99" in convert(path, "--skip-unsupported", code=1)


@pytest.mark.parametrize("option", [["--raw"], ["--dequantize", "f32"], ["--skip-unsupported"]])
def test_numbers_with_another_meaning_are_refused(tmp_path, option):
    """Forks write type 42 in blocks of 66 bytes, where the published one takes 18; the next tensor tells."""
    path = write(tmp_path / "m.gguf", (), [GgufTensor("w", (64,), 42, bytes(66)), GgufTensor("v", (2,), 30, b"abcd")])
    assert "GGUF's type 42, which has more bytes" in convert(path, *option, code=1)
    convert(write(tmp_path / "m.gguf", (), [GgufTensor("w", (64,), 42, bytes(18)), GgufTensor("v", (2,), 30, b"abcd")]), *option)


def test_options_contradict(tmp_path):
    path = write(tmp_path / "m.gguf", (), [GgufTensor("w", (32,), 8, Q8_0)])
    assert "contradict" in run("convert", path, "-o", tmp_path / "o.safetensors", "--raw", "--dequantize", "f32", code=2).stderr
    convert(path, "--raw")
    for option in (["--raw"], ["--dequantize", "f32"]):
        done = run("convert", tmp_path / "o.safetensors", "-o", tmp_path / "p.safetensors", *option, code=2)
        assert "is for files of other programs" in done.stderr


def test_blocks_of_big_endian_files_are_refused(tmp_path):
    path = write(tmp_path / "m.gguf", (), [GgufTensor("w", (32,), 8, Q8_0)], order=">")
    assert "blocks in a big-endian file" in convert(path, "--dequantize", "f32", code=1)


NVFP4 = bytes([0x38, 0x40, 0x01, 0x7e]) + pattern(32)


def nvfp4(block):
    """What the format's formula says: scale bytes of four bits of exponent and three of mantissa, halved; 16 elements each, split."""
    numbers = []
    for k in range(4):
        exponent, mantissa = block[k] >> 3 & 15, block[k] & 7
        scale = 0.0 if block[k] in (0, 0x7f) else mantissa * 2.0**-9 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
        nibbles = [b & 15 for b in block[4 + 8 * k:12 + 8 * k]] + [b >> 4 for b in block[4 + 8 * k:12 + 8 * k]]
        numbers += [scale / 2 * (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)[q] for q in nibbles]
    return numbers


def times(numbers, factor):
    """In F32: both are exact in F64, and so is their product, which is rounded once."""
    return struct.pack(f"<{len(numbers)}f", *(x * factor for x in numbers))


THIRD, = struct.unpack("<f", struct.pack("<f", 1 / 3))


def test_second_scales_are_multiplied_in(tmp_path):
    weight = GgufTensor("blk.0.up.weight", (64, 2), 40, NVFP4 * 2)
    alone = write(tmp_path / "m.gguf", (), [weight])
    assert convert(alone, "--dequantize", "f32")[1] == {"blk.0.up.weight": ("F32", (2, 64), times(nvfp4(NVFP4) * 2, 1))}
    others = [GgufTensor(name, (1,), 0, b"1234") for name in ("scale", ".scale", "blk.0.upscale", "blk.0.up.weight.scale", "blk.0.up.input_scale")]
    both = write(tmp_path / "m.gguf", (), [*others, GgufTensor("blk.0.up.scale", (1,), 0, struct.pack("<f", THIRD)), weight])
    found = convert(both, "--dequantize", "f32")[1]
    assert found.pop("blk.0.up.weight") == ("F32", (2, 64), times(nvfp4(NVFP4) * 2, THIRD))
    assert set(found) == {t.name for t in others}
    assert set(convert(both, "--raw")[1]) == {"blk.0.up.weight", "blk.0.up.scale"} | set(found)
    told = json.loads(run("convert", "-n", "--json", "--dequantize", "f32", both).stdout)
    assert [row["reason"] for row in told["plan"] if row["name"] == "blk.0.up.scale"] == ["it is multiplied into blk.0.up.weight"]
    assert told["account"]["skipped"] == 4 and told["account"]["total"] == 512 + 4 + 20
    # --skip-unsupported leaves the blocks out, and nothing is multiplied.
    assert set(convert(both, "--skip-unsupported")[1]) == {"blk.0.up.scale"} | set(found)


def test_second_scales_of_experts(tmp_path):
    factors = (THIRD, -2.0, 0.0)
    scale = GgufTensor("e.scale", (3,), 0, struct.pack("<3f", *factors))
    weight = GgufTensor("e.weight", (64, 2, 3), 40, NVFP4 * 6)
    expected = ("F32", (3, 2, 64), b"".join(times(nvfp4(NVFP4) * 2, factor) for factor in factors))
    assert convert(write(tmp_path / "m.gguf", (), [scale, weight]), "--dequantize", "f32")[1] == {"e.weight": expected}
    # In two files of a set, of which the second is big-endian.
    write(tmp_path / "m-00001-of-00002.gguf", (), [weight])
    swapped = GgufTensor("e.scale", (3,), 0, struct.pack(">3f", *factors))
    path = write(tmp_path / "m-00002-of-00002.gguf", (), [swapped], order=">")
    assert convert(path, "--dequantize", "f32")[1] == {"e.weight": expected}


@pytest.mark.parametrize("weight, scale", [
    (((64, 2, 3), 6), ((2,), 0, 8)), (((64, 3), 3), ((3,), 0, 12)), (((64,), 1), ((1,), 1, 2)), (((64,), 1), ((0,), 0, 0)),
    (((64, 1, 65537), 65537), ((65537,), 0, 4 * 65537)),
])
def test_second_scales_that_do_not_fit(tmp_path, weight, scale):
    tensors = [GgufTensor("e.weight", weight[0], 40, NVFP4 * weight[1]), GgufTensor("e.scale", *scale[:2], bytes(scale[2]))]
    said = convert(write(tmp_path / "m.gguf", (), tensors), "--dequantize", "f32", code=1)
    assert '"e.scale"' in said and "neither one F32 nor one for each" in said
    twice = [GgufTensor("e.weight", (64,), 40, NVFP4), *[GgufTensor("e.scale", (1,), 0, bytes(4))] * 2]
    assert '"e.scale"' in convert(write(tmp_path / "m.gguf", (), twice), "--dequantize", "f32", code=1)


def split(folder, count=3):
    for i in range(count):
        keys = [("split.no", U16, i), ("split.count", U16, count)] + ([("general.name", TEXT, "m")] if i == 0 else [("other", U8, i)])
        tensors = [GgufTensor(f"t{i}.{k}", (4,), 0, pattern(16, i + k)) for k in range(2)]
        write(folder / f"m-{i + 1:05}-of-{count:05}.gguf", keys, tensors)


def test_several_files_are_one_model(tmp_path):
    split(tmp_path)
    expected = {f"t{i}.{k}": ("F32", (4,), pattern(16, i + k)) for i in range(3) for k in range(2)}
    for named in (1, 2, 3):
        metadata, found = convert(tmp_path / f"m-{named:05}-of-00003.gguf")
        assert list(found) == list(expected) and found == expected
        assert metadata["gguf.general.name"] == '"m"' and "gguf.other" not in metadata
    (tmp_path / "m-00002-of-00003.gguf").unlink()
    for named in (1, 3):
        assert "m-00002-of-00003.gguf" in convert(tmp_path / f"m-{named:05}-of-00003.gguf", code=1)


def test_a_tensor_in_two_files_is_refused(tmp_path):
    split(tmp_path, 2)
    write(tmp_path / "m-00002-of-00002.gguf", (), [GgufTensor("t0.0", (1,), 0, bytes(4))])
    assert '"t0.0"' in convert(tmp_path / "m-00001-of-00002.gguf", code=1)


# ---- the way back ------------------------------------------------------------------------------------------------------


def back(path, *options, code=0):
    """A file of tensors as GGUF, read by nothing of the library: keys with their types, and name → dimensions, type and bytes."""
    output = path.parent / "back.gguf"
    output.unlink(missing_ok=True)
    done = run("convert", path, "-o", output, "-q", *options, code=code)
    return read(output.read_bytes()) if code == 0 else done.stderr


def read(blob):
    at = 0

    def number(form):
        nonlocal at
        value, = struct.unpack_from("<" + form, blob, at)
        at += struct.calcsize(form)
        return value

    def text():
        nonlocal at
        size = number("Q")
        at += size
        return blob[at - size:at]

    def value(kind):
        if kind == TEXT:
            return text()
        if kind == ARRAY:
            of = number("I")
            return of, [value(of) for _ in range(number("Q"))]
        return number(GGUF_FORMATS[kind])

    assert blob[:4] == b"GGUF"
    at = 4
    assert number("I") == 3
    tensors, keys = number("Q"), {}
    for _ in range(number("Q")):
        key = text().decode()
        assert key not in keys
        kind = number("I")
        keys[key] = kind, value(kind)
    infos = [(text().decode(), tuple(number("Q") for _ in range(number("I"))), number("I"), number("Q")) for _ in range(tensors)]
    alignment = keys.get("general.alignment", (U32, 32))[1]
    begin = at + -at % alignment
    assert blob[at:begin] == bytes(begin - at) and len(blob) % alignment == begin % alignment == 0
    found, end = {}, begin
    for name, dimensions, kind, offset in infos:
        elements, size = (1, PLAIN[kind][1]) if kind in PLAIN else BLOCKS[kind][1:]
        for d in dimensions:
            size *= d
        assert begin + offset == end + -end % alignment
        end = begin + offset + size // elements
        found[name] = dimensions, kind, blob[begin + offset:end]
    return keys, found


def test_there_and_back(tmp_path):
    tensors = [GgufTensor(dtype, (5, 3), kind, pattern(15 * size, kind)) for kind, (dtype, size) in PLAIN.items()]
    tensors += [GgufTensor(called, (2 * elements, 3), kind, pattern(6 * size, kind)) for kind, (called, elements, size) in BLOCKS.items()]
    tensors += [GgufTensor("none", (0, 4), 0, b""), GgufTensor("scalar", (), 0, b"abcd"), GgufTensor("four", (1, 2, 3, 4), 24, pattern(24))]
    keys = [("general.architecture", TEXT, "llama"), ("llama.count", U32, 32), ("llama.offset", I32, -1), ("llama.big", U64, 2**40),
            ("llama.rate", F32, 1e-5), ("llama.base", F32, 10000.0), ("llama.one", F32, 1.0), ("llama.tied", BOOL, True), ("llama.name", TEXT, 'a"\n\u00e4'),
            ("llama.heads", ARRAY, (I32, [1, 2, 3])), ("llama.scales", ARRAY, (F32, [0.5, 1.0])), ("llama.words", ARRAY, (TEXT, ["a", ""]))]
    for extra, alignment in (((), 32), ((("general.alignment", U32, 128),), 128)):
        convert(write(tmp_path / "m.gguf", [*keys, *extra], tensors, alignment=alignment), "--raw")
        found_keys, found = back(tmp_path / "o.safetensors")
        assert found == {t.name: (t.dimensions, t.kind, t.data) for t in tensors}
        assert found_keys == read((tmp_path / "m.gguf").read_bytes() + bytes(-(tmp_path / "m.gguf").stat().st_size % alignment))[0]
        convert(tmp_path / "back.gguf", "--raw")
        first = (tmp_path / "back.gguf").read_bytes()
        back(tmp_path / "o.safetensors")
        assert (tmp_path / "back.gguf").read_bytes() == first


def test_types_of_keys_come_back(tmp_path):
    numbers = {U8: 255, I8: -128, U16: 65535, I16: -2**15, U32: 2**32 - 1, I32: -2**31, U64: 2**64 - 1, I64: -2**63}
    keys = [("general.architecture", TEXT, "llama")]
    for kind, most in numbers.items():
        keys += [(f"n{kind}.{k}", kind, n) for k, n in enumerate((0, 1, most))]
        keys += [(f"a{kind}.{k}", ARRAY, (kind, n)) for k, n in enumerate(([], [0], [most, 1]))]
    for kind in (F32, F64):
        infinity = float("inf")
        reals = [0.0, -0.0, 1.0, 0.1 if kind == F64 else struct.unpack("<f", struct.pack("<f", 0.1))[0], 1e30, infinity, -infinity]
        keys += [(f"r{kind}.{k}", kind, x) for k, x in enumerate(reals)]
        keys += [(f"R{kind}", ARRAY, (kind, reals)), (f"e{kind}", ARRAY, (kind, []))]
    keys += [("b", BOOL, True), ("ab", ARRAY, (BOOL, [])), ("t", TEXT, "NaN"), ("at", ARRAY, (TEXT, [])), ("inf", ARRAY, (TEXT, ["Infinity"]))]
    path = write(tmp_path / "m.gguf", keys, [GgufTensor("w", (1,), 0, b"1234")])
    metadata, _ = convert(path)
    found, _ = back(tmp_path / "o.safetensors")
    expected = read(path.read_bytes() + bytes(28))[0]
    assert found == expected
    assert struct.pack("<d", found[f"r{F64}.1"][1]) == struct.pack("<d", -0.0)
    # NaN is not equal to itself.
    convert(write(path, [*keys[:1], ("x", F64, float("nan")), ("y", ARRAY, (F32, [float("nan"), 1.0]))], [GgufTensor("w", (1,), 0, b"1234")]))
    found, _ = back(tmp_path / "o.safetensors")
    assert found["x"][0] == F64 and found["x"][1] != found["x"][1]
    assert found["y"][1][0] == F32 and found["y"][1][1][0] != found["y"][1][1][0] and found["y"][1][1][1] == 1


@pytest.mark.parametrize("told", ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "bool", "text", "array", "f16", ""])
def test_types_that_do_not_fit_are_not_believed(tmp_path, told):
    """Metadata can be edited."""
    ints = {"u8": (U8, 0, 2**8), "i8": (I8, -2**7, 2**7), "u16": (U16, 0, 2**16), "i16": (I16, -2**15, 2**15), "u32": (U32, 0, 2**32),
            "i32": (I32, -2**31, 2**31), "u64": (U64, 0, 2**64), "i64": (I64, -2**63, 2**63)}
    values = ["1.5", "true", '"x"', '"NaN"', "[1, 2.5]", '["a", "NaN"]', "{}", "[true, 1]"]
    for kind, least, end in (ints[told],) if told in ints else ():
        values += [str(least - 1), str(end), f"[{end}]", f"[{end - 1}, {least - 1}]"]
    metadata = {f"gguf.k{i}": value for i, value in enumerate(values)}
    plain, _ = back(make(tmp_path / "m.safetensors", W, {**ARCH, **metadata}))
    types = {f"gguf:k{i}": json.dumps(told) for i in range(len(values))}
    keys, _ = back(make(tmp_path / "m.safetensors", W, {**ARCH, **metadata, **types, "gguf:none": '"f64"'}))
    assert keys == plain


def tokenizer():
    """Keys as models have them: long arrays, of texts that are not all UTF-8, and types that JSON does not tell."""
    words = [f"<{i}>".encode() for i in range(3000)] + [b"\xff\xfe", b""]
    return [("general.architecture", TEXT, "llama"), ("z.first", F64, 0.1), ("general.alignment", U32, 64), ("llama.block_count", U32, 2),
            ("tokenizer.ggml.tokens", ARRAY, (TEXT, words)), ("tokenizer.ggml.scores", ARRAY, (F32, [0.5] * 3002)),
            ("tokenizer.ggml.types", ARRAY, (I32, list(range(3002)))), ("long", TEXT, "x" * 70000), ("a.nan", F32, float("nan")), ("u16", U16, 1)]


def padded(path, alignment):
    blob = path.read_bytes()
    return blob + bytes(-len(blob) % alignment)


def test_a_sidecar_has_all_keys(tmp_path):
    keys = tokenizer()
    tensors = [GgufTensor("b", (5, 3), 0, pattern(60)), GgufTensor("a", (32, 2), 8, Q8_0 * 2), GgufTensor("c", (3,), 1, b"123456"), GgufTensor("d", (7,), 24, pattern(7))]
    path = write(tmp_path / "m.gguf", keys, tensors, alignment=64)
    sidecar = tmp_path / "keys.gguf"
    metadata, _ = convert(path, "--raw", "--sidecar", sidecar)
    assert not any("tokenizer" in key for key in metadata)
    only = write(tmp_path / "only.gguf", keys, (), alignment=64).read_bytes()
    size = sidecar.stat().st_size
    assert sidecar.read_bytes() == only[:size] and only[size:] == bytes(len(only) - size) and len(only) - size < 64
    # With it the same bytes come back; so they do with the model itself.
    for keys_of in (sidecar, path):
        back(tmp_path / "o.safetensors", "--sidecar", keys_of)
        assert (tmp_path / "back.gguf").read_bytes() == padded(path, 64)
    # Without it the long ones are missing.
    assert "tokenizer.ggml.tokens" not in back(tmp_path / "o.safetensors")[0]


def test_metadata_replace_what_a_sidecar_has(tmp_path):
    sidecar = write(tmp_path / "keys.gguf", [*tokenizer(), ("split.count", U16, 3), ("split.no", U16, 0)], ())
    metadata = {"gguf.llama.block_count": "3", "gguf.new": "1", "gguf.general.alignment": "128", "gguf.general.architecture": '"llama"', "gguf.z.first": "0.1"}
    keys, _ = back(make(tmp_path / "m.safetensors", W, metadata), "--sidecar", sidecar)
    expected = read(padded(sidecar, 64))[0]
    assert expected.pop("split.count") and expected.pop("split.no")
    expected["llama.block_count"], expected["general.alignment"], expected["new"] = (U32, 3), (U32, 128), (U32, 1)
    assert list(keys) == list(expected)
    for found in (keys, expected):
        assert found["a.nan"][0] == F32 and struct.pack("<f", found.pop("a.nan")[1]) == struct.pack("<f", float("nan"))
    assert keys == expected
    # What is named replaces both, at its place; a sidecar without an architecture has none to give.
    keys, _ = back(tmp_path / "m.safetensors", "--sidecar", sidecar, "--arch", "gpt2")
    assert list(keys.items())[0] == ("general.architecture", (TEXT, b"gpt2"))
    write(sidecar, [("x", U8, 1), ("general.alignment", U32, 3)], ())
    assert "--arch llama" in back(make(tmp_path / "n.safetensors", W, {}), "--sidecar", sidecar, code=1)
    assert back(tmp_path / "n.safetensors", "--sidecar", sidecar, "--arch", "b")[0] == {"x": (U8, 1), "general.architecture": (TEXT, b"b")}


def test_sidecars_that_are_refused(tmp_path):
    plain = make(tmp_path / "m.safetensors", W, ARCH)
    sidecar = tmp_path / "keys.gguf"
    said = {"twice": write(sidecar, [("x", U8, 1), ("y", U8, 1), ("x", U8, 2)], ()).read_bytes(),
            "big-endian": write(sidecar, [("x", U8, 1)], (), order=">").read_bytes(),
            "no GGUF file": b"GGUX" + bytes(60), "damaged": b"GGUF" + struct.pack("<IQQ", 3, 0, 9) + bytes(20)}
    for words, blob in said.items():
        sidecar.write_bytes(blob)
        done = subprocess.run([CLI, "convert", plain, "-o", tmp_path / "o.gguf", "--sidecar", sidecar], capture_output=True, text=True, check=False)
        assert done.returncode in (1, 3) and words in done.stderr, done
        assert not (tmp_path / "o.gguf").exists()
    run("convert", plain, "-o", tmp_path / "o.gguf", "--sidecar", tmp_path / "none.gguf", code=3)
    run("convert", plain, "-o", tmp_path / "o.bt", "--sidecar", sidecar, code=2)
    run("convert", plain, "-o", tmp_path / "o.npz", "--sidecar", sidecar, code=2)


def test_sidecars_that_are_not_written(tmp_path):
    path = write(tmp_path / "m.gguf", tokenizer(), [GgufTensor("w", (32,), 8, Q8_0)], alignment=64)
    sidecar = tmp_path / "keys.gguf"
    assert "are the same file" in convert(path, "--raw", "--sidecar", tmp_path / "o.safetensors", code=2)
    convert(path, "--raw", "--sidecar", path, code=3)
    convert(path, "--sidecar", sidecar, code=1)
    assert not sidecar.exists()
    sidecar.write_bytes(b"old")
    convert(path, "--raw", "--sidecar", sidecar, code=3)
    assert sidecar.read_bytes() == b"old"
    convert(path, "--raw", "--sidecar", sidecar, "-f")
    assert sidecar.read_bytes()[:4] == b"GGUF"
    (tmp_path / "a.npy").write_bytes(npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}"))
    assert "the input has none" in convert(tmp_path / "a.npy", "--sidecar", tmp_path / "k.gguf", code=1)


def make(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, (dtype, shape, body) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(body)]}
        data += body
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


ARCH = {"gguf.general.architecture": '"llama"'}
W = {"w": ("F32", [1], b"1234")}


def test_values_of_metadata(tmp_path):
    values = {"7": (U32, 7), "-7": (I32, -7), "4294967296": (U64, 2**32), "-2147483649": (I64, -2**31 - 1), "1.5": (F32, 1.5), "1e2": (F32, 100.0),
              "18446744073709551616": (F32, float(2**64)), "true": (BOOL, True), '"x"': (TEXT, b"x"), "x": (TEXT, b"x"), "": (TEXT, b""),
              "null": (TEXT, b"null"), "{}": (TEXT, b"{}"), "[1, -2]": (ARRAY, (I32, [1, -2])), "[4294967295]": (ARRAY, (U32, [2**32 - 1])),
              "[1, 2.5]": (ARRAY, (F32, [1.0, 2.5])), "[]": (ARRAY, (F32, [])), "[true,false]": (ARRAY, (BOOL, [True, False])),
              '["a","\\u00e4"]': (ARRAY, (TEXT, [b"a", "\u00e4".encode()])), '[1,"a"]': (TEXT, b'[1,"a"]'), "[[1]]": (TEXT, b"[[1]]"),
              "[1": (TEXT, b"[1"), "1 2": (TEXT, b"1 2"), "--1": (TEXT, b"--1"), "truex": (TEXT, b"truex"), '"x': (TEXT, b'"x')}
    metadata = {f"gguf.k{i}": value for i, value in enumerate(values)}
    keys, _ = back(make(tmp_path / "m.safetensors", W, {**ARCH, **metadata, "other": "1", "gguf.split.no": "1"}))
    assert keys == {"general.architecture": (TEXT, b"llama"), **{f"k{i}": value for i, value in enumerate(values.values())}}


def test_the_architecture_is_known(tmp_path):
    path = make(tmp_path / "m.safetensors", W, {})
    assert "have no gguf.general.architecture" in back(path, code=1)
    assert back(path, "--arch", "gpt2")[0] == {"general.architecture": (TEXT, b"gpt2")}
    assert back(make(path, W, ARCH), "--arch", "gpt2")[0] == {"general.architecture": (TEXT, b"gpt2")}
    assert "--arch is for gguf" in run("convert", path, "-o", tmp_path / "o.bt", "--arch", "x", code=2).stderr


@pytest.mark.parametrize("tensors, metadata, said", [
    ({"w": ("U8", [4], b"1234")}, {}, "nothing is quantised or cast"),
    ({"w" * 64: ("F32", [1], b"1234")}, {}, "63 bytes"),
    ({"w": ("F32", [1] * 5, b"1234")}, {}, "4 dimensions"),
    ({"w": ("U8", [18], bytes(18))}, {"gguf.tensors": '{"w": {"type": "Q4_0", "shape": [64]}}'}, "is not what gguf.tensors says"),
    ({"w": ("U8", [2, 18], bytes(36))}, {"gguf.tensors": '{"w": {"type": "Q4_0", "shape": [3, 32]}}'}, "is not what gguf.tensors says"),
    ({"w": ("I8", [18], bytes(18))}, {"gguf.tensors": '{"w": {"type": "Q4_0", "shape": [32]}}'}, "is not what gguf.tensors says"),
    ({"w": ("U8", [4], bytes(4))}, {"gguf.tensors": '{"w": {"type": "I8", "shape": [4]}}'}, "nothing is quantised or cast"),
    (W, {"gguf.tensors": '{"w": {"type": "Q9", "shape": [32]}}'}, "types that GGUF has"),
    (W, {"gguf.tensors": '{"w": {"type": "Q4_0", "shape": [1,2,3,4,5]}}'}, "types that GGUF has"),
    (W, {"gguf.tensors": '{"w": {"type": "Q4_0"}}'}, "types that GGUF has"),
    (W, {"gguf.tensors": '{"w": {"shape": [32], "x": 1}}'}, "types that GGUF has"),
    (W, {"gguf.tensors": '{"w"'}, "gguf.tensors"), (W, {"gguf.tensors": "[]"}, "gguf.tensors"), (W, {"gguf.tensors": "{} x"}, "gguf.tensors"),
])
def test_what_gguf_cannot_hold(tmp_path, tensors, metadata, said):
    done = subprocess.run([CLI, "convert", make(tmp_path / "m.safetensors", tensors, {**ARCH, **metadata}), "-o", tmp_path / "o.gguf"], capture_output=True,
                          text=True, check=False)
    assert done.returncode in (1, 2, 3) and said in done.stderr, done
    assert not (tmp_path / "o.gguf").exists()


def test_bytes_are_written_if_that_is_wanted(tmp_path):
    path = make(tmp_path / "m.safetensors", {"w": ("U8", [4], b"1234"), "e": ("F8_E4M3", [2], b"12")}, ARCH)
    assert back(path, "--bytes-as", "I8")[1] == {"w": ((4,), 24, b"1234"), "e": ((2,), 24, b"12")}
