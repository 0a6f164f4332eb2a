# SPDX-License-Identifier: Apache-2.0
"""What models consist of, read from their headers alone: those of the Hugging Face Hub, and local ones.

    metadata = coffer.hub.get_safetensors_metadata("openai-community/gpt2")
    metadata.parameter_count    # {'F32': 137022720}

Functions, results and errors have the names that they have in huggingface_hub, and the same fields; docs/python.md says where what
is after the names differs. Each error is a coffer.Error, too, with its code, path and byte.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ._errors import Error, build
from ._native import Model

# ---- Results ----------------------------------------------------------------------------------------------------------


@dataclass
class TensorInfo:
    """A tensor, as a header has it. `data_offsets` count from the start of the file's data."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]
    parameter_count: int = field(init=False)

    def __post_init__(self) -> None:
        self.parameter_count = math.prod(self.shape)


@dataclass
class SafetensorsFileMetadata:
    """A file: its metadata, its tensors by name, and how many parameters it has of each dtype."""

    metadata: dict[str, str]
    tensors: dict[str, TensorInfo]
    parameter_count: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.parameter_count = _sums((tensor.dtype, tensor.parameter_count) for tensor in self.tensors.values())


@dataclass
class SafetensorsRepoMetadata:
    """A model: what its index has as metadata (None when it has none), which file each tensor is in, the files by name, and how
    many parameters there are of each dtype in all of them."""

    metadata: dict[str, Any] | None
    sharded: bool
    weight_map: dict[str, str]
    files_metadata: dict[str, SafetensorsFileMetadata]
    parameter_count: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.parameter_count = _sums(pair for file in self.files_metadata.values() for pair in file.parameter_count.items())


def _sums(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for dtype, count in counts:
        sums[dtype] += count
    return dict(sums)


# ---- Errors -----------------------------------------------------------------------------------------------------------


class SafetensorsParsingError(Error):
    """What is there is no sound safetensors file, or no sound index."""


class NotASafetensorsRepoError(Error):
    """There is no model in safetensors files, or no such repository."""


class HFValidationError(Error, ValueError):
    """No repository or revision can be called that."""


class OfflineModeIsEnabled(Error, ConnectionError):  # noqa: N818
    """HF_HUB_OFFLINE forbids to ask the Hub, and its cache does not have the file."""


class HfHubHTTPError(Error, OSError):
    """The Hub answered with a failure; `http_status` says which."""


class RepositoryNotFoundError(HfHubHTTPError):
    """There is no such repository, or none that this token may read."""


class GatedRepoError(RepositoryNotFoundError):
    """Access to the repository has to be asked for."""


class RevisionNotFoundError(HfHubHTTPError):
    """The repository has no such branch, tag or commit."""


class EntryNotFoundError(Error):
    """There is no such file."""


class RemoteEntryNotFoundError(HfHubHTTPError, EntryNotFoundError):
    """The repository has no such file at that revision."""


_REMOTE: Mapping[str, type[Error]] = {
    "ACCESS": HfHubHTTPError,
    "GATED": GatedRepoError,
    "HTTP": HfHubHTTPError,
    "NOT_FOUND": RemoteEntryNotFoundError,
    "NO_REPOSITORY": RepositoryNotFoundError,
    "NO_REVISION": RevisionNotFoundError,
    "OFFLINE": OfflineModeIsEnabled,
    "SHARD_MISSING": RemoteEntryNotFoundError,
    "URL": HFValidationError,
}
_REPOSITORY: Mapping[str, type[Error]] = {
    **_REMOTE,
    "NOT_FOUND": NotASafetensorsRepoError,
    "NO_REPOSITORY": NotASafetensorsRepoError,
    "NO_REVISION": NotASafetensorsRepoError,
}
_FOLDER: Mapping[str, type[Error]] = {"AMBIGUOUS": NotASafetensorsRepoError, "NO_MODEL": NotASafetensorsRepoError}
# What is wrong there is not what the file says.
_NOT_THE_FILE = frozenset(
    ["ANSWER", "ARGUMENT", "CERTIFICATE", "CHANGED", "CONNECT", "IO", "MEMORY", "NOT_FOUND", "NOT_REGULAR", "NO_NETWORK"]
    + ["REDIRECT", "SHARD_MISSING", "TIMEOUT", "UNDO", "UNFINISHED"]
)


def _open(source: str | Path | int, kinds: Mapping[str, type[Error]], **options: Any) -> Model:
    """Opens what is there, of any dtypes; failures are of those kinds."""
    try:
        return Model.open(source, access="read", format="safetensors", unknown_dtypes=True, **options)
    except Error as error:
        usual = type(error) if error.code in _NOT_THE_FILE else SafetensorsParsingError
        raise build(kinds.get(error.code, usual), error.code, error.__dict__) from None


# ---- From headers to results ------------------------------------------------------------------------------------------


def _files(model: Model) -> list[SafetensorsFileMetadata]:
    return [
        SafetensorsFileMetadata(
            metadata, {name: TensorInfo(dtype, list(shape), offsets) for name, (dtype, shape, offsets) in tensors.items()}
        )
        for metadata, tensors in model.headers()
    ]


def _repository(model: Model) -> SafetensorsRepoMetadata:
    files = dict(zip((path.rpartition("/")[2] for path in model.shards), _files(model), strict=True))
    index = model.index_metadata
    return SafetensorsRepoMetadata(
        metadata=json.loads(index) if index else None,
        sharded=index is not None or len(files) > 1,
        weight_map={name: file for file, metadata in files.items() for name in metadata.tensors},
        files_metadata=files,
    )


# ---- The Hub ----------------------------------------------------------------------------------------------------------

_KINDS = {None: "", "model": "", "dataset": "datasets/", "space": "spaces/"}
_NAME = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._-]*/)?[A-Za-z0-9_][A-Za-z0-9._-]*")


