# SPDX-License-Identifier: Apache-2.0
"""coffer doctor: what keeps a model from being found by its loaders, each beside a sound model of the same kind."""

import json

import pytest
from doctor_models import (
    FAMILIES,
    LAYERS,
    H,
    V,
    complete,
    tensor_of,
    tensors_of,
    write_family,
    write_json,
    write_sharded,
    write_weights,
)
from model_files import make
from test_doctor import examine, found, fix, run
from test_growth import FACTOR, MAX, count_work

LLAMA = FAMILIES["llama"][1]
MODEL = "model.safetensors"


def renamed(folder, change, family="llama"):
    """A model whose tensors have other names. Returns the first that differs, in the order of the file."""
    path = write_family(folder, family)
    shapes = FAMILIES[family][1]
    write_weights(path / MODEL, tensors_of({change(name): shape for name, shape in shapes.items()}))
    return path


# ---- Names of tensors ----


WRAPPED = {
    "ddp": lambda name: f"module.{name}",
    "compile": lambda name: f"_orig_mod.{name}",
    "compile of ddp": lambda name: f"_orig_mod.module.{name}",
    "ddp of compile": lambda name: f"module._orig_mod.{name}",
    "compile of one layer": lambda name: name.replace("layers.1.", "layers.1._orig_mod."),
    "fsdp": lambda name: name.replace("layers.0.", "layers.0._fsdp_wrapped_module."),
    "checkpointing": lambda name: name.replace("mlp.", "mlp._checkpoint_wrapped_module."),
}


@pytest.mark.parametrize("change", WRAPPED.values(), ids=WRAPPED)
def test_names_that_wrappers_changed(change, tmp_path):
    path = renamed(tmp_path / "m", change)
    [(weight, kind, file, tensor)] = found(path)
    assert (weight, kind, file) == ("error", "wrapped_names", MODEL) and change(tensor) != tensor
    assert "--map unwrap" in fix(path, "wrapped_names")
    assert found(path, "--data") == []


def test_several_files_whose_names_wrappers_changed(tmp_path):
    path = tmp_path / "m"
    names = write_sharded(path)
    index = json.loads((path / f"{MODEL}.index.json").read_text())
    for file in names:
        own = [name for name, where in index["weight_map"].items() if where == file]
        write_weights(path / file, tensors_of({f"module.{name}": LLAMA[name] for name in own}))
    index["weight_map"] = {f"module.{name}": file for name, file in index["weight_map"].items()}
    write_json(path / f"{MODEL}.index.json", index)
    assert [kind for _, kind, _, _ in found(path)] == ["wrapped_names"]
    fix(path, "wrapped_names")
    assert found(path) == []


def test_no_map_is_offered_where_two_tensors_would_have_one_name(tmp_path):
    path = renamed(tmp_path / "m", lambda name: f"module.{name}")
    tensors = tensors_of({f"module.{name}": shape for name, shape in LLAMA.items()})
    tensors["module._orig_mod.lm_head.weight"] = tensors["module.lm_head.weight"]
    write_weights(path / MODEL, tensors)
    [finding] = examine(path)["findings"]
    assert finding["kind"] == "wrapped_names" and finding["command"] is None and not finding["fixes"]


def test_a_part_that_is_called_module_is_no_wrapper(tmp_path):
    path = write_family(tmp_path / "m", "llama", config={"model_type": "new"})
    write_weights(path / MODEL, tensors_of({"module.a.weight": [2], "head.weight": [2]}))
    assert found(path) == [("note", "unknown_family", "config.json", None)]


def test_wrapped_names_without_a_configuration_are_a_warning(tmp_path):
    make(tmp_path / "a.safetensors", tensors_of({"_orig_mod.a": [2]}))
    make(tmp_path / "b.safetensors", tensors_of({"a": [2]}))
    assert found(tmp_path) == [("warning", "wrapped_names", "a.safetensors", "_orig_mod.a")]


