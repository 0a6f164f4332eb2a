# SPDX-License-Identifier: Apache-2.0
"""The numbers of parameters that are published for real models, counted in headers of their shapes (the bodies are holes)."""

import json
import math
import os
import subprocess

from model_files import bits_of, header_bytes

CLI = os.environ["COFFER_CLI"]


def put(path, tensors):
    """A file of {name: (dtype, shape)} whose body is a hole."""
    header, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + math.prod(shape) * bits_of(dtype) // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    content = header_bytes(header)
    path.write_bytes(content)
    os.truncate(path, len(content) + end)


def info(path):
    result = subprocess.run([CLI, "info", "--json", path], capture_output=True, text=True, encoding="utf-8", timeout=60, check=True)
    return json.loads(result.stdout)[0]


def linear(name, dtype, outputs, inputs, bias=True):
    return {f"{name}.weight": (dtype, [outputs, inputs])} | ({f"{name}.bias": (dtype, [outputs])} if bias else {})


def norm(name, dtype, width):
    return {f"{name}.{part}": (dtype, [width]) for part in ("weight", "bias")}


def test_gpt2(tmp_path):
    tensors = {"wte.weight": ("F32", [50257, 768]), "wpe.weight": ("F32", [1024, 768])} | norm("ln_f", "F32", 768)
    for i in range(12):
        tensors |= norm(f"h.{i}.ln_1", "F32", 768) | norm(f"h.{i}.ln_2", "F32", 768)
        tensors[f"h.{i}.attn.bias"] = ("F32", [1, 1, 1024, 1024])
        for name, inputs, outputs in [("attn.c_attn", 768, 2304), ("attn.c_proj", 768, 768), ("mlp.c_fc", 768, 3072),
                                      ("mlp.c_proj", 3072, 768)]:
            tensors |= {f"h.{i}.{name}.weight": ("F32", [inputs, outputs]), f"h.{i}.{name}.bias": ("F32", [outputs])}
    put(tmp_path / "model.safetensors", tensors)
    found = info(tmp_path / "model.safetensors")
    assert found["parameters"] == found["trained"]["parameters"] == found["trained"]["compatible"] == 137_022_720
    assert found["trained"]["compatible_dtypes"] == {"F32": 137_022_720}
    assert found["trained"]["assumed"] == ""


def bert_layers(prefix, count):
    tensors = {}
    for i in range(count):
        layer = f"{prefix}.encoder.layer.{i}"
        for part in ("query", "key", "value"):
            tensors |= linear(f"{layer}.attention.self.{part}", "F32", 768, 768)
        tensors |= linear(f"{layer}.attention.output.dense", "F32", 768, 768)
        tensors |= linear(f"{layer}.intermediate.dense", "F32", 3072, 768) | linear(f"{layer}.output.dense", "F32", 768, 3072)
        tensors |= norm(f"{layer}.attention.output.LayerNorm", "F32", 768) | norm(f"{layer}.output.LayerNorm", "F32", 768)
    return tensors


def bert_embeddings(prefix, words, positions, types):
    table = {"word": words, "position": positions, "token_type": types}
    return {f"{prefix}.embeddings.{name}_embeddings.weight": ("F32", [rows, 768]) for name, rows in table.items()} | \
        norm(f"{prefix}.embeddings.LayerNorm", "F32", 768)


def test_roberta_base(tmp_path):
    tensors = bert_embeddings("roberta", 50265, 514, 1) | bert_layers("roberta", 12)
    tensors |= {"roberta.embeddings.position_ids": ("I64", [1, 514]), "lm_head.bias": ("F32", [50265])}
    tensors |= linear("lm_head.dense", "F32", 768, 768) | norm("lm_head.layer_norm", "F32", 768)
    put(tmp_path / "model.safetensors", tensors)
    assert info(tmp_path / "model.safetensors")["trained"]["compatible_dtypes"] == {"I64": 514, "F32": 124_697_433}


