# SPDX-License-Identifier: Apache-2.0
"""A new format is one file in src/format and one row in the table of formats.

The library gets a format that it does not have, tests/formats/toy.c, in these two files and no other: they are compiled, and linked
with the objects of everything else as they are. Then the command knows the format wherever it knows any.
"""

import json
import os
import pathlib
import struct
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ.get("COFFER_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(os.environ["COFFER_CLI"]).resolve().parent
LAST_ROW = "    ROW(bintensors_alpha)\n"


@pytest.fixture(scope="module")
def coffer(tmp_path_factory):
    """Runs a command that was linked with the toy format; returns what it printed, errors last."""
    folder = tmp_path_factory.mktemp("toy")
    table = (SOURCE / "src/format/formats.c").read_text(encoding="utf-8")
    assert table.count(LAST_ROW) == 1
    row = LAST_ROW.rstrip("\n") + " \\\n    ROW(toy)\n"
    (folder / "formats.c").write_text(table.replace(LAST_ROW, row), encoding="utf-8")
    (folder / "toy.c").write_bytes((SOURCE / "tests/formats/toy.c").read_bytes())
    rooms = [f"-I{SOURCE / 'src' / room}" for room in ("core", "format")]
    objects = [*BUILD.glob("cli/CMakeFiles/coffer_cli.dir/**/*.o"), *BUILD.glob("cli/CMakeFiles/coffer_cli_objects.dir/**/*.o")]
    assert len(objects) > 30
    words = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE / 'include'}", *rooms, "toy.c", "formats.c", *objects,
             BUILD / "libcoffer.a", "-lpthread", "-ldl", "-lm", "-o", "coffer"]
    subprocess.run(words, cwd=folder, check=True, timeout=120)

    def run(*arguments, code=0):
        done = subprocess.run([folder / "coffer", *arguments], capture_output=True, timeout=60)
        assert done.returncode == code, done.stderr
        return (done.stdout + done.stderr).decode()

    return run


def write_safetensors(path, count):
    header = {"__metadata__": {"about": "a model"}}
    data = b""
    for i in range(count):
        body = struct.pack("<2f", i, -i)
        header[f"layer.{i:05}"] = {"dtype": "F32", "shape": [2], "data_offsets": [len(data), len(data) + len(body)]}
        data += body
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return data


# A head that the first window holds, and one that it does not.
@pytest.mark.parametrize("count", (3, 2000))
def test_there_and_back(coffer, tmp_path, count):
    first, toy, back = tmp_path / "m.safetensors", tmp_path / "m.toy", tmp_path / "back.safetensors"
    data = write_safetensors(first, count)
    coffer("convert", first, "-o", toy)
    assert toy.read_bytes().startswith(b"TOY 1 0000")
    assert toy.read_bytes().endswith(data)
    assert json.loads(coffer("info", toy, "--json"))[0]["format"] == "toy"
    assert coffer("get", toy, "layer.00002") == coffer("get", first, "layer.00002")
    coffer("convert", toy, "-o", back)
    assert back.read_bytes() == first.read_bytes()


def test_an_edit_splices(coffer, tmp_path):
    first, toy = tmp_path / "m.safetensors", tmp_path / "m.toy"
    data = write_safetensors(first, 3)
    coffer("convert", first, "-o", toy)
    coffer("meta", toy, "--set", "more=than before")
    head = toy.read_bytes()[:-len(data)]
    assert head[17:].startswith(b"m 5 7 about a model\nm 4 11 more than before\nt F32 0 8 1 2 11 layer.00000\n")
    assert head[17:].rstrip(b".").endswith(b"layer.00002\n")
    coffer("check", toy)
    assert toy.read_bytes().endswith(data)


def test_the_list_is_the_tables(coffer, tmp_path):
    first = tmp_path / "m.safetensors"
    write_safetensors(first, 1)
    assert "safetensors, bintensors, toy, npz, npy, pt or gguf" in coffer("convert", first, "-o", tmp_path / "x", "--to", "onnx", code=2)
    assert "ends in none of .safetensors, .bt, .toy" in coffer("convert", first, "-o", tmp_path / "x", code=2)
    coffer("get", first, "layer.00000", "-o", tmp_path / "one.toy")
    assert json.loads(coffer("info", tmp_path / "one.toy", "--json"))[0]["format"] == "toy"
    coffer("convert", first, "-o", tmp_path / "x", "--to", "toy")
    assert (tmp_path / "x").read_bytes().startswith(b"TOY 1 ")


def test_what_is_cut_or_wrong_is_told(coffer, tmp_path):
    first, toy = tmp_path / "m.safetensors", tmp_path / "m.toy"
    write_safetensors(first, 3)
    coffer("convert", first, "-o", toy)
    whole = toy.read_bytes()
    toy.write_bytes(whole[:-1])
    assert "the file stops early" in coffer("check", toy, code=1)
    toy.write_bytes(whole.replace(b"t F32 8", b"t F32 9"))
    assert "the line is not of this format" in coffer("check", toy, code=1)
