# SPDX-License-Identifier: Apache-2.0
"""coffer.merge_lora, coffer.extract_lora, coffer.add_lora and coffer.average: what they write, what they say, and what they refuse."""

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


@pytest.fixture
def two(tmp_path):
    """Two models, one of which has more by a product of rank 2."""
    paths = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    change = np.outer(np.arange(20), np.arange(30)) + np.outer(np.ones(20), np.arange(30) % 3)
    weight = np.ones((20, 30), np.float32)
    coffer.numpy.save_file({"q.weight": weight, "q.bias": np.ones(20), "ids": np.arange(3)}, paths[0])
    coffer.numpy.save_file({"q.weight": weight + change.astype(np.float32), "q.bias": np.zeros(20), "ids": np.arange(3)}, paths[1])
    return paths


def test_an_adapter_is_extracted(two, tmp_path):
    seen = []
    told = coffer.extract_lora(*two, tmp_path / "new", 2, progress=lambda *numbers: seen.append(numbers))
    assert {one.name: (one.rank, one.transposed) for one in told} == {"q.weight": (2, False), "q.bias": (0, False)}
    assert all(one.kept == pytest.approx(1) for one in told)
    assert seen[-1] == (620, 620)
    coffer.merge_lora(two[0], tmp_path / "new", tmp_path / "again.safetensors")
    assert np.allclose(loaded(tmp_path / "again.safetensors")["q.weight"], loaded(two[1])["q.weight"], rtol=1e-5, atol=1e-3)
    assert np.array_equal(loaded(tmp_path / "again.safetensors")["q.bias"], np.zeros(20))
    with coffer.open(two[0]) as one:
        coffer.extract_lora(one, two[1], tmp_path / "new", 1, dtype="bfloat16", select="*.weight", digests="xxh3-128")
    with coffer.open(tmp_path / "new" / "adapter_model.safetensors") as file:
        assert {name: tensor.dtype for name, tensor in file.items()} == {
            "base_model.model.q.lora_A.weight": "BF16", "base_model.model.q.lora_B.weight": "BF16"
        }  # fmt: skip
    assert json.loads((tmp_path / "new" / "adapter_config.json").read_text())["target_modules"] == ["q"]


def test_an_adapter_that_is_only_planned(two, tmp_path):
    assert coffer.extract_lora(*two, tmp_path / "new", 2, fan_in_fan_out=True, dry_run=True) == [
        ("q.bias", 0, False, 1.0), ("q.weight", 2, True, None)
    ]  # fmt: skip
    assert not (tmp_path / "new").exists()


def test_extractions_that_are_refused(two, tmp_path):
    new = tmp_path / "new"
    for rank, options in ((0, {}), (2, {"dtype": "F64"}), (2, {"dtype": "x"}), (2, {"select": "nothing"}), (2, {"digests": "md5"})):
        with pytest.raises(coffer.Error):
            coffer.extract_lora(*two, new, rank, **options)
    for rank, options in ((-1, {}), (2, {"select": "a\0b"})):
        with pytest.raises(ValueError):
            coffer.extract_lora(*two, new, rank, **options)
    with pytest.raises(TypeError):
        coffer.extract_lora(*two, new, 2, select=[1])
    with pytest.raises(KeyboardInterrupt):
        coffer.extract_lora(*two, new, 2, progress=interrupt)
    with pytest.raises(FileNotFoundError):
        coffer.extract_lora(two[0], tmp_path / "missing", new, 2)
    assert not new.exists()


def lora_folder(folder, rank, value=1.0):
    folder.mkdir(exist_ok=True)
    tensors = {"lora_A.weight": np.full((rank, 30), value, np.float32), "lora_B.weight": np.ones((20, rank), np.float32)}
    coffer.numpy.save_file({f"base_model.model.q.{name}": tensor for name, tensor in tensors.items()},
                           folder / "adapter_model.safetensors")  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": rank}))
    return folder


def test_adapters_are_added(tmp_path):
    seen = []
    paths = [lora_folder(tmp_path / "a", 2), lora_folder(tmp_path / "b", 3, 2.0)]
    told = coffer.add_lora({paths[0]: 1, paths[1]: 0.5}, tmp_path / "new", progress=lambda *numbers: seen.append(numbers))
    assert told == [("q", 2, 5, 5, 1.0)] and told[0].rank_sum == 5 and seen[-1] == (1, 1)
    made = loaded(tmp_path / "new" / "adapter_model.safetensors")
    product = made["base_model.model.q.lora_B.weight"] @ made["base_model.model.q.lora_A.weight"]
    assert np.array_equal(product, np.full((20, 30), 2 + 0.5 * 3 * 2))
    told = coffer.add_lora(paths, str(tmp_path / "new"), scale=2, rank=1, dtype="bfloat16", select="*.q.*", digests="xxh3-128")
    assert told[0].rank == 1 and told[0].kept == pytest.approx(1)
    with coffer.open(tmp_path / "new" / "adapter_model.safetensors") as file:
        assert {tensor.dtype for _, tensor in file.items()} == {"BF16"}


def test_a_sum_that_is_only_planned(tmp_path):
    path = lora_folder(tmp_path / "a", 2)
    assert coffer.add_lora([path, path / "adapter_model.safetensors"], tmp_path / "new", rank=3, dry_run=True) == [("q", 2, 4, 3, None)]
    assert coffer.add_lora(path, tmp_path / "new", dry_run=True) == [("q", 1, 2, 2, 1.0)]
    assert not (tmp_path / "new").exists()


def test_sums_that_are_refused(tmp_path):
    new = tmp_path / "new"
    path = lora_folder(tmp_path / "a", 2)
    for options in ({"rank": 2}, {"rank": 9}, {"dtype": "F64"}, {"dtype": "x"}, {"select": "nothing"}, {"digests": "md5"},
                    {"scale": float("nan")}):  # fmt: skip
        with pytest.raises(coffer.Error):
            coffer.add_lora(path, new, **options)
    for options in ({"rank": -1}, {"select": "a\0b"}):
        with pytest.raises(ValueError):
            coffer.add_lora(path, new, **options)
    with pytest.raises(TypeError):
        coffer.add_lora(path, new, select=[1])
    with pytest.raises(coffer.Error):
        coffer.add_lora([], new)
    with pytest.raises(KeyboardInterrupt):
        coffer.add_lora(path, new, progress=interrupt)
    with pytest.raises(FileNotFoundError):
        coffer.add_lora(tmp_path / "missing", new)
    assert not new.exists()


def interrupt(*_):
    raise KeyboardInterrupt
