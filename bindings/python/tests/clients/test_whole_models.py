# SPDX-License-Identifier: Apache-2.0
"""What the command writes to -o FOLDER/ is a model that transformers, diffusers and peft load as they load what they saved."""

import os
import subprocess
import sys

import diffusers
import peft
import pytest
import torch
from safetensors.torch import load_file
from states import same_bits
from test_doctor import MODELS

COMMAND = [os.environ["COFFER_CLI"]] if "COFFER_CLI" in os.environ else [sys.executable, "-m", "coffer"]
FAMILIES = ["llama", "llama, tied", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "mixtral", "phi3", "gpt2", "bert", "roberta",
            "t5", "bart", "mamba", "vit"]  # fmt: skip
DEEP = ["llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "mixtral", "phi3", "gpt2", "bert", "mamba"]


def coffer(*arguments):
    subprocess.run([*COMMAND, *map(str, arguments)], check=True, capture_output=True, text=True)


def save(name, folder, max_shard_size="16KB"):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    model.save_pretrained(folder, max_shard_size=max_shard_size)
    return model


def load(model, folder):
    """With nothing missing, and nothing too much, in the dtype that the configuration states."""
    loaded, about = type(model).from_pretrained(folder, dtype="auto", output_loading_info=True)
    assert not about["missing_keys"] and not about["unexpected_keys"] and not about["mismatched_keys"]
    return loaded.eval()


@pytest.mark.parametrize("max_shard_size", ["1GB", "16KB"])
@pytest.mark.parametrize("name", FAMILIES)
def test_cast(name, max_shard_size, tmp_path):
    model = save(name, tmp_path / "model", max_shard_size)
    coffer("cast", tmp_path / "model", "bf16", "-o", f"{tmp_path}/out/")
    loaded = load(model, tmp_path / "out")
    assert loaded.config.dtype == loaded.dtype == torch.bfloat16
    assert same_bits(dict(model.to(torch.bfloat16).named_parameters()), dict(loaded.named_parameters()))


@pytest.mark.parametrize("name", DEEP)
def test_fewer_layers(name, tmp_path):
    model = save(name, tmp_path / "model")
    coffer("rename", tmp_path / "model", "--layers", "1", "-o", f"{tmp_path}/out/")
    loaded = load(model, tmp_path / "out")
    assert loaded.config.num_hidden_layers == 1
    assert sum(p.numel() for p in loaded.parameters()) < sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("verb", [["split", "--max-shard-size", "8KB"], ["merge"], ["align", "--to", "4096"], ["convert"]])
def test_other_verbs(verb, tmp_path):
    model = save("llama", tmp_path / "model")
    coffer(*verb, tmp_path / "model", "-o", f"{tmp_path}/out/")
    assert same_bits(model.state_dict(), load(model, tmp_path / "out").state_dict())


def test_average(tmp_path):
    model = save("llama", tmp_path / "model")
    coffer("average", tmp_path / "model", tmp_path / "model", "-o", f"{tmp_path}/out/")
    assert same_bits(model.state_dict(), load(model, tmp_path / "out").state_dict())


def test_a_checkpoint_of_torch(tmp_path):
    model = save("llama", tmp_path / "model")
    (tmp_path / "old").mkdir()
    torch.save(model.state_dict(), tmp_path / "old" / "pytorch_model.bin")
    (tmp_path / "model" / "config.json").rename(tmp_path / "old" / "config.json")
    coffer("convert", tmp_path / "old" / "pytorch_model.bin", "-o", f"{tmp_path}/out/")
    assert same_bits(model.state_dict(), load(model, tmp_path / "out").state_dict())


def test_plain_f8_is_what_torch_casts(tmp_path):
    model = save("llama", tmp_path / "model")
    coffer("cast", tmp_path / "model", "f8_e4m3", "-o", f"{tmp_path}/out/", "--max-shard-size", "1GB")
    (file,) = (tmp_path / "out").glob("*.safetensors")
    wanted = {name: tensor.to(torch.float8_e4m3fn) for name, tensor in model.state_dict().items()}
    assert same_bits(wanted, load_file(file))


@pytest.mark.parametrize("max_shard_size", ["1GB", "8KB"])
def test_diffusers(max_shard_size, tmp_path):
    torch.manual_seed(0)
    model = diffusers.UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 8), norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    model.save_pretrained(tmp_path / "model", max_shard_size=max_shard_size)
    coffer("cast", tmp_path / "model", "f16", "-o", f"{tmp_path}/out/")
    loaded = diffusers.UNet2DModel.from_pretrained(tmp_path / "out", torch_dtype=torch.float16)
    assert same_bits(model.half().state_dict(), loaded.state_dict())


def adapter_of(folder):
    model = save("llama", folder / "base")
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj"]))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    adapted.save_pretrained(folder / "adapter")
    return adapted


def test_an_adapter_is_cast(tmp_path):
    adapter_of(tmp_path)
    coffer("cast", tmp_path / "adapter", "bf16", "-o", f"{tmp_path}/out/")
    base = load(MODELS["llama"](), tmp_path / "base")
    loaded = peft.PeftModel.from_pretrained(base, tmp_path / "out", autocast_adapter_dtype=False)
    saved = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    state = peft.get_peft_model_state_dict(loaded)
    assert same_bits({name: tensor.to(torch.bfloat16) for name, tensor in saved.items()},
                     {name: tensor.to(torch.bfloat16) for name, tensor in state.items()})


def test_an_adapter_is_merged(tmp_path):
    adapted = adapter_of(tmp_path)
    coffer("merge-lora", tmp_path / "base", tmp_path / "adapter", "-o", f"{tmp_path}/out/")
    merged = adapted.merge_and_unload()
    loaded = load(merged, tmp_path / "out")
    for name, tensor in merged.state_dict().items():
        assert torch.allclose(tensor, loaded.state_dict()[name], rtol=1e-5, atol=1e-6)
