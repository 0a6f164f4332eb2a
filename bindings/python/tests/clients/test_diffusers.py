# SPDX-License-Identifier: Apache-2.0
"""diffusers saves and loads a tiny random model."""

import pytest
import torch
from diffusers import UNet2DModel
from states import same_bits, same_outputs


def tiny():
    torch.manual_seed(0)
    return UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 8), norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
    ).eval()  # fmt: skip


@pytest.mark.parametrize("max_shard_size", ["1GB", "8KB"])
def test_models(max_shard_size, tmp_path):
    saved = tiny()
    saved.save_pretrained(tmp_path, max_shard_size=max_shard_size)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert files and (len(files) > 1) == (max_shard_size == "8KB")
    loaded = UNet2DModel.from_pretrained(tmp_path).eval()
    assert same_bits(saved.state_dict(), loaded.state_dict())
    sample = torch.randn(1, 1, 8, 8)
    with torch.no_grad():
        assert same_outputs(saved(sample, 1).sample, loaded(sample, 1).sample)
