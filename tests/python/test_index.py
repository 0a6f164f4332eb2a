# SPDX-License-Identifier: Apache-2.0
"""coffer index: the index of a model of several files, written or fixed from their headers, and nothing else."""

import json
import os
import subprocess

import pytest
from doctor_models import tensor_of, write_json, write_sharded
from model_files import make

CLI = os.environ["COFFER_CLI"]
INDEX = "model.safetensors.index.json"


def run(*arguments):
    return subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def index(path, code=0):
    result = run("index", path)
    assert result.returncode == code, result.stderr
    return result.stderr


@pytest.fixture
def model(tmp_path):
    """A folder with three files, and the bytes of everything in it."""
    folder = tmp_path / "m"
    write_sharded(folder, parts=3)
    return folder


def state(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def others(folder):
    return {name: data for name, data in state(folder).items() if name != INDEX}


def sound(folder):
    return run("check", "--strict", folder).returncode == 0


def test_an_index_that_is_right_stays_as_it_is(model):
    before = state(model)
    assert "nothing to do" in index(model)
    assert state(model) == before


@pytest.mark.parametrize("how", ["none", "total_size", "no total_size", "moved", "fewer", "not JSON", "no metadata", "a file less",
                                 "names of nothing"])
def test_what_is_wrong_with_an_index(how, model):
    right = json.loads((model / INDEX).read_text())
    wrong = json.loads((model / INDEX).read_text())
    names = list(wrong["weight_map"])
    wrong["metadata"]["kept"] = {"as": ["it", 1.50, None]}
    if how == "total_size":
        wrong["metadata"]["total_size"] += 1
    elif how == "no total_size":
        del wrong["metadata"]["total_size"]
    elif how == "moved":
        wrong["weight_map"][names[0]] = wrong["weight_map"][names[-1]]
    elif how == "fewer":
        del wrong["weight_map"][names[0]]
    elif how == "no metadata":
        del wrong["metadata"]
    elif how == "a file less":
        wrong["weight_map"] = {k: v for k, v in wrong["weight_map"].items() if "-00003-" not in v}
    elif how == "names of nothing":
        wrong["weight_map"] = {k: v.replace("model", "pytorch_model").replace("safetensors", "bin")
                               for k, v in wrong["weight_map"].items()}
    (model / INDEX).write_text("{" if how == "not JSON" else json.dumps(wrong))
    if how == "none":
        (model / INDEX).unlink()
    before = state(model)
    dry = run("index", model, "--dry-run")
    assert dry.returncode == 0 and "would have written" in dry.stderr and state(model) == before
    assert f"written {INDEX}" in index(model)
    made = json.loads((model / INDEX).read_text())
    assert made["weight_map"] == right["weight_map"] and made["metadata"]["total_size"] == right["metadata"]["total_size"]
    if how not in ("none", "not JSON", "no metadata"):
        assert '"kept": {"as": ["it", 1.5, null]}' in (model / INDEX).read_text()
    assert others(model) == {name: data for name, data in before.items() if name != INDEX}
    assert sound(model)


def refused(model, what, *words, code):
    before = state(model)
    message = index(what, code)
    assert all(word in message for word in words), message
    assert state(model) == before


def test_two_sets_are_not_chosen_from(model):
    make(model / "model-00001-of-00001.safetensors", {"other": tensor_of([2])})
    (model / INDEX).unlink()
    refused(model, model, "more than one model", code=3)
    (model / INDEX).write_text("{")
    refused(model, model, "two sets of files", "model-00001-of-00001", "model-00001-of-00003", code=3)
    index(model / "model-00001-of-00003.safetensors")
    assert set(json.loads((model / INDEX).read_text())["weight_map"].values()) == {
        f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)}


def test_a_file_that_the_index_names_and_the_set_has_not(model):
    """Whoever loads the model by this index may get the tensors of that file."""
    (model / "pytorch_model.bin").write_bytes(b"PK\x03\x04")
    write_json(model / INDEX, {"weight_map": {"a": "pytorch_model.bin", "b": "gone.bin"}})
    refused(model, model, "pytorch_model.bin", "which is the model is not known", code=3)
    (model / "pytorch_model.bin").unlink()
    index(model)
    assert sound(model)


def test_files_that_are_missing_broken_or_in_contradiction(model):
    first, second = (model / f"model-0000{i}-of-00003.safetensors" for i in (1, 2))
    whole = second.read_bytes()
    second.unlink()
    refused(model, model, "get the missing files", code=1)
    refused(model, first, "get the missing ones", code=1)
    second.write_bytes(whole[:-1])
    refused(model, model, "stops early", code=1)
    second.write_bytes(first.read_bytes())
    refused(model, model, "belong to different models", code=1)
    (model / INDEX).unlink()
    refused(model, model, "is in two files", code=1)


def test_what_needs_no_index(tmp_path):
    make(tmp_path / "model.safetensors", {"a": tensor_of([2])})
    refused(tmp_path, tmp_path, "one file, which needs no index", code=2)
    refused(tmp_path, tmp_path / "model.safetensors", "one file, which needs no index", code=2)


def test_an_interrupted_save_comes_first(model):
    (model / f"{INDEX}.coffer-new").write_bytes((model / INDEX).read_bytes())
    refused(model, model, "meta --recover", code=3)


def test_the_index_says_which_of_two_copies_counts(model):
    """A checkpoint that was saved over an older one: as long as all names are in the index, it is fixed and keeps saying so."""
    first, second = (f"model-0000{i}-of-00003.safetensors" for i in (1, 2))
    right = json.loads((model / INDEX).read_text())
    for name, file in right["weight_map"].items():
        if file == second:
            make(model / first, {**{k: tensor_of([2]) for k, v in right["weight_map"].items() if v == first}, name: tensor_of([3])})
            break
    write_json(model / INDEX, {**right, "metadata": {"total_size": 1}})
    index(model)
    assert json.loads((model / INDEX).read_text())["weight_map"] == right["weight_map"]
    (model / INDEX).unlink()
    refused(model, model, "is in two files", code=1)


def test_links_are_replaced_only_if_that_is_allowed(model, tmp_path):
    (model / INDEX).rename(tmp_path / "real.json")
    wrong = json.loads((tmp_path / "real.json").read_text())
    wrong["metadata"]["total_size"] = 1
    write_json(tmp_path / "real.json", wrong)
    (model / INDEX).symlink_to(tmp_path / "real.json")
    assert "symbolic link" in index(model, 3)
    assert run("index", model, "--follow-links").returncode == 0
    assert (model / INDEX).is_symlink() and json.loads((tmp_path / "real.json").read_text())["metadata"]["total_size"] > 1


def test_names_that_need_escapes(tmp_path):
    name = "quo\"te \u00e9\U0001f600"
    make(tmp_path / "model-00001-of-00001.safetensors", {name: tensor_of([2])})
    index(tmp_path)
    assert list(json.loads((tmp_path / INDEX).read_text())["weight_map"]) == [name] and sound(tmp_path)