@pytest.mark.parametrize(("family", "prefix"), [("llama", "model."), ("gpt2", "transformer.")])
def test_a_prefix_that_is_missing_where_output_embeddings_are(family, prefix, tmp_path):
    config = {"tie_word_embeddings": False}
    shapes = {"lm_head.weight": [V, H]}
    path = write_family(tmp_path / "m", family, config, shapes)
    names = {**FAMILIES[family][1], **shapes}
    write_weights(path / MODEL, tensors_of({name.removeprefix(prefix): shape for name, shape in names.items()}))
    assert found(path) == [("warning", "prefix_missing", MODEL, None)]
    fix(path, "prefix_missing")
    assert found(path) == []


def test_a_family_whose_names_have_no_prefix_lacks_none(tmp_path):
    path = write_family(tmp_path / "m", "t5", {"tie_word_embeddings": False}, {"lm_head.weight": [V, H]})
    assert found(path) == []


@pytest.mark.parametrize("name", ["model.norm.weight", "model.layers.1.mlp.up_proj.weight", "model.embed_tokens.weight",
                                  "lm_head.weight"])
def test_a_name_that_differs_by_case(name, tmp_path):
    wrong = name.replace("norm", "Norm").replace("up_proj", "Up_Proj").replace("embed", "EMBED").replace("lm_", "LM_")
    path = renamed(tmp_path / "m", lambda n: wrong if n == name else n)
    assert ("error", "name_case", MODEL, wrong) in found(path)
    fix(path, "name_case")
    assert found(path) == []


def test_a_name_that_differs_by_case_from_that_of_other_layers(tmp_path):
    extra = {f"model.layers.{i}.input_layernorm.weight": [H] for i in range(LAYERS + 1)}
    config = {"num_hidden_layers": LAYERS + 1}
    shapes = {**{k.replace("layers.1.", "layers.2."): v for k, v in LLAMA.items()}, **extra}
    assert found(write_family(tmp_path / "m", "llama", config, shapes)) == []
    odd = "model.layers.1.Input_LayerNorm.weight"
    shapes[odd] = shapes.pop("model.layers.1.input_layernorm.weight")
    assert found(write_family(tmp_path / "o", "llama", config, shapes)) == [("warning", "name_case_differs", MODEL, odd)]


def test_two_names_in_one_layer_may_differ_by_case(tmp_path):
    extra = {f"model.layers.{i}.x.{w}": [H] for i in range(LAYERS) for w in "wW"}
    assert [kind for _, kind, _, _ in found(write_family(tmp_path / "m", "llama", shapes=extra))] in ([], ["case"])


# ---- Files ----


def test_no_configuration(tmp_path):
    for family in FAMILIES:
        path = write_family(tmp_path / family, family)
        (path / "config.json").unlink()
        if family not in ("bert", "distilbert", "t5", "opt", "mamba", "gpt_neox"):  # of which the tests have not every matrix
            assert [(w, k, f) for w, k, f, _ in found(path) if k == "no_config"] == [("warning", "no_config", MODEL)], family
        # Under another name it may be anything, such as a part of a pipeline.
        (path / MODEL).rename(path / "weights.safetensors")
        assert "no_config" not in [kind for _, kind, _, _ in found(path)]
    make(tmp_path / MODEL, tensors_of({"a.weight": [2]}))
    assert found(tmp_path / MODEL) == []


@pytest.mark.parametrize(("name", "weight"), [
    ("model-mtp-of-00002.safetensors", "warning"), ("model-mtp.safetensors", "warning"), ("mtp.safetensors", "note"),
    ("layers-of-1.safetensors", "warning"),
])  # fmt: skip
def test_a_file_that_the_index_does_not_name(name, weight, tmp_path):
    path = tmp_path / "m"
    write_sharded(path)
    assert found(path) == []
    make(path / name, tensors_of({"mtp.a": [2]}))
    assert found(path) == [(weight, "beside_index", name, None)]


@pytest.mark.parametrize("name", ["consolidated.safetensors", "model.fp16.safetensors"])
def test_files_that_belong_beside_an_index(name, tmp_path):
    path = tmp_path / "m"
    write_sharded(path)
    make(path / name, tensors_of({"a": [2]}))
    assert found(path) == []


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "generation_config.json"])
def test_a_file_whose_name_differs_by_case(name, tmp_path):
    path = write_family(tmp_path / "m", "llama")
    (path / name).rename(path / name.capitalize())
    assert ("warning", "file_case", name.capitalize(), None) in found(path)
    fix(path, "file_case")
    assert found(path) == []


