# SPDX-License-Identifier: Apache-2.0
"""What coffer doctor offers as a fix: a model that transformers could load is loaded as before afterwards, number by number."""

import json
import os
import shutil
import subprocess

import pytest
import torch
import transformers as t
from safetensors.torch import load_file, save_file
from test_doctor import COMMAND, SHARED

MODEL, INDEX = "model.safetensors", "model.safetensors.index.json"
HEAD, EMBEDDINGS = "lm_head.weight", "model.embed_tokens.weight"
TIED = ["tied, the head alone", "tied, both the same", "tied, both different"]


def save(tensors, path, **metadata):
    save_file(tensors, path, {"format": "pt", **metadata})


def change_json(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def shards(folder, tensors, count=3, ending=".safetensors", stem="model", index=INDEX):
    """The tensors as several files with an index; returns their names."""
    (folder / MODEL).unlink(missing_ok=True)
    names = [f"{stem}-{i + 1:05}-of-{count:05}{ending}" for i in range(count)]
    keys = sorted(tensors)
    for i, name in enumerate(names):
        save({key: tensors[key] for key in keys[i::count]}, folder / name)
    total = sum(value.nbytes for value in tensors.values())
    (folder / index).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": {
        key: names[i % count] for i, key in enumerate(keys)}}))
    return names


def tied(folder, tensors, head, embeddings):
    values = {HEAD: head, EMBEDDINGS: embeddings}
    save({**tensors, **{name: value for name, value in values.items() if value is not None}}, folder / MODEL)


def wrong_index(change):
    def breaks(folder, tensors):
        shards(folder, tensors)
        change_json(folder / INDEX, change)
    return breaks


def to_bin(index):
    index["weight_map"] = {k: v.replace("model", "pytorch_model").replace("safetensors", "bin") for k, v in index["weight_map"].items()}


def stale_index(folder, tensors):
    shards(folder, tensors, 2)
    old = (folder / INDEX).read_text()
    shards(folder, tensors, 5)
    (folder / INDEX).write_text(old)


def only_an_old_set_counts(folder, tensors):
    """Two complete sets, of which the index names one."""
    shards(folder, {name: value + 1 for name, value in tensors.items()}, 5)
    shards(folder, tensors, 10)


def without_index(folder, tensors):
    shards(folder, tensors)
    (folder / INDEX).unlink()


def variant(shard):
    def breaks(folder, tensors):
        shards(folder, tensors, 2)
        keys = sorted(tensors)
        names = [shard.format(i + 1) for i in range(2)]
        for i, name in enumerate(names):
            save({key: tensors[key] + 1 for key in keys[i::2]}, folder / name)
        (folder / f"{MODEL}.index.fp16.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": {
            key: names[i % 2] for i, key in enumerate(keys)}}))
    return breaks


def extra_copy(folder, tensors):
    names = shards(folder, tensors)
    shutil.copy(folder / names[0], folder / "model-00004-of-00004.safetensors")


def extra_other(folder, tensors):
    shards(folder, tensors)
    save({HEAD: tensors[HEAD] + 1}, folder / "model-00004-of-00004.safetensors")


def pickle(change):
    def breaks(folder, tensors):
        save(tensors, folder / MODEL)
        torch.save(change(tensors), folder / "pytorch_model.bin")
    return breaks


def longer(folder, tensors):
    save(tensors, folder / MODEL)
    with open(folder / MODEL, "ab") as file:
        file.write(bytes(100))


def numbers_in_metadata(folder, tensors):
    save(tensors, folder / MODEL, step="1234")
    (folder / MODEL).write_bytes((folder / MODEL).read_bytes().replace(b'"1234"', b"  1234"))


def fewer_layers(folder, tensors):
    save(tensors, folder / MODEL)
    change_json(folder / "config.json", lambda config: config.update(num_hidden_layers=1))


def linked(folder, tensors):
    save(tensors, folder.parent / "elsewhere.safetensors")
    (folder / MODEL).unlink()
    (folder / MODEL).symlink_to(folder.parent / "elsewhere.safetensors")


