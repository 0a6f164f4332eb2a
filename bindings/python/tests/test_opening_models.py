# SPDX-License-Identifier: Apache-2.0
"""coffer.open of a folder, an index and a repository: each is the model in it, a mapping like any other."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from conftest import array_file
from hub_models import COMMIT, INDEX, Hub, Repository

import coffer
import coffer.numpy

FIRST = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "d": np.arange(40_000, dtype=np.int16)}
SECOND = {"a": np.arange(3, dtype=np.int64), "c": np.array(2.5, np.float16)}
BOTH = {**FIRST, **SECOND}
ONE = array_file(BOTH, {"format": "pt"})
NAMES = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
WEIGHTS = {tensor: name for name, arrays in zip(NAMES, (FIRST, SECOND), strict=True) for tensor in arrays}
SHARDS = {name: array_file(arrays) for name, arrays in zip(NAMES, (FIRST, SECOND), strict=True)}
INDEXED = {**SHARDS, INDEX: json.dumps({"weight_map": WEIGHTS}).encode()}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def assert_is_both(f: coffer.File) -> None:
    assert list(f) == sorted(BOTH)
    assert all(np.array_equal(f[name].numpy(), array) for name, array in BOTH.items())
    assert f["d"][10_000:10_003].numpy().tolist() == [10_000, 10_001, 10_002]


# ---- Folders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "shards"),
    [
        ({"model.safetensors": ONE}, ["model.safetensors"]),
        ({"any.safetensors": ONE, "config.json": b"{}"}, ["any.safetensors"]),
        ({"diffusion_pytorch_model.safetensors": ONE}, ["diffusion_pytorch_model.safetensors"]),
        (INDEXED, NAMES),
        (SHARDS, NAMES),
        ({**INDEXED, "model.safetensors": ONE}, ["model.safetensors"]),
    ],
)
def test_folders(tmp_path, files, shards):
    folder = write(tmp_path / "m", files)
    for path in (folder, str(folder), f"{folder}/"):
        with coffer.open(path) as f:
            assert [os.path.basename(shard) for shard in f.shards] == shards
            assert_is_both(f)
    loaded = coffer.numpy.load_file(folder)
    assert all(np.array_equal(loaded[name], array) for name, array in BOTH.items())


def test_folders_that_are_no_model(tmp_path):
    with pytest.raises(OSError, match="model") as caught:
        coffer.open(write(tmp_path / "empty", {"config.json": b"{}"}))
    assert caught.value.code == "NO_MODEL"
    with pytest.raises(coffer.Error) as raised:
        coffer.open(write(tmp_path / "two", {"x.safetensors": ONE, "y.safetensors": ONE}))
    assert raised.value.code == "AMBIGUOUS"


def test_what_is_wrong_in_a_folder_says_where(tmp_path):
    folder = write(tmp_path / "m", {**INDEXED, NAMES[1]: SHARDS[NAMES[1]][:-1]})
    with pytest.raises(coffer.Error) as caught:
        coffer.open(folder)
    assert (caught.value.code, caught.value.path) == ("DATA_TRUNCATED", str(folder / NAMES[1]))
    (folder / NAMES[1]).unlink()
    with pytest.raises(FileNotFoundError) as missing:
        coffer.open(folder)
    assert (missing.value.code, missing.value.filename) == ("SHARD_MISSING", str(folder / NAMES[1]))


def test_checking_a_model(tmp_path):
    folder = write(tmp_path / "m", {**INDEXED, "model-00003-of-00003.safetensors": ONE})
    weights = {tensor: name for tensor, name in WEIGHTS.items() if tensor != "c"}
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 3}, "weight_map": weights}))
    report = coffer.check(folder)
    assert report
    assert {(note.text, note.count, note.subject) for note in report.notes} == {
        ("a tensor is not in the index", 1, "c"),
        ("the index states a total_size that is not that of the tensors", 1, None),
        ("a file is named like a shard and is not in the index", 1, "model-00003-of-00003.safetensors"),
    }
    assert {note.path for note in report.notes} == {str(folder)}


def test_checking_shards_without_an_index(tmp_path):
    (note,) = coffer.check(write(tmp_path / "m", SHARDS)).notes
    assert (note.count, note.offset) == (1, None) and "index" in note.text


# ---- Repositories -----------------------------------------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith("HF_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COFFER_NET_RETRIES", "0")
    repositories = {"owner/one": Repository({"model.safetensors": ONE}), "owner/many": Repository(INDEXED)}
    with Hub(repositories) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.origin)
        yield running


@pytest.mark.parametrize(
    "name",
    ["hf://owner/one", "hf://owner/many", f"hf://owner/many@{COMMIT}", f"hf://owner/many/{INDEX}", "hf://owner/one/model.safetensors"],
)
def test_repositories(server, name):
    with coffer.open(name) as f:
        assert f.path == name
        assert_is_both(f)
    loaded = coffer.numpy.load_file(name)
    assert all(np.array_equal(loaded[key], array) for key, array in BOTH.items())


def test_addresses_written_out(server):
    with coffer.open(server.url(f"/owner/many/resolve/main/{INDEX}")) as f:
        assert_is_both(f)


def test_a_slice_fetches_its_bytes_alone(server):
    server.repositories["owner/large"] = Repository({"model.safetensors": array_file({"x": np.arange(1 << 20, dtype=np.int32)})})
    with coffer.open("hf://owner/large") as f:
        server.log.clear()
        assert f["x"][500_000:500_003].numpy().tolist() == [500_000, 500_001, 500_002]
        (request,) = server.log
        assert request.range[1] - request.range[0] + 1 == 12


def test_tokens(server, monkeypatch):
    server.repositories["owner/secret"] = Repository(INDEXED, token="hf_mine")
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    for arguments in ({}, {"token": "hf_mine"}):
        with coffer.open("hf://owner/secret", **arguments) as f:
            assert_is_both(f)
    for token in ("", "hf_other"):
        with pytest.raises(FileNotFoundError) as caught:
            coffer.open("hf://owner/secret", token=token)
        assert (caught.value.code, caught.value.http_status) == ("NO_REPOSITORY", 401)
    with pytest.raises(ValueError, match="token"):
        coffer.open("hf://owner/secret", token="two words")


def test_gated(server):
    server.repositories["owner/gated"] = Repository(INDEXED, gated=True)
    with pytest.raises(PermissionError) as caught:
        coffer.open("hf://owner/gated", token="hf_mine")
    assert (caught.value.code, caught.value.http_status) == ("GATED", 403)


def test_what_goes_wrong_is_what_it_is_called(server):
    for name in ("hf://owner/none", "hf://owner/one@none", "hf://owner/one/none.safetensors"):
        with pytest.raises(FileNotFoundError):
            coffer.open(name)
    server.behave = lambda request: request.answer(403)
    with pytest.raises(PermissionError) as refused:
        coffer.open("hf://owner/one")
    assert refused.value.http_status == 403
    server.behave = lambda request: request.stall()
    with pytest.raises(TimeoutError, match="150 ms|151 ms"):
        coffer.open("hf://owner/one", timeout=0.15)
    server.close()
    with pytest.raises(ConnectionError):
        coffer.open("hf://owner/one")


@pytest.mark.parametrize(("timeout", "kind"), [(0, ValueError), (-1.5, ValueError), (float("nan"), ValueError), ("1", TypeError)])
def test_time_outs_that_are_none(server, timeout, kind):
    with pytest.raises(kind):
        coffer.open("hf://owner/one", timeout=timeout)
    assert server.log == []


def test_many_threads_open_and_read(server):
    faults: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for _ in range(5):
                with coffer.open(name) as f:
                    assert_is_both(f)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("hf://owner/one", "hf://owner/many") * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


@pytest.mark.parametrize("access", ["auto", "map", "read"])
def test_a_file_that_is_cut_short_serves_for_what_is_whole(access: Literal["auto", "map", "read"], tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(ONE[:-1])
    with pytest.raises(coffer.Error) as caught:
        coffer.open(path, access=access)
    assert caught.value.code == "DATA_TRUNCATED"
    f = coffer.open(path, access=access, partial=True)
    whole = [name for name in f if f[name].whole]
    (cut,) = set(f) - set(whole)
    assert len(whole) == len(BOTH) - 1
    assert all(np.array_equal(f[name].numpy(), BOTH[name]) for name in whole)
    for read in (f[cut].numpy, f[cut].read, f[cut].tobytes, lambda: memoryview(f[cut]), f[cut][...].numpy):
        with pytest.raises(coffer.Error) as caught:
            read()
        assert (caught.value.code, caught.value.tensor) == ("DATA_TRUNCATED", cut)
    path.write_bytes(ONE)
    assert all(tensor.whole for tensor in coffer.open(path, partial=True).values())