def test_a_file_of_an_index_whose_name_differs_by_case(tmp_path):
    path = tmp_path / "m"
    first, _ = write_sharded(path)
    (path / first).rename(path / first.upper())
    [finding] = [f for f in examine(path)["findings"] if f["kind"] == "shard_missing"]
    assert first.upper() in finding["reason"]


# ---- Tokens ----


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("key", ["bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"])
def test_tokens_beyond_the_embeddings(key, file, tmp_path):
    path = write_family(tmp_path / "m", "llama")
    config = json.loads((path / file).read_text())
    for sound in (V - 1, 0, -1, None, [0, V - 1], [], "</s>"):
        write_json(path / file, {**config, key: sound})
        assert found(path) == [], sound
    for wrong in (V, V + 100, [0, V], 2**40):
        write_json(path / file, {**config, key: wrong})
        assert found(path) == [("warning", "token_id", file, None)], wrong


def test_rows_count_and_not_what_the_configuration_says_of_them(tmp_path):
    path = write_family(tmp_path / "m", "llama", {"eos_token_id": V + 3}, {"model.embed_tokens.weight": [V + 8, H]})
    assert [kind for _, kind, _, _ in found(path)] == ["vocab_padding"]


TOKENIZERS = {
    "bpe": lambda n: {"tokenizer.json": {"model": {"vocab": {f"t{i}": i for i in range(n)}, "merges": []}}},
    "unigram": lambda n: {"tokenizer.json": {"model": {"vocab": [[f"t{i}", 0.5] for i in range(n)]}}},
    "added": lambda n: {"tokenizer.json": {"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": n - 1, "content": "x"}]}},
    "settings": lambda n: {"tokenizer_config.json": {"added_tokens_decoder": {"0": {}, str(n - 1): {"content": "x"}}}},
    "slow": lambda n: {"vocab.json": {"a": 0, "b": n - 1}, "tokenizer.json": None},
    "slow, added": lambda n: {"vocab.json": {"a": 0}, "added_tokens.json": {"x": n - 1}, "tokenizer.json": None},
    "words": lambda n: {"vocab.txt": "\n".join("abcdefghijklmnopqrstuvwxyzABCDEF"[:n]), "tokenizer.json": None},
}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_tokenizer_with_more_tokens_than_the_embeddings_have_rows(kind, tmp_path):
    for count, expected in ((V, []), (V + 1, ["tokenizer_ids"])):
        path = write_family(tmp_path / str(count), "llama")
        for name, content in TOKENIZERS[kind](count).items():
            if content is None:
                (path / name).unlink()
            elif isinstance(content, str):
                (path / name).write_text(content)
            else:
                write_json(path / name, content)
        assert [k for _, k, _, _ in found(path)] == expected


# ---- Metadata and dtypes ----


def test_metadata_without_a_format(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    for metadata, weight in ((None, "note"), ({}, "warning"), ({"license": "mit"}, "warning"), ({"format": "np"}, "warning")):
        make(path / MODEL, tensors_of(LLAMA), metadata)
        assert found(path) == [(weight, "format", MODEL, None)], metadata
        if metadata != {"format": "np"}:
            fix(path, "format")
            assert found(path) == []
    for sound in ("pt", "tf", "flax", "mlx"):
        make(path / MODEL, tensors_of(LLAMA), {"format": sound, "license": "mit"})
        assert found(path) == []


def typed(path, dtypes):
    shapes = tensors_of(LLAMA)
    for name, dtype in dtypes.items():
        shapes[name] = tensor_of(LLAMA[name], dtype)
    write_weights(path / MODEL, shapes)


@pytest.mark.parametrize(("dtype", "expected"), [
    ("F64", ("warning", "odd_dtype")), ("I32", ("warning", "odd_dtype")), ("U8", ("warning", "odd_dtype")),
    ("BF16", ("note", "dtype_differs")), ("F16", ("note", "dtype_differs")),
])  # fmt: skip
def test_a_tensor_of_an_odd_dtype(dtype, expected, tmp_path):
    path = write_family(tmp_path / "m", "llama")
    name = "model.layers.1.mlp.up_proj.weight"
    typed(path, {name: dtype})
    findings = found(path)
    assert (*expected, MODEL, name) in findings
    assert {kind for _, kind, _, _ in findings} <= {"odd_dtype", "dtype_differs"}


def test_norms_and_embeddings_may_have_another_dtype(tmp_path):
    path = write_family(tmp_path / "m", "llama")
    typed(path, {"model.norm.weight": "BF16", "lm_head.weight": "F16"})
    assert found(path) == []


# ---- Adapters ----


def write_adapter(folder, config=(), width=H, layer=0):
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "adapter_config.json",
               {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], **dict(config)})
    stem = f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora_"
    make(folder / "adapter_model.safetensors",
         tensors_of({f"{stem}A.weight": [2, width], f"{stem}B.weight": [H, 2]}), {"format": "pt"})
    return folder


