# SPDX-License-Identifier: Apache-2.0
"""coffer doctor has nothing to say against models as transformers and diffusers save them: no error, no warning."""

import importlib
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys

import diffusers
import pytest
import transformers as t
from safetensors.torch import load_file, save_file

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
    "phi3": lambda: t.Phi3ForCausalLM(t.Phi3Config(**SHARED, pad_token_id=0, bos_token_id=1, eos_token_id=2)),
    "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(n_embd=16, n_head=2, n_layer=2, vocab_size=64, n_positions=32,
                                                   bos_token_id=1, eos_token_id=2)),
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


SOURCE = pathlib.Path(__file__).resolve().parents[4]
TABLE = (SOURCE / "src" / "doctor" / "doctor_families.c").read_text()
TYPES = " ".join(re.findall(r'\{ "([a-z0-9_ -]+)",\s*(?:DECODER|")', TABLE)).split()
HEADS = ("lm_head.weight", "embed_out.weight", "proj_out.weight")
# Every name that a size has in some configuration.
SMALL = {
    "vocab_size": 64, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "max_position_embeddings": 32, "n_embd": 16, "n_head": 4, "n_layer": 2, "n_positions": 32,
    "d_model": 16, "d_kv": 4, "d_ff": 24, "num_heads": 4, "num_layers": 2, "num_decoder_layers": 2, "encoder_layers": 2,
    "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24, "ffn_dim": 24, "dim": 16, "n_heads": 4, "n_layers": 2, "hidden_dim": 24, "word_embed_proj_dim": 16,
    "head_dim": 4, "num_local_experts": 4, "num_experts": 4, "n_routed_experts": 4, "moe_intermediate_size": 8,
    "num_experts_per_tok": 2, "rotary_dim": 4, "embedding_size": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1, "max_source_positions": 16, "max_target_positions": 16, "num_mel_bins": 8, "image_size": 8,
    "patch_size": 4, "kv_lora_rank": 8, "q_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 4,
    "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "state_size": 4, "time_step_rank": 2, "suppress_tokens": None,
    "begin_suppress_tokens": None, "sliding_window": 8, "shared_expert_intermediate_size": 8, "classifier_proj_size": 8,
    "is_decoder": True,
}  # fmt: skip


def small_config(model_type):
    """The configuration of a tiny model of a type; what it does not state is as by default."""
    kind = t.CONFIG_MAPPING[model_type]
    usual = kind()
    sizes = {kind.attribute_map.get(k, k): v for k, v in SMALL.items() if k in usual.to_dict()}
    for part in ("text_config", "vision_config"):
        inner = getattr(usual, part, None)
        if inner is not None:
            sizes[part] = {k: v for k, v in SMALL.items() if k in inner.to_dict()}
    return kind(**sizes)


def architectures(model_type):
    """The classes that are meant to be saved: not the parts that they consist of."""
    kind = t.CONFIG_MAPPING[model_type]
    module = importlib.import_module(kind.__module__.replace("configuration_", "modeling_"))
    return [c for name, c in vars(module).items() if inspect.isclass(c) and c.__module__ == module.__name__
            and issubclass(c, t.PreTrainedModel) and c.config_class is kind
            and not re.search(r"PreTrainedModel$|PretrainedModel$|^Pretrained|Stack$|Encoder$|Decoder$|^_", name)]


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


@pytest.mark.parametrize("model_type", TYPES)
def test_every_architecture_of_a_family_is_sound(model_type, tmp_path):
    """Base models, those with heads of all kinds, encoders and decoders that were saved alone."""
    for kind in architectures(model_type):
        kind(small_config(model_type)).save_pretrained(tmp_path / kind.__name__)
        worse = [f for f in findings(tmp_path / kind.__name__) if f[0] != "note"]
        assert worse == [], kind.__name__


@pytest.mark.parametrize("model_type", TYPES)
def test_what_a_configuration_means_that_does_not_say_whether_embeddings_are_tied(model_type, tmp_path):
    """Without output embeddings a model of this type is whole if they are tied by default, as its own class has it."""
    kinds = [k for k in architectures(model_type) if re.search("ForCausalLM$|LMHeadModel$|ForConditionalGeneration$", k.__name__)]
    for kind in kinds:
        path = tmp_path / kind.__name__
        config = small_config(model_type)
        tied = t.CONFIG_MAPPING[model_type]().tie_word_embeddings
        kind(config).save_pretrained(path)
        stated = json.loads((path / "config.json").read_text())
        stated.pop("tie_word_embeddings", None)
        (path / "config.json").write_text(json.dumps(stated))
        tensors = {name: x for name, x in load_file(path / "model.safetensors").items() if not name.endswith(HEADS)}
        save_file(tensors, path / "model.safetensors", {"format": "pt"})
        has_head = model_type not in ("bert", "roberta", "xlm-roberta", "camembert", "electra")
        assert (("error", "head_missing") in findings(path)) == (has_head and not tied), kind.__name__
