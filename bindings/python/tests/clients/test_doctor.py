# SPDX-License-Identifier: Apache-2.0
"""coffer doctor has nothing to say against models as transformers and diffusers save them: no error, no warning."""

import json
import os
import subprocess
import sys

import diffusers
import pytest
import transformers as t

COMMAND = [os.environ["COFFER_CLI"]] if "COFFER_CLI" in os.environ else [sys.executable, "-m", "coffer"]
SIZES = {"hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 32, "vocab_size": 64,
         "max_position_embeddings": 32}
SHARED = {**SIZES, "num_key_value_heads": 2}
BART = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": 64}
T5 = {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2, "num_heads": 2, "vocab_size": 64}
MODELS = {
    "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**SHARED)),
    "llama, tied": lambda: t.LlamaForCausalLM(t.LlamaConfig(**SHARED, tie_word_embeddings=True)),
    "llama, base": lambda: t.LlamaModel(t.LlamaConfig(**SHARED)),
    "llama, classifier": lambda: t.LlamaForSequenceClassification(t.LlamaConfig(**SHARED)),
    "mistral": lambda: t.MistralForCausalLM(t.MistralConfig(**SHARED, head_dim=8)),
    "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**SHARED)),
    "qwen3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**SHARED, head_dim=8)),
    "gemma2": lambda: t.Gemma2ForCausalLM(t.Gemma2Config(**SHARED, head_dim=8)),
    "gemma3": lambda: t.Gemma3ForCausalLM(t.Gemma3TextConfig(**SHARED, head_dim=8)),
    "mixtral": lambda: t.MixtralForCausalLM(t.MixtralConfig(**SHARED, num_local_experts=4)),
    "qwen3_moe": lambda: t.Qwen3MoeForCausalLM(
        t.Qwen3MoeConfig(**SHARED, num_experts=4, moe_intermediate_size=8, head_dim=8)),
    "phi": lambda: t.PhiForCausalLM(t.PhiConfig(**SIZES)),
    "phi3": lambda: t.Phi3ForCausalLM(t.Phi3Config(**SHARED, pad_token_id=0)),
    "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(n_embd=16, n_head=2, n_layer=2, vocab_size=64, n_positions=32)),
    "gpt_neox": lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**SIZES)),
    "bert": lambda: t.BertForMaskedLM(t.BertConfig(**SIZES)),
    "bert, base": lambda: t.BertModel(t.BertConfig(**SIZES)),
    "roberta": lambda: t.RobertaForMaskedLM(t.RobertaConfig(**SIZES)),
    "distilbert": lambda: t.DistilBertForMaskedLM(
        t.DistilBertConfig(dim=16, n_heads=2, n_layers=2, hidden_dim=32, vocab_size=64, max_position_embeddings=32)),
    "t5": lambda: t.T5ForConditionalGeneration(t.T5Config(**T5, num_decoder_layers=3)),
    "t5, encoder": lambda: t.T5EncoderModel(t.T5Config(**T5)),
    "bart": lambda: t.BartForConditionalGeneration(t.BartConfig(**BART, max_position_embeddings=32)),
    "mamba": lambda: t.MambaForCausalLM(t.MambaConfig(hidden_size=16, num_hidden_layers=2, vocab_size=64, state_size=4)),
    "vit": lambda: t.ViTModel(t.ViTConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=2, intermediate_size=32,
                                          image_size=16, patch_size=8)),
}  # fmt: skip


def findings(path, *options):
    result = subprocess.run([*COMMAND, "doctor", path, *options, "--json"], capture_output=True, text=True, check=False)
    return [(f["weight"], f["kind"]) for f in json.loads(result.stdout)["findings"]]


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_models(make, tmp_path):
    model = make()
    model.save_pretrained(tmp_path / "one")
    notes = findings(tmp_path / "one", "--data")
    assert {weight for weight, _ in notes} <= {"note"} and ("note", "unknown_family") not in notes
    # Without a layer it is another model than the configuration says.
    name = next(key for key in ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers")
                if key in json.loads((tmp_path / "one" / "config.json").read_text()))
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    (tmp_path / "one" / "config.json").write_text(json.dumps({**config, name: 9}))
    assert ("error", "layers") in findings(tmp_path / "one")


def test_several_files(tmp_path):
    MODELS["llama"]().save_pretrained(tmp_path, max_shard_size="8KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    assert {weight for weight, _ in findings(tmp_path, "--data")} <= {"note"}


def test_a_pipeline(tmp_path):
    unet = diffusers.UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 8), norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"))
    diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler()).save_pretrained(tmp_path)
    assert {weight for weight, _ in findings(tmp_path, "--data")} <= {"note"}
    (tmp_path / "unet").rename(tmp_path / "elsewhere")
    assert ("error", "part_missing") in findings(tmp_path)
