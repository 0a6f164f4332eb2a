# SPDX-License-Identifier: Apache-2.0
"""Folders of tiny models as transformers writes them, for the tests of coffer doctor: made byte by byte, never zero."""

import json

from model_files import floats, make

V, H, N, I, HEADS, KV, D, LAYERS, EXPERTS, M = 24, 8, 16, 12, 4, 2, 2, 2, 3, 6
SIZES = {"vocab_size": V, "hidden_size": H, "intermediate_size": I, "num_attention_heads": HEADS,
         "num_hidden_layers": LAYERS, "max_position_embeddings": N}
Q, K = HEADS * D, KV * D


def layers(prefix, shapes, count=LAYERS):
    return {f"{prefix}{i}.{name}": shape for i in range(count) for name, shape in shapes.items()}


ATTENTION = {"self_attn.q_proj.weight": [Q, H], "self_attn.k_proj.weight": [K, H], "self_attn.v_proj.weight": [K, H],
             "self_attn.o_proj.weight": [H, Q]}
MLP = {"mlp.gate_proj.weight": [I, H], "mlp.up_proj.weight": [I, H], "mlp.down_proj.weight": [H, I]}
ENDS = {"model.embed_tokens.weight": [V, H], "model.norm.weight": [H], "lm_head.weight": [V, H]}
GQA = {**SIZES, "num_key_value_heads": KV, "tie_word_embeddings": False}


def causal(model_type, name, **more):
    return {"model_type": model_type, "architectures": [f"{name}ForCausalLM"], "dtype": "float32", **more}


def experts(prefix, names, width):
    shapes = {names[0]: [width, H], names[1]: [H, width], names[2]: [width, H]}
    return {f"{prefix}{i}.{name}.weight": shape for i in range(EXPERTS) for name, shape in shapes.items()}


FAMILIES = {
    "llama": (causal("llama", "Llama", **GQA), {**ENDS, **layers("model.layers.", {**ATTENTION, **MLP})}),
    "qwen3": (causal("qwen3", "Qwen3", **GQA, head_dim=D), {**ENDS, **layers("model.layers.", {**ATTENTION, **MLP})}),
    "gemma": (causal("gemma", "Gemma", **{k: v for k, v in GQA.items() if k != "tie_word_embeddings"}, head_dim=D),
              {**{k: v for k, v in ENDS.items() if k != "lm_head.weight"}, **layers("model.layers.", {**ATTENTION, **MLP})}),
    "mixtral": (causal("mixtral", "Mixtral", **GQA, num_local_experts=EXPERTS),
                {**ENDS, **layers("model.layers.", {**ATTENTION, "block_sparse_moe.gate.weight": [EXPERTS, H], **experts(
                    "block_sparse_moe.experts.", ("w1", "w2", "w3"), I)})}),
    "qwen3_moe": (causal("qwen3_moe", "Qwen3Moe", **GQA, head_dim=D, num_experts=EXPERTS, moe_intermediate_size=M),
                  {**ENDS, **layers("model.layers.", {**ATTENTION, "mlp.gate.weight": [EXPERTS, H], **experts(
                      "mlp.experts.", ("gate_proj", "down_proj", "up_proj"), M)})}),
    "phi3": (causal("phi3", "Phi3", **GQA),
             {**ENDS, **layers("model.layers.", {"self_attn.qkv_proj.weight": [Q + 2 * K, H], "self_attn.o_proj.weight": [H, Q],
                                                 "mlp.gate_up_proj.weight": [2 * I, H], "mlp.down_proj.weight": [H, I]})}),
    "gpt2": ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": H, "n_head": HEADS, "n_layer": LAYERS,
              "n_positions": N, "vocab_size": V, "n_inner": None},
             {"wte.weight": [V, H], "wpe.weight": [N, H], "ln_f.weight": [H],
              **layers("h.", {"attn.c_attn.weight": [H, 3 * H], "attn.c_proj.weight": [H, H], "mlp.c_fc.weight": [H, 4 * H],
                              "mlp.c_proj.weight": [4 * H, H], "attn.c_attn.bias": [3 * H]})}),
    "gpt_neox": (causal("gpt_neox", "GPTNeoX", **SIZES),
                 {"gpt_neox.embed_in.weight": [V, H], "embed_out.weight": [V, H],
                  **layers("gpt_neox.layers.", {"attention.query_key_value.weight": [3 * H, H],
                                                "mlp.dense_h_to_4h.weight": [I, H], "mlp.dense_4h_to_h.weight": [H, I]})}),
    "opt": (causal("opt", "OPT", vocab_size=V, hidden_size=H, ffn_dim=I, num_attention_heads=HEADS, num_hidden_layers=LAYERS,
                   word_embed_proj_dim=H),
            {"model.decoder.embed_tokens.weight": [V, H],
             **layers("model.decoder.layers.", {"self_attn.q_proj.weight": [H, H], "self_attn.k_proj.weight": [H, H],
                                                "fc1.weight": [I, H], "fc2.weight": [H, I]})}),
    "bert": ({"model_type": "bert", "architectures": ["BertModel"], **SIZES},
             {"embeddings.word_embeddings.weight": [V, H], "embeddings.position_embeddings.weight": [N, H],
              **layers("encoder.layer.", {"attention.self.query.weight": [H, H], "attention.self.key.weight": [H, H],
                                          "intermediate.dense.weight": [I, H], "output.dense.weight": [H, I]})}),
    "distilbert": ({"model_type": "distilbert", "dim": H, "n_heads": HEADS, "n_layers": LAYERS, "hidden_dim": I,
                    "vocab_size": V, "max_position_embeddings": N},
                   {"distilbert.embeddings.word_embeddings.weight": [V, H],
                    **layers("distilbert.transformer.layer.", {"attention.q_lin.weight": [H, H], "ffn.lin1.weight": [I, H]})}),
    "t5": ({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": H, "d_kv": D, "d_ff": I,
            "num_heads": HEADS, "num_layers": LAYERS, "num_decoder_layers": 3, "vocab_size": V},
           {"shared.weight": [V, H],
            **layers("encoder.block.", {"layer.0.SelfAttention.q.weight": [Q, H], "layer.1.DenseReluDense.wo.weight": [H, I]}),
            **layers("decoder.block.", {"layer.0.SelfAttention.q.weight": [Q, H], "layer.2.DenseReluDense.wo.weight": [H, I]},
                     3)}),
    "mamba": (causal("mamba", "Mamba", hidden_size=H, num_hidden_layers=LAYERS, vocab_size=V),
              {"backbone.embeddings.weight": [V, H],
               **layers("backbone.layers.", {"norm.weight": [H], "mixer.in_proj.weight": [4 * H, H]})}),
}  # fmt: skip


