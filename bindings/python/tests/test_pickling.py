# SPDX-License-Identifier: Apache-2.0
"""Files and tensors go into pickles by their path, so that workers of other processes open them again."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle

import numpy as np
import pytest
from conftest import array_file, descriptors, maps_of

import coffer
import coffer.numpy


def again(thing):
    return pickle.loads(pickle.dumps(thing))


def test_a_file(path, arrays):
    f = again(coffer.open(path))
    assert sorted(f) == sorted(arrays) and f.path == str(path)
    assert np.array_equal(f["matrix"].numpy(), arrays["matrix"])


def test_a_tensor_and_parts_of_it(path, arrays):
    f = coffer.open(path)
    for index in ((), ..., 2, slice(None, None, -1), (slice(1, 3), -1), (0, slice(3, None, -2), [])[:2], (1, 2, 3), slice(0, 0)):
        whole = f["cube"]
        part = whole if index == () else whole[index]
        assert np.array_equal(again(part).numpy(), arrays["cube"][index] if index != () else arrays["cube"])
        assert again(part).name == "cube"
    twice = f["cube"][1][::-1, 1:][0]
    assert np.array_equal(again(twice).numpy(), twice.numpy()) and again(twice).shape == twice.shape


def test_it_is_opened_as_it_was(path):
    coffer.record_digests(path)
    for access in ("read", "map", "private"):
        f = again(coffer.open(path, access=access, verify=True, format="safetensors"))
        assert f._model.access == access
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    f = coffer.open(path, verify=True)
    path.write_bytes(content)
    with pytest.raises(coffer.Error) as caught:
        again(f)["bytes"].tobytes()
    assert caught.value.code == "TENSOR_DIGEST"


def test_all_that_comes_in_one_pickle_is_opened_once(path):
    f = coffer.open(path)
    pickled = pickle.dumps([f, dict(f), [tensor[..., :0] for tensor in f.values() if tensor.ndim]])
    del f
    gc.collect()
    assert maps_of(path) == 0
    before = descriptors()
    f, tensors, parts = pickle.loads(pickled)
    assert descriptors() == before + 1
    assert tensors["matrix"].tobytes() == f["matrix"].tobytes()
    memoryview(tensors["matrix"]), memoryview(tensors["cube"]), memoryview(f["cube"])
    assert maps_of(path) == 1
    del f, tensors, parts
    gc.collect()
    assert (maps_of(path), descriptors()) == (0, before)


def test_a_relative_path(path, monkeypatch, tmp_path):
    monkeypatch.chdir(path.parent)
    pickled = pickle.dumps(coffer.open(path.name))
    monkeypatch.chdir("/")
    assert pickle.loads(pickled).path == os.path.realpath(path)


def test_a_token_is_left_behind(path):
    f = coffer.open(path, token="secret", progress=print)
    assert b"secret" not in pickle.dumps(f) and list(again(f)) == list(f)


def test_a_file_that_is_another_one_now(path):
    f = coffer.open(path)
    pickled = pickle.dumps(f), pickle.dumps(f["matrix"])
    path.write_bytes(array_file({"matrix": np.zeros(2)}))
    for each in pickled:
        with pytest.raises(coffer.Error) as caught:
            pickle.loads(each)
        assert (caught.value.code, caught.value.path) == ("CHANGED", str(path))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickled[0])


def test_what_has_no_path(path):
    with open(path, "rb") as file:
        for f in (coffer.open(path.read_bytes()), coffer.open(file.fileno())):
            for thing in (f, f["matrix"], f["cube"][0]):
                with pytest.raises(TypeError, match="by its path"):
                    pickle.dumps(thing)
    f = coffer.open(path)
    f.close()
    with pytest.raises(ValueError, match="closed"):
        pickle.dumps(f)


def sums(tensor):
    return float(tensor.numpy().sum())


def test_workers_of_another_process(path, arrays):
    f = coffer.open(path)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.map(sums, [f["matrix"][i] for i in range(6)])
    assert found == [float(row.sum()) for row in arrays["matrix"]]