def test_an_adapter_and_its_base(tmp_path):
    base = write_family(tmp_path / "base", "llama")
    for name in (str(base), "../base"):
        assert found(write_adapter(tmp_path / "a", {"base_model_name_or_path": name})) == []
    for fault in ({"width": H + 1}, {"layer": 7}):
        path = write_adapter(tmp_path / "b", {"base_model_name_or_path": "../base"}, **fault)
        findings = found(path)
        assert findings and {(w, k, f) for w, k, f, _ in findings} == {("error", "adapter_base", "adapter_model.safetensors")}
    (base / MODEL).unlink()
    assert found(tmp_path / "a") == [("warning", "base_missing", "adapter_config.json", None)]


@pytest.mark.parametrize(("name", "missing"), [
    ("/no/such/base", True), ("../none", True), ("./none", True), ("a/b/c", True), ("~/base", True),
    ("meta-llama/Llama-2-7b-hf", False), ("gpt2", False), ("", False), (None, False), ("//host/share", True),
])  # fmt: skip
def test_an_adapter_whose_base_is_not_there(name, missing, tmp_path):
    path = write_adapter(tmp_path / "a", {"base_model_name_or_path": name})
    assert found(path) == ([("warning", "base_missing", "adapter_config.json", None)] if missing else [])


def test_an_adapter_without_its_configuration(tmp_path):
    path = write_adapter(tmp_path / "a")
    (path / "adapter_config.json").unlink()
    assert found(path) == [("error", "no_adapter_config", "adapter_model.safetensors", None)]


@pytest.mark.parametrize(("targets", "count"), [
    (["q_proj"], 0), (["self_attn.q_proj"], 0), (["model.layers.0.self_attn.q_proj"], 0), ("all-linear", 0), (".*q_proj", 0),
    (None, 0), (["q_proj", "v_proj"], 1), (["proj"], 1), (["q_proj", "v_proj", "k_proj"], 2), ([1, "q_proj"], 0),
])  # fmt: skip
def test_modules_that_an_adapter_has_no_tensors_for(targets, count, tmp_path):
    path = write_adapter(tmp_path / "a", {"target_modules": targets})
    assert found(path) == [("warning", "target_modules", "adapter_config.json", None)] * count


# ---- Many ----


def test_a_folder_of_many_indices(tmp_path):
    """Four times as many take four times the work; what is not looked at then is told."""
    work = []
    for count in (250, 250 * FACTOR):
        folder = tmp_path / str(count)
        folder.mkdir()
        for i in range(count):
            make(folder / f"m{i}-1.safetensors", {"t": ("U8", [0], b"")})
            write_json(folder / f"m{i}.safetensors.index.json", {"weight_map": {"t": f"m{i}-1.safetensors"}})
        assert [kind for _, kind, _, _ in found(folder)] == ["many_indices"]
        work.append(count_work(folder, ["doctor", "."], 0, "--cache-sim=no")["I refs"])
    assert work[1] < MAX * FACTOR * work[0], work


def test_a_model_that_is_complete_has_no_findings(tmp_path):
    write_sharded(tmp_path / "m")
    complete(tmp_path / "m")
    assert run(tmp_path / "m", "--strict").returncode == 0
