# SPDX-License-Identifier: Apache-2.0
"""GGUF by the command: files that are made here byte by byte, little-endian and big-endian, as one file and as several, with plain types
and with blocks. That blocks become the right numbers, tests/unit/test_gguf.c and the tests with the package gguf say."""

import json
import os
import struct
import subprocess

import pytest
from model_files import load_attacks

CLI = os.environ["COFFER_CLI"]
ATTACKS = load_attacks()
Tensor = ATTACKS.GgufTensor
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
    path.write_bytes(ATTACKS.gguf_file(*arguments, **fields))
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
            tensors.append(Tensor(name, dimensions, kind, stored))
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
    path = write(tmp_path / "m.gguf", keys, [Tensor("w", (1,), 0, bytes(4))])
    metadata, _ = convert(path)
    assert {key: json.loads(value) for key, value in metadata.items() if key != "format"} == {
        "gguf.u8": 255, "gguf.i8": -128, "gguf.u16": 65535, "gguf.i16": -1, "gguf.u32": 2**32 - 1, "gguf.i32": -2**31, "gguf.f32": 0.1,
        "gguf.f32.nan": "NaN", "gguf.f64": 0.1, "gguf.f64.inf": "-Infinity", "gguf.yes": True, "gguf.no": False,
        "gguf.text": 'a "b"\n\u00e4', "gguf.empty": "", "gguf.u64": 2**64 - 1, "gguf.i64": -2**63, "gguf.numbers": [1, -2, 3],
        "gguf.texts": ["a", "b"], "gguf.none": [], "gguf.sixty-four": [7] * 64}
    told = json.loads(run("convert", "-n", "--json", path).stdout)
    notes = [finding["text"] for finding in told["findings"] if finding["weight"] == "note"]
    for key in ("long", "long.texts", "long.text", "no.utf-8"):
        assert any(f'"{key}"' in note for note in notes), notes


def test_alignment(tmp_path):
    for alignment in (1, 8, 64, 4096, 1 << 20):
        tensors = [Tensor("a", (3,), 24, b"abc"), Tensor("b", (1,), 0, b"1234")]
        path = write(tmp_path / "m.gguf", [("general.alignment", U32, alignment)], tensors, alignment=alignment)
        assert convert(path)[1] == {"a": ("I8", (3,), b"abc"), "b": ("F32", (1,), b"1234")}


def test_bytes_of_no_tensor_are_counted(tmp_path):
    """What lies between tensors is no error: other programs pad as they like."""
    path = write(tmp_path / "m.gguf", (), [Tensor("a", (2,), 0, bytes(8)), Tensor("b", (2,), 0, b"b" * 8)], gap=64)
    assert convert(path)[1] == {"a": ("F32", (2,), bytes(8)), "b": ("F32", (2,), b"b" * 8)}


def test_blocks_raw(tmp_path):
    tensors, expected, types = [Tensor("plain", (4,), 1, b"12345678")], {"plain": ("F16", (4,), b"12345678")}, {}
    for kind, (called, elements, size) in BLOCKS.items():
        data = pattern(6 * size, kind)
        tensors.append(Tensor(called, (2 * elements, 3), kind, data))
        expected[called] = "U8", (3, 2 * size), data
        types[called] = {"type": called, "shape": [3, 2 * elements]}
    metadata, found = convert(write(tmp_path / "m.gguf", (), tensors), "--raw")
    assert found == expected
    assert json.loads(metadata["gguf.tensors"]) == types


def test_blocks_as_numbers(tmp_path):
    path = write(tmp_path / "m.gguf", (), [Tensor("w", (64, 2), 8, Q8_0 * 4), Tensor("v", (2,), 30, b"abcd")])
    numbers = [q / 2 for q in range(-16, 16)] * 4
    for dtype, expected in (("f32", struct.pack("<128f", *numbers)), ("f16", struct.pack("<128e", *numbers)),
                            ("bf16", b"".join(struct.pack("<f", x)[2:] for x in numbers))):
        metadata, found = convert(path, "--dequantize", dtype)
        assert found == {"w": (dtype.upper(), (2, 64), expected), "v": ("BF16", (2,), b"abcd")}
        assert "gguf.tensors" not in metadata


