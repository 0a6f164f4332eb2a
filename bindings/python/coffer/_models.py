# SPDX-License-Identifier: Apache-2.0
"""Whole models: fetching them, dividing them among files and putting them together again, and editing their metadata."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from . import _native
from ._errors import _make, wrong_type
from ._file import File
from ._native import Model
from ._options import Sync, several, size_of

if TYPE_CHECKING:
    from ._native import Algorithm, EditMode, EditWay, Format, Progress

Source = str | os.PathLike[str] | File

# Digests that are recorded are those of the file that they are in; what is written gets its own.
RECORDED = frozenset({"coffer.digests", "coffer.metadata_digest"})


def fetch(
    url: str | os.PathLike[str],
    folder: str | os.PathLike[str] = ".",
    *,
    filter: str | Iterable[str] = (),  # noqa: A002  the command's name
    force: bool = False,
    token: str | None = None,
    timeout: float | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> str:
    """Downloads a model into a folder, which is made if it is not there. Returns the path that opens it.

    url       http, https, s3://bucket/key or hf://owner/name[@revision][/file]. With a folder, a repository or an index comes what
              loaders read beside the tensors
    filter    only tensors whose names match one of these patterns, as `fnmatch` has them; the files then have no others
    force     replace files that are there
    token     for the Hugging Face Hub; "" sends none. None: what the environment has
    timeout   seconds that a server may say nothing; None: what the environment says
    threads   at most that many at once
    progress  called with the bytes done and in all, of all files

    The same call resumes what was interrupted. Files get their names when all of them are complete.
    """
    with _opened(url, token=token, timeout=timeout, to_fetch=True) as source:
        names = _matching(source, filter)
        made = not os.path.isdir(folder)
        if made:
            os.mkdir(folder)
        try:
            source._model.fetch(folder, names, force=force, threads=threads, progress=progress)
        except BaseException:
            if made and not os.listdir(folder):
                os.rmdir(folder)
            raise
        shards = source.shards
        alone = len(shards) == 1 and source._model.index_metadata is None
        return os.path.join(os.fspath(folder), _file_of(shards[0])) if alone else os.fspath(folder)


def split(
    source: Source,
    path: str | os.PathLike[str],
    max_shard_size: int | str = "5GB",
    *,
    balanced: bool = False,
    force: bool = False,
    sync: Sync = "replace",
    digests: Algorithm | None = None,
    progress: Progress | None = None,
) -> str:
    """Writes a model as files of at most so many bytes of tensors, and their index; as one file, when one is enough. Returns the path
    that opens it, of the index or the file.

    source          a path, a URL, or what coffer.open gave
    path            a folder, for files that are called model-00001-of-0000N.safetensors; or FOLDER/NAME.safetensors, for another name
    max_shard_size  in bytes, or as "5GB"; a tensor that is larger has a file of its own
    balanced        as many files, but as even as the order of the tensors allows
    force           take a model of one file away that is in the way of an index
    digests         that the new files record; None: those that the model records
    """
    path = os.fspath(path)
    if not path.endswith(".safetensors"):
        os.makedirs(path, exist_ok=True)
        path = os.path.join(path, "model.safetensors")
    _write([source], path, size_of(max_shard_size), balanced, force, sync, digests, progress)
    index = f"{path}.index.json"
    return index if os.path.exists(index) else path


def merge(
    sources: Source | Iterable[Source],
    path: str | os.PathLike[str],
    *,
    sync: Sync = "replace",
    digests: Algorithm | None = None,
    progress: Progress | None = None,
) -> None:
    """Writes all tensors of a model of several files, or of several models, to one file. A name that comes twice is an Error, and so
    are metadata that contradict each other.

    sources   a path, a URL, or what coffer.open gave; or several of them
    digests   that the new file records; None: those that the first of the sources records that does
    """
    given = [sources] if isinstance(sources, (str, os.PathLike, File)) else list(sources)
    _write(given, os.fspath(path), None, False, False, sync, digests, progress)


def edit_metadata(
    path: str | os.PathLike[str],
    set: Mapping[str, str] | None = None,  # noqa: A002  what it does
    remove: str | Iterable[str] = (),
    *,
    mode: EditMode = "auto",
    slack: int = 0,
    follow_links: bool = False,
    sync: Sync = "replace",
    progress: Progress | None = None,
) -> EditWay:
    """Sets and removes keys of a file's metadata. Returns how: "nothing" had to be done, by a "clone" that was edited and renamed,
    "in place", or by a "rewrite" of the whole file.

    set           keys and their new values
    remove        keys, or one of them, which need not exist
    mode          "in place": fail when the metadata do not fit in the header's slack. "rewrite": always write a new file, which
                  has slack for the next edit. "auto": in place when they fit
    slack         bytes that a rewrite leaves for later edits; 0: 4096
    follow_links  edit what a symbolic link leads to, and files that have several names
    progress      of a rewrite
    """
    if not isinstance(set, Mapping | None):
        raise wrong_type(f"what is set is a mapping of keys to values, not {set!r:.80}")
    edits: list[tuple[str, str | None]] = [*(set or {}).items(), *((key, None) for key in several(remove))]
    return _native.edit_metadata(
        path, edits, mode=mode, slack=slack, follow_links=follow_links, sync=sync, progress=progress
    )


# ---- Beneath them -----------------------------------------------------------------------------------------------------


class _opened:  # noqa: N801  used as a function
    """The file that a source is, or one that is closed at the end of the block."""

    def __init__(
        self,
        source: Source,
        *,
        verify: bool = False,
        token: str | None = None,
        timeout: float | None = None,
        to_fetch: bool = False,
    ) -> None:
        self._own = not isinstance(source, File)
        self._file = (
            source
            if isinstance(source, File)
            else File(
                Model.open(
                    source,
                    access="read",
                    verify="recorded" if verify else False,
                    token=token,
                    timeout=timeout,
                    to_fetch=to_fetch,
                )
            )
        )

    def __enter__(self) -> File:
        return self._file

    def __exit__(self, *unused: object) -> None:
        if self._own:
            self._file.close()


def _matching(source: File, patterns: str | Iterable[str]) -> list[str] | None:
    """The names that match; None when there is no pattern."""
    wanted = several(patterns)
    if not wanted:
        return None
    found: dict[str, None] = {}
    for pattern in wanted:
        matching = [name for name in source if fnmatchcase(name, pattern)]
        if not matching:
            message = f'no tensor matches the pattern "{pattern}"'
            raise _make("NO_TENSOR", {"message": message, "path": source.path})
        found.update(dict.fromkeys(matching))
    return list(found)


def _file_of(path: str) -> str:
    """The name of the file behind a path or URL."""
    return path.partition("?")[0].rpartition("/")[2] if "://" in path else os.path.basename(path)


def _write(
    sources: list[Source],
    path: str,
    limit: int | None,
    balanced: bool,
    force: bool,
    sync: Sync,
    digests: Algorithm | None,
    progress: Progress | None,
) -> None:
    """Writes everything that the sources have."""
    # What is copied is verified on the way, where there is something to verify it by.
    opened = [_opened(source, verify=True) for source in sources]
    try:
        files = [each._file for each in opened]
        found = [(tensor.name, tensor) for file in files for tensor in file._model.tensors()]
        kept: Algorithm | None = digests
        for file in files:
            kept = kept or file._model.algorithm
        _native.copy_tensors(
            found,
            path,
            _metadata(files),
            max_shard_size=limit,
            balanced=balanced,
            force=force,
            sync=sync,
            digests=kept,
            progress=progress,
        )
    finally:
        for each in opened:
            each.__exit__()


def _metadata(files: list[File]) -> dict[str, str] | None:
    """That of all files, which must not contradict each other; None when none has any."""
    found: dict[str, str] | None = None
    for file in files:
        if file._model.metadata() is not None:
            found = {} if found is None else found
        for path, (metadata, _) in zip(file.shards, file._model.headers(), strict=True):
            for key, value in metadata.items():
                if key in RECORDED:
                    continue
                if found is not None and found.setdefault(key, value) != value:
                    message = f'its metadata have another value for "{key}" than an earlier file; edit_metadata makes them agree'
                    raise _make("DUPLICATE_KEY", {"message": message, "path": path})
    return found
