# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of which a file has a stale copy of a tensor: the copy in the file that the index names is the model's, for every
command that reads one, and no other is ever passed on."""

import json
import re
import struct
import subprocess

import numpy
import pytest

import coffer_ctypes as coffer
from network import quick  # noqa: F401
from test_fetch import CLI, content, fetch
from test_network_models import INDEX, serve

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
# What counts, and what is stale: of another value, and of another shape.
GOOD = {"a": numpy.arange(32, dtype="f4"), "b": numpy.ones(16, "f4"), "c": numpy.full((4, 4), 3, "f4")}
STALE = {"b": numpy.zeros(16, "f4"), "c": numpy.full((2, 2), 9, "f4")}


def file(tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def overlay():
    """The first file has a and stale copies of b and c, which are between what counts."""
    weights = {"a": FIRST, "b": SECOND, "c": SECOND, "z": FIRST}
    first = {"b": STALE["b"], "a": GOOD["a"], "c": STALE["c"], "z": GOOD["b"]}
    return {
        FIRST: file(first),
        SECOND: file({"b": GOOD["b"], "c": GOOD["c"]}),
        INDEX: json.dumps({"metadata": {"total_size": 320}, "weight_map": weights}).encode(),
    }


def clean():
    """The same model without stale copies."""
    files = overlay()
    files[FIRST] = file({"a": GOOD["a"], "z": GOOD["b"]})
    return files


@pytest.fixture
def models(tmp_path):
    for name, files in {"overlay": overlay(), "clean": clean()}.items():
        (tmp_path / name).mkdir()
        for key, text in files.items():
            (tmp_path / name / key).write_bytes(text)
    return tmp_path / "overlay", tmp_path / "clean"


def run(*words, code=0):
    done = subprocess.run([CLI, *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout


def tensors(path, tmp_path):
    whole = tmp_path / "whole.safetensors"
    run("merge", path, "-o", whole, "-f")
    return coffer.open_and_read(whole)[1]


def test_check_says_it(models):
    told = json.loads(run("check", "--json", models[0] / INDEX))
    (note,) = [note for note in told[0]["notes"] if note["kind"] == "superseded"]
    assert note["count"] == 2 and note["subject"].endswith(FIRST)
    assert "the copy in the file that the index names counts" in run("check", models[0] / INDEX)
    assert not json.loads(run("check", "--json", models[1] / INDEX))[0]["notes"]


@pytest.mark.parametrize("words", [
    ["ls"], ["ls", "--json"], ["hash", "--content"], ["get", "@", "b"], ["get", "@", "c", "--json"], ["stats", "--json"],
    ["info", "--json"],
])  # fmt: skip
def test_every_reader_takes_the_copy_of_the_index(models, words):
    said = []
    for path in models:
        at = [str(path / INDEX) if word == "@" else word for word in words]
        at += [] if "@" in words else [str(path / INDEX)]
        done = subprocess.run([CLI, *at], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said.append((0, re.sub('"offset": [0-9]+', "", done.stdout.replace(str(path), ""))))
    if "info" in words:
        # Sizes of files and notes differ, tensors and parameters do not.
        for i, (_, text) in enumerate(said):
            told = json.loads(text)
            told = told[0] if isinstance(told, list) else told
            said[i] = {key: told[key] for key in told if key in ("tensors", "parameters", "dtypes")}
    assert said[0] == said[1]


def test_loading(models):
    told = [json.loads(run("load", "--json", path)) for path in models]
    told = [one[0] if isinstance(one, list) else one for one in told]
    assert told[0]["tensors"] == told[1]["tensors"] == 4 and told[0]["size"] == told[1]["size"] == 320


@pytest.mark.parametrize("command", ["split", "rename", "align", "drop", "cast", "meta"])
def test_what_is_written_has_the_copy_of_the_index(models, tmp_path, command):
    path = models[0] / INDEX
    found = {"b": GOOD["b"].tobytes(), "c": GOOD["c"].tobytes(), "a": GOOD["a"].tobytes(), "z": GOOD["b"].tobytes()}
    words = {
        "split": ["split", path, "-o", tmp_path / "new", "--max-shard-size", "200"],
        "rename": ["rename", path, "a=y", "--in-place"],
        "align": ["align", path, "--in-place"],
        "drop": ["drop", path, "z", "--in-place"],
        "cast": ["cast", path, "z=F64", "--in-place"],
        "meta": ["meta", path, "--set", "k=v"],
    }[command]
    run(*words)
    at = tmp_path / "new" / INDEX if command == "split" else path
    if command == "rename":
        found["y"] = found.pop("a")
    if command == "drop":
        del found["z"]
    if command == "cast":
        found["z"] = GOOD["b"].astype("f8").tobytes()
    assert tensors(at, tmp_path) == found
    # New files have no stale copies any more.
    notes = json.loads(run("check", "--json", at))[0]["notes"]
    stays = command in ("align", "meta")
    assert any(note["kind"] == "superseded" for note in notes) == stays


def test_fetching(models, tmp_path):
    with serve(overlay()) as server:
        fetch(server.url("/" + INDEX), "-o", tmp_path / "all")
        assert content(tmp_path / "all") == overlay()
        fetch(server.url("/" + INDEX), "-o", tmp_path / "some", "--filter", "[bz]")
    assert tensors(tmp_path / "some" / INDEX, tmp_path) == {"b": GOOD["b"].tobytes(), "z": GOOD["b"].tobytes()}


def test_recorded_digests(models, tmp_path):
    """Each file's own digests are of all its tensors, and can be compared; that of the model cannot be made of them."""
    for name in (FIRST, SECOND):
        run("hash", "--write", models[0] / name)
    run("verify", models[0] / FIRST)
    run("verify", models[0] / INDEX)
    before = content(models[0])
    done = subprocess.run([CLI, "hash", "--write", models[0] / INDEX], capture_output=True, text=True)
    assert done.returncode != 0 and "coffer split" in done.stderr
    assert content(models[0]) == before
    # Damage to what counts is found; so is damage to a stale copy, by the file's own digests.
    data = bytearray(before[SECOND])
    data[-1] ^= 1
    (models[0] / SECOND).write_bytes(data)
    run("verify", models[0] / INDEX, code=1)


def test_no_index_names_both_files(models):
    (models[0] / INDEX).unlink()
    done = subprocess.run([CLI, "check", models[0]], capture_output=True, text=True)
    assert done.returncode == 1 and FIRST in done.stdout + done.stderr and SECOND in done.stdout + done.stderr
