# SPDX-License-Identifier: Apache-2.0
"""coffer doctor: each defect is planted alone, and exactly that one is found; commands that say they fix do."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess

import pytest
from doctor_models import (
    FAMILIES,
    LAYERS,
    H,
    I,
    N,
    V,
    complete,
    tensor_of,
    tensors_of,
    write_family,
    write_json,
    write_sharded,
    write_weights,
)
from hub_server import Hub, Repository
from model_files import NAUGHTY, floats, header_bytes, make
from test_cli import interrupt_an_edit
from web_server import Server

CLI = os.environ["COFFER_CLI"]
SHELL = {**os.environ, "PATH": f"{pathlib.Path(CLI).parent}:{os.environ['PATH']}"}


def run(*arguments, cwd=None):
    return subprocess.run([CLI, "doctor", *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", timeout=60,
                          check=False, cwd=cwd)


def examine(path, *options, code=None):
    result = run(path, *options, "--json")
    report = json.loads(result.stdout)
    expected = code if code is not None else 1 if report["errors"] else 0
    assert result.returncode == expected, (result.stdout, result.stderr)
    assert report["errors"] + report["warnings"] + report["notes"] == sum(1 + f["more"] for f in report["findings"])
    return report


def found(path, *options, code=None):
    """What is found: (weight, kind, file, tensor) of each."""
    return [(f["weight"], f["kind"], f["file"], f["tensor"]) for f in examine(path, *options, code=code)["findings"]]


def look(path, kind, command, *options):
    """What is not known to be safe is not offered as a fix. Returns the reason."""
    [finding] = [f for f in examine(path, *options)["findings"] if f["kind"] == kind]
    assert not finding["fixes"] and (finding["command"] or "").startswith(command), finding
    return finding["reason"]


def fix(path, kind, *options, cwd=None):
    """Runs the command that fixes the findings of a kind, and looks again: none of them is left. Returns the command."""
    [finding] = [f for f in examine(path, *options)["findings"] if f["kind"] == kind]
    assert finding["fixes"]
    subprocess.run(["bash", "-ec", finding["command"]], check=True, env=SHELL, cwd=cwd, capture_output=True, timeout=60)
    return finding["command"]


# ---- Families ----


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sound_model_of_each_family_has_no_findings(family, tmp_path):
    report = examine(write_family(tmp_path / "m", family), "--data", "--strict", code=0)
    assert report["findings"] == [] and report["ok"]
    [model] = report["models"]
    assert model["type"] == FAMILIES[family][0]["model_type"] and model["tensors"] == len(FAMILIES[family][1])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_that_is_missing(family, tmp_path):
    path = write_family(tmp_path / "m", family)
    stem = next(match[0] for name in FAMILIES[family][1] if (match := re.match(rf"[^0-9]*\.?{LAYERS - 1}\.", name)))
    shapes = {k: v for k, v in FAMILIES[family][1].items() if not k.startswith(stem)}
    write_weights(path / "model.safetensors", tensors_of(shapes))
    assert found(path) == [("error", "layers", "model.safetensors", None)]
    assert f"{LAYERS - 1}" in examine(path)["findings"][0]["reason"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_matrix_of_another_shape(family, tmp_path):
    """Every matrix of every family that a rule names, made one row or column larger."""
    for name, shape in FAMILIES[family][1].items():
        if ".0." not in name or len(shape) != 2 or "norm" in name or re.search(r"experts\.[1-9]", name):
            continue
        for dimension in (0, 1):
            if family == "mamba" and dimension == 0:
                continue
            wrong = list(shape)
            wrong[dimension] += 1
            path = write_family(tmp_path / "m", family, shapes={name: wrong})
            assert found(path) == [("error", "shape", "model.safetensors", name)], name


EMBEDDINGS = {family: next(name for name in shapes if shapes[name][0] == V) for family, (_, shapes) in FAMILIES.items()}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_vocabulary(family, tmp_path):
    name = EMBEDDINGS[family]
    padded = write_family(tmp_path / "padded", family, shapes={name: [V + 8, H]})
    assert found(padded) == [("note", "vocab_padding", "model.safetensors", name)]
    short = write_family(tmp_path / "short", family, shapes={name: [V - 1, H]})
    assert found(short) == [("error", "vocab_size", "model.safetensors", name)]


def test_embeddings_that_are_missing(tmp_path):
    assert found(write_family(tmp_path / "m", "llama", without=["model.embed_tokens.weight"])) == [
        ("error", "embeddings_missing", "model.safetensors", None)]


def test_layers_beyond_those_of_the_configuration(tmp_path):
    path = write_family(tmp_path / "it's", "llama", config={"num_hidden_layers": 1})
    assert found(path) == [("warning", "layers_extra", "model.safetensors", None)]
    assert "config.json belongs to another model, or they are too many" in look(path, "layers_extra", "coffer ls")


def test_a_layer_that_is_not_whole(tmp_path):
    path = write_family(tmp_path / "m", "llama", without=["model.layers.1.self_attn.k_proj.weight"])
    assert found(path) == [("error", "layer_incomplete", "model.safetensors", None)]


def test_experts(tmp_path):
    path = write_family(tmp_path / "m", "mixtral", config={"num_local_experts": 4})
    assert {kind for _, kind, _, _ in found(path)} == {"experts", "shape"}


@pytest.mark.parametrize(("tied", "head", "expected"), [
    (False, True, []), (True, False, []),
    (True, True, [("note", "tied_twice", "model.safetensors", "lm_head.weight")]),
    (False, False, [("error", "head_missing", "model.safetensors", None)]),
])  # fmt: skip
def test_tied_embeddings(tied, head, expected, tmp_path):
    path = write_family(tmp_path / "m", "llama", config={"tie_word_embeddings": tied},
                        without=[] if head else ["lm_head.weight"])
    assert found(path) == expected
    if expected and tied:
        look(path, "tied_twice", f"coffer doctor {path} --data")
        fix(path, "tied_twice", "--data")
        assert found(path) == []


def test_a_model_without_a_head_is_no_error_where_none_belongs(tmp_path):
    assert found(write_family(tmp_path / "m", "llama", config={"architectures": ["LlamaModel"]},
                              without=["lm_head.weight"])) == []


def test_a_base_model_has_no_prefix(tmp_path):
    path = write_family(tmp_path / "m", "llama", config={"architectures": ["LlamaModel"]})
    shapes = {name.removeprefix("model."): shape for name, shape in FAMILIES["llama"][1].items() if name != "lm_head.weight"}
    write_weights(path / "model.safetensors", tensors_of(shapes))
    assert found(path) == []


def test_a_model_of_several_kinds_has_its_sizes_in_its_text_config(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    config = json.loads((path / "config.json").read_text())
    outer = {"model_type": "llava", "text_config": config, "architectures": ["LlavaForConditionalGeneration"]}
    write_json(path / "config.json", outer)
    assert found(path) == []
    config["num_hidden_layers"] = 3
    write_json(path / "config.json", outer)
    assert found(path) == [("error", "layers", "model.safetensors", None)]


def test_what_a_nested_configuration_lacks_is_not_known(tmp_path):
    """Gemma 3 of 12 B states its heads and not their size, which is no quotient."""
    path = write_family(tmp_path / "m", "gemma")
    config = json.loads((path / "config.json").read_text())
    sizes = {**config, "num_attention_heads": 3}
    del sizes["head_dim"]
    write_json(path / "config.json", {"model_type": "gemma3", "text_config": sizes})
    assert found(path) == []


def test_a_config_of_something_else(tmp_path):
    (tmp_path / "1_Pooling").mkdir()
    write_json(tmp_path / "1_Pooling" / "config.json", {"word_embedding_dimension": 384})
    assert found(write_family(tmp_path, "llama")) == []


def test_another_family_than_the_tensors(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    write_json(path / "config.json", FAMILIES["t5"][0])
    assert found(path)[0][:2] == ("warning", "family")


def test_a_family_that_is_not_known_is_a_note(tmp_path):
    path = write_family(tmp_path / "m", "llama", config={"model_type": "new\x1b[31m"})
    assert found(path) == [("note", "unknown_family", "config.json", None)]
    assert r"new\x1b[31m" in run(path).stdout


def test_the_dtype(tmp_path):
    path = write_family(tmp_path / "m", "llama", config={"dtype": "bfloat16"})
    assert found(path) == [("note", "dtype", "model.safetensors", None)]
    older = write_family(tmp_path / "o", "llama", config={"torch_dtype": "float16"}, without=["dtype"])
    assert found(older) == [("note", "dtype", "model.safetensors", None)]


@pytest.mark.parametrize("method", ["gptq", "awq", "mxfp4", "bitsandbytes", "fp8", "compressed-tensors"])
def test_quantised_weights_that_are_not_quantised(method, tmp_path):
    path = write_family(tmp_path / "m", "llama", config={"quantization_config": {"quant_method": method, "bits": 4}})
    assert found(path) == [("error", "quantisation_missing", "model.safetensors", None)]


def test_quantised_weights(tmp_path):
    path = write_family(tmp_path / "m", "llama", config={"quantization_config": {"quant_method": "gptq", "bits": 4}})
    shapes = {k: v for k, v in FAMILIES["llama"][1].items() if "_proj" not in k}
    tensors = tensors_of(shapes)
    for i in range(LAYERS):
        tensors[f"model.layers.{i}.mlp.up_proj.qweight"] = tensor_of([1, I], "I32")
    write_weights(path / "model.safetensors", tensors)
    assert found(path) == []
    config = json.loads((path / "config.json").read_text())
    del config["quantization_config"]
    write_json(path / "config.json", config)
    assert ("warning", "quantisation_unsaid", "model.safetensors", "model.layers.0.mlp.up_proj.qweight") in found(path)


# ---- Files ----


def test_files_of_an_index_that_are_missing_broken_or_in_contradiction(tmp_path):
    path = tmp_path / "m"
    first, second = write_sharded(path)
    assert found(path, "--data") == []
    whole = (path / second).read_bytes()
    (path / second).unlink()
    assert found(path) == [("error", "shard_missing", second, None)]
    (path / second).write_bytes(whole[:-4])
    assert found(path) == [("error", "broken_file", second, None)]
    (path / second).write_bytes(whole)
    index = json.loads((path / "model.safetensors.index.json").read_text())
    index["weight_map"]["not there"] = first
    write_json(path / "model.safetensors.index.json", index)
    assert found(path) == [("error", "not_in_shard", first, "not there"),
                           ("error", "index_stale", "model.safetensors.index.json", None)]
    look(path, "index_stale", "coffer index")


@pytest.mark.parametrize("sharded", [False, True])
def test_files_that_only_their_end_or_their_metadata_keep_from_being_opened(sharded, tmp_path):
    path = tmp_path / "m"
    name = write_sharded(path)[1] if sharded else "model.safetensors"
    write_family(path, "llama") if not sharded else None
    whole = (path / name).read_bytes()
    (path / name).write_bytes(whole + b"\7" * 9)
    assert found(path) == [("error", "broken_file", name, None)]
    fix(path, "broken_file")
    assert (path / name).read_bytes() == whole and found(path) == []
    (path / name).write_bytes(whole + whole)
    assert look(path, "broken_file", "coffer meta --fix --dry-run").endswith("; they look like another file of tensors")
    (path / name).write_bytes(whole + b"Entry not found")
    [finding] = [f for f in examine(path)["findings"] if f["kind"] == "broken_file"]
    assert finding["reason"].endswith("; they look like text") and finding["fixes"]
    (path / name).write_bytes(whole.replace(b'"pt"', b"1234"))
    fix(path, "broken_file")
    assert [kind for _, kind, _, _ in found(path)] == ["format"]


def test_an_index_that_is_none(tmp_path):
    path = tmp_path / "m"
    write_sharded(path)
    (path / "model.safetensors.index.json").write_text('{"weight_map": {"a": 1}}')
    assert ("error", "index", "model.safetensors.index.json", None) in found(path)
    (path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../a.safetensors"}}')
    assert ("error", "index", "model.safetensors.index.json", None) in found(path)


def test_a_tensor_that_the_index_does_not_name(tmp_path):
    path = tmp_path / "m"
    write_sharded(path)
    index = json.loads((path / "model.safetensors.index.json").read_text())
    size = V * H * 4
    del index["weight_map"]["lm_head.weight"]
    index["metadata"]["total_size"] -= size
    write_json(path / "model.safetensors.index.json", index)
    kinds = [kind for _, kind, _, _ in found(path)]
    assert "unindexed" in kinds
    assert fix(path, "unindexed").startswith("coffer index")
    assert found(path) == []


def test_a_wrong_total_size(tmp_path):
    path = tmp_path / "m"
    write_sharded(path)
    index = json.loads((path / "model.safetensors.index.json").read_text())
    index["metadata"]["total_size"] += 1
    write_json(path / "model.safetensors.index.json", index)
    assert found(path) == [("note", "total_size", "model.safetensors.index.json", None)]
    fix(path, "total_size")
    assert found(path) == [] and json.loads((path / "model.safetensors.index.json").read_text())["metadata"] == \
        {**index["metadata"], "total_size": index["metadata"]["total_size"] - 1}


def test_files_without_their_index(tmp_path):
    path = tmp_path / "m"
    first, second = write_sharded(path)
    (path / "model.safetensors.index.json").unlink()
    assert found(path) == [("warning", "no_index", first, None)]
    fix(path, "no_index")
    assert found(path) == []
    (path / "model.safetensors.index.json").unlink()
    (path / second).unlink()
    assert ("error", "shard_missing", second, None) in found(path)


def test_a_file_of_an_older_save_beside_an_index(tmp_path):
    path = tmp_path / "m"
    first, _ = write_sharded(path)
    shutil.copy(path / first, path / "model-00003-of-00003.safetensors")
    assert found(path) == [("warning", "unindexed_file", "model-00003-of-00003.safetensors", None)]
    look(path, "unindexed_file", f"coffer doctor {path} --data")
    fix(path, "unindexed_file", "--data")
    assert found(path) == []


def test_one_file_in_the_way_of_an_index(tmp_path):
    path = tmp_path / "m"
    write_sharded(path)
    write_weights(path / "model.safetensors", tensors_of(FAMILIES["llama"][1]))
    assert found(path) == [("warning", "shadowed", "model.safetensors.index.json", None)]


LEFTOVERS = ["model.safetensors.coffer-part", "model.safetensors.part", "model.safetensors.tmp", "x.incomplete",
             ".model.safetensors.coffer-0123abcd", "model.safetensors.crdownload", "model.safetensors.coffer-undo.new"]


@pytest.mark.parametrize("name", LEFTOVERS)
def test_leftovers(name, tmp_path):
    path = write_family(tmp_path / "m", "llama")
    (path / name).write_bytes(b"part of it")
    assert found(path) == [("warning", "leftover", name, None)]
    look(path, "leftover", "coffer check" if name.startswith(".") else "")


def test_an_interrupted_save(tmp_path):
    path = tmp_path / "m"
    write_sharded(path)
    shutil.copy(path / "model.safetensors.index.json", path / "model.safetensors.index.json.coffer-new")
    assert found(path) == [("warning", "leftover", "model.safetensors.index.json.coffer-new", None)]
    assert "meta --recover" in fix(path, "leftover")
    assert found(path) == []


def test_pointers_and_pages_in_the_place_of_files(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    sound = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    [finding] = examine(path)["findings"]
    assert (finding["weight"], finding["kind"]) == ("error", "lfs_pointer")
    assert finding["command"] == f"git -C {path} lfs pull --include=model.safetensors"
    # A git that does what is asked of it.
    (tmp_path / "bin").mkdir()
    (tmp_path / "sound").write_bytes(sound)
    (tmp_path / "bin" / "git").write_text(f'#!/bin/sh\ncp {tmp_path}/sound "$2/${{5#--include=}}"\n')
    (tmp_path / "bin" / "git").chmod(0o755)
    environment = {**SHELL, "PATH": f"{tmp_path}/bin:{SHELL['PATH']}"}
    subprocess.run(["bash", "-ec", finding["command"]], check=True, env=environment)
    assert found(path) == []
    (path / "tokenizer.json").write_text("  <!DOCTYPE html><html></html>")
    assert found(path) == [("error", "web_page", "tokenizer.json", None)]
    complete(path)
    (path / "model.safetensors").write_text("<!DOCTYPE html><html></html>" * 20)
    assert found(path) == [("error", "broken_file", "model.safetensors", None)]


@pytest.mark.parametrize(("text", "offset"), [
    ('{"a": }', 6), ('{"a": 1', 7), ("", 0), ('{"a": 1} x', 9), ('{"a": "\ud800"}'.encode("utf-8", "surrogatepass"), 7),
    ("[" * 100_000, 64), ("\ufeff{}", 0),
])  # fmt: skip
@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_broken_json(name, text, offset, tmp_path):
    path = write_family(tmp_path / "m", "llama")
    (path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    [finding] = examine(path)["findings"]
    assert (finding["weight"], finding["kind"], finding["file"]) == ("error", "json", name)
    assert finding["offset"] == offset


def test_json_as_python_writes_it(tmp_path):
    path = write_family(tmp_path / "m", "llama", config={"time_step_limit": [0.0, float("inf")], "x": float("nan")})
    assert found(path) == [("note", "loose_json", "config.json", None)]


@pytest.mark.parametrize("number", ["1.5", "-2", '"2"', "true", "1e3", str(2**64), "[2]"])
def test_numbers_that_are_none(number, tmp_path):
    path = write_family(tmp_path / "m", "llama")
    text = (path / "config.json").read_text().replace(f'"num_hidden_layers": {LAYERS}', f'"num_hidden_layers": {number}')
    (path / "config.json").write_text(text)
    [finding] = examine(path)["findings"]
    assert (finding["weight"], finding["kind"]) == ("error", "config_number")
    assert text.encode()[finding["offset"] :].startswith(number.strip('"').encode()[:1])


@pytest.mark.parametrize("number", [10**18, 2**64 - 1])
def test_numbers_beyond_measure(number, tmp_path):
    path = write_family(tmp_path / "m", "llama", config=dict.fromkeys(
        ("num_hidden_layers", "num_attention_heads", "hidden_size", "vocab_size", "intermediate_size"), number))
    kinds = {kind for _, kind, _, _ in found(path)}
    assert {"layers", "shape", "vocab_size"} <= kinds


def test_a_pickle_beside_safetensors(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    (path / "pytorch_model.bin").write_bytes(b"PK\x03\x04" + bytes(96))
    assert found(path) == [("warning", "pickle", "pytorch_model.bin", None), ("note", "weights_twice", "pytorch_model.bin", None)]
    assert run(path).returncode == 0 and run(path, "--strict").returncode == 1
    assert "was not compared" in look(path, "weights_twice", "coffer doctor")
    assert "was not compared" in look(path, "weights_twice", "", "--data")
    (path / "pytorch_model.bin").unlink()
    (path / "ggml.bin").write_bytes(b"ggml" + bytes(96))
    assert found(path) == []


def test_company(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    (path / "tokenizer.json").unlink()
    assert found(path) == [("warning", "tokenizer", "tokenizer_config.json", None)]
    (path / "tokenizer_config.json").unlink()
    assert found(path) == [("note", "tokenizer", "", None)]
    (path / "generation_config.json").unlink()
    assert found(path) == [("note", "tokenizer", "", None), ("note", "generation_config", "", None)]
    (path / "model.safetensors").unlink()
    assert found(path) == [("warning", "no_weights", "config.json", None)]


def write_adapter(folder, rank=2, without=()):
    folder.mkdir(parents=True)
    write_json(folder / "adapter_config.json", {"peft_type": "LORA", "r": rank, "target_modules": ["q_proj"]})
    stem = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
    shapes = {f"{stem}A.weight": [2, H], f"{stem}B.weight": [H, 2]}
    make(folder / "adapter_model.safetensors", tensors_of({k: v for k, v in shapes.items() if k[-8] not in without}))
    return folder


def test_adapters(tmp_path):
    assert found(write_adapter(tmp_path / "a")) == []
    assert [kind for _, kind, _, _ in found(write_adapter(tmp_path / "b", rank=4))] == ["adapter_rank"]
    assert [kind for _, kind, _, _ in found(write_adapter(tmp_path / "c", without="B"))] == ["adapter_half"]
    (tmp_path / "a" / "adapter_model.safetensors").unlink()
    assert found(tmp_path / "a") == [("error", "no_weights", "adapter_config.json", None)]


def test_pipelines(tmp_path):
    write_family(tmp_path / "p" / "text_encoder", "bert")
    (tmp_path / "p" / "unet").mkdir()
    write_json(tmp_path / "p" / "unet" / "config.json", {"_class_name": "UNet2DConditionModel"})
    make(tmp_path / "p" / "unet" / "diffusion_pytorch_model.safetensors", tensors_of({"a": [2]}))
    write_json(tmp_path / "p" / "model_index.json", {
        "_class_name": "P", "unet": ["diffusers", "U"], "text_encoder": ["transformers", "BertModel"],
        "safety_checker": [None, None], "force_zeros": True})
    assert found(tmp_path / "p") == []
    shutil.rmtree(tmp_path / "p" / "unet")
    assert found(tmp_path / "p") == [("error", "part_missing", "model_index.json", None)]
    (tmp_path / "p" / "text_encoder" / "model.safetensors").write_bytes(b"")
    assert ("error", "broken_file", "text_encoder/model.safetensors", None) in found(tmp_path / "p")


# ---- Data ----


def test_numbers(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    tensors = tensors_of(FAMILIES["llama"][1])
    tensors["model.norm.weight"] = ("F32", [H], floats(*[float("nan")] * 3, *[1] * (H - 4), float("inf")))
    tensors["model.layers.0.self_attn.k_proj.weight"] = ("F32", [4, H], bytes(16 * H))
    write_weights(path / "model.safetensors", tensors)
    assert found(path) == []
    assert found(path, "--data") == [("error", "nan", "model.safetensors", "model.norm.weight"),
                                     ("note", "zeros", "model.safetensors", "model.layers.0.self_attn.k_proj.weight")]
    tensors["model.norm.weight"] = ("F32", [H], floats(*[1] * (H - 1), float("-inf")))
    write_weights(path / "model.safetensors", tensors)
    assert ("warning", "infinite", "model.safetensors", "model.norm.weight") in found(path, "--data")


ODD = {"F16": (b"\x01\x7e", b"\x00\x7c"), "BF16": (b"\xc0\x7f", b"\x80\xff"), "F32": (floats(float("nan")), floats(float("inf"))),
       "F64": (struct.pack("<d", float("nan")), struct.pack("<d", float("inf"))), "F8_E5M2": (b"\x7f", b"\x7c"),
       "F8_E4M3": (b"\x7f", None), "C64": (floats(0, float("nan")), floats(float("inf"), 0))}


@pytest.mark.parametrize("dtype", ODD)
def test_numbers_of_every_dtype(dtype, tmp_path):
    """The last of so many elements that several pieces and blocks are read."""
    count = 300_001
    for kind, odd in zip(("nan", "infinite"), ODD[dtype], strict=True):
        if odd is not None:
            make(tmp_path / "a.safetensors", {"a": (dtype, [count], bytes(len(odd) * (count - 1)) + odd)})
            [finding] = examine(tmp_path / "a.safetensors", "--data")["findings"]
            assert finding["kind"] == kind and finding["reason"].startswith(f"1 of {count} numbers")


def test_recorded_digests(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    subprocess.run([CLI, "hash", "--write", path / "model.safetensors"], check=True, capture_output=True)
    assert found(path) == [("note", "digests_recorded", "model.safetensors", None)]
    assert found(path, "--data") == []
    data = bytearray((path / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (path / "model.safetensors").write_bytes(data)
    [finding] = examine(path, "--data")["findings"]
    assert (finding["weight"], finding["kind"]) == ("error", "digest") and finding["tensor"] in FAMILIES["llama"][1]


def test_the_digests_that_the_hub_stated(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    downloads = path / ".cache" / "huggingface" / "download"
    downloads.mkdir(parents=True)
    digest = hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest()
    (downloads / "model.safetensors.metadata").write_text(f"commit\n{digest}\n1.5\n")
    assert found(path) == [("note", "hub_recorded", "", None)]
    assert found(path, "--data") == []
    (downloads / "model.safetensors.metadata").write_text(f"commit\n{'0' * 64}\n1.5\n")
    assert found(path, "--data") == [("error", "hub_digest", "model.safetensors", None)]
    (downloads / "model.safetensors.metadata").unlink()
    (downloads / "x.incomplete").write_bytes(b"")
    assert found(path) == [("warning", "leftover", ".cache/huggingface/download/x.incomplete", None)]
    look(path, "leftover", "")


def test_the_cache_of_the_hub(tmp_path):
    """Links into blobs/ are how it is meant to be, and the blobs' names are their digests."""
    snapshot = tmp_path / "models--o--n" / "snapshots" / "abc"
    write_family(snapshot, "llama")
    blobs = tmp_path / "models--o--n" / "blobs"
    blobs.mkdir()
    data = (snapshot / "model.safetensors").read_bytes()
    blob = blobs / hashlib.sha256(data).hexdigest()
    (snapshot / "model.safetensors").rename(blob)
    (snapshot / "model.safetensors").symlink_to(f"../../blobs/{blob.name}")
    assert found(snapshot, "--data") == []
    blob.write_bytes(data[:-4] + b"\1\0\0\0")
    assert found(snapshot, "--data") == [("error", "hub_digest", "model.safetensors", None)]