BREAKS = {
    TIED[0]: lambda folder, tensors: tied(folder, tensors, tensors[HEAD], None),
    TIED[1]: lambda folder, tensors: tied(folder, tensors, tensors[HEAD], tensors[HEAD].clone()),
    TIED[2]: lambda folder, tensors: tied(folder, tensors, tensors[HEAD], tensors[HEAD] + 1),
    "wrong total_size": wrong_index(lambda index: index["metadata"].update(total_size=1)),
    "a name that is not in the index": wrong_index(lambda index: index["weight_map"].pop(HEAD)),
    "an index of .bin": wrong_index(to_bin),
    "an index of a set that is gone": stale_index,
    "two sets": only_an_old_set_counts,
    "no index": without_index,
    "a variant, as transformers names it": variant("model.fp16-{:05}-of-00002.safetensors"),
    "a variant, as diffusers named it": variant("model-{:05}-of-00002.fp16.safetensors"),
    "an extra file with copies": extra_copy,
    "an extra file with other numbers": extra_other,
    "a pickle of the same": pickle(lambda tensors: tensors),
    "a pickle of other numbers": pickle(lambda tensors: {k: v + 1 for k, v in tensors.items()}),
    "a pickle with more": pickle(lambda tensors: {**tensors, "more": torch.ones(2)}),
    "bytes after the tensors": longer,
    "numbers in the metadata": numbers_in_metadata,
    "fewer layers in config.json": fewer_layers,
    "a link out of the folder": linked,
    "names of a wrapper": lambda folder, tensors: save({f"module.{k}": v for k, v in tensors.items()}, folder / MODEL),
    "no format": lambda folder, tensors: save_file(tensors, folder / MODEL, {"license": "mit"}),
}  # fmt: skip
# That transformers cannot load them is what their fixes are for.
LOADED_AFTER = {"an index of .bin", "an index of a set that is gone", "no index", "bytes after the tensors", "numbers in the metadata",
                "names of a wrapper"}  # fmt: skip


def loaded(folder, **options):
    """All numbers; None where transformers fails, or makes some up."""
    try:
        model, told = t.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, **options)
    except Exception:  # noqa: BLE001 - whatever it is, there is no model
        return None
    return None if told["missing_keys"] else {name: value.clone() for name, value in model.state_dict().items()}


def same(before, after):
    return before is None or after is not None and before.keys() == after.keys() and all(
        torch.equal(value, after[name]) for name, value in before.items())


def findings(folder, *options):
    result = subprocess.run([*COMMAND, "doctor", folder, *options, "--json"], capture_output=True, text=True, check=False)
    return json.loads(result.stdout)["findings"]


@pytest.mark.parametrize("options", [[], ["--data"]], ids=["headers", "data"])
@pytest.mark.parametrize("name", BREAKS)
def test_a_fixed_model_is_loaded_as_before(name, options, tmp_path):
    torch.manual_seed(1)
    made = t.LlamaForCausalLM(t.LlamaConfig(**SHARED, tie_word_embeddings=name in TIED))
    made.save_pretrained(tmp_path / "kept")
    tensors = load_file(tmp_path / "kept" / MODEL)
    tensors[HEAD] = made.lm_head.weight.detach().clone()
    if name in TIED:
        del tensors[EMBEDDINGS]
    BREAKS[name](tmp_path / "kept", tensors)
    folder = tmp_path / "m"
    shutil.copytree(tmp_path / "kept", folder, symlinks=True)
    before = loaded(folder)
    variant_before = loaded(folder, variant="fp16") if "variant" in name else None
    # The command of this test, under the name that the offered ones have.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "coffer").write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in COMMAND) + ' "$@"\n')
    (tmp_path / "bin" / "coffer").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    for finding in findings(folder, *options):
        if finding["fixes"]:
            subprocess.run(["bash", "-ec", finding["command"]], check=True, env=environment, capture_output=True)
            assert same(before, loaded(folder)), finding["command"]
    after = loaded(folder)
    assert same(before, after) and (after is not None) == (before is not None or name in LOADED_AFTER)
    if "variant" in name:
        assert same(variant_before, loaded(folder, variant="fp16"))


