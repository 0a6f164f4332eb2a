# SPDX-License-Identifier: Apache-2.0
"""Models written as several files, compared with huggingface_hub's: the same tensors in the same files, under the same names,
with an index that is the same to the byte. And what the command makes of models comes back as it was."""

import hashlib
import json
import os
import subprocess
from typing import NamedTuple

import coffer_ctypes
import pytest
from huggingface_hub.serialization import split_state_dict_into_shards_factory
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

CLI = os.environ["COFFER_CLI"]


class Body(NamedTuple):
    """What stands for a tensor: its number and its size."""

    number: int
    size: int

    def bytes(self):
        return hashlib.shake_128(str(self.number).encode()).digest(self.size)


def by_the_hub(state, limit, metadata):
    """Names of files to names of tensors, and the text of the index (None: there is none), as save_torch_state_dict has it."""
    split = split_state_dict_into_shards_factory(
        state, get_storage_size=lambda body: body.size, filename_pattern="model{suffix}.safetensors", max_shard_size=limit)
    if not split.is_sharded:
        return split.filename_to_tensors, None
    index = {"metadata": {**split.metadata, **metadata}, "weight_map": split.tensor_to_filename}
    return split.filename_to_tensors, json.dumps(index, indent=2)


def contents(path):
    with safe_open(path, "np") as opened:
        return {name: opened.get_tensor(name).tobytes() for name in opened.keys()}, opened.metadata()


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(lambda name: name != "__metadata__")
sizes = st.one_of(st.integers(0, 40), st.integers(0, 400))
keys = st.text(min_size=1, max_size=5).filter(lambda key: key not in ("format", "total_size"))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(names, sizes, min_size=1, max_size=30), st.integers(1, 300),
       st.dictionaries(keys, st.text(max_size=5), max_size=3))
def test_same_files_as_the_hub(tmp_path_factory, sizes_by_name, limit, metadata):
    folder = tmp_path_factory.mktemp("model")
    state = {name: Body(i, size) for i, (name, size) in enumerate(sizes_by_name.items())}
    files, index = by_the_hub(state, limit, metadata)
    coffer_ctypes.save_model(folder / "model.safetensors",
                             [(name, "U8", [body.size], body.bytes()) for name, body in state.items()],
                             {"format": "pt"} | metadata, limit)
    index_name = "model.safetensors.index.json"
    assert set(os.listdir(folder)) == set(files) | ({index_name} if index else set())
    if index:
        assert (folder / index_name).read_text(encoding="utf-8") == index
    for file, tensors in files.items():
        found, described = contents(folder / file)
        assert found == {name: state[name].bytes() for name in tensors}
        assert described == {"format": "pt"} | metadata


def test_the_default_limit_is_the_hubs(tmp_path):
    state = {"a": Body(0, 4_999_999_999), "b": Body(1, 1), "c": Body(2, 1)}
    files, _ = by_the_hub(state, "5GB", {})
    assert list(files.values()) == [["a", "b"], ["c"]]
    planned = coffer_ctypes.save_model(tmp_path / "model.safetensors",
                                       [(name, "U8", [body.size], None) for name, body in state.items()], write=False)
    assert planned == [0, 0, 1]
    assert os.listdir(tmp_path) == []


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=20), st.integers(1, 300))
def test_balanced_is_the_best_that_the_order_allows(tmp_path_factory, sizes_in_order, limit):
    """As many files, and no other way to cut the order into that many has a smaller largest one."""
    path = tmp_path_factory.getbasetemp() / "balanced.safetensors"
    tensors = [(str(i), "U8", [size], None) for i, size in enumerate(sizes_in_order)]
    plans = [coffer_ctypes.save_model(path, tensors, {}, limit, balanced, write=False) for balanced in (False, True)]
    filled = [(plan, size) for plan, size in zip(plans[1], sizes_in_order) if size <= limit]
    count = len({plan for plan, size in zip(plans[0], sizes_in_order) if size <= limit})
    sums = {}
    for file, size in filled:
        sums[file] = sums.get(file, 0) + size
    assert max(plans[1]) <= max(plans[0])
    assert max(sums.values(), default=0) == least_largest([size for _, size in filled], count)


def least_largest(filled, count):
    """By dynamic programming: best[k] is for the tensors so far in k files."""
    if not filled:
        return 0
    best = [[0] + [float("inf")] * count]
    for end in range(1, len(filled) + 1):
        best.append([float("inf")] * (count + 1))
        for k in range(1, count + 1):
            best[end][k] = min(max(best[begin][k - 1], sum(filled[begin:end])) for begin in range(end))
    return min(best[-1][1:])


# ---- The command ------------------------------------------------------------------------------------------------------------


def run(*arguments, code=0):
    result = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", timeout=60,
                            check=False)
    assert result.returncode == code, result.stderr
    return result


@pytest.mark.parametrize("options", [["--max-shard-size", "3KB"], ["--max-shard-size", "0.02 MB", "--balanced"], []])
def test_split_and_merge_are_each_others_undoing(options, tmp_path):
    tensors = [(f"layer.{i}.weight", dtype, [i, 7], Body(i, i * 7 * bits // 8).bytes())
               for i, (dtype, bits) in enumerate([("F32", 32), ("BF16", 16), ("U8", 8)] * 40)]
    path = tmp_path / "model.safetensors"
    path.write_bytes(coffer_ctypes.serialize(tensors, {"format": "pt", "licence": "MIT"}))
    run("split", path, "-o", tmp_path / "sharded", *options)
    index = tmp_path / "sharded" / "model.safetensors.index.json"
    run("merge", index if index.exists() else tmp_path / "sharded" / "model.safetensors", "-o", tmp_path / "merged.safetensors")
    assert (tmp_path / "merged.safetensors").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("text, size", [
    ("1", 1), ("250000", 250_000), ("1KB", 1000), ("1.5MB", 1_500_000), ("2gb", 2 * 10**9), (".5 TB", 5 * 10**11)])
def test_sizes_are_decimal(text, size, tmp_path):
    """One tensor of a byte more than the size is too large for a file with another one."""
    small = min(size, 3000)
    path = tmp_path / "model.safetensors"
    path.write_bytes(coffer_ctypes.serialize([("a", "U8", [small], bytes(small)), ("b", "U8", [1], b"x")]))
    files = json.loads(run("split", path, "-o", tmp_path / "sharded", "--max-shard-size", text, "--json").stdout)["files"]
    assert len(files) == (2 if size <= 3000 else 1)
