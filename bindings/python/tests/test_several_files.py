# SPDX-License-Identifier: Apache-2.0
"""A model of several files, opened by its index, is a file like any other."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import array_file, maps_of

import coffer
import coffer.numpy

FIRST = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "d": np.arange(4, dtype=np.int8)}
SECOND = {"a": np.arange(3, dtype=np.int64), "c": np.array(2.5, np.float16)}
BOTH = {**FIRST, **SECOND}


@pytest.fixture
def index(tmp_path):
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for name, arrays, metadata in zip(names, (FIRST, SECOND), ({"k": "1", "l": "1"}, {"k": "2", "m": "2"}), strict=True):
        (tmp_path / name).write_bytes(array_file(arrays, metadata))
    weight_map = {tensor: name for name, arrays in zip(names, (FIRST, SECOND), strict=True) for tensor in arrays}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 54}, "weight_map": weight_map}))
    return path


def test_a_mapping_of_all(index):
    with coffer.open(index) as f:
        assert list(f) == ["a", "b", "c", "d"]
        assert all(np.array_equal(f[name].numpy(), array) for name, array in BOTH.items())
        assert f.shards == [str(index.parent / f"model-0000{i}-of-00002.safetensors") for i in (1, 2)]
        assert f.metadata == {"k": "1", "l": "1", "m": "2"} and f.path == str(index) and f.format == "safetensors"
        assert repr(f) == "<coffer.File model.safetensors.index.json: 4 tensors in 2 files, 54 bytes>"
        assert f["b"][1, ::2].numpy().tolist() == [3, 5]


@pytest.mark.parametrize("access", ["private", "map", "read"])
def test_what_was_handed_out_outlives_it(index, access):
    with coffer.open(index, access=access) as f:
        kept = {name: tensor.numpy() for name, tensor in f.items()}
    assert all(np.array_equal(kept[name], array) for name, array in BOTH.items())
    if access != "read":
        assert maps_of(index.parent / "model-0000") == 2
    del kept, f
    assert maps_of(index.parent / "model-0000") == 0


def test_loading(index):
    loaded = coffer.numpy.load_file(index)
    assert list(loaded) == ["b", "d", "a", "c"]
    assert all(np.array_equal(loaded[name], array) for name, array in BOTH.items())


def test_content_digest(index, tmp_path):
    """That of the same tensors in one file."""
    (tmp_path / "one").write_bytes(array_file(BOTH))
    assert coffer.open(index).content_digest() == coffer.open(tmp_path / "one").content_digest()


def test_check(index):
    assert coffer.check(index) and coffer.check(index).notes == ()
    second = index.parent / "model-00002-of-00002.safetensors"
    second.write_bytes(second.read_bytes()[:-1])
    report = coffer.check(index)
    assert not report and (report.error.code, report.error.path) == ("DATA_TRUNCATED", str(second))


def test_notes_say_which_file(index):
    second = index.parent / "model-00002-of-00002.safetensors"
    second.write_bytes(array_file(SECOND, padding=7))
    assert {note.path for note in coffer.check(index).notes} == {str(second)}


def test_a_missing_file(index):
    (index.parent / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(coffer.Error) as raised:
        coffer.open(index)
    assert raised.value.code == "SHARD_MISSING"


def test_an_index_of_nothing(tmp_path):
    path = tmp_path / "x.index.json"
    path.write_text('{"weight_map": {}}')
    with pytest.raises(coffer.Error, match="the index names no tensors"):
        coffer.open(path)
