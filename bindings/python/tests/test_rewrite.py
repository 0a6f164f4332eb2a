# SPDX-License-Identifier: Apache-2.0
"""coffer.rewrite: what it says that it does, what comes of it, and what it refuses."""

from __future__ import annotations

import os

import numpy as np
import pytest

import coffer
import coffer.numpy

TENSORS = {
    "w.0": np.array([1.5, 1e6, 1e-9], dtype=np.float32),
    "w.1": np.array([[0.1]], dtype=np.float32),
    "ids": np.arange(4),
}


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.safetensors"
    coffer.numpy.save_file(TENSORS, path, {"format": "np"})
    return path


@pytest.fixture
def several(tmp_path):
    return coffer.split(_saved(tmp_path / "whole.safetensors"), tmp_path / "several", 16)


def _saved(path):
    coffer.numpy.save_file(TENSORS, path, {"format": "np"})
    return path


def loaded(path):
    with coffer.open(path) as file:
        return {name: tensor.numpy().copy() for name, tensor in file.items()}


def test_everything_at_once(model, tmp_path):
    new = tmp_path / "new.safetensors"
    seen = []
    done = coffer.rewrite(
        model,
        new,
        rename={"w.*": "layers.*.weight"},
        drop="ids",
        cast={"w.0": "float16", "*.1": "BF16"},
        metadata={"format": None, "license": "mit"},
        progress=lambda *numbers: seen.append(numbers),
    )
    with coffer.open(new) as file:
        assert set(file) == {"layers.0.weight", "layers.1.weight"}
        assert file.metadata == {"license": "mit"}
        assert file["layers.1.weight"].dtype == "BF16"
        with np.errstate(over="ignore"):
            assert np.array_equal(file["layers.0.weight"].numpy(), TENSORS["w.0"].astype(np.float16))
    assert (done.way, done.shards, done.copied, done.cast) == ("files", 1, 0, 8)
    assert (done.size_before, done.size) == (os.path.getsize(model), os.path.getsize(new))
    told = {change.before.name: change for change in done.tensors}
    assert told["ids"].after is None
    assert told["w.0"].after is not None and told["w.0"].after[:2] == ("layers.0.weight", "F16")
    assert (told["w.0"].overflowed, told["w.0"].vanished) == (1, 1)
    assert seen[-1] == (8, 8)


def test_in_its_place(model):
    coffer.rewrite(model, keep=["w.*"])
    assert set(loaded(model)) == {"w.0", "w.1"}


def test_a_dry_run_writes_nothing(model, tmp_path):
    before = model.read_bytes()
    planned = coffer.rewrite(model, drop="ids", dry_run=True)
    assert planned.way == "files"
    assert planned.tensors[0].before.name == "ids" and planned.tensors[0].after is None
    assert model.read_bytes() == before
    assert os.listdir(tmp_path) == [model.name]
    assert coffer.rewrite(model, drop="ids").size == planned.size == os.path.getsize(model)


def test_other_ways_to_rename(model, tmp_path):
    assert coffer.rewrite(model, names={"w.0": "w.1", "w.1": "w.0"}).way == "headers"
    assert coffer.rewrite(model, regex={r"^w\.([0-9])$": r"_orig_mod.layers.\1.w"}).way in ("headers", "files")
    assert set(loaded(model)) == {"_orig_mod.layers.0.w", "_orig_mod.layers.1.w", "ids"}
    coffer.rewrite(model, maps="unwrap", names={"gone": "x"}, ignore_unmatched=True)
    assert set(loaded(model)) == {"layers.0.w", "layers.1.w", "ids"}
    chosen = tmp_path / "chosen.safetensors"
    coffer.rewrite(model, chosen, layers="1")
    assert set(loaded(chosen)) == {"layers.0.w", "ids"}
    assert np.array_equal(loaded(chosen)["layers.0.w"], loaded(model)["layers.1.w"])
    coffer.rewrite(model, chosen, layers={"layers": "1,0"})
    assert np.array_equal(loaded(chosen)["layers.0.w"], loaded(model)["layers.1.w"])
    with pytest.raises(coffer.Error, match="gone"):
        coffer.rewrite(model, names={"gone": "x"})


def test_metadata_alone_are_edited(model):
    assert coffer.rewrite(model, metadata={"a": "1"}).way == "headers"
    assert coffer.rewrite(model, metadata={"a": "1"}).way == "nothing"
    assert coffer.open(model).metadata == {"format": "np", "a": "1"}


def test_format_and_alignment(model, tmp_path):
    before = model.read_bytes()
    coffer.rewrite(model, tmp_path / "model.bt", format="bintensors")
    coffer.rewrite(tmp_path / "model.bt", tmp_path / "back.safetensors", format="safetensors")
    assert (tmp_path / "back.safetensors").read_bytes() == before
    coffer.rewrite(model, align=4096)
    with coffer.open(model) as file:
        assert min(tensor.offset for tensor in file.values()) % 4096 == 0


def test_several_files(several):
    done = coffer.rewrite(several, rename={"*": "model.*"})
    assert (done.way, done.shards) == ("headers", 2)
    found = loaded(several)
    assert all(np.array_equal(found[f"model.{name}"], array) for name, array in TENSORS.items())
    assert coffer.rewrite(several, rename={"model.*": "*"}, max_shard_size="1GB").shards == 1
    assert os.listdir(os.path.dirname(several)) == ["model.safetensors"]


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({"drop": "nosuch"}, "NO_TENSOR", '"nosuch"'),
        ({"rename": {"w.*": "w"}}, "DUPLICATE_NAME", "would both be named"),
        ({"cast": "F16"}, "DTYPE", "ids"),
        ({"cast": {"w.*": "I8"}}, "ARGUMENT", "F16"),
        ({"align": 12}, "ARGUMENT", "power of two"),
        ({"format": "gguf"}, "ARGUMENT", "format"),
    ],
)
def test_what_is_refused(model, options, code, text):
    before = model.read_bytes()
    with pytest.raises(coffer.Error, match=text) as caught:
        coffer.rewrite(model, **options)
    assert caught.value.code == code
    assert model.read_bytes() == before


@pytest.mark.parametrize("options", [{"drop": [1]}, {"rename": {"a": 1}}, {"metadata": {"a": 1}}])
def test_rules_are_text(model, options):
    with pytest.raises(TypeError):
        coffer.rewrite(model, **options)


def test_a_nul_is_in_no_pattern(model):
    with pytest.raises(ValueError, match="NUL"):
        coffer.rewrite(model, drop="a\0")


def test_an_exception_in_progress_cancels(model):
    def stop(done, total):
        raise RuntimeError("enough")

    before = model.read_bytes()
    with pytest.raises(RuntimeError, match="enough"):
        coffer.rewrite(model, drop="ids", progress=stop)
    assert model.read_bytes() == before


def test_what_has_no_place(model):
    with coffer.open(model.read_bytes()) as file, pytest.raises(coffer.Error, match="output") as caught:
        coffer.rewrite(file, drop="ids")
    assert caught.value.code == "UNSUPPORTED"
