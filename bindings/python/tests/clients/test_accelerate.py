# SPDX-License-Identifier: Apache-2.0
"""accelerate saves a model in shards, and loads it, dispatched and from disk."""

import torch
from accelerate import Accelerator, init_empty_weights, load_checkpoint_and_dispatch
from accelerate.utils import load_state_dict
from states import same_bits, same_outputs
from torch import nn


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))


def test_save_and_dispatch(tmp_path):
    saved = model()
    Accelerator(cpu=True).save_model(saved, tmp_path, max_shard_size="2KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    with init_empty_weights():
        loaded = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    loaded = load_checkpoint_and_dispatch(loaded, tmp_path, device_map={"": "cpu"})
    assert same_bits(saved.state_dict(), loaded.state_dict())
    sample = torch.randn(2, 16)
    with torch.no_grad():
        assert same_outputs(saved(sample), loaded(sample))


def test_state_dicts(tmp_path):
    Accelerator(cpu=True).save(model().state_dict(), tmp_path / "x.safetensors", safe_serialization=True)
    loaded = load_state_dict(str(tmp_path / "x.safetensors"))
    assert same_bits(model().state_dict(), loaded)
