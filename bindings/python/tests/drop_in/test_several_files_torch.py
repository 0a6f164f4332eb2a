# SPDX-License-Identifier: Apache-2.0
"""coffer.torch saves modules in several files, and loads them by their index; others can, too."""

from __future__ import annotations

import json

import huggingface_hub
import pytest
import torch
from torch import nn

import coffer.torch
from coffer._options import size_of


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)
        self.b.weight = self.a.weight


def same(model, other):
    return all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("limit", [1200, "1.2KB"])
def test_several_files(limit, tmp_path):
    model, other = Tied(), Tied()
    coffer.torch.save_model(model, tmp_path / "model.safetensors", {"format": "pt"}, max_shard_size=limit)
    index = tmp_path / "model.safetensors.index.json"
    assert sorted(set(json.loads(index.read_text())["weight_map"].values())) == [
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
    ]  # fmt: skip
    assert coffer.torch.load_model(other, index) == (set(), []) and same(model, other)
    assert coffer.torch.load_file(index).keys() == {"a.weight", "a.bias", "b.bias", "c.weight", "c.bias"}
    other = Tied()
    huggingface_hub.load_torch_model(other, tmp_path, strict=False)
    assert same(model, other)


def test_verifying_on_the_way(tmp_path):
    path = tmp_path / "x"
    wanted = {"a": torch.arange(6.0), "b": torch.arange(4)}
    coffer.torch.save_file(wanted, path, digests="sha256")
    for options in ({}, {"backend": "pread"}, {"progress": True}):
        loaded = coffer.torch.load_file(path, verify=True, **options)
        assert all(torch.equal(loaded[name], tensor) for name, tensor in wanted.items())
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    for options in ({}, {"backend": "pread"}, {"progress": True}):
        with pytest.raises(coffer.Error) as raised:
            coffer.torch.load_file(path, verify=True, **options)
        assert (raised.value.code, raised.value.tensor) == ("TENSOR_DIGEST", "a")
    assert coffer.torch.load_file(path).keys() == {"a", "b"}


def test_one_file_is_enough(tmp_path):
    """Then it is the file that it is without a limit."""
    model = Tied()
    coffer.torch.save_model(model, tmp_path / "x.safetensors", {"k": "v"}, max_shard_size="5GB")
    coffer.torch.save_model(model, tmp_path / "y.safetensors", {"k": "v"})
    assert (tmp_path / "x.safetensors").read_bytes() == (tmp_path / "y.safetensors").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_what_cannot_be_saved(tmp_path):
    model = nn.Module()
    model.register_buffer("x", torch.arange(6).view(2, 3).T)
    with pytest.raises(ValueError, match="force_contiguous=True"):
        coffer.torch.save_model(model, tmp_path / "x.safetensors", force_contiguous=False, max_shard_size=8)
    assert list(tmp_path.iterdir()) == []


def test_sizes():
    wanted = {"1KB": 1000, "2 MB": 2_000_000, "0.5GB": 500_000_000, "1TB": 10**12, "1KiB": 1024, "3B": 3, 7: 7}
    assert {text: size_of(text) for text in wanted} == wanted
    for text in ("", "GB", "-1MB", "1 XB", "0KB", 0, -5):
        with pytest.raises(ValueError):
            size_of(text)