def test_bert_base(tmp_path):
    tensors = bert_embeddings("bert", 30522, 512, 2) | bert_layers("bert", 12) | linear("bert.pooler.dense", "F32", 768, 768)
    tensors |= {"cls.predictions.bias": ("F32", [30522])} | linear("cls.seq_relationship", "F32", 2, 768)
    tensors |= linear("cls.predictions.transform.dense", "F32", 768, 768)
    tensors |= norm("cls.predictions.transform.LayerNorm", "F32", 768)
    put(tmp_path / "model.safetensors", tensors)
    assert info(tmp_path / "model.safetensors")["parameters"] == 110_106_428


def bloom_parts(dtype, width, layers):
    """The tensors of each file, as the large model has them."""
    yield {"word_embeddings.weight": (dtype, [250880, width])} | norm("word_embeddings_layernorm", dtype, width)
    for i in range(layers):
        yield (norm(f"h.{i}.input_layernorm", dtype, width) | norm(f"h.{i}.post_attention_layernorm", dtype, width) |
               linear(f"h.{i}.self_attention.query_key_value", dtype, 3 * width, width) |
               linear(f"h.{i}.self_attention.dense", dtype, width, width) |
               linear(f"h.{i}.mlp.dense_h_to_4h", dtype, 4 * width, width) |
               linear(f"h.{i}.mlp.dense_4h_to_h", dtype, width, 4 * width))
    yield norm("ln_f", dtype, width)


def test_bloom_560m(tmp_path):
    tensors = {}
    for part in bloom_parts("F16", 1024, 24):
        tensors |= part
    put(tmp_path / "model.safetensors", tensors)
    assert info(tmp_path / "model.safetensors")["trained"]["compatible_dtypes"] == {"F16": 559_214_592}


def test_bloom_in_72_files(tmp_path):
    weight_map = {}
    for i, part in enumerate(bloom_parts("BF16", 14336, 70)):
        name = f"model_{i + 1:05d}-of-00072.safetensors"
        put(tmp_path / name, part)
        weight_map |= dict.fromkeys(part, name)
    assert len(set(weight_map.values())) == 72
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}), encoding="utf-8")
    found = info(index)
    assert found["parameters"] == 176_247_271_424
    assert found["trained"]["compatible_dtypes"] == {"BF16": 176_247_271_424}


def test_gpt_neox_20b(tmp_path):
    """With scalars, which the published count leaves out."""
    width = 6144
    tensors = {f"{name}.weight": ("F16", [50432, width]) for name in ("gpt_neox.embed_in", "embed_out")}
    tensors |= norm("gpt_neox.final_layer_norm", "F16", width)
    for i in range(44):
        layer = f"gpt_neox.layers.{i}"
        tensors |= norm(f"{layer}.input_layernorm", "F16", width) | norm(f"{layer}.post_attention_layernorm", "F16", width)
        tensors |= {f"{layer}.attention.bias": ("U8", [1, 1, 2048, 2048]), f"{layer}.attention.masked_bias": ("F16", []),
                    f"{layer}.attention.rotary_emb.inv_freq": ("F16", [12])}
        tensors |= linear(f"{layer}.attention.query_key_value", "F16", 3 * width, width)
        tensors |= linear(f"{layer}.attention.dense", "F16", width, width)
        tensors |= linear(f"{layer}.mlp.dense_h_to_4h", "F16", 4 * width, width)
        tensors |= linear(f"{layer}.mlp.dense_4h_to_h", "F16", width, 4 * width)
    put(tmp_path / "model.safetensors", tensors)
    found = info(tmp_path / "model.safetensors")
    assert found["trained"]["compatible_dtypes"] == {"U8": 184_549_376, "F16": 20_554_568_208}
    assert found["dtypes"]["F16"]["parameters"] == 20_554_568_208 + 44
    assert found["parameters"] == 20_554_568_208 + 44 + 184_549_376
