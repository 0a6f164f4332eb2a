# SPDX-License-Identifier: Apache-2.0
"""Packed files: the vectors, written by another hand than the library's, against the library, and what it packs against a reader
in Python that was written from docs/packed.md."""

import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys

import packed_reader
import pytest
from web_server import Server

TESTS = pathlib.Path(__file__).resolve().parent.parent
CLI = os.environ["COFFER_CLI"]
FOLDER = TESTS / "vectors" / "packed"
PACKED = sorted(FOLDER.glob("*.safetensors"))


def coffer(*arguments):
    return subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True)


def test_the_folder_is_what_its_generator_writes():
    subprocess.run([sys.executable, FOLDER / "make_packed.py", "--check"], check=True)
    assert len(PACKED) > 30


@pytest.mark.parametrize("path", PACKED, ids=lambda path: path.stem)
def test_verdicts(path, tmp_path):
    result = coffer("unpack", path, "-o", tmp_path / "plain", "--json")
    code = re.fullmatch(r"ok__\w+|err_([A-Z_]+)__\w+", path.stem)[1]
    if code is None:
        assert result.returncode == 0, result.stderr
        assert coffer("check", "--data", path).returncode == 0
        assert (tmp_path / "plain").read_bytes() == packed_reader.original(path.read_bytes())
    else:
        assert (result.returncode, json.loads(result.stdout)["error"]["name"]) == (1, code)
        assert os.listdir(tmp_path) == []
        assert coffer("check", "--data", path).returncode == 1
        assert coffer("get", path, "plain").returncode == 0  # the other tensor of the file is whole


def test_the_library_packs_what_the_reader_reads(tmp_path):
    rng = random.Random(3)
    top = [rng.choice([56, 57, 58, 59, 59, 60, 60, 60, 61, 61, 184, 187, 188]) for _ in range(70000)]
    values = b"".join(struct.pack("BB", rng.randrange(256), byte) for byte in top)
    header = json.dumps({"t": {"dtype": "BF16", "shape": [70000], "data_offsets": [0, 140000]}}).encode()
    plain = struct.pack("<Q", len(header)) + header + values
    (tmp_path / "plain.safetensors").write_bytes(plain)
    assert coffer("pack", tmp_path / "plain.safetensors", "-o", tmp_path / "packed.safetensors").returncode == 0
    packed = (tmp_path / "packed.safetensors").read_bytes()
    assert len(packed) < len(plain) * 3 / 4
    assert packed_reader.original(packed) == plain


def test_models_of_several_files(tmp_path):
    rng = random.Random(4)
    folder = tmp_path / "model"
    folder.mkdir()
    weight_map = {}
    for i in (1, 2):
        values = bytes(rng.choice([7, 7, 7, 9, 12]) for _ in range(100000))
        header = json.dumps({f"t{i}": {"dtype": "I8", "shape": [100000], "data_offsets": [0, 100000]}}).encode()
        name = f"model-0000{i}-of-00002.safetensors"
        (folder / name).write_bytes(struct.pack("<Q", len(header)) + header + values)
        weight_map[f"t{i}"] = name
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "config.json").write_text('{"model_type": "test"}')
    (folder / "tokenizer.json").write_text("{}")
    assert coffer("pack", folder, "-o", tmp_path / "packed").returncode == 0
    assert coffer("diff", folder, tmp_path / "packed").returncode == 0
    assert coffer("unpack", tmp_path / "packed", "-o", tmp_path / "again").returncode == 0
    for path in folder.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()
    # One of two is packed: nothing is written.
    shutil.copytree(folder, tmp_path / "mixed")
    shutil.copy(tmp_path / "packed/model-00002-of-00002.safetensors", tmp_path / "mixed")
    for command, code in (("pack", "PACKED"), ("unpack", "NOT_PACKED")):
        result = coffer(command, tmp_path / "mixed", "-o", tmp_path / "new", "--json")
        assert (result.returncode, json.loads(result.stdout)["error"]["name"]) == (1, code)
        assert not (tmp_path / "new").exists()
    result = coffer("pack", folder, "-o", tmp_path / "packed")
    assert result.returncode == 3 and "-f" in result.stderr, result.stderr
    assert coffer("pack", folder, "-o", tmp_path / "packed", "-f").returncode == 0


