# SPDX-License-Identifier: Apache-2.0
"""safe_open.prefetch, PrefetchLoader and get_tensor_meta, as safetensors 0.9 has them. The reference here is older, so what its texts
say is written down. Tensors go to a device that is played: by an engine that takes the host's memory for CUDA's, and by torch."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import torch
from conftest import array_file, taken_by_threads

import coffer._load
import coffer._places
from coffer import _native
from coffer.compat.safetensors import PrefetchLoader, SafetensorError, TensorMeta, _safe_open_handle, safe_open
from coffer.compat.safetensors.torch import load_file


@pytest.fixture
def file(path):
    rng = np.random.default_rng(3)
    arrays = {
        "matrix": rng.random((60, 8), dtype=np.float32),
        "cube": rng.integers(-99, 99, (3, 4, 5), dtype=np.int64),
        "scalar": np.array(2.5, dtype=np.float16),
        "empty": np.zeros((0, 3), dtype=np.float32),
        "odd": rng.integers(0, 255, 31, dtype=np.uint8),
        "unaligned": rng.random(7),
    }
    path.write_bytes(array_file(arrays))
    return path, {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


@pytest.fixture(params=["by the engine", "by torch"])
def cuda(request, monkeypatch):
    """Devices that are played; how many bytes torch was asked for there."""
    asked: list[int] = []
    empty = torch.empty

    def made(*shape, device=None, pin_memory=False, **options):
        if device is not None:
            asked.append(int(np.prod(shape)))
        return empty(*shape, **options)

    monkeypatch.setattr(torch, "empty", made)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device: tensor.clone())
    engine = _native.Device("cpu") if request.param == "by the engine" else None
    for module in (coffer._places, coffer._load):
        monkeypatch.setattr(module, "reaches", lambda device: engine is not None)
    monkeypatch.setattr(coffer._places, "engine_device", lambda device: engine)
    monkeypatch.setattr(coffer._places, "stream_of", lambda device: 0)
    return asked


def assert_equal(found, wanted):
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, name
        assert torch.equal(found[name], tensor), name


# ---- Headers ------------------------------------------------------------------------------------------------------------


def test_meta(file):
    path, wanted = file
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])
    with safe_open(path, "np") as f:
        for name, entry in header.items():
            meta = f.get_tensor_meta(name)
            assert isinstance(meta, TensorMeta)
            assert {"dtype": meta.dtype, "shape": meta.shape, "data_offsets": list(meta.data_offsets)} == entry
        meta = f.get_tensor_meta("cube")
        assert repr(meta) == 'TensorMeta { dtype: "I64", shape: [3, 4, 5], data_offsets: (1920, 2400) }'
        with pytest.raises(AttributeError):
            meta.dtype = "F32"
        with pytest.raises(SafetensorError, match="File does not contain tensor none"):
            f.get_tensor_meta("none")
        with pytest.raises(TypeError, match="'int' object is not an instance of 'str'"):
            f.get_tensor_meta(1)
    with pytest.raises(SafetensorError, match="File is closed"):
        f.get_tensor_meta("cube")
    for kind in (TensorMeta, PrefetchLoader):
        with pytest.raises(TypeError, match="cannot create"):
            kind()


def test_meta_of_several_files(tmp_path, file):
    path, _ = file
    index = coffer.split(path, tmp_path / "parts", 600)
    with safe_open(path, "np") as one, safe_open(index, "np") as several:
        for name in one.keys():
            whole, part = one.get_tensor_meta(name), several.get_tensor_meta(name)
            assert (part.dtype, part.shape) == (whole.dtype, whole.shape)
            assert part.data_offsets[1] - part.data_offsets[0] == whole.data_offsets[1] - whole.data_offsets[0]


# ---- What is refused ----------------------------------------------------------------------------------------------------

PLANS = [
    ({"none": None}, "File does not contain tensor none"),
    ({"matrix": slice(0, 3, 2)}, "prefetch plan slices must have step 1, got 2 for matrix"),
    ({"matrix": slice(None, None, -1)}, "prefetch plan slices must have step 1, got -1 for matrix"),
    ({"matrix": slice(0, 3, 0)}, "invalid prefetch plan slice for matrix"),
    ({"scalar": slice(0, 1)}, "cannot slice rows of the 0-d tensor scalar"),
    ({"matrix": 3}, "prefetch plan values must be None or a slice, got <class 'int'> for matrix"),
    ({"matrix": (slice(0, 2), 3)}, "prefetch plan values must be None or a slice, got <class 'tuple'> for matrix"),
    ({"matrix": slice(0, 61)}, "prefetch plan slice stop 61 for matrix is out of range for 60 rows"),
    ({"matrix": slice(61, 62)}, "prefetch plan slice start 61 for matrix is out of range for 60 rows"),
    ({"matrix": slice(-61, 2)}, "prefetch plan slice start -61 for matrix is out of range for 60 rows"),
    ({"matrix": slice("x", 2)}, "prefetch plan slice bounds for matrix must be integers or None"),
    ({"matrix": (slice(0, 2), slice(0, 9))}, "stop 9 for matrix is out of range for 8 entries of dimension 1"),
    ({"matrix": (slice(0, 2),) * 3}, "3 slices for the 2 dimensions of matrix"),
    ({1: None}, "prefetch plan keys must be tensor names"),
    ({}, "prefetch plan selects no tensors"),
]


@pytest.mark.parametrize(("plan", "text"), PLANS, ids=[text for _, text in PLANS])
def test_plans(file, plan, text):
    with safe_open(file[0], "pt", "cuda:0") as f:
        with pytest.raises(SafetensorError) as raised:
            f.prefetch(plan)
        assert text in str(raised.value)


@pytest.mark.parametrize(
    ("opened", "asked", "text"),
    [
        ("cpu", {}, "prefetch loads to cuda devices, not cpu"),
        ("cuda:0", {"device": "cpu"}, "prefetch loads to cuda devices, not cpu"),
        ("cpu", {"device": "mps"}, "prefetch loads to cuda devices, not mps"),
        ("cpu", {"device": "bogus"}, "device bogus is invalid"),
        ("cpu", {"plan": {"none": None}}, "prefetch loads to cuda devices, not cpu"),
    ],
)
def test_devices(file, opened, asked, text):
    with safe_open(file[0], "pt", opened) as f:
        with pytest.raises(SafetensorError, match=text):
            f.prefetch(**asked)


def test_other_calls_that_are_wrong(file, cuda):
    path, _ = file
    with safe_open(path, "np") as f:
        with pytest.raises(SafetensorError, match='prefetch is only compatible with framework="pt"'):
            f.prefetch(device="cuda:0")
    with safe_open(path, "pt", "cuda:0") as f:
        with pytest.raises(TypeError, match="'list' object is not an instance of 'dict'"):
            f.prefetch(["matrix"])
        with pytest.raises(TypeError):
            f.prefetch(threads="x")
        with pytest.raises(OverflowError):
            f.prefetch(threads=-1)
    with pytest.raises(SafetensorError, match="File is closed"):
        f.prefetch()


def test_files_that_are_open_already(file, cuda):
    """_safe_open_handle has the same method."""
    path, wanted = file
    with path.open("rb") as handle:
        with _safe_open_handle(handle, "pt", "cuda:0") as f, f.prefetch({"cube": None, "matrix": slice(1, 3)}) as loader:
            assert torch.equal(loader.take("matrix"), wanted["matrix"][1:3]) and torch.equal(loader.take("cube"), wanted["cube"])
        with pytest.raises(SafetensorError, match='prefetch is only compatible with framework="pt"'):
            _safe_open_handle(handle, "np").prefetch()
        with pytest.raises(SafetensorError, match="prefetch loads to cuda devices, not cpu"):
            _safe_open_handle(handle, "pt").prefetch()


def test_dtypes_that_torch_does_not_have(tmp_path):
    header = b'{"x":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}'
    path = tmp_path / "x"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(3))
    with safe_open(path, "pt", "cuda:0") as f, pytest.raises(SafetensorError, match="F6_E2M3"):
        f.prefetch()


# ---- Handing out --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1", 0])
@pytest.mark.parametrize("opened", ["mmap", "pread"])
def test_everything(file, cuda, opened, device):
    path, wanted = file
    with safe_open(path, "pt", backend=opened) as f:
        with f.prefetch(device=device) as loader:
            assert loader.names() == f.offset_keys() and len(loader) == len(wanted)
            assert_equal(dict(loader), wanted)
            assert dict(loader) == {}
        with safe_open(path, "pt", device).prefetch() as loader:
            assert_equal({name: loader.take(name) for name in loader.names()}, wanted)


def test_slices(file, cuda):
    """S3: of every dimension."""
    path, wanted = file
    plan = {
        "matrix": slice(10, 20), "cube": (slice(-2, None), slice(1, 3), slice(None, 2)), "odd": slice(5, 5), "unaligned": slice(2, 1),
        "scalar": None, "empty": slice(0, 0),
    }  # fmt: skip
    with safe_open(path, "pt").prefetch(plan, device="cuda:0") as loader:
        assert set(loader.names()) == set(plan)
        found = dict(loader)
    assert_equal(found, {
        "matrix": wanted["matrix"][10:20], "cube": wanted["cube"][-2:, 1:3, :2], "odd": wanted["odd"][5:5],
        "unaligned": wanted["unaligned"][2:2], "scalar": wanted["scalar"], "empty": wanted["empty"],
    })  # fmt: skip


def test_once(file, cuda):
    path, wanted = file
    with safe_open(path, "pt").prefetch({"matrix": slice(1, 3), "odd": None}, device="cuda:0") as loader:
        torch.testing.assert_close(loader.take("matrix"), wanted["matrix"][1:3])
        with pytest.raises(SafetensorError, match="already delivered"):
            loader.take("matrix")
        with pytest.raises(SafetensorError, match="cube is not in the prefetch plan"):
            loader.take("cube")
        with pytest.raises(TypeError):
            loader.take(1)
        assert [name for name, _ in loader] == ["odd"]
        with pytest.raises(SafetensorError, match="already delivered"):
            loader.take("odd")


def test_closing(file, cuda):
    path, wanted = file
    loader = safe_open(path, "pt").prefetch(device="cuda:0")
    stream = iter(loader)
    name, tensor = next(stream)
    loader.close()
    loader.close()
    for call in (lambda: list(stream), lambda: loader.take("odd"), lambda: list(loader)):
        with pytest.raises(SafetensorError, match="closed"):
            call()
    assert len(loader) == len(loader.names()) == len(wanted)
    assert torch.equal(tensor, wanted[name]), "what was handed out owns its memory"


def test_the_file_and_several_loaders_do_not_disturb_each_other(file, cuda):
    path, wanted = file
    with safe_open(path, "pt") as f:
        with f.prefetch({"matrix": None}, device="cuda:0") as first, f.prefetch({"odd": None}, device="cuda:1") as second:
            assert torch.equal(second.take("odd"), wanted["odd"])
            assert torch.equal(first.take("matrix"), wanted["matrix"])
            assert torch.equal(f.get_slice("cube")[:1], wanted["cube"][:1])
            assert set(f.get_tensors()) == set(wanted)
        loader = f.prefetch(device="cuda:0")
    assert_equal(dict(loader), wanted)


@pytest.mark.parametrize("threads", [0, 1, 2, 10_000])
def test_threads(file, cuda, threads):
    path, wanted = file
    with safe_open(path, "pt").prefetch(device="cuda:0", threads=threads) as loader:
        assert_equal(dict(loader), wanted)


def test_threads_that_take(file, cuda):
    path, wanted = file
    with safe_open(path, "pt").prefetch(device="cuda:0") as loader:
        found = taken_by_threads(loader, wanted)
    assert_equal(found, wanted)


def test_packed_elements(tmp_path, cuda):
    header = b'{"x":{"dtype":"F4","shape":[4,8],"data_offsets":[0,16]}}'
    path = tmp_path / "x"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(16)))
    with safe_open(path, "pt").prefetch({"x": slice(1, 3)}, device="cuda:0") as loader:
        x = loader.take("x")
    assert x.dtype == torch.float4_e2m1fn_x2 and x.shape == (2, 4)
    assert x.view(torch.uint8).flatten().tolist() == list(range(4, 12))


def test_a_file_that_is_cut(file, cuda):
    path, _ = file
    with safe_open(path, "pt") as f:
        path.write_bytes(path.read_bytes()[:-10])
        with pytest.raises(Exception, match="changed|cut|short"), f.prefetch(device="cuda:0") as loader:
            dict(loader)


def test_memory_is_asked_for_as_it_is_needed(file, cuda, request):
    """Nothing for tensors that are not planned, and little beyond those that are."""
    path, wanted = file
    with safe_open(path, "pt").prefetch({"cube": None, "odd": slice(0, 3)}, device="cuda:0") as loader:
        dict(loader)
    assert sum(cuda) <= 2 * 512 and (cuda == []) == ("torch" in request.node.name)


def test_load_file_uses_the_same(file, cuda):
    path, wanted = file
    found = load_file(path, "cuda:0")
    assert list(found) == list(wanted)
    assert_equal(found, wanted)
