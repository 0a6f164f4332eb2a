# SPDX-License-Identifier: Apache-2.0
"""coffer.merge_lora and coffer.average: what they write, what they say, and what they refuse."""

from __future__ import annotations

import json

import numpy as np
import pytest

import coffer
import coffer.numpy

BASE = np.arange(6, dtype=np.float32).reshape(2, 3)
DOWN = np.ones((4, 3), np.float32)
UP = np.full((2, 4), 0.5, np.float32)


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base.safetensors"
    coffer.numpy.save_file({"q.weight": BASE, "ids": np.arange(3)}, path, {"format": "np"})
    return path


@pytest.fixture
def adapter(tmp_path):
    folder = tmp_path / "adapter"
    folder.mkdir()
    name = "base_model.model.q"
    tensors = {f"{name}.lora_A.weight": DOWN, f"{name}.lora_B.weight": UP}
    coffer.numpy.save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 8}))
    return folder


def loaded(path):
    with coffer.open(path) as file:
        return {name: tensor.numpy().copy() for name, tensor in file.items()}


def test_an_adapter_is_merged(base, adapter, tmp_path):
    seen = []
    new = tmp_path / "new.safetensors"
    done = coffer.merge_lora(base, adapter, new, progress=lambda *numbers: seen.append(numbers))
    assert np.array_equal(loaded(new)["q.weight"], BASE + 2 * (UP @ DOWN))
    assert np.array_equal(loaded(new)["ids"], np.arange(3))
    assert {tensor.before.name: tensor.computed for tensor in done.tensors} == {"q.weight": True, "ids": False}
    assert (done.way, done.copied, done.cast) == ("files", 24, 24)
    assert seen[-1] == (48, 48)
    with coffer.open(new) as file:
        assert file.metadata == {"format": "np"}


@pytest.mark.parametrize("scale", [0.5, -1.0])
def test_adapters_have_scales(base, adapter, tmp_path, scale):
    new = tmp_path / "new.safetensors"
    coffer.merge_lora(base, [str(adapter)], new, scale=scale)
    assert np.array_equal(loaded(new)["q.weight"], BASE + scale * 2 * (UP @ DOWN))
    coffer.merge_lora(base, {adapter: 2 * scale, adapter / "adapter_model.safetensors": -scale}, new)
    assert np.array_equal(loaded(new)["q.weight"], BASE + scale * 2 * (UP @ DOWN))


def test_a_merge_that_is_only_planned(base, adapter, tmp_path):
    done = coffer.merge_lora(base, adapter, tmp_path / "new.safetensors", dry_run=True, select="*lora_?.weight")
    assert done.cast == 24
    assert not (tmp_path / "new.safetensors").exists()


def test_adapters_that_do_not_fit_are_refused(base, adapter, tmp_path):
    other = tmp_path / "other.safetensors"
    coffer.numpy.save_file({"k.weight": BASE}, other)
    with pytest.raises(coffer.Error) as failure:
        coffer.merge_lora(other, adapter, tmp_path / "new.safetensors")
    assert "have no place in the base" in str(failure.value)
    with pytest.raises(FileNotFoundError):
        coffer.merge_lora(base, tmp_path / "missing", tmp_path / "new.safetensors")
    with pytest.raises(coffer.Error):
        coffer.merge_lora(base, [], tmp_path / "new.safetensors")
    with pytest.raises(coffer.Error):
        coffer.merge_lora(base, adapter, tmp_path / "new.safetensors", scale=float("nan"))
    with pytest.raises(TypeError):
        coffer.merge_lora(base, adapter, tmp_path / "new.safetensors", select=[1])
    with pytest.raises(ValueError):
        coffer.merge_lora(base, adapter, tmp_path / "new.safetensors", select="a\0b")
    assert not (tmp_path / "new.safetensors").exists()


@pytest.fixture
def three(tmp_path):
    paths = [tmp_path / f"{i}.safetensors" for i in range(3)]
    for i, path in enumerate(paths):
        coffer.numpy.save_file({"a.weight": BASE * (i + 1), "b": BASE + i, "ids": np.arange(3)}, path)
    return paths


def test_averages(three, tmp_path):
    new = tmp_path / "new.safetensors"
    done = coffer.average(three, new)
    assert np.array_equal(loaded(new)["a.weight"], BASE * 2)
    assert [tensor.computed for tensor in done.tensors if tensor.before.name == "ids"] == [False]
    coffer.average(three, new, weights=[1, 1, -1])
    assert np.array_equal(loaded(new)["b"], BASE - 1)
    coffer.average(three, new, weights={"a*": [0, 0, 1], "*": [1, 0, 0]})
    assert np.array_equal(loaded(new)["a.weight"], BASE * 3)
    assert np.array_equal(loaded(new)["b"], BASE)
    with coffer.open(three[0]) as first:
        coffer.average([first, three[1]], new, slerp={"a*": 1})
    assert np.array_equal(loaded(new)["a.weight"], BASE * 2)
    coffer.average(three[:2], new, slerp=0)
    assert np.allclose(loaded(new)["b"], BASE)


def test_averages_that_are_refused(three, tmp_path):
    new = tmp_path / "new.safetensors"
    for wrong in ({"weights": [1, 2]}, {"weights": [1, -1, 0]}, {"weights": {"x": [1, 1, 1]}}, {"slerp": 0.5}):
        with pytest.raises(coffer.Error):
            coffer.average(three, new, **wrong)
    with pytest.raises(coffer.Error):
        coffer.average(three[:1], new)
    with pytest.raises(ValueError):
        coffer.average([], new)
    with pytest.raises(TypeError):
        coffer.average(three[:2], new, slerp=0.5, weights=[1, 1])
    coffer.numpy.save_file({"a.weight": BASE}, three[1])
    with pytest.raises(coffer.Error) as failure:
        coffer.average(three, new)
    assert "the models differ in 2 tensors" in str(failure.value)
    assert not new.exists()