def tensor_of(shape, dtype="F32"):
    count = 1
    for size in shape:
        count *= size
    body = {"F32": floats(*(1 + i % 7 for i in range(count))), "BF16": b"\x80\x3f" * count, "I32": b"\1\0\0\0" * count,
            "U8": b"\1" * count, "F16": b"\0\x3c" * count, "F64": b"\0\0\0\0\0\0\xf0\x3f" * count}[dtype]
    return (dtype, shape, body)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2))


def tensors_of(shapes):
    return {name: tensor_of(shape) for name, shape in shapes.items()}


def write_weights(path, tensors):
    """With the metadata that every save of transformers writes."""
    make(path, tensors, {"format": "pt"})


def complete(folder):
    """What belongs beside a language model, so that nothing is noted."""
    for name in ("generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        write_json(folder / name, {})


def write_family(folder, family, config=(), shapes=(), without=()):
    """A folder with a model of a family; `config` and `shapes` change it, and what is named in `without` is left out."""
    folder.mkdir(exist_ok=True, parents=True)
    base_config, base_shapes = FAMILIES[family]
    write_json(folder / "config.json", {k: v for k, v in {**base_config, **dict(config)}.items() if k not in without})
    wanted = {k: v for k, v in {**base_shapes, **dict(shapes)}.items() if k not in without}
    write_weights(folder / "model.safetensors", tensors_of(wanted))
    complete(folder)
    return folder


def write_sharded(folder, family="llama", parts=2):
    """The same as several files with a right index. Returns the names of the files."""
    write_family(folder, family)
    (folder / "model.safetensors").unlink()
    shapes = list(FAMILIES[family][1].items())
    names, weight_map, total = [], {}, 0
    for i in range(parts):
        name = f"model-{i + 1:05}-of-{parts:05}.safetensors"
        own = dict(shapes[i * len(shapes) // parts : (i + 1) * len(shapes) // parts])
        write_weights(folder / name, tensors_of(own))
        weight_map.update(dict.fromkeys(own, name))
        total += sum(len(body) for _, _, body in tensors_of(own).values())
        names.append(name)
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map})
    return names
