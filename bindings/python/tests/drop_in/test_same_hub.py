# SPDX-License-Identifier: Apache-2.0
"""coffer.hub gives what huggingface_hub gives, field by field, and fails with errors of the same names, but where docs/python.md says
otherwise. Both read from one Hub on the loopback interface."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

# Read by huggingface_hub when it is imported.
for name in [name for name in os.environ if name.startswith("HF_")]:
    del os.environ[name]
os.environ["HF_HUB_DISABLE_TELEMETRY"] = os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import huggingface_hub  # noqa: E402
from huggingface_hub import errors  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from hub_models import ARRAYS, COMMIT, ONE, Hub, Repository, header_file, sharded, whole  # noqa: E402

from coffer import hub  # noqa: E402

REMOTE = ["get_safetensors_metadata", "parse_safetensors_file_metadata"]
LOCAL = ["get_local_safetensors_metadata", "parse_local_safetensors_file_metadata"]


class Both:
    """The Hub, and both packages' functions for it."""

    def __init__(self, server: Hub) -> None:
        self.server = server
        self.api = huggingface_hub.HfApi(endpoint=server.origin)

    def put(self, files: dict[str, bytes], name: str = "owner/name", **properties: object) -> None:
        self.server.repositories[name] = Repository(files, **properties)

    def same(self, function: str, *arguments: object, **keywords: object) -> object:
        """What both give or raise, which is the same."""
        theirs = outcome(getattr(self.api, function), *arguments, **keywords)
        ours = outcome(getattr(hub, function), *arguments, **keywords)
        assert ours == theirs
        return ours


def outcome(call: Callable[..., object], *arguments: object, **keywords: object) -> object:
    try:
        return dataclasses.asdict(call(*arguments, **keywords))
    except (errors.HfHubHTTPError, errors.HFValidationError, errors.NotASafetensorsRepoError, errors.SafetensorsParsingError) as error:
        return type(error).__name__
    except (hub.Error, FileNotFoundError, IsADirectoryError, ValueError) as error:
        return type(error).__name__


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Both]:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    # What one of them downloads, the other is not to find.
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "theirs"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "ours"))
    with Hub({"owner/one": Repository({"model.safetensors": ONE})}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.origin)
        yield Both(server)


# ---- Names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", REMOTE + LOCAL)
def test_arguments(function):
    theirs = inspect.signature(getattr(huggingface_hub, function)).parameters
    ours = inspect.signature(getattr(hub, function)).parameters
    assert [(name, ours[name].kind, ours[name].default) for name in ours] == [
        (name, theirs[name].kind, theirs[name].default) for name in theirs
    ]


@pytest.mark.parametrize("name", ["TensorInfo", "SafetensorsFileMetadata", "SafetensorsRepoMetadata"])
def test_fields(name):
    theirs, ours = (
        [(field.name, field.init, field.repr, field.compare) for field in dataclasses.fields(getattr(package, name))]
        for package in (huggingface_hub.utils, hub)
    )
    assert ours == theirs


def test_errors_are_of_the_same_kinds():
    """Whoever catches an error of theirs by a more general one catches ours by the one of that name."""
    kinds = {name: kind for name, kind in vars(hub).items() if inspect.isclass(kind) and issubclass(kind, Exception) and name != "Error"}
    assert len(kinds) == 10
    for name, kind in kinds.items():
        above = [base.__name__ for base in getattr(errors, name).__mro__ if base.__module__ in ("builtins", errors.__name__)]
        assert set(above) <= {base.__name__ for base in kind.__mro__}


# ---- What there is ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [{}, {"revision": COMMIT}, {"revision": "main", "repo_type": "model"}, {"token": False}, {"timeout": None}])
def test_one_file(both, where):
    found = both.same("get_safetensors_metadata", "owner/one", **where)
    assert found["parameter_count"] == {"F32": 35, "BF16": 32, "I64": 1, "F8_E4M3": 6}
    assert both.same("parse_safetensors_file_metadata", "owner/one", "model.safetensors", **where)["metadata"] == {"format": "pt"}


@pytest.mark.parametrize("count", [1, 2, 20])
@pytest.mark.parametrize("metadata", [None, {}, {"total_size": 10, "a": {"b": [1.5, "c", None]}}])
def test_models_of_many_files(both, count, metadata):
    both.put(sharded(count, metadata))
    found = both.same("get_safetensors_metadata", "owner/name")
    assert (found["sharded"], found["metadata"], len(found["files_metadata"])) == (True, metadata, count)


@pytest.mark.parametrize("length", [99_990, 100_000, 100_001, 100_010, (96 << 10) - 8, 96 << 10, (96 << 10) + 1, 300_000])
def test_long_headers(both, length):
    """Of so many bytes without the eight before them."""
    least = int.from_bytes(whole(ARRAYS, spaces=0)[:8], "little")
    both.put({"model.safetensors": whole(ARRAYS, spaces=length - least), "a/b.safetensors": ONE})
    assert len(both.same("get_safetensors_metadata", "owner/name")["weight_map"]) == len(ARRAYS)
    both.same("parse_safetensors_file_metadata", "owner/name", "a/b.safetensors")


@pytest.mark.parametrize("kind", ["dataset", "space"])
def test_what_is_no_model(both, kind):
    both.put({"model.safetensors": ONE}, f"{kind}s/owner/name")
    assert isinstance(both.same("get_safetensors_metadata", "owner/name", repo_type=kind), dict)


@pytest.mark.parametrize("revision", ["v1.0", "refs/pr/3", "feature/x", "a@b"])
@pytest.mark.parametrize("name", ["owner/name", "gpt2"])
def test_names_and_revisions(both, name, revision):
    both.put({"model.safetensors": ONE}, name, revisions=[revision])
    assert isinstance(both.same("get_safetensors_metadata", name, revision=revision), dict)


