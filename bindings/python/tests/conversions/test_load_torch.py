# SPDX-License-Identifier: Apache-2.0
"""coffer.load for torch, and coffer.torch.load_into: straight into the memory of parameters, whatever their strides and dtypes."""

from __future__ import annotations

import json
import os

import pytest
import torch

import coffer
import coffer._places
import coffer._places
import coffer.torch
from coffer import _native


class Model(torch.nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.first = torch.nn.Linear(8, 6, dtype=dtype)
        self.norm = torch.nn.BatchNorm1d(6)
        self.embedding = torch.nn.Embedding(11, 8, dtype=dtype)


@pytest.fixture
def saved(tmp_path):
    torch.manual_seed(1)
    model = Model()
    path = tmp_path / "model.safetensors"
    coffer.torch.save_model(model, path)
    return path, model.state_dict()


def assert_equal(found, wanted):
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name


# ---- coffer.load --------------------------------------------------------------------------------------------------------


def test_tensors(saved):
    path, wanted = saved
    with coffer.load(path, framework="pt") as load:
        assert_equal(dict(load), wanted)
    found = dict(coffer.load(path, "meta"))
    assert {name: (t.device.type, t.shape, t.dtype) for name, t in found.items()} == {n: ("meta", t.shape, t.dtype) for n, t in wanted.items()}


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "uint16", "bool", "complex64", "float4_e2m1fn_x2"])
def test_dtypes(tmp_path, dtype):
    tensor = torch.arange(16, dtype=torch.uint8).view(4, 4)
    tensor = tensor % 2 == 1 if dtype == "bool" else tensor.view(torch.uint8).repeat(1, 8).view(getattr(torch, dtype))
    coffer.torch.save_file({"x": tensor}, tmp_path / "x.safetensors")
    found = dict(coffer.load(tmp_path / "x.safetensors", framework="pt"))["x"]
    assert found.dtype == tensor.dtype and found.shape == tensor.shape
    assert torch.equal(found.view(torch.uint8), tensor.view(torch.uint8))
    room = torch.empty_like(tensor)
    with coffer.load(coffer.Plan(tmp_path / "x.safetensors").add("x", out=room)) as load:
        assert load.take("x") is room
    assert torch.equal(room.view(torch.uint8), tensor.view(torch.uint8))


def test_places_are_tensors(saved):
    path, wanted = saved
    whole = torch.zeros(16, 6)
    out = whole.T[:, ::2]
    with coffer.load(coffer.Plan(path).add("first.weight", out=out)) as load:
        load.wait()
    assert torch.equal(out, wanted["first.weight"]) and not whole[1::2].any()
    for wrong, text in (
        (torch.zeros(6, 8).to("meta"), "no driver of Coffer's reaches the device meta"),
        (torch.zeros(6, 8, dtype=torch.float16), "float32, and the place is for float16"),
        (torch.zeros(8, 6), "the shape"),
        (torch._neg_view(torch.zeros(6, 8)), "other values than its memory"),
    ):
        with pytest.raises(coffer.Error, match=text):
            coffer.load(coffer.Plan(path).add("first.weight", out=wrong))


# ---- load_into ----------------------------------------------------------------------------------------------------------


def test_parameters_keep_their_memory(saved):
    path, wanted = saved
    model = Model()
    before = {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}
    assert coffer.torch.load_into(model, path) == (set(), [])
    assert_equal(model.state_dict(), wanted)
    assert {name: tensor.data_ptr() for name, tensor in model.state_dict().items()} == before
    assert model.first.weight.requires_grad


def test_a_mapping(saved):
    path, wanted = saved
    target = {name: torch.zeros_like(tensor) for name, tensor in wanted.items()}
    coffer.torch.load_into(target, coffer.open(path))
    assert_equal(target, wanted)


def test_other_dtypes_are_cast(saved):
    path, wanted = saved
    model = Model(torch.bfloat16)
    coffer.torch.load_into(model, path)
    assert_equal(model.state_dict(), {name: t.to(model.state_dict()[name].dtype) for name, t in wanted.items()})


def test_strides(saved):
    path, wanted = saved
    model = Model()
    model.first.weight = torch.nn.Parameter(torch.zeros(8, 6).T)
    coffer.torch.load_into(model, path)
    assert model.first.weight.stride() == (1, 6)
    assert_equal(model.state_dict(), wanted)


def test_missing_and_unexpected(saved, tmp_path):
    path, wanted = saved
    model = torch.nn.ModuleDict({"first": torch.nn.Linear(8, 6), "other": torch.nn.Linear(2, 2)})
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(coffer.Error, match="the file lacks other.bias, other.weight; the module has no embedding.weight"):
        coffer.torch.load_into(model, path)
    assert_equal(model.state_dict(), before)
    missing, unexpected = coffer.torch.load_into(model, path, strict=False)
    assert missing == {"other.weight", "other.bias"} and len(unexpected) == len(wanted) - 2
    assert torch.equal(model["first"].weight, wanted["first.weight"])