def test_blocks_are_not_guessed(tmp_path):
    tensors = [Tensor(f"{called}.{i}", (256,), kind, bytes(256 // elements * size)) for kind, (called, elements, size) in BLOCKS.items() for i in range(3)]
    said = convert(write(tmp_path / "m.gguf", (), tensors), code=1)
    assert "Q4_0 3, Q4_1 3, Q5_0 3, Q5_1 3, Q8_0 3, Q2_K 3, ...)" in said
    size = sum(3 * 256 // elements * size for _, elements, size in BLOCKS.values())
    assert f"(f32: 27.6 kB (27648 bytes); f16 and bf16: half of that), --raw keeps their bytes ({size} bytes)" in said
    assert said.endswith("leave out what it lacks: --skip-unsupported\n")


def test_blocks_are_left_out_if_that_is_wanted(tmp_path):
    path = write(tmp_path / "m.gguf", (), [Tensor("w", (32,), 8, Q8_0), Tensor("v", (2,), 30, b"abcd")])
    assert convert(path, "--skip-unsupported")[1] == {"v": ("BF16", (2,), b"abcd")}
    told = json.loads(run("convert", "-n", "--json", "--skip-unsupported", path).stdout)
    assert [(row["name"], row["fate"], row["reason"]) for row in told["plan"]] == [
        ("w", "skipped", "it is quantised in blocks of Q8_0"), ("v", "written", None)]
    assert told["account"]["skipped"] == 34


def test_types_that_nobody_published_are_refused(tmp_path):
    path = write(tmp_path / "m.gguf", (), [Tensor("w", (32,), 99, Q8_0)])
    assert "GGUF's type 99" in convert(path, "--skip-unsupported", code=3)


def test_options_contradict(tmp_path):
    path = write(tmp_path / "m.gguf", (), [Tensor("w", (32,), 8, Q8_0)])
    assert "contradict" in run("convert", path, "-o", tmp_path / "o.safetensors", "--raw", "--dequantize", "f32", code=2).stderr
    convert(path, "--raw")
    for option in (["--raw"], ["--dequantize", "f32"]):
        done = run("convert", tmp_path / "o.safetensors", "-o", tmp_path / "p.safetensors", *option, code=2)
        assert "is for files of other programs" in done.stderr


def test_blocks_of_big_endian_files_are_refused(tmp_path):
    path = write(tmp_path / "m.gguf", (), [Tensor("w", (32,), 8, Q8_0)], order=">")
    assert "blocks in a big-endian file" in convert(path, "--dequantize", "f32", code=1)


def test_second_scales_are_not_forgotten(tmp_path):
    block = bytes([0x38] * 4) + pattern(32)
    weight = Tensor("blk.0.up.weight", (64,), 40, block)
    alone = write(tmp_path / "m.gguf", (), [weight])
    assert set(convert(alone, "--dequantize", "f32")[1]) == {"blk.0.up.weight"}
    both = write(tmp_path / "m.gguf", (), [weight, Tensor("blk.0.up.scale", (1,), 0, b"\0\0\0?")])
    assert '"blk.0.up.scale"' in convert(both, "--dequantize", "f32", code=3)
    assert set(convert(both, "--raw")[1]) == {"blk.0.up.weight", "blk.0.up.scale"}


def split(folder, count=3):
    for i in range(count):
        keys = [("split.no", U16, i), ("split.count", U16, count)] + ([("general.name", TEXT, "m")] if i == 0 else [("other", U8, i)])
        tensors = [Tensor(f"t{i}.{k}", (4,), 0, pattern(16, i + k)) for k in range(2)]
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
    write(tmp_path / "m-00002-of-00002.gguf", (), [Tensor("t0.0", (1,), 0, bytes(4))])
    assert '"t0.0"' in convert(tmp_path / "m-00001-of-00002.gguf", code=1)
