# SPDX-License-Identifier: Apache-2.0
"""What the command does with whole models, done from Python: editing metadata, dividing and merging, comparing, counting parameters,
fetching, saving and loading whatever framework it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import array_file, file_bytes

import coffer
import coffer.numpy


def loaded(path) -> dict[str, np.ndarray]:
    with coffer.open(path) as f:
        return {name: tensor.numpy().copy() for name, tensor in f.items()}


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) and a[name].dtype == b[name].dtype for name in a)


# ---- Metadata ---------------------------------------------------------------------------------------------------------


def test_editing_metadata(path):
    before = loaded(path)
    ways = [coffer.edit_metadata(path, {"a": "1", "ü": ""}, ["made by", "none"])]
    assert coffer.open(path).metadata == {"a": "1", "ü": ""}
    ways.append(coffer.edit_metadata(path, {"a": "2"}, mode="in place"))
    ways.append(coffer.edit_metadata(path, {"a": "2"}))
    assert (coffer.open(path).metadata["a"], ways[1], ways[2]) == ("2", "in place", "nothing")
    assert same(loaded(path), before)


def test_what_allows_an_edit_is_said_in_pythons_words(path):
    link = path.with_name("link.safetensors")
    link.symlink_to(path)
    with pytest.raises(coffer.Error, match=r"edit a copy, or have links followed \(follow_links=True\)$") as caught:
        coffer.edit_metadata(link, {"a": "1"})
    assert "--" not in str(caught.value)
    coffer.edit_metadata(link, {"a": "1"}, follow_links=True)
    assert coffer.open(path).metadata["a"] == "1"


def test_a_str_is_one_name(path):
    """And not as many as it has characters."""
    keys = {"a": "1", "b": "2", "c": "3", "abc": "4"}
    coffer.edit_metadata(path, keys)
    coffer.edit_metadata(path, None, "abc")
    assert {key: coffer.open(path).metadata.get(key) for key in keys} == {"a": "1", "b": "2", "c": "3", "abc": None}
    coffer.record_digests(path)
    coffer.open(path).verify("cube")
    with pytest.raises(KeyError):
        coffer.open(path).verify("cub")


def test_an_edit_that_does_not_fit(path):
    with pytest.raises(coffer.Error) as caught:
        coffer.edit_metadata(path, {"a": "x" * 5000}, mode="in place")
    assert (caught.value.code, caught.value.path) == ("NO_SLACK", str(path))
    seen = []
    assert coffer.edit_metadata(path, {"a": "x" * 5000}, mode="rewrite", progress=lambda *p: seen.append(p)) == "rewrite"
    assert seen[-1][0] == seen[-1][1] == os.path.getsize(path)


@pytest.mark.parametrize("edits", [{"a": 1}, {1: "a"}, {"a": None}])
def test_metadata_are_text(path, edits):
    if edits == {"a": None}:
        coffer.edit_metadata(path, edits)  # the pair of one that is removed
        return
    with pytest.raises(TypeError):
        coffer.edit_metadata(path, edits)


def test_wrong_options_of_an_edit(path):
    for options in ({"mode": "sideways"}, {"sync": "perhaps"}):
        with pytest.raises(coffer.Error, match="ARGUMENT|mode is|sync is"):
            coffer.edit_metadata(path, {"a": "1"}, **options)


def test_recovering(path):
    with pytest.raises(coffer.Error) as caught:
        coffer.recover(path)
    assert caught.value.code == "NO_UNDO"


# ---- Several files ----------------------------------------------------------------------------------------------------


def test_split_and_merge(path, tmp_path, arrays):
    index = coffer.split(path, tmp_path / "parts", 300)
    assert index == str(tmp_path / "parts" / "model.safetensors.index.json")
    with coffer.open(index) as f:
        assert len(f.shards) == 2 and f.metadata == {"made by": "conftest"}
    assert same(loaded(index), arrays)
    seen = []
    coffer.merge(index, tmp_path / "again.safetensors", progress=lambda *p: seen.append(p))
    assert same(loaded(tmp_path / "again.safetensors"), arrays) and seen[-1] == (sum(a.nbytes for a in arrays.values()),) * 2
    assert coffer.open(tmp_path / "again.safetensors").content_digest() == coffer.open(path).content_digest()


def test_a_split_that_needs_one_file(path, tmp_path):
    target = tmp_path / "named.safetensors"
    assert coffer.split(coffer.open(path), target) == str(target)
    assert not (tmp_path / "named.safetensors.index.json").exists()


def test_digests_are_kept(path, tmp_path):
    coffer.record_digests(path, "xxh3-128")
    for made in (coffer.split(path, tmp_path / "parts", 300, balanced=True), tmp_path / "merged.safetensors"):
        if not os.path.exists(made):
            coffer.merge([path], made)
        with coffer.open(made, verify=True) as f:
            f.verify()
            assert f._model.algorithm == "xxh3-128"
    coffer.merge(path, tmp_path / "other.safetensors", digests="sha256")
    assert coffer.open(tmp_path / "other.safetensors")._model.algorithm == "sha256"
    assert coffer.open(file_bytes([]))._model.algorithm is None


def test_what_is_copied_is_verified(path, tmp_path, arrays):
    coffer.record_digests(path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(coffer.Error) as caught:
        coffer.merge(path, tmp_path / "merged.safetensors")
    assert (caught.value.code, caught.value.tensor) == ("TENSOR_DIGEST", "bytes")
    assert not (tmp_path / "merged.safetensors").exists()


def test_what_cannot_be_merged(path, tmp_path):
    other = tmp_path / "other.safetensors"
    other.write_bytes(array_file({"x": np.zeros(1)}, {"made by": "somebody else"}))
    with pytest.raises(coffer.Error) as caught:
        coffer.merge([path, other], tmp_path / "merged.safetensors")
    assert (caught.value.code, caught.value.path) == ("DUPLICATE_KEY", str(other)) and "made by" in str(caught.value)
    with pytest.raises(coffer.Error) as caught:
        coffer.merge([path, path], tmp_path / "merged.safetensors")
    assert caught.value.code == "DUPLICATE_NAME"
    assert not (tmp_path / "merged.safetensors").exists()


# ---- Differences ------------------------------------------------------------------------------------------------------


def test_no_difference(path, tmp_path):
    coffer.merge(path, tmp_path / "again.safetensors")
    found = coffer.diff(path, tmp_path / "again.safetensors")
    assert not found and found == ([], [], [], [])


def test_differences(path, tmp_path, arrays):
    changed = {name: array.copy() for name, array in arrays.items() if name != "scalar"}
    changed["matrix"][2, 3] += 0.5
    changed["matrix"][0, 0] = np.nan
    changed["cube"] = changed["cube"].astype(np.int32)
    changed["bytes"] = changed["bytes"][:-1]
    changed["new"] = np.zeros(3)
    other = tmp_path / "other.safetensors"
    other.write_bytes(array_file(changed, {"made by": "the test", "more": ""}))
    seen = []
    found = coffer.diff(coffer.open(path), other, progress=lambda *p: seen.append(p))
    assert found and found.only_in_a == ["scalar"] and found.only_in_b == ["new"] and found.metadata == ["made by", "more"]
    by_name = {each.name: each for each in found.tensors}
    assert by_name.keys() == {"matrix", "cube", "bytes"}
    matrix = by_name["matrix"]
    assert (matrix.differing, matrix.numbers, matrix.most) == (2, 48, np.inf)
    assert by_name["cube"][1:] == (("I64", "I32"), ((3, 4, 5),) * 2, 0, 60, 0.0, 0.0)
    assert (by_name["bytes"].shapes, by_name["bytes"].differing) == (((31,), (30,)), None)
    assert seen[-1][0] == seen[-1][1]


def test_a_tolerance(tmp_path):
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    numbers = np.arange(3_000_000, dtype=np.float32)  # more than one piece
    coffer.numpy.save_file({"x": numbers}, a)
    numbers[-1] += 2
    coffer.numpy.save_file({"x": numbers}, b)
    (found,) = coffer.diff(a, b).tensors
    assert (found.differing, found.numbers, found.most, found.mean) == (1, 3_000_000, 2.0, 2 / 3_000_000)
    assert not coffer.diff(a, b, tolerance=2) and coffer.diff(a, b, tolerance=1.9)


def test_every_dtype_is_compared(tmp_path):
    from ml_dtypes import bfloat16

    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    a.write_bytes(file_bytes([("f4", "F4", (4,), b"\x10\x32"), ("c", "C64", (1,), np.complex64(1 + 2j).tobytes())]))
    b.write_bytes(file_bytes([("f4", "F4", (4,), b"\x10\x33"), ("c", "C64", (1,), np.complex64(1 + 5j).tobytes())]))
    found = {each.name: each for each in coffer.diff(a, b).tensors}
    assert (found["f4"].differing, found["f4"].numbers, found["f4"].most) == (1, 4, 0.5)
    assert (found["c"].differing, found["c"].numbers, found["c"].most) == (1, 2, 3.0)
    coffer.numpy.save_file({"x": np.array([1, 2], bfloat16)}, a)
    coffer.numpy.save_file({"x": np.array([1, 2], np.float32)}, b)
    assert coffer.diff(a, b).tensors[0][3:] == (0, 2, 0.0, 0.0)


# ---- Parameters and digests -------------------------------------------------------------------------------------------


def test_parameters(path, tmp_path):
    counts = coffer.open(path).parameters()
    assert counts.plain == {"F32": 48, "I64": 60, "U8": 31, "F16": 1} and counts.assumed == ""
    assert counts.compatible == {"F32": 48, "I64": 60, "U8": 31}  # without scalars
    quantised = tmp_path / "q.safetensors"
    quantised.write_bytes(file_bytes([("a.qweight", "I32", (2, 4), bytes(32)), ("a.scales", "F16", (1, 4), bytes(8)), ("a.qzeros", "I32", (1, 1), bytes(4)), ("a.g_idx", "I32", (16,), bytes(64))]))
    config = json.dumps({"quantization_config": {"quant_method": "gptq", "bits": 4}})
    f = coffer.open(quantised)
    assert sum(f.parameters(config).trained.values()) == 64 and "gptq" in f.parameters(config).assumed.lower()
    (tmp_path / "config.json").write_text(config)
    assert f.parameters() == f.parameters(config) != f.parameters("")


def test_digests_of_tensors(path, arrays):
    import hashlib

    found = coffer.open(path).digests()
    assert found == {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in arrays.items()}
    assert {len(digest) for digest in coffer.open(path).digests("xxh3-128").values()} == {32}


# ---- Fetching ---------------------------------------------------------------------------------------------------------


def test_fetching(path, tmp_path, arrays):
    seen = []
    got = coffer.fetch(path, tmp_path / "here", progress=lambda *p: seen.append(p))
    assert got == str(tmp_path / "here" / "model.safetensors") and Path(got).read_bytes() == path.read_bytes()
    assert seen[-1] == (path.stat().st_size,) * 2
    index = coffer.split(path, tmp_path / "parts", 300)
    (tmp_path / "parts" / "config.json").write_text("{}")
    got = coffer.fetch(index, tmp_path / "all")
    assert got == str(tmp_path / "all") and same(loaded(got), arrays) and (tmp_path / "all" / "config.json").exists()


def test_fetching_some(path, tmp_path, arrays):
    got = coffer.fetch(path, tmp_path / "some", filter=["m*", "c?be"])
    assert same(loaded(got), {name: arrays[name] for name in ("matrix", "cube")})
    with pytest.raises(coffer.Error) as caught:
        coffer.fetch(path, tmp_path / "none", filter=["matrix", "x*"])
    assert caught.value.code == "NO_TENSOR" and not (tmp_path / "none").exists()


# ---- Whatever framework -----------------------------------------------------------------------------------------------


def test_load_file_and_save_file(path, tmp_path, arrays):
    assert same(coffer.load_file(path), arrays)
    new = tmp_path / "new.safetensors"
    coffer.save_file(arrays, new, {"k": "v"}, digests="sha256")
    assert same(coffer.load_file(new, verify=True), arrays) and coffer.open(new).metadata["k"] == "v"
    coffer.save_file({}, new)
    assert coffer.load_file(new, "np") == {}


def test_saving_tensors_of_files(path, tmp_path, arrays):
    new = tmp_path / "new.safetensors"
    seen = []
    with coffer.open(path) as f:
        coffer.save_file({f"{name}.x": f[name] for name in ("cube", "scalar")}, new, progress=lambda *p: seen.append(p))
        with pytest.raises(coffer.SafetensorError, match="whole"):
            coffer.save_file({"row": f["cube"][0]}, new)
    assert same(coffer.load_file(new), {f"{name}.x": arrays[name] for name in ("cube", "scalar")}) and seen


def test_what_is_no_tensor(path, tmp_path):
    with pytest.raises(TypeError, match="tensors of numpy"):
        coffer.save_file({"a": [1, 2]}, tmp_path / "x")
    with pytest.raises(coffer.SafetensorError, match="framework"):
        coffer.load_file(path, "cobol")
    with pytest.raises(ValueError, match="no device"):
        coffer.load_file(path, device="cuda:0")


@pytest.mark.parametrize("call", ["load", "save", "serialize", "writer"])
def test_progress(path, tmp_path, arrays, call):
    seen = []
    progress = lambda *p: seen.append(p)  # noqa: E731
    total = sum(array.nbytes for array in arrays.values())
    if call == "load":
        coffer.numpy.load_file(path, progress=progress)
    elif call == "save":
        coffer.numpy.save_file(arrays, tmp_path / "x", progress=progress)
    elif call == "serialize":
        entries = [(name, "U8", [array.nbytes], array.tobytes()) for name, array in arrays.items()]
        coffer._native.serialize_model(entries, tmp_path / "x.safetensors", max_shard_size=300, progress=progress)
    else:
        with coffer.Writer(tmp_path / "x", {n: ("U8", [a.nbytes]) for n, a in arrays.items()}, progress=progress) as writer:
            for name, array in arrays.items():
                writer.write(name, array.tobytes())
    assert seen[-1] == (total, total) and [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_bar(path, tmp_path, capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    coffer.numpy.load_file(path, progress=True)  # without tqdm there is none
    assert capfd.readouterr() == ("", "")


def test_importing_brings_no_framework():
    code = "import sys, coffer; print(*{'numpy', 'torch', 'concurrent.futures', 'tqdm'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