def test_holes(tmp_path):
    path = tmp_path / "a.safetensors"
    header = header_bytes({"a": {"dtype": "U8", "shape": [1 << 20], "data_offsets": [0, 1 << 20]}})
    with open(path, "wb") as f:
        f.write(header)
        f.truncate(len(header) + (1 << 20))
    assert [kind for _, kind, _, _ in found(path, "--data")] in (["holes", "zeros"], ["zeros"])


# ---- What is named ----


def test_one_file_and_one_index(tmp_path):
    path = write_family(tmp_path / "m", "llama", config={"num_hidden_layers": 3})
    (path / "other.safetensors").write_bytes(b"broken")
    (path / "bad.json").write_text("{")
    assert found(path / "model.safetensors") == [("error", "layers", "model.safetensors", None)]
    assert found(path / "other.safetensors") == [("error", "broken_file", "other.safetensors", None)]
    assert len(found(path)) == 3
    write_sharded(tmp_path / "s")
    assert found(tmp_path / "s" / "model.safetensors.index.json", "--data") == []


def test_what_is_not_there(tmp_path):
    result = run(tmp_path / "nothing")
    assert result.returncode == 3 and "no such file" in result.stderr
    assert run("-").returncode == 2 and run().returncode == 2
    (tmp_path / "empty").mkdir()
    for options in ([], ["--strict"]):
        assert found(tmp_path / "empty", *options, code=3) == [("error", "no_model", "", None)]
    (tmp_path / "empty" / "below").mkdir()
    (tmp_path / "empty" / "below" / "README.md").write_text("nothing")
    assert found(tmp_path / "empty", code=3) == [("error", "no_model", "", None)]


