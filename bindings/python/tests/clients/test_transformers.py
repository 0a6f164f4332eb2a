# SPDX-License-Identifier: Apache-2.0
"""transformers saves and loads tiny random models of three architectures, two of them with tied weights."""

import pytest
import torch
from safetensors import safe_open
from states import same_bits, same_outputs
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

MODELS = {
    "gpt2, tied": lambda: GPT2LMHeadModel(GPT2Config(n_embd=16, n_head=2, n_layer=2, vocab_size=64, n_positions=32)),
    "bert, tied": lambda: BertForMaskedLM(
        BertConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=2, intermediate_size=32, vocab_size=64)
    ),
    "llama": lambda: LlamaForCausalLM(
        LlamaConfig(
            hidden_size=16, num_attention_heads=2, num_hidden_layers=2, intermediate_size=32, vocab_size=64,
            num_key_value_heads=1, tie_word_embeddings=False,
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("max_shard_size", ["1GB", "8KB"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_models(make, dtype, max_shard_size, tmp_path):
    torch.manual_seed(0)
    saved = make().to(dtype).eval()
    saved.save_pretrained(tmp_path, max_shard_size=max_shard_size)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert files and (len(files) > 1) == (max_shard_size == "8KB")
    with safe_open(files[0], "pt") as f:
        assert f.metadata()["format"] == "pt"

    loaded = type(saved).from_pretrained(tmp_path, dtype=dtype).eval()
    assert same_bits(saved.state_dict(), loaded.state_dict())
    tokens = torch.arange(8).unsqueeze(0)
    with torch.no_grad():
        assert same_outputs(saved(input_ids=tokens).logits, loaded(input_ids=tokens).logits)


def test_tied_weights_stay_tied(tmp_path):
    saved = MODELS["gpt2, tied"]()
    saved.save_pretrained(tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as f:
        assert "lm_head.weight" not in f.keys()  # noqa: SIM118  not a dict
    loaded = GPT2LMHeadModel.from_pretrained(tmp_path)
    assert loaded.lm_head.weight is loaded.transformer.wte.weight


def test_saved_over_what_it_was_loaded_from(tmp_path):
    saved = MODELS["llama"]()
    saved.save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    LlamaForCausalLM.from_pretrained(tmp_path).save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
