# SPDX-License-Identifier: Apache-2.0
"""transformers loads models onto devices by a map, and divided among processes, which slices tensors of files."""

import os
import socket

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from states import described, same_bits
from torch.distributed.tensor import DTensor
from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM
from transformers.distributed.configuration_utils import DistributedConfig

SIZES = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 64, "vocab_size": 64}
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=2, tie_word_embeddings=False)),
    "mixtral": lambda: MixtralForCausalLM(MixtralConfig(**SIZES, num_key_value_heads=2, num_local_experts=4)),
}


@pytest.fixture(params=MODELS)
def saved(request, tmp_path):
    torch.manual_seed(0)
    model = MODELS[request.param]().bfloat16()
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    return request.param, model, tmp_path


@pytest.mark.parametrize("device_map", ["cpu", {"": "cpu"}, "auto"], ids=str)
def test_device_maps(device_map, saved):
    _, model, path = saved
    loaded = type(model).from_pretrained(path, device_map=device_map, dtype=torch.bfloat16)
    assert same_bits(model.state_dict(), loaded.state_dict())


def test_tensor_parallel(saved):
    name, _, path = saved
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    mp.spawn(rank_main, (2, port, name, str(path)), nprocs=2)


def rank_main(rank, world, port, name, path):
    """Half of it, compared with what the whole model has there."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    import safetensors

    assert "coffer" in safetensors.__file__
    kind = type(MODELS[name]())
    whole = kind.from_pretrained(path, dtype=torch.bfloat16).state_dict()
    loaded = kind.from_pretrained(path, dtype=torch.bfloat16, distributed_config=DistributedConfig(tp_plan="auto", tp_size=world))
    divided = 0
    for key, tensor in loaded.state_dict().items():
        if isinstance(tensor, DTensor):
            divided += tensor.to_local().shape != tensor.shape
            tensor = tensor.full_tensor()
            assert described(tensor) == described(whole[key]), key
        elif tensor.shape != whole[key].shape:
            divided += 1
            (dim,) = [dim for dim in range(tensor.ndim) if tensor.shape[dim] != whole[key].shape[dim]]
            assert described(tensor) == described(whole[key].chunk(world, dim)[rank]), key
        else:
            assert described(tensor) == described(whole[key]), key
    assert divided
    dist.destroy_process_group()