def test_a_single_file_into_a_folder(packed, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    packed[1].rename(folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    (folder / "notes.bin").write_text("none of the model's")
    assert coffer("pack", folder, "-o", f"{tmp_path}/new/").returncode == 0
    assert sorted(os.listdir(tmp_path / "new")) == ["config.json", "model.safetensors"]
    assert (tmp_path / "new/model.safetensors").read_bytes() == packed[0].read_bytes()


def test_what_cannot_stay_packed_says_so(tmp_path):
    path = FOLDER / "ok__bf16_raw_huff.safetensors"
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(path.read_bytes())
    for arguments in (["meta", copy, "--set", "a=b", "--insert"], ["hash", "--write", copy], ["pack", copy, "-o", tmp_path / "new"]):
        result = coffer(*arguments)
        assert result.returncode != 0 and "packed" in result.stderr, arguments
    assert copy.read_bytes() == path.read_bytes()
    assert coffer("unpack", copy).returncode == 2
    assert coffer("unpack", tmp_path / "none", "-o", tmp_path / "new").returncode == 3


def plain_file(path):
    """A file of an empty tensor, one that is packed, and one that is too small for it."""
    rng = random.Random(8)
    values = b"".join(struct.pack("BB", rng.randrange(256), rng.choice([56, 59, 60, 187])) for _ in range(50000))
    header = json.dumps({"empty": {"dtype": "F32", "shape": [0, 3], "data_offsets": [0, 0]},
                         "large": {"dtype": "BF16", "shape": [50000], "data_offsets": [0, 100000]},
                         "small": {"dtype": "U8", "shape": [5], "data_offsets": [100000, 100005]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + values + b"small")
    return path


@pytest.fixture
def packed(tmp_path):
    """A packed file, and what was packed."""
    plain = plain_file(tmp_path / "plain.safetensors")
    path = tmp_path / "packed.safetensors"
    assert coffer("pack", plain, "-o", path).returncode == 0
    return path, plain


def test_what_is_done_already_exits_with_1(packed, tmp_path):
    path, plain = packed
    for arguments, name in ((["pack", path], "PACKED"), (["unpack", plain], "NOT_PACKED")):
        result = coffer(*arguments, "-o", tmp_path / "new", "--json")
        assert (result.returncode, json.loads(result.stdout)["error"]["name"]) == (1, name)
        assert not (tmp_path / "new").exists()


def test_ls_shows_both_sizes(packed):
    path, plain = packed
    assert "packed" in coffer("ls", path).stdout and "packed" not in coffer("ls", plain).stdout
    assert "stored" in coffer("ls", "--long", path).stdout
    rows = {row["name"]: row for row in json.loads(coffer("ls", "--json", path).stdout)["tensors"]}
    assert rows["large"]["size"] == 100000 > rows["large"]["packed_size"] and rows["large"]["packed_as"] == "values"
    assert "packed_size" not in rows["small"] and "packed_size" not in rows["empty"]
    lines = [line.split("\t") for line in coffer("ls", "--tsv", path).stdout.splitlines()]
    assert lines[0][-1] == "stored"
    assert {line[0]: int(line[-1]) for line in lines[1:]} == {"empty": 0, "large": rows["large"]["packed_size"], "small": 5}


def test_verify_compares_the_original(packed):
    path, plain = packed
    result = coffer("verify", path)
    assert result.returncode == 0 and "the whole original, sha256" in result.stdout
    result = coffer("verify", "--tensor", "large", path)
    assert result.returncode == 1 and "hash --write" not in result.stdout + result.stderr
    assert coffer("load", "--verify", path).returncode == 1
    assert coffer("hash", "--write", plain).returncode == 0
    assert coffer("pack", plain, "-o", path, "-f").returncode == 0
    result = coffer("verify", path)
    assert result.returncode == 0 and "3 tensors" in result.stdout and "the whole original" in result.stdout
    assert coffer("load", "--verify", path).returncode == 0  # one tensor is empty


def test_another_sha256_is_noticed(packed):
    path, _ = packed
    content = path.read_bytes()
    at = content.index(b'"1:') + len(b'"1:100') + 16
    for place in (at + 20, content.index(b"BF16") - 30):  # the digest itself, and a byte of the original's header
        changed = bytearray(content)
        changed[place] = ord("1") if changed[place] != ord("1") else ord("2")
        path.write_bytes(changed)
        assert coffer("verify", path).returncode == 1, place
        assert coffer("check", "--data", path).returncode == 1, place


def test_bytes_after_the_end_are_cut_off(packed):
    path, _ = packed
    content = path.read_bytes()
    path.write_bytes(content + b"more")
    result = coffer("check", path)
    assert result.returncode == 1 and "meta --fix" in result.stdout
    assert coffer("meta", "--fix", path).returncode == 0
    assert path.read_bytes() == content


def test_what_is_written_from_a_packed_file_is_packed(packed, tmp_path):
    path, plain = packed
    new = tmp_path / "new.safetensors"
    for arguments in (["align"], ["drop", "small"], ["rename", "large=huge"], ["cast", "large=F32"], ["merge"], ["meta", "--set", "a=b"]):
        command, *rest = arguments
        if command == "meta":
            new.write_bytes(path.read_bytes())
            result = coffer(command, new, *rest)
        else:
            result = coffer(command, path, *rest, "-o", new, "-f")
        assert result.returncode == 0, result.stderr
        assert coffer("verify", new).returncode == 0 and "packed" in coffer("info", new).stdout, arguments
        same = tmp_path / "same.safetensors"
        same.write_bytes(plain.read_bytes())
        assert coffer(command, same, *rest, *([] if command == "meta" else ["-o", tmp_path / "other.safetensors", "-f"])).returncode == 0
        other = same if command == "meta" else tmp_path / "other.safetensors"
        assert coffer("unpack", new, "-o", tmp_path / "back.safetensors", "-f").returncode == 0
        assert coffer("diff", other, tmp_path / "back.safetensors").returncode == 0, arguments
    assert coffer("split", path, "-o", tmp_path / "parts", "--max-shard-size", "50KB").returncode == 0
    assert "packed" in coffer("info", tmp_path / "parts").stdout
    assert coffer("diff", tmp_path / "parts", plain).returncode == 0


def test_another_format_is_written_plain_and_said_to_be(packed, tmp_path):
    result = coffer("convert", packed[0], "-o", tmp_path / "model.bt")
    assert result.returncode == 0 and "is packed; what is written is not" in result.stderr, result.stderr


def test_a_file_that_is_cut_is_not_opened_in_part(tmp_path):
    content = (FOLDER / "ok__bf16_raw_huff.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(content[: len(content) * 3 // 4])
    result = coffer("ls", "--partial", tmp_path / "cut.safetensors")
    assert result.returncode != 0 and "cannot be opened in part" in result.stderr, result.stderr


def test_nothing_gained(tmp_path):
    header = json.dumps({"t": {"dtype": "U8", "shape": [70000], "data_offsets": [0, 70000]}}).encode()
    content = struct.pack("<Q", len(header)) + header + random.Random(6).randbytes(70000)
    (tmp_path / "noise.safetensors").write_bytes(content)
    result = coffer("pack", tmp_path / "noise.safetensors", "--dry-run")
    assert result.returncode == 0 and "nothing is gained" in result.stderr
    assert coffer("pack", tmp_path / "noise.safetensors", "-o", tmp_path / "packed.safetensors").returncode == 0
    assert packed_reader.original((tmp_path / "packed.safetensors").read_bytes()) == content


def test_behind_a_url(tmp_path):
    rng = random.Random(5)
    values = bytes(rng.choice([0, 7, 7, 7, 9, 12]) for _ in range(1500000))
    header = json.dumps({"t": {"dtype": "I8", "shape": [1500, 1000], "data_offsets": [0, len(values)]}}).encode()
    (tmp_path / "plain.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + values)
    assert coffer("pack", tmp_path / "plain.safetensors", "-o", tmp_path / "packed.safetensors").returncode == 0
    packed = (tmp_path / "packed.safetensors").read_bytes()
    with Server({"/packed.safetensors": packed}) as server:
        url = server.url("/packed.safetensors")
        assert coffer("diff", url, tmp_path / "plain.safetensors").returncode == 0
        shown = coffer("get", url, "t[700, 3:6]", "--json")
        assert shown.returncode == 0 and json.loads(shown.stdout)["values"] == list(values[700003:700006])
        (tmp_path / "fetched").mkdir()
        assert coffer("fetch", url, "-o", tmp_path / "fetched").returncode == 0
    assert (tmp_path / "fetched/packed.safetensors").read_bytes() == packed