def _url(repo_id: str, repo_type: str | None, revision: str | None) -> str:
    if repo_type not in _KINDS:
        raise ValueError(f"repo_type is 'model', 'dataset', 'space' or None, not {repo_type!r}")
    if not _NAME.fullmatch(repo_id) or "--" in repo_id or ".." in repo_id:
        message = f"{repo_id!r} is not a repository's name: use 'owner/name' or 'name', of letters, digits, '-', '_' and '.'"
        raise build(HFValidationError, "URL", {"message": message})
    return f"hf://{_KINDS[repo_type]}{repo_id}@{(revision or 'main').replace('/', '%2F')}"


def _network(token: bool | str | None, timeout: float | None) -> dict[str, Any]:
    """Options of opening. Without a time-out the library waits for a day."""
    return {"token": "" if token is False else None if token is True else token, "timeout": math.inf if timeout is None else timeout}


def get_safetensors_metadata(
    repo_id: str,
    *,
    repo_type: str | None = None,
    revision: str | None = None,
    token: bool | str | None = None,
    timeout: float | None = 10.0,
) -> SafetensorsRepoMetadata:
    """Reads the headers of all files of a repository's model: of `model.safetensors`, else those that its index names.

    repo_id    "owner/name", or "name" of the few that have no owner
    repo_type  "model", "dataset" or "space"; None is a model
    revision   a branch, a tag or a commit; None is "main"
    token      what the Hub knows the user by; False sends none; True and None are the environment's
    timeout    seconds that the server may say nothing; None: no limit
    """
    return _repository(_open(_url(repo_id, repo_type, revision), _REPOSITORY, **_network(token, timeout)))


def parse_safetensors_file_metadata(
    repo_id: str,
    filename: str,
    *,
    repo_type: str | None = None,
    revision: str | None = None,
    token: bool | str | None = None,
    timeout: float | None = 10.0,
) -> SafetensorsFileMetadata:
    """Reads the header of one file of a repository. The arguments are those of get_safetensors_metadata."""
    if not filename or filename.endswith("/"):  # which would open the model in that folder
        message = f"{filename!r} names a folder of the repository, not a file"
        raise build(RemoteEntryNotFoundError, "NOT_FOUND", {"message": message, "path": repo_id})
    model = _open(f"{_url(repo_id, repo_type, revision)}/{filename}", _REMOTE, **_network(token, timeout))
    if model.index_metadata is not None:
        raise build(SafetensorsParsingError, "IS_JSON", {"message": "this is the index of a model", "path": model.path})
    return _files(model)[0]


# ---- Local files ------------------------------------------------------------------------------------------------------


def get_local_safetensors_metadata(path: str | Path) -> SafetensorsRepoMetadata:
    """Reads the headers of a file, or of all files of the model in a folder."""
    return _repository(_open(Path(path), _FOLDER))


def parse_local_safetensors_file_metadata(path: str | Path) -> SafetensorsFileMetadata:
    """Reads the header of a file."""
    with Path(path).open("rb") as file:
        try:
            return _files(_open(file.fileno(), {}))[0]
        except Error as error:
            error.path = str(path)
            raise
