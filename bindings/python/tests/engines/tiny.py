# SPDX-License-Identifier: Apache-2.0
"""Folders with small models of random numbers, as the hub has them."""

import json

import torch

from coffer.torch import save_file

HIDDEN, INNER, WORDS, LAYERS, EXPERTS = 128, 256, 256, 3, 4
BLOCK = 32
ATTENTION = {"q": HIDDEN, "k": HIDDEN // 2, "v": HIDDEN // 2, "o": HIDDEN}
DENSE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": HIDDEN // 4,
    "vocab_size": WORDS,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}
MIXTURE = DENSE | {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "sliding_window": None,
}
BLOCKS = DENSE | {
    "architectures": ["Qwen3ForCausalLM"],  # SGLang's Llama takes no scales of blocks
    "model_type": "qwen3",
    "attention_bias": False,
    "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK], "fmt": "e4m3"}
}


def shapes(config):
    found = {"model.embed_tokens": (WORDS, HIDDEN), "lm_head": (WORDS, HIDDEN), "model.norm": (HIDDEN,)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        for name, rows in ATTENTION.items():
            found[f"{at}.self_attn.{name}_proj"] = (rows, HIDDEN)
        found[f"{at}.input_layernorm"] = found[f"{at}.post_attention_layernorm"] = (HIDDEN,)
        if config["model_type"] == "qwen3":
            found[f"{at}.self_attn.q_norm"] = found[f"{at}.self_attn.k_norm"] = (HIDDEN // 4,)
        if "num_local_experts" in config:
            found[f"{at}.block_sparse_moe.gate"] = (EXPERTS, HIDDEN)
            for expert in range(EXPERTS):
                of = f"{at}.block_sparse_moe.experts.{expert}"
                found[f"{of}.w1"] = found[f"{of}.w3"] = (INNER, HIDDEN)
                found[f"{of}.w2"] = (HIDDEN, INNER)
        else:
            found[f"{at}.mlp.gate_proj"] = found[f"{at}.mlp.up_proj"] = (INNER, HIDDEN)
            found[f"{at}.mlp.down_proj"] = (HIDDEN, INNER)
    return found


def tensors(config):
    make = torch.Generator().manual_seed(len(config))
    found = {}
    for name, shape in shapes(config).items():
        values = torch.randn(shape, generator=make)
        if "quantization_config" in config and "_proj" in name:
            found[f"{name}.weight"] = values.to(torch.float8_e4m3fn)
            found[f"{name}.weight_scale_inv"] = torch.rand([length // BLOCK for length in shape], generator=make)
        else:
            found[f"{name}.weight"] = values.bfloat16()
    return found


def write_config(folder, config):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))


def write_files(folder, values, count):
    """In files whose last number has two digits, with an index."""
    names = list(values)
    homes = {}
    for number in range(count):
        file = f"model-{number + 1}-of-{count}.safetensors"
        save_file({name: values[name] for name in names[number::count]}, folder / file)
        homes |= dict.fromkeys(names[number::count], file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": homes}))


def write(folder, config, count=11):
    write_config(folder, config)
    write_files(folder, tensors(config), count)


def write_with_unused(folder):
    """One more file, of which the model declares that it does not need it."""
    write_config(folder, DENSE)
    values = tensors(DENSE)
    save_file(values, folder / "model.safetensors")
    save_file({"readout.weight": torch.ones(3, 3)}, folder / "readout.safetensors")


def write_of_torch(folder):
    write_config(folder, DENSE)
    torch.save(tensors(DENSE), folder / "pytorch_model.bin")


_MISTRAL = {
    "model.embed_tokens": "tok_embeddings",
    "lm_head": "output",
    "self_attn.q_proj": "attention.wq",
    "self_attn.k_proj": "attention.wk",
    "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.down_proj": "feed_forward.w2",
    "mlp.up_proj": "feed_forward.w3",
    "model.": "",
}


def write_native(folder):
    """By the names of Mistral's files alone."""
    write_config(folder, DENSE)
    save_file(tensors(DENSE), folder / "consolidated.safetensors")


def write_gguf(folder):
    """As much as an engine looks at to know it."""
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(b"GGUF" + bytes(60))


def write_twice(folder):
    """As Mistral's repositories: all tensors under the names of that company, and once more under those of transformers, without an
    index."""
    write_config(folder, DENSE | {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": None})
    values = tensors(DENSE)
    theirs = {}
    for name, value in values.items():
        for known, wanted in _MISTRAL.items():
            name = name.replace(known, wanted)
        theirs[name] = value + 1
    save_file(values, folder / "model.safetensors")
    save_file(theirs, folder / "consolidated.safetensors")


def write_adapter(folder):
    """LoRA of the attention."""
    write_config(folder, {})
    (folder / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"], "bias": "none"})
    )
    make = torch.Generator().manual_seed(1)
    values = {}
    for layer in range(LAYERS):
        for name, rows in ATTENTION.items():
            at = f"base_model.model.model.layers.{layer}.self_attn.{name}_proj"
            values[f"{at}.lora_A.weight"] = torch.randn(4, HIDDEN, generator=make)
            values[f"{at}.lora_B.weight"] = torch.randn(rows, 4, generator=make)
    save_file(values, folder / "adapter_model.safetensors")


FOLDERS = {
    "dense": lambda folder: write(folder, DENSE),
    "mixture": lambda folder: write(folder, MIXTURE),
    "blocks": lambda folder: write(folder, BLOCKS),
    "unused": write_with_unused,
    "torch": write_of_torch,
    "twice": write_twice,
    "native": write_native,
    "gguf": write_gguf,
    "adapter": write_adapter,
}