def test_a_file_of_any_name(tmp_path):
    make(tmp_path / "a", tensors_of({"a": [2]}))
    assert [model["file"] for model in examine(tmp_path / "a")["models"]] == ["a"]
    (tmp_path / "b").write_bytes(b"no tensors")
    assert found(tmp_path / "b") == [("error", "broken_file", "b", None)]
    (tmp_path / "c.pt").write_bytes(b"PK\x03\x04")
    assert found(tmp_path / "c.pt") == [("warning", "pickle", "c.pt", None)]


# ---- Hostile ----


@pytest.mark.parametrize("name", [name for name in NAUGHTY if "\0" not in name])
def test_hostile_names(name, tmp_path):
    path = tmp_path / name
    write_family(path, "llama", config={"tie_word_embeddings": True})
    (path / name).symlink_to(tmp_path / "outside")
    (tmp_path / "outside").write_bytes(b"")
    for command in ("link_outside", "tied_twice"):
        shown = fix(path, command, "--data")
        assert all(c.isprintable() for c in shown)
    (path / name).unlink()
    assert found(path) == []
    (path / f"{name}.part").write_bytes(b"")
    text = run(path, "--html", tmp_path / "page.html").stdout
    assert all(c == "\n" or c.isprintable() for c in text + (tmp_path / "page.html").read_text())