def test_tied_parameters(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(4, 4, bias=False)
            self.b = torch.nn.Linear(4, 4, bias=False)
            self.b.weight = self.a.weight

    model = Tied()
    path = tmp_path / "x.safetensors"
    coffer.torch.save_model(model, path)  # one of the names
    other = Tied()
    assert coffer.torch.load_into(other, path) == (set(), [])
    assert torch.equal(other.a.weight, model.a.weight) and other.b.weight is other.a.weight
    coffer.torch.save_file({"a.weight": torch.zeros(4, 4), "b.weight": torch.ones(4, 4)}, path)
    assert coffer.torch.load_into(other, path) == (set(), [])
    assert torch.equal(other.a.weight, torch.ones(4, 4)), "the last one counts, as in load_state_dict"


def test_ranks(saved):
    path, wanted = saved
    rules = {"first.weight": 0, "first.bias": 0, "embedding.*": 1}
    for rank in (0, 1):
        target = {name: torch.zeros_like(tensor) for name, tensor in wanted.items()}
        target["first.weight"], target["first.bias"] = torch.zeros(3, 8), torch.zeros(3)
        target["embedding.weight"] = torch.zeros(11, 4, dtype=torch.float64)
        coffer.torch.load_into(target, path, rank=rank, world=2, rules=rules)
        assert torch.equal(target["first.weight"], wanted["first.weight"][3 * rank :][:3])
        assert torch.equal(target["embedding.weight"], wanted["embedding.weight"][:, 4 * rank :][:, :4].double())


def test_what_is_wrong(saved):
    path, wanted = saved
    for target, text in (
        ({"first.bias": torch.zeros(5)}, r"'first.bias' has the shape \[6\] in the file, and \[5\] in the target"),
        ({"first.bias": 3}, "'first.bias' is not a tensor of torch"),
        ({"first.bias": torch.zeros(6, device="meta")}, "'first.bias' has no memory"),
    ):
        with pytest.raises(coffer.Error, match=text):
            coffer.torch.load_into(target, path, strict=False)


def test_devices_that_torch_alone_reaches(saved, monkeypatch):
    """A device's parameters get what torch copies there; an engine's, their bytes."""
    path, wanted = saved
    copies = []
    copy = torch.Tensor.copy_
    monkeypatch.setattr(torch.Tensor, "copy_", lambda target, source: copies.append(source.nbytes) or copy(target, source))
    monkeypatch.setattr(coffer._torch_load, "_is_reached", lambda device: False)
    model = Model()
    coffer.torch.load_into(model, path)
    assert_equal(model.state_dict(), wanted)
    assert len(copies) == len(wanted)


# ---- Memory on devices --------------------------------------------------------------------------------------------------


def test_slabs(tmp_path):
    """Every tensor is aligned, none overlaps another, and small ones are not in the slabs of large ones."""
    sizes = [3, 600, 0, 5 << 20, 1 << 20, 512, 300 << 20, 40 << 20, 230 << 20, 1]
    header = {f"{i}": {"dtype": "U8", "shape": [n], "data_offsets": [sum(sizes[:i]), sum(sizes[: i + 1])]} for i, n in enumerate(sizes)}
    path = tmp_path / "x.safetensors"
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + sum(sizes))
    rooms = coffer._places.Rooms(coffer.Plan(path).all()._native, list(range(len(sizes))), "meta")
    tensors = [rooms.pop(i, torch.uint8, (sizes[i],)) for i in range(len(sizes))]
    assert [tensor.shape for tensor in tensors] == [(size,) for size in sizes]
    offsets = [tensor.storage_offset() for tensor in tensors]
    assert all(offset % 256 == 0 for offset in offsets)
    slabs = {}
    for tensor, offset in zip(tensors, offsets, strict=True):
        slabs.setdefault(tensor.untyped_storage()._cdata, []).append((offset, offset + tensor.nbytes, tensor.nbytes))
    assert len(slabs) == 5
    for spans in slabs.values():
        spans.sort()
        assert all(first[1] <= second[0] for first, second in zip(spans, spans[1:], strict=False))
        assert len({size < 1 << 20 for _, _, size in spans}) == 1
    used = sum(tensor.untyped_storage().nbytes() for tensor in {t.untyped_storage()._cdata: t for t in tensors}.values())
    assert used < sum(sizes) + len(sizes) * 256


def test_a_device_that_has_no_driver_here():
    assert coffer._places.engine_device("cpu") is None and coffer._places.engine_device("meta") is None
    with pytest.raises(coffer.Error):
        _native.Device("cuda:77")


def test_devices_that_torch_does_not_have_are_refused_at_once(tmp_path):
    coffer.torch.save_file({"a": torch.ones(3)}, tmp_path / "x.safetensors")
    with pytest.raises(RuntimeError, match="device"):
        coffer.load(tmp_path / "x.safetensors", "gpu")


def test_targets_that_are_none(tmp_path):
    coffer.torch.save_file({"a": torch.ones(3)}, tmp_path / "x.safetensors")
    with pytest.raises(TypeError, match="a module or a mapping of names to tensors, not list"):
        coffer.torch.load_into([], tmp_path / "x.safetensors")
