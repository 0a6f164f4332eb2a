# SPDX-License-Identifier: Apache-2.0
"""What devices are given to copy from. Drivers copy slowly from a private map of a file, and some of them hang when it is on a network
file system, so they have to be given memory that was read into. A device that only looks at its source stands in for theirs."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import array_file

import coffer
import coffer._torch_staging
import coffer.torch
from coffer.compat.safetensors import safe_open
from coffer.compat.safetensors.torch import load_file


@pytest.fixture
def file(path):
    """Tensors of every kind: odd sizes, none, of no dimension, and one that is not aligned for its dtype."""
    rng = np.random.default_rng(3)
    arrays = {
        "cube": rng.integers(-99, 99, (3, 4, 5), dtype=np.int64),
        "matrix": rng.random((60, 8), dtype=np.float32),
        "scalar": np.array(2.5, dtype=np.float16),
        "empty": np.zeros((0, 3), dtype=np.float32),
        "odd": rng.integers(0, 255, 31, dtype=np.uint8),
        "unaligned": rng.random(7),
        "flags": np.array([True, False, True]),
    }
    path.write_bytes(array_file(arrays, {"made by": "test"}))
    return path, {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


class Device:
    """A device that keeps what it was given to copy, and where that was."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.copied: list[int] = []

    def look(self, tensor: torch.Tensor) -> None:
        if tensor.nbytes == 0:
            return
        address = tensor.data_ptr()
        for line in Path("/proc/self/maps").read_text().splitlines():
            bounds, _, *rest = line.split(maxsplit=5)
            first, last = (int(bound, 16) for bound in bounds.split("-"))
            if first <= address < last:
                assert self.path not in rest, "a device was given a map of the file"
        self.copied.append(tensor.nbytes)


@pytest.fixture
def device(file, monkeypatch):
    found = Device(file[0])
    to, copy = torch.Tensor.to, torch.Tensor.copy_

    def moved(tensor, device):
        assert device == "xpu:0"
        found.look(tensor)
        return to(tensor, "cpu")

    def copied(target, source):
        found.look(source)
        return copy(target, source)

    empty = torch.empty
    monkeypatch.setattr(torch.Tensor, "to", moved)
    monkeypatch.setattr(torch.Tensor, "copy_", copied)
    monkeypatch.setattr(torch, "empty", lambda *shape, device=None, **options: empty(*shape, **options))
    return found


def assert_equal(found, wanted):
    assert list(found) == list(wanted)
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


WAYS = {
    "the drop-in's load_file": lambda path: load_file(path, "xpu:0"),
    "its load_file that reads": lambda path: load_file(path, "xpu:0", backend="pread"),
    "coffer.torch.load_file": lambda path: coffer.torch.load_file(path, "xpu:0"),
    "get_tensors": lambda path: safe_open(path, "pt", "xpu").get_tensors(),
    "get_tensor": lambda path: (lambda f: {name: f.get_tensor(name) for name in f.offset_keys()})(safe_open(path, "pt", "xpu")),
    "Tensor.torch": lambda path: {tensor.name: tensor.torch("xpu:0") for tensor in coffer.open(path)._model.tensors()},
}


@pytest.mark.parametrize("size", [64 << 20, 128, 24], ids=["at once", "in pieces", "in small pieces"])
@pytest.mark.parametrize("way", WAYS)
def test_whole_tensors(way, size, file, device, monkeypatch):
    monkeypatch.setattr(coffer._torch_staging, "SIZE", size)
    path, wanted = file
    assert_equal(WAYS[way](path), wanted)
    assert sum(device.copied) == sum(tensor.nbytes for tensor in wanted.values())
    assert str(path) not in Path("/proc/self/maps").read_text()


INDICES = [
    slice(1, 3), 2, -1, (slice(None), 3), (slice(0, 50, 7), slice(2, 4)), slice(50, 99), ..., None, [0, 5], (..., 1),
    torch.tensor([1, 4]), slice(5, 5),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_slices(index, backend, file, device, monkeypatch):
    path, wanted = file
    with safe_open(path, "pt", "cpu", backend=backend) as f:
        try:
            expected = f.get_slice("matrix")[index]
        except Exception as error:
            expected = str(error)
    device.copied.clear()
    with safe_open(path, "pt", "xpu:0", backend=backend) as f:
        try:
            found = f.get_slice("matrix")[index]
        except Exception as error:
            assert str(error) == expected
            return
    assert torch.equal(found, expected)
    assert sum(device.copied) == expected.nbytes, "what was not asked for was copied"


def test_progress_counts_every_byte(file, device, monkeypatch):
    monkeypatch.setattr(coffer._torch_staging, "SIZE", 512)
    path, wanted = file
    told = []
    assert_equal(coffer.torch.load_file(path, "xpu:0", progress=lambda *now: told.append(now)), wanted)
    total = sum(tensor.nbytes for tensor in wanted.values())
    assert told[-1] == (total, total) and told == sorted(told) and len(told) > 3


def test_what_is_damaged_is_not_copied(file, device):
    path, wanted = file
    coffer.record_digests(path)
    assert_equal(coffer.torch.load_file(path, "xpu:0", verify=True), wanted)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(coffer.Error) as raised:
        coffer.torch.load_file(path, "xpu:0", verify=True)
    assert raised.value.code == "TENSOR_DIGEST"


def test_what_a_device_refuses_is_torch_s(file):
    with pytest.raises(Exception) as theirs:
        torch.zeros(1).to("xpu:0")
    with pytest.raises(type(theirs.value)) as ours:
        load_file(file[0], "xpu:0")
    assert str(ours.value) == str(theirs.value)


def test_packed_elements(tmp_path, device):
    header = json.dumps({"x": {"dtype": "F4", "shape": [4, 8], "data_offsets": [0, 16]}}).encode()
    path = tmp_path / "x"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(16)))
    found = load_file(path, "xpu:0")["x"]
    assert found.dtype == torch.float4_e2m1fn_x2 and found.shape == (4, 4)
    assert found.view(torch.uint8).flatten().tolist() == list(range(16))
    rows = safe_open(path, "pt", "xpu").get_slice("x")[1:3]
    assert rows.view(torch.uint8).flatten().tolist() == list(range(4, 12))


@pytest.mark.parametrize("host", ["cpu", "cpu:0", torch.device("cpu"), None], ids=repr)
def test_host_memory_is_a_view_of_the_file(host, file):
    path, wanted = file
    found = coffer.torch.load_file(path, host)
    assert_equal(found, wanted)
    assert str(path) in Path("/proc/self/maps").read_text()
