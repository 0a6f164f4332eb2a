# SPDX-License-Identifier: Apache-2.0
"""Names of files that an index may have, through everything that replaces a model of several files: what can be opened can be
saved, or is refused before anything is touched, and whatever is killed leaves the old model or the new one."""

import json
import shutil
import struct
import subprocess
import tempfile
import urllib.parse
from pathlib import Path

import pytest

import coffer_ctypes as coffer
from network import quick  # noqa: F401
from test_fetch import CLI, CONFIG, content, fetch
from test_fetch_kills import every_kill
from test_network_models import INDEX, serve

# Names that an index has been seen with, and names that are near to those of this program or of the model itself.
WORK = ["part1.st", "weights", "x.bt", "a b.safetensors", "ü", "model.safetensors", "config.json", "n" * 230]
REFUSED = ["a.coffer-new", "b.coffer-part", "c.coffer-undo", INDEX + ".coffer-ready", "n" * 250]
OTHER = "model-00002-of-00002.safetensors"


def shard(name, byte):
    text = json.dumps({name: {"dtype": "U8", "shape": [100], "data_offsets": [0, 100]}}).encode()
    return struct.pack("<Q", len(text)) + text + bytes([byte]) * 100


def model(name, seed=1):
    """An index that names `name` and an ordinary file, each with a tensor."""
    weights = {"a": name, "b": OTHER}
    return {name: shard("a", seed), OTHER: shard("b", seed + 1), INDEX: json.dumps({"weight_map": weights}).encode()}


def put(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_bytes(text)


def tensors(index):
    """The bytes of each; None when the model is refused."""
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.safetensors"
        return coffer.open_and_read(whole)[1] if run("merge", index, "-o", whole).returncode == 0 else None


def run(*words):
    return subprocess.run([CLI, *map(str, words)], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", WORK)
def test_what_can_be_opened_can_be_fetched(tmp_path, name):
    old, new = model("model-00001-of-00002.safetensors", 3), model(name)
    with serve({urllib.parse.quote(key): text for key, text in new.items()}) as server:
        fetch(server.url("/" + INDEX), "-o", tmp_path / "first")
        assert content(tmp_path / "first") == new
        put(tmp_path / "second", old)
        fetch(server.url("/" + INDEX), "-o", tmp_path / "second", "-f")
        assert content(tmp_path / "second") == new
        # Nothing is in the way of another one.
        assert run("meta", "--recover", tmp_path / "second" / INDEX).returncode in (0, 1, 3)
        fetch(server.url("/" + INDEX), "-o", tmp_path / "second", "-f")
        assert content(tmp_path / "second") == new


@pytest.mark.parametrize("name", REFUSED)
def test_names_are_judged_before_the_first_byte(tmp_path, name):
    old, new = model("model-00001-of-00002.safetensors", 3), model(name)
    put(tmp_path / "m", old)
    with serve(new) as server:
        said = fetch(server.url("/" + INDEX), "-o", tmp_path / "m", "-f", code=1)
        assert "cannot be saved as" in said
        # Opening reads the headers; nothing was asked for after that.
        assert content(tmp_path / "m") == old
        assert tensors(tmp_path / "m" / INDEX) is not None


def test_a_directory_in_the_way_is_found_before_the_first_byte(tmp_path):
    put(tmp_path / "m", {})
    (tmp_path / "m" / "weights").mkdir()
    with serve(model("weights")) as server:
        fetch(server.url("/" + INDEX), "-o", tmp_path / "m", "-f", code=3)
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["weights"]


def test_a_file_that_is_named_as_one_of_the_tensors_comes_once(tmp_path):
    new = model("config.json") | {"tokenizer.json": CONFIG}
    with serve(new, "/a/") as server:
        fetch(server.url("/a/"), "-o", tmp_path / "m")
    assert content(tmp_path / "m") == new


@pytest.mark.parametrize("name", ["part1.st", "model.safetensors"])
def test_a_kill_leaves_one_of_the_two(tmp_path, name):
    old, new = model("model-00001-of-00002.safetensors", 3), model(name)
    with serve(new) as server:
        words = [server.url("/" + INDEX), "-o", tmp_path / "m", "-f"]
        put(tmp_path / "m", old)
        before = tensors(tmp_path / "m" / INDEX)
        put(tmp_path / "m", new)
        after = tensors(tmp_path / "m" / INDEX)
        assert before and after and before != after
        for number in every_kill(words, lambda: put(tmp_path / "m", old)):
            assert tensors(tmp_path / "m" / INDEX) in (None, before, after), number
            kept = tmp_path / "kept"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(tmp_path / "m", kept)
            fetch(*words)
            assert content(tmp_path / "m") == new, number
            run("meta", "--recover", kept / "model.safetensors")
            assert tensors(kept / INDEX) in (before, after), number


# Every command that replaces a model of several files where it is, or writes one into its folder.
def in_place(folder):
    index = folder / INDEX
    return {
        "rename": ["rename", index, "--in-place", "a=z"],
        "meta": ["meta", index, "--set", "k=v"],
        "align": ["align", index, "--in-place"],
        "drop": ["drop", index, "b", "--in-place"],
        "hash": ["hash", "--write", index],
        "split": ["split", index, "-o", folder, "--max-shard-size", "100", "-f"],
        "merge": ["merge", index, "-o", folder / "merged.safetensors"],
    }


@pytest.mark.parametrize("command", in_place(Path()))
@pytest.mark.parametrize("name", WORK + REFUSED)
def test_every_way_to_replace_a_model(tmp_path, name, command):
    folder = tmp_path / "m"
    old = model(name)
    put(folder, old | {"precious": b"text"})
    before = tensors(folder / INDEX)
    assert before is not None
    done = run(*in_place(folder)[command])
    assert (folder / "precious").read_bytes() == b"text"
    left = [path.name for path in folder.iterdir() if ".coffer-" in path.name and path.name not in old]
    assert left == []
    assert done.returncode in (0, 1, 3), done.stderr
    if done.returncode != 0:
        assert {key: value for key, value in content(folder).items() if key != "precious"} == old, done.stderr
        return
    index = {"merge": folder / "merged.safetensors", "drop": folder / "model.safetensors"}.get(command, folder / INDEX)
    found = tensors(index)
    assert found is not None and run("check", index).returncode == 0, done.stderr
    values = {"drop": [before["a"]]}.get(command, [before["a"], before["b"]])
    assert sorted(found.values()) == sorted(values)
