# SPDX-License-Identifier: Apache-2.0
"""Slices that are taken one after the other: what is guessed of them is read ahead, and nobody sees that but by the time it takes."""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from conftest import array_file

from coffer.compat.safetensors import SafetensorError, safe_open
from coffer.compat.safetensors import _slices_ahead

LAYERS = 24


@pytest.fixture
def file(path):
    make = np.random.default_rng(1)
    arrays = {}
    for layer in range(LAYERS):
        arrays[f"layers.{layer}.up"] = make.integers(0, 1 << 30, (128, 640), dtype=np.int32)
        arrays[f"layers.{layer}.down"] = make.integers(0, 1 << 30, (640, 128), dtype=np.int32)
        arrays[f"layers.{layer}.norm"] = make.integers(0, 1 << 30, 128, dtype=np.int32)
    path.write_bytes(array_file(arrays))
    return path, arrays


@pytest.fixture(params=[("np", "pread"), ("np", "mmap"), ("pt", "pread")], ids=" ".join)
def opened(request, file):
    framework, backend = request.param
    with safe_open(file[0], framework, backend=backend) as f:
        yield f


def natural(names):
    return sorted(names, key=lambda name: (int(name.split(".")[1]), name))


ORDERS = {"natural": natural, "by name": sorted, "by bytes": list}


def index(name):
    return {"up": np.s_[32:64], "down": np.s_[:, 32:64], "norm": np.s_[:]}[name.split(".")[2]]


def equal(found, wanted):
    found = np.asarray(found)
    return found.dtype == wanted.dtype and found.shape == wanted.shape and np.array_equal(found, wanted)


def statistics(opened):
    return opened._ahead._source.statistics


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_most_is_read_ahead(opened, file, order):
    _, arrays = file
    for name in order(arrays):
        assert equal(opened.get_slice(name)[index(name)], arrays[name][index(name)]), name
    found = statistics(opened)
    assert found.found > found.taken // 2 and found.wrong == 0


def test_by_threads(opened, file):
    """As transformers does it: all slices first, then four threads."""
    _, arrays = file
    names = natural(arrays)
    slices = {name: opened.get_slice(name) for name in names}
    with ThreadPoolExecutor(4) as pool:
        for name, found in zip(names, pool.map(lambda name: slices[name][index(name)], names), strict=True):
            assert equal(found, arrays[name][index(name)]), name
    assert statistics(opened).parts > LAYERS


def test_any_index(opened, file):
    """Integers, steps, nothing, all, several of one tensor; and who goes through the file again gets the same."""
    _, arrays = file
    indices = [np.s_[3], np.s_[2:100:7, 5], np.s_[5:5], np.s_[...], np.s_[-3:, ..., 1:9], np.s_[:]]
    for _ in range(2):
        for number, name in enumerate(natural(arrays)):
            for one in (indices[number % len(indices)], np.s_[1:9]):
                if arrays[name].ndim == 2:
                    assert equal(opened.get_slice(name)[one], arrays[name][one]), (name, one)
    with pytest.raises(SafetensorError):
        opened.get_slice("layers.3.up")[1000]
    assert opened._ahead._source is not None


def test_tensors_own_their_memory(opened, file):
    _, arrays = file
    found = {name: opened.get_slice(name)[:] for name in natural(arrays)}
    for tensor in found.values():
        tensor[0] = 0
    opened.__exit__(None, None, None)
    for name, tensor in found.items():
        assert equal(tensor[1:], arrays[name][1:]) and not np.asarray(tensor[0]).any()


def test_slices_after_the_end(opened, file):
    _, arrays = file
    slices = {name: opened.get_slice(name) for name in natural(arrays)}
    for name in list(slices)[:20]:
        slices[name][:]
    opened.__exit__(None, None, None)
    for name, part in slices.items():
        assert equal(part[index(name)], arrays[name][index(name)])
    assert opened._ahead._source is None


def test_no_order(opened, file):
    _, arrays = file
    names = [name for name in arrays if "norm" not in name]
    random.Random(3).shuffle(names)
    for name in names:
        assert equal(opened.get_slice(name)[:], arrays[name])
        assert opened._ahead._source is None


def test_small_ones_and_maps(opened, file):
    """Of these nothing is even noted."""
    path, arrays = file
    for name in natural(arrays):
        part = opened.get_slice(name)
        assert equal(part[3:4], arrays[name][3:4]) and part._ahead is None
    assert opened._ahead._source is None
    assert opened.get_slice("layers.0.norm")._ahead is None
    with safe_open(path, "pt") as mapped:
        assert mapped.get_slice("layers.0.up")._ahead is None
        assert torch.equal(mapped.get_slice("layers.0.up")[3], torch.from_numpy(arrays["layers.0.up"][3]))


def test_a_fork_reads_by_itself(opened, file):
    _, arrays = file
    names = natural(arrays)
    for name in names[:12]:
        opened.get_slice(name)[index(name)]
    child = os.fork()
    if child == 0:
        right = all(equal(opened.get_slice(name)[index(name)], arrays[name][index(name)]) for name in names)
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    for name in names[12:]:
        assert equal(opened.get_slice(name)[index(name)], arrays[name][index(name)])


def test_orders_are_told_apart():
    names = ["l.10.a", "l.9.b", "l.9.a", "l.1.a"]
    assert sorted(names, key=_slices_ahead._natural) == ["l.1.a", "l.9.a", "l.9.b", "l.10.a"]