def test_a_page(tmp_path):
    path = write_family(tmp_path / "<b>&\"m", "llama", config={"num_hidden_layers": 3})
    assert run(path, "--html", tmp_path / "page.html").returncode == 1
    page = (tmp_path / "page.html").read_text()
    assert "<b>" not in page and "&lt;b&gt;&amp;&quot;m" in page
    assert "Content-Security-Policy" in page and "default-src 'none'" in page
    assert "<script" not in page and "http:" not in page and "https:" not in page and "prefers-color-scheme" in page
    again = run(path, "--html", tmp_path / "page.html")
    assert again.returncode == 3 and "-f overwrites it" in again.stderr
    assert run(path, "--html", tmp_path / "page.html", "--force").returncode == 1
    assert run(path, "--html", path / "model.safetensors", "--force").returncode == 2


def test_pipes_links_and_files_that_cannot_be_read(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    os.mkfifo(path / "model-2.safetensors")
    assert found(path) == [("warning", "not_a_file", "model-2.safetensors", None)]
    (path / "model-2.safetensors").unlink()
    (path / "lost.json").symlink_to("nowhere")
    assert found(path) == [("warning", "lost_link", "lost.json", None)]
    look(path, "lost_link", "ls -l")
    (path / "lost.json").unlink()
    write_json(tmp_path / "outside.json", {})
    (path / "tokenizer.json").unlink()
    (path / "tokenizer.json").symlink_to(tmp_path / "outside.json")
    assert found(path) == [("warning", "link_outside", "tokenizer.json", None)]
    fix(path, "link_outside")
    assert found(path) == [] and not (path / "tokenizer.json").is_symlink()
    (path / "loop").symlink_to(path)
    (path / "self").symlink_to("self")
    assert {kind for _, kind, _, _ in found(path)} == {"lost_link"}


def test_a_configuration_of_a_gigabyte(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    with open(path / "config.json", "wb") as f:
        f.truncate(1 << 30)
    assert found(path) == [("error", "too_large", "config.json", None)]


def test_thousands_of_files(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    for i in range(3000):
        (path / f"x{i}.json").write_bytes(b"{")
    report = examine(path)
    assert report["errors"] == 3000 and len(report["findings"]) == 10 and report["findings"][-1]["more"] == 2990


def test_all_of_the_real_files(figures):
    """No false alarm: what is wrong with them is wrong with them."""
    real = os.environ.get("COFFER_REALDATA")
    if real:
        report = examine(real)
        kinds = {f["kind"] for f in report["findings"] if f["weight"] == "error"}
        assert kinds <= {"lfs_pointer", "shard_missing"}
        figures.append(f"doctor: {len(report['models'])} real models")


def test_an_edit_that_was_interrupted(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    model = path / "model.safetensors"
    make(model, tensors_of(FAMILIES["llama"][1]), {"format": "pt", "license": "mit"})
    raw = interrupt_an_edit(str(model))
    for what in (path, model):
        assert found(what) == [("error", "leftover", "model.safetensors.coffer-undo", None)]
    fix(path, "leftover")
    assert found(path) == [] and model.read_bytes() == raw


def test_an_index_of_pickles(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    (path / "model.safetensors").unlink()
    (path / "pytorch_model-1.bin").write_bytes(b"PK\x03\x04")
    write_json(path / "pytorch_model.bin.index.json", {"weight_map": {"a": "pytorch_model-1.bin", "b": "pytorch_model-2.bin"}})
    assert found(path) == [("error", "shard_missing", "pytorch_model-2.bin", None),
                           ("warning", "pickle", "pytorch_model-1.bin", None)]


JSON = ["1", "-0", "01", "1.", ".5", "1e5", "1E+", "-", "+1", "[1,]", "[,1]", "[1 2]", '{"a" 1}', '{"a":1,}', '{a:1}', "'a'", "[]]",
        '"\\u12"', '"\\x"', '"\t"', '"a', "nul", "true false", "[[]", "{}{}", ' [ ] ', '{"a": {"b": [1, {"c": null}]}}', "NaN",
        "-Infinity", "Infinit", "-NaN", '"\\ud83d\\ude00"', '"\\ud800"', "\x00", "[1\x00]", "// a\n1", "\u00a01", "[1]\n\t ",
        '"\x7f"']


@pytest.mark.parametrize("text", JSON)
def test_json_is_what_python_takes_for_it(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    try:
        json.loads(text)
        sound = True
    except ValueError:
        sound = False
    assert (("error", "json", "config.json", None) in found(tmp_path, code=3 if sound else 1)) != sound


# ---- URLs ----


def test_a_repository_of_the_hub(tmp_path, monkeypatch):
    path = write_family(tmp_path / "m", "llama", config={"num_hidden_layers": 3})
    (path / "tokenizer.json").unlink()
    files = {file.name: file.read_bytes() for file in path.iterdir()}
    with Hub({"owner/name": Repository(files)}, lists=True) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.origin)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        for url in ("hf://owner/name", "hf://owner/name/model.safetensors"):
            assert found(url) == [("error", "layers", "", None), ("warning", "tokenizer", "tokenizer_config.json", None)], url
        assert found("hf://owner/name", "--data")[0] == ("error", "layers", "", None)
        assert run("hf://owner/other").returncode == 3


def test_a_url(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    files = {f"/m/{file.name}": file.read_bytes() for file in path.iterdir()}
    with Server(files) as server:
        assert found(server.url("/m/model.safetensors"), "--data") == []
        files["/m/config.json"] = b"{"
        assert found(server.url("/m/model.safetensors")) == [("error", "json", "config.json", None)]
