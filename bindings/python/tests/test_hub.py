# SPDX-License-Identifier: Apache-2.0
"""coffer.hub: models of a Hub on the loopback interface, and local ones; how many requests each takes, and which errors there are.
That all of it is as in huggingface_hub is looked at in drop_in/test_same_hub.py."""

from __future__ import annotations

import math
import os
import pickle
import re
from pathlib import Path

import pytest
from hub_models import ARRAYS, COMMIT, INDEX, ONE, Hub, Repository, header_file, sharded, whole

import coffer
from coffer import hub

FIRST = 96 << 10  # bytes that the first request asks for
COUNT = {"F32": 35, "BF16": 32, "I64": 1, "F8_E4M3": 6}


@pytest.fixture
def server(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith("HF_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COFFER_NET_PAUSE", "0.001")
    monkeypatch.setenv("COFFER_NET_RETRIES", "1")
    with Hub({"owner/one": Repository({"model.safetensors": ONE})}, stored_apart="-") as running:
        monkeypatch.setenv("HF_ENDPOINT", running.origin)
        yield running


def put(server: Hub, files: dict[str, bytes], name: str = "owner/name", **properties: object) -> str:
    server.repositories[name] = Repository(files, **properties)
    server.log.clear()
    return name


# ---- Results ----------------------------------------------------------------------------------------------------------


def test_one_file(server):
    found = hub.get_safetensors_metadata("owner/one")
    assert (found.metadata, found.sharded) == (None, False)
    assert found.weight_map == dict.fromkeys((name for name, _, _ in ARRAYS), "model.safetensors")
    assert list(found.files_metadata) == ["model.safetensors"]
    file = found.files_metadata["model.safetensors"]
    assert file == hub.parse_safetensors_file_metadata("owner/one", "model.safetensors")
    assert (file.metadata, file.parameter_count, found.parameter_count) == ({"format": "pt"}, COUNT, COUNT)
    assert file.tensors["h.0.weight"] == hub.TensorInfo("BF16", [3, 4, 2], (140, 188))
    assert file.tensors["ids"] == hub.TensorInfo(dtype="I64", shape=[], data_offsets=(188, 196))
    assert [file.tensors[name].parameter_count for name in ("ids", "none", "wte")] == [1, 0, 35]
    assert server.asked == [("GET", "/owner/one/resolve/main/model.safetensors")] * 2


@pytest.mark.parametrize("name", ["", "/", "sub/", "model.safetensors/"])
def test_a_folder_is_no_file(server, name):
    """Opened as a model it would be the file in it."""
    repo = put(server, {"model.safetensors": ONE, "sub/model.safetensors": ONE})
    with pytest.raises(hub.EntryNotFoundError, match="names a folder") as caught:
        hub.parse_safetensors_file_metadata(repo, name)
    assert isinstance(caught.value, hub.HfHubHTTPError) and caught.value.code == "NOT_FOUND"


def test_a_model_of_many_files(server):
    found = hub.get_safetensors_metadata(put(server, sharded(5, {"total_size": 1475, "of": ["a", {"b": None}]})))
    assert (found.metadata, found.sharded) == ({"total_size": 1475, "of": ["a", {"b": None}]}, True)
    assert found.parameter_count == {dtype: 5 * count for dtype, count in COUNT.items()}
    assert found.weight_map["layer.4.wte"] == "model-00004-of-00005.safetensors"
    assert sorted(found.files_metadata) == [f"model-0000{i}-of-00005.safetensors" for i in range(1, 6)]
    assert [file.metadata for _, file in sorted(found.files_metadata.items())] == [{"format": "pt"}, {}] * 2 + [{"format": "pt"}]


@pytest.mark.parametrize("metadata", [None, {}])
def test_an_index_of_one_file(server, metadata):
    found = hub.get_safetensors_metadata(put(server, sharded(1, metadata)))
    assert (found.metadata, found.sharded, found.parameter_count) == (metadata, True, COUNT)


def test_dtypes_of_tomorrow(server):
    header = b'{"a":{"dtype":"F3_NEW","shape":[4,2],"data_offsets":[0,3]}}'
    found = hub.parse_safetensors_file_metadata(put(server, {"a.safetensors": header_file(header) + b"abc"}), "a.safetensors")
    assert found.tensors["a"] == hub.TensorInfo("F3_NEW", [4, 2], (0, 3))
    assert found.parameter_count == {"F3_NEW": 8}


# ---- Requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 70])
def test_two_requests_and_one_for_each_file(server, count):
    hub.get_safetensors_metadata(put(server, sharded(count)))
    assert len(server.log) == 2 + count
    # All files are of one commit, whatever main is meanwhile.
    assert {path.split("/")[4] for _, path in server.asked[2:]} == {COMMIT}


def test_one_more_for_each_long_header(server):
    longest = put(server, {"model.safetensors": whole(ARRAYS, spaces=FIRST)})
    hub.get_safetensors_metadata(longest)
    assert len(server.log) == 2
    hub.get_safetensors_metadata(put(server, sharded(4, spaces=FIRST)))
    assert len(server.log) == 2 + 2 * 4


def test_redirects_are_requests_too(server):
    server.stored_apart = re.compile(r".*\.safetensors")
    hub.get_safetensors_metadata(put(server, sharded(4)))
    assert len(server.log) == 2 + 2 * 4


@pytest.mark.parametrize(
    ("repo_id", "arguments", "path"),
    [
        ("owner/name", {"revision": "refs/pr/3"}, "/owner/name/resolve/refs%2Fpr%2F3/model.safetensors"),
        ("owner/name", {"revision": "feature/x"}, "/owner/name/resolve/feature%2Fx/model.safetensors"),
        ("owner/name", {"revision": COMMIT, "repo_type": "model"}, f"/owner/name/resolve/{COMMIT}/model.safetensors"),
        ("datasets/owner/name", {"repo_type": "dataset"}, "/datasets/owner/name/resolve/main/model.safetensors"),
        ("spaces/owner/name", {"repo_type": "space"}, "/spaces/owner/name/resolve/main/model.safetensors"),
        ("gpt2", {}, "/gpt2/resolve/main/model.safetensors"),
    ],
)
def test_where_it_is(server, repo_id, arguments, path):
    put(server, {"model.safetensors": ONE}, repo_id, revisions=["main", COMMIT, "refs/pr/3", "feature/x"])
    asked = repo_id.removeprefix("datasets/").removeprefix("spaces/")
    found = hub.get_safetensors_metadata(asked, **arguments)
    assert (found.parameter_count, server.asked) == (COUNT, [("GET", path)])
    assert hub.parse_safetensors_file_metadata(asked, "model.safetensors", **arguments).parameter_count == COUNT


@pytest.mark.parametrize(
    ("environment", "token", "sent"),
    [
        (None, "hf_mine", "Bearer hf_mine"), ("hf_theirs", "hf_mine", "Bearer hf_mine"), ("hf_theirs", None, "Bearer hf_theirs"),
        ("hf_theirs", True, "Bearer hf_theirs"), ("hf_theirs", False, None), (None, None, None),
    ],
)  # fmt: skip
def test_tokens(server, monkeypatch, environment, token, sent):
    if environment is not None:
        monkeypatch.setenv("HF_TOKEN", environment)
    hub.get_safetensors_metadata(put(server, sharded(2), token=sent and sent.removeprefix("Bearer ")), token=token)
    assert {request.headers.get("authorization") for request in server.log} == {sent}


def test_what_was_downloaded_before_is_not_asked_for(server, tmp_path):
    folder = tmp_path / "home/hub/models--owner--name"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text(COMMIT)
    (folder / "snapshots" / COMMIT).mkdir(parents=True)
    (folder / "snapshots" / COMMIT / "model.safetensors").write_bytes(ONE)
    assert hub.get_safetensors_metadata("owner/name").parameter_count == COUNT
    assert server.log == []


# ---- Failures ---------------------------------------------------------------------------------------------------------


def failure(kind: type[Exception], call, *arguments, **keywords) -> coffer.Error:
    with pytest.raises(kind) as caught:
        call(*arguments, **keywords)
    assert type(caught.value) is kind and isinstance(caught.value, coffer.Error)
    return caught.value


@pytest.mark.parametrize(
    ("properties", "arguments", "of_model", "of_file", "code", "status"),
    [
        ({"token": "hf_x"}, {}, hub.NotASafetensorsRepoError, hub.RepositoryNotFoundError, "NO_REPOSITORY", 401),
        ({}, {"repo_type": "dataset"}, hub.NotASafetensorsRepoError, hub.RepositoryNotFoundError, "NO_REPOSITORY", 401),
        ({}, {"revision": "v2"}, hub.NotASafetensorsRepoError, hub.RevisionNotFoundError, "NO_REVISION", 404),
        ({"gated": True}, {}, hub.GatedRepoError, hub.GatedRepoError, "GATED", 401),
        ({"gated": True}, {"token": "hf_x"}, hub.GatedRepoError, hub.GatedRepoError, "GATED", 403),
    ],
)
def test_repositories_that_are_not_to_be_had(server, properties, arguments, of_model, of_file, code, status):
    name = put(server, {"model.safetensors": ONE}, **properties)
    error = failure(of_model, hub.get_safetensors_metadata, name, **arguments)
    assert (error.code, error.http_status) == (code, status)
    error = failure(of_file, hub.parse_safetensors_file_metadata, name, "model.safetensors", **arguments)
    assert (error.code, error.http_status) == (code, status)
    assert len(server.log) == 2
    assert isinstance(error, hub.HfHubHTTPError) and isinstance(error, OSError)


def test_files_that_are_not_there(server):
    files = sharded(3)
    del files["model-00002-of-00003.safetensors"]
    name = put(server, files)
    error = failure(hub.RemoteEntryNotFoundError, hub.parse_safetensors_file_metadata, name, "none.safetensors")
    assert isinstance(error, hub.EntryNotFoundError) and error.http_status == 404
    error = failure(hub.RemoteEntryNotFoundError, hub.get_safetensors_metadata, name)
    assert (error.code, error.path) == ("SHARD_MISSING", "hf://owner/name@main/model-00002-of-00003.safetensors")
    error = failure(hub.NotASafetensorsRepoError, hub.get_safetensors_metadata, put(server, {"config.json": b"{}"}))
    assert "hf://owner/name@main" in str(error) and "model.safetensors" in str(error)


BROKEN = {
    "empty": (b"", "EMPTY"),
    "short": (b"abc", "TOO_SHORT"),
    "oversize": (header_file(b"{}", 1 << 40), "HEADER_TOO_LARGE"),
    "cut": (header_file(b"{}", 100), "HEADER_TRUNCATED"),
    "no JSON": (header_file(b"{nothing}"), "JSON"),
    "no fields": (header_file(b'{"a":{"dtype":"F32"}}'), "MISSING_FIELD"),
    "a list": (header_file(b"[1]"), "TYPE"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", "IS_LFS_POINTER"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_are_none(server, name, tmp_path):
    content, code = BROKEN[name]
    put(server, {"model.safetensors": content})
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    errors = [
        failure(hub.SafetensorsParsingError, hub.get_safetensors_metadata, "owner/name"),
        failure(hub.SafetensorsParsingError, hub.parse_safetensors_file_metadata, "owner/name", "model.safetensors"),
        failure(hub.SafetensorsParsingError, hub.get_local_safetensors_metadata, tmp_path),
        failure(hub.SafetensorsParsingError, hub.parse_local_safetensors_file_metadata, file),
    ]
    assert {error.code for error in errors} == {code}
    assert [error.path for error in errors] == ["hf://owner/name@main/model.safetensors"] * 2 + [str(file)] * 2


def test_an_index_is_no_file(server):
    error = failure(hub.SafetensorsParsingError, hub.parse_safetensors_file_metadata, put(server, sharded(2)), INDEX)
    assert error.path == f"hf://owner/name@main/{INDEX}"


@pytest.mark.parametrize("index", [b"[]", b'{"weight_map": {"a": "../a.safetensors"}}', b'{"weight_map": {"a": 1}}', b"{"])
def test_an_index_that_is_none(server, index):
    failure(hub.SafetensorsParsingError, hub.get_safetensors_metadata, put(server, {INDEX: index}))


@pytest.mark.parametrize("repo_id", ["", "a/b/c", "-a/b", "a b", "a..b", "a--b/c", "owner/", "/name", "a/b@c", "hf://a/b", "a/b?c"])
def test_no_repository_is_called_that(server, repo_id):
    error = failure(hub.HFValidationError, hub.get_safetensors_metadata, repo_id)
    assert isinstance(error, ValueError) and server.log == []


@pytest.mark.parametrize("revision", ["../x", "a//b", "x" * 200])
def test_no_revision_is_called_that(server, revision):
    failure(hub.HFValidationError, hub.get_safetensors_metadata, "owner/one", revision=revision)
    assert server.log == []


def test_no_type_of_repository(server):
    with pytest.raises(ValueError, match="repo_type"):
        hub.get_safetensors_metadata("owner/one", repo_type="models")


def test_silence(server):
    server.behave = lambda request: request.stall()
    with pytest.raises(TimeoutError) as caught:
        hub.get_safetensors_metadata("owner/one", timeout=0.1)
    assert caught.value.code == "TIMEOUT" and len(server.log) == 2


@pytest.mark.parametrize("timeout", [None, math.inf, 3600])
def test_patience(server, timeout):
    assert hub.get_safetensors_metadata("owner/one", timeout=timeout).parameter_count == COUNT


@pytest.mark.parametrize("timeout", [0, -1, math.nan])
def test_no_patience(server, timeout):
    with pytest.raises(ValueError, match="timeout"):
        hub.get_safetensors_metadata("owner/one", timeout=timeout)


def test_nobody_there(server):
    server.close()
    with pytest.raises(ConnectionError) as caught:
        hub.get_safetensors_metadata("owner/one")
    assert caught.value.code == "CONNECT"


def test_offline(server, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert isinstance(failure(hub.OfflineModeIsEnabled, hub.get_safetensors_metadata, "owner/one"), ConnectionError)
    assert server.log == []


def test_a_server_in_trouble(server):
    server.behave = lambda request: request.answer(500)
    assert failure(hub.HfHubHTTPError, hub.get_safetensors_metadata, "owner/one").http_status == 500


def test_errors_survive_pickling(server):
    error = failure(hub.RevisionNotFoundError, hub.parse_safetensors_file_metadata, "owner/one", "x", revision="none")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, again.http_status, str(again)) == (type(error), "NO_REVISION", 404, str(error))


# ---- Local files ------------------------------------------------------------------------------------------------------


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_local_files(tmp_path):
    folder = write(tmp_path / "m", {"other.safetensors": ONE})
    for path in (folder / "other.safetensors", str(folder / "other.safetensors")):
        found = hub.get_local_safetensors_metadata(path)
        assert (found.sharded, set(found.weight_map.values())) == (False, {"other.safetensors"})
        assert found.files_metadata["other.safetensors"] == hub.parse_local_safetensors_file_metadata(path)
        assert found.parameter_count == COUNT


def test_local_folders(tmp_path):
    files = sharded(3, {"total_size": 885})
    found = hub.get_local_safetensors_metadata(write(tmp_path / "m", files))
    assert (found.sharded, found.metadata) == (True, {"total_size": 885})
    assert found.parameter_count == {dtype: 3 * count for dtype, count in COUNT.items()}
    found = hub.get_local_safetensors_metadata(write(tmp_path / "both", {**files, "model.safetensors": ONE}))
    assert (found.sharded, found.parameter_count) == (False, COUNT)


def test_local_failures(tmp_path):
    for call in (hub.get_local_safetensors_metadata, hub.parse_local_safetensors_file_metadata):
        for path in (tmp_path / "none", "http://127.0.0.1:9/model.safetensors"):
            with pytest.raises(FileNotFoundError):
                call(path)
    failure(hub.NotASafetensorsRepoError, hub.get_local_safetensors_metadata, write(tmp_path / "m", {"config.json": b"{}"}))
    with pytest.raises(IsADirectoryError):
        hub.parse_local_safetensors_file_metadata(tmp_path)
    files = sharded(3)
    del files["model-00002-of-00003.safetensors"]
    with pytest.raises(FileNotFoundError):
        hub.get_local_safetensors_metadata(write(tmp_path / "n", files))