@pytest.mark.parametrize("token", ["hf_mine", "hf_other", False, None])
def test_private_repositories(both, token):
    both.put({"model.safetensors": ONE}, token="hf_mine")
    found = both.same("get_safetensors_metadata", "owner/name", token=token)
    assert isinstance(found, dict) if token == "hf_mine" else found == "NotASafetensorsRepoError"
    found = both.same("parse_safetensors_file_metadata", "owner/name", "model.safetensors", token=token)
    assert isinstance(found, dict) if token == "hf_mine" else found == "RepositoryNotFoundError"


def test_the_file_goes_before_the_index(both):
    both.put({**sharded(2), "model.safetensors": ONE})
    assert both.same("get_safetensors_metadata", "owner/name")["sharded"] is False


# ---- What there is not ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "arguments", "of_model", "of_file"),
    [
        ({"gated": True}, {}, "GatedRepoError", "GatedRepoError"),
        ({"gated": True}, {"token": "hf_x"}, "GatedRepoError", "GatedRepoError"),
        ({}, {"revision": "none"}, "NotASafetensorsRepoError", "RevisionNotFoundError"),
        ({}, {"repo_type": "space"}, "NotASafetensorsRepoError", "RepositoryNotFoundError"),
        ({}, {"repo_type": "kernels?"}, "ValueError", "ValueError"),
    ],
)
def test_not_to_be_had(both, properties, arguments, of_model, of_file):
    both.put({"model.safetensors": ONE}, **properties)
    assert both.same("get_safetensors_metadata", "owner/name", **arguments) == of_model
    assert both.same("parse_safetensors_file_metadata", "owner/name", "model.safetensors", **arguments) == of_file


def test_files_that_are_not_there(both):
    files = sharded(3)
    del files["model-00002-of-00003.safetensors"]
    both.put(files)
    assert both.same("get_safetensors_metadata", "owner/name") == "RemoteEntryNotFoundError"
    assert both.same("parse_safetensors_file_metadata", "owner/name", "none.safetensors") == "RemoteEntryNotFoundError"
    both.put({"config.json": b"{}"})
    assert both.same("get_safetensors_metadata", "owner/name") == "NotASafetensorsRepoError"
    assert both.same("get_safetensors_metadata", "owner/none") == "NotASafetensorsRepoError"


BROKEN = [
    b"abc", header_file(b"{}", 1 << 40), header_file(b"{nothing}"), header_file(b'{"a":{"dtype":"F32"}}'), header_file(b""),
    header_file(b'{"a":{"dtype":"F32","shape":[1]}}'),
]  # fmt: skip


@pytest.mark.parametrize("content", BROKEN)
def test_files_that_are_none(both, content, tmp_path):
    both.put({"model.safetensors": content})
    assert both.same("get_safetensors_metadata", "owner/name") == "SafetensorsParsingError"
    assert both.same("parse_safetensors_file_metadata", "owner/name", "model.safetensors") == "SafetensorsParsingError"
    (tmp_path / "model.safetensors").write_bytes(content)
    for function, path in zip(LOCAL, (tmp_path, tmp_path / "model.safetensors"), strict=True):
        assert same_locally(function, path) == "SafetensorsParsingError"


@pytest.mark.parametrize("name", ["a/b/c", "-a/b", "a b", "a..b", "a--b/c"])
def test_no_repository_is_called_that(both, name):
    assert both.same("get_safetensors_metadata", name) == "HFValidationError"


# ---- Local files ------------------------------------------------------------------------------------------------------


def same_locally(function: str, path: Path) -> object:
    theirs, ours = outcome(getattr(huggingface_hub, function), path), outcome(getattr(hub, function), path)
    if isinstance(ours, str):
        ours = re.sub("MissingFileError", "FileNotFoundError", ours)
    assert ours == theirs
    return ours


def test_local_files_and_folders(tmp_path):
    several = sharded(3, {"total_size": 1})
    for number, files in enumerate(({"model.safetensors": ONE}, several, {**several, "model.safetensors": ONE}, {"x.json": b""})):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
            if name.endswith(".safetensors"):
                assert isinstance(same_locally("parse_local_safetensors_file_metadata", folder / name), dict)
        found = same_locally("get_local_safetensors_metadata", folder)
        assert found == "NotASafetensorsRepoError" if number == 3 else isinstance(found, dict)
    (tmp_path / "1" / "model-00002-of-00003.safetensors").unlink()
    assert same_locally("get_local_safetensors_metadata", tmp_path / "1") == "FileNotFoundError"
    for function in LOCAL:
        assert same_locally(function, tmp_path / "none") == "FileNotFoundError"
    assert same_locally("parse_local_safetensors_file_metadata", tmp_path) == "IsADirectoryError"


DTYPES = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "C64": 64}
TENSORS = st.dictionaries(st.text(min_size=1), st.tuples(st.sampled_from(sorted(DTYPES)), st.lists(st.integers(0, 5), max_size=4)), max_size=6)


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(tensors=TENSORS, metadata=st.none() | st.dictionaries(st.text(), st.text(), max_size=3))
def test_any_file(tensors, metadata, tmp_path_factory):
    from coffer import _native

    entries = []
    for name, (dtype, shape) in tensors.items():
        if name != "__metadata__":
            size = DTYPES[dtype] // 8
            for length in shape:
                size *= length
            entries.append((name, dtype, shape, bytes(size)))
    file = tmp_path_factory.mktemp("any") / "a.safetensors"
    file.write_bytes(_native.serialize(entries, metadata))
    assert len(same_locally("parse_local_safetensors_file_metadata", file)["tensors"]) == len(entries)
