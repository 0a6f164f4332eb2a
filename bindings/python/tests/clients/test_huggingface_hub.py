# SPDX-License-Identifier: Apache-2.0
"""huggingface_hub saves and loads torch models in shards, and reads metadata."""

import json

import huggingface_hub
import pytest
import torch
from huggingface_hub import load_torch_model, save_torch_model, save_torch_state_dict, split_torch_state_dict_into_shards
from huggingface_hub.serialization import load_state_dict_from_file
from safetensors import SafetensorError, safe_open
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(64, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.head = nn.Linear(16, 64, bias=False)
        self.head.weight = self.embedding.weight


def same(one, other):
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("max_shard_size", ["1GB", 2048])
def test_models(max_shard_size, tmp_path):
    torch.manual_seed(0)
    saved, loaded = Model(), Model()
    assert not same(saved, loaded)
    save_torch_model(saved, tmp_path, max_shard_size=max_shard_size, metadata={"of": "a test"})
    shards = sorted(tmp_path.glob("*.safetensors"))
    assert (len(shards) > 1) == (max_shard_size != "1GB")
    load_torch_model(loaded, tmp_path, strict=False)
    assert same(saved, loaded)
    with safe_open(shards[0], "pt") as f:
        assert f.metadata()["format"] == "pt"
    if len(shards) > 1:
        index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
        assert {shard.name for shard in shards} == set(index["weight_map"].values())


def test_state_dicts(tmp_path):
    wanted = {"a": torch.arange(10), "b": torch.randn(3, 4, dtype=torch.float16), "c": torch.randn(2).to(torch.bfloat16)}
    save_torch_state_dict(wanted, tmp_path)
    loaded = load_state_dict_from_file(tmp_path / "model.safetensors")
    assert loaded.keys() == wanted.keys() and all(torch.equal(loaded[name], wanted[name]) for name in wanted)


def test_a_file_that_stopped_early_is_refused(tmp_path):
    save_torch_state_dict({"a": torch.arange(10)}, tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="Cannot load") as caught:
        load_state_dict_from_file(path)
    assert isinstance(caught.value.__context__, SafetensorError)


def test_storages_are_told_apart():
    """By safetensors.torch.storage_ptr and storage_size, among others."""
    whole = torch.zeros(8)
    split = split_torch_state_dict_into_shards({"a": whole, "b": whole, "c": torch.zeros(8)}, max_shard_size=40)
    assert split.filename_to_tensors.keys() and split.metadata["total_size"] == 64
    assert huggingface_hub.serialization.get_torch_storage_id(whole) is not None
