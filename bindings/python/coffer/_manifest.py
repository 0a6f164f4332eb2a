# SPDX-License-Identifier: Apache-2.0
"""coffer.Manifest: digests of files, kept beside them, as sha256sum, xxhsum and model signing write and check them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from . import _native
from ._errors import _make
from ._options import several

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._native import Algorithm, ManifestFormat, Progress

Path = str | os.PathLike[str]

# What belongs to git is no part of a model, as model signing has it.
_NOT_THE_MODEL = (".git", ".gitattributes", ".github", ".gitignore")
_BLOCK = 1 << 20


class ManifestEntry(NamedTuple):
    """A file, by its name below the manifest's folder ("." alone: the one file that it is about), and its digest in hexadecimal."""

    name: str
    algorithm: Algorithm
    digest: str


class ManifestProblem(NamedTuple):
    """A file that is not as the manifest has it: "changed", "missing", or "extra"."""

    name: str
    what: str


class Manifest:
    """Digests of the files of a model. Made of files by `of`, or read from a manifest by `read` and `parse`."""

    __slots__ = ("_native", "_path")

    def __init__(self, native: _native.Manifest, path: str | None = None) -> None:
        self._native = native
        self._path = path  # its own, which is no part of the model

    @classmethod
    def of(
        cls,
        path: Path,
        algorithm: Algorithm = "sha256",
        *,
        ignore: str | Iterable[str] = (),
        follow_links: bool = False,
        progress: Progress | None = None,
    ) -> Manifest:
        """Computes the digests of a file, or of all files below a folder.

        ignore        names below the folder that it is to be silent about: that of the manifest itself, where it will lie there
        follow_links  take what symbolic links lead to for the files; else they are an Error
        progress      called with the bytes done, and in all
        """
        model = _native.Manifest(os.path.basename(os.path.realpath(path)))
        for name in (*_NOT_THE_MODEL, *several(ignore)):
            model.ignore(name)
        model.follows_links = follow_links
        if os.path.isdir(path):
            files = dict(_files(os.fspath(path), follow_links, model.ignores))
        else:
            files = {".": os.fspath(path)}
        names = sorted(files, key=os.fsencode)
        for name, digest in zip(names, _digests([(files[name], algorithm) for name in names], progress), strict=True):
            model.add(name, algorithm, digest)
        return cls(model)

    @classmethod
    def parse(cls, text: Buffer, *, key: str | None = None) -> Manifest:
        """Reads the text of a manifest of any format. With `key`, a public one in PEM, it must be a bundle that is signed by it."""
        return cls(_native.Manifest.parse(text, key=key))

    @classmethod
    def read(cls, path: Path, *, key: str | None = None) -> Manifest:
        """The same of a file."""
        with open(path, "rb") as file:
            return cls(_native.Manifest.parse(file.read(), key=key), os.fspath(path))

    @property
    def format(self) -> ManifestFormat | None:
        """What it was read from; None for one that was made of files."""
        return self._native.format

    @property
    def entries(self) -> list[ManifestEntry]:
        return [ManifestEntry(name, algorithm, digest.hex()) for name, algorithm, digest in self._native.entries()]

    def text(self, format: ManifestFormat = "statement", *, key: str | None = None) -> bytes:  # noqa: A002
        """It as "lines", which sha256sum and xxhsum check; as a "statement", the JSON of model signing; or as a "bundle", which is
        one signed by `key`, a private one in PEM."""
        return self._native.write(format, key=key)

    def write(self, path: Path, format: ManifestFormat = "statement", *, key: str | None = None) -> None:  # noqa: A002
        """Writes that to a file."""
        text = self.text(format, key=key)
        with open(path, "wb") as file:
            file.write(text)

    def check(
        self, path: Path, *, extra: bool = True, follow_links: bool = False, progress: Progress | None = None
    ) -> list[ManifestProblem]:
        """Holds a file, or the files below a folder, against it: what is not as it says. An empty list: all is.

        extra     look for files that it does not name, too; lines of digests never do
        progress  called with the bytes done, and in all
        """
        root = os.fspath(path)
        wanted: dict[str, tuple[Algorithm, bytes]] = {}
        for name, algorithm, digest in self._native.entries():
            wanted[name] = (algorithm, digest)
        there = self._folder(root, wanted, follow_links) if os.path.isdir(root) else self._file(root, wanted)
        present = [name for name in wanted if name in there]
        chosen: list[tuple[str, Algorithm]] = [(there[name], wanted[name][0]) for name in present]
        digests = _digests(chosen, progress)
        changed = {name for name, digest in zip(present, digests, strict=True) if digest != wanted[name][1]}
        problems = [ManifestProblem(name, "changed") for name in changed]
        problems += [ManifestProblem(name, "missing") for name in wanted if name not in there]
        if extra:
            problems += [ManifestProblem(name, "extra") for name in there if name not in wanted]
        return sorted(problems)

    def _folder(self, root: str, wanted: dict[str, tuple[Algorithm, bytes]], follow_links: bool) -> dict[str, str]:
        """The files that it is about by name, as far as they exist, and those that it should name."""
        if self.format == "lines":
            paths = {name: os.path.join(root, name) for name in wanted}
            return {name: path for name, path in paths.items() if os.path.exists(path)}
        own = None if self._path is None else os.path.realpath(self._path)

        def left_out(name: str) -> bool:
            named = name in wanted or any(other.startswith(f"{name}/") for other in wanted)
            silent = self._native.ignores(name) or name.split("/")[0] in _NOT_THE_MODEL
            return not named and (silent or os.path.realpath(os.path.join(root, name)) == own)

        return dict(_files(root, follow_links or self._native.follows_links, left_out))

    def _file(self, path: str, wanted: dict[str, tuple[Algorithm, bytes]]) -> dict[str, str]:
        """The one entry that is about a file: that of its whole path, else the only one that is "." or ends in its name."""
        last = path.rpartition("/")[2]
        found = [name for name in wanted if name in (".", path) or name.rpartition("/")[2] == last]
        chosen = path if path in wanted else found[0] if len(found) == 1 else None
        if chosen is None:
            message = "the manifest does not name the file, or has several entries of that name"
            raise _make("NOT_FOUND", {"message": message, "path": path})
        entry = wanted[chosen]
        wanted.clear()
        wanted[chosen] = entry
        return {chosen: path} if os.path.exists(path) else {}


def _files(root: str, follow_links: bool, left_out: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """(name, path) of all files below a folder. Links to folders are never followed, so that none comes twice."""
    pending = [""]
    while pending:
        folder = pending.pop()
        for found in os.scandir(os.path.join(root, folder)):
            name = f"{folder}/{found.name}" if folder else found.name
            if left_out(name):
                continue
            if found.is_symlink() and not follow_links:
                message = "is a symbolic link; follow_links uses its target as the file"
                raise _make("LINKED", {"message": message, "path": found.path})
            if found.is_dir(follow_symlinks=False):
                pending.append(name)
            elif found.is_file():
                yield name, found.path
            elif not found.is_dir():
                raise _make("NOT_REGULAR", {"message": "is neither a file nor a folder", "path": found.path})


def _digests(files: list[tuple[str, Algorithm]], progress: Progress | None) -> list[bytes]:
    """The digests of files, several at a time. Whatever ends it ends all of them."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Event, Lock

    total = sum(os.path.getsize(path) for path, _ in files)
    stopped, lock = Event(), Lock()
    done = 0

    def digest(path: str, algorithm: Algorithm) -> bytes:
        nonlocal done
        hasher = _native.Hasher(algorithm)
        block = memoryview(bytearray(_BLOCK))
        with open(path, "rb", buffering=0) as file:
            while (size := file.readinto(block)) and not stopped.is_set():
                hasher.update(block[:size])
                with lock:
                    done += size
        return hasher.finish()

    with ThreadPoolExecutor(min(len(files), os.cpu_count() or 1) or 1) as pool:
        try:
            running = [pool.submit(digest, path, algorithm) for path, algorithm in files]
            found = []
            for each in running:
                while progress is not None and not each.done():
                    stopped.wait(0.05)
                    progress(done, total)
                found.append(each.result())
            if progress is not None:
                progress(total, total)
            return found
        except BaseException:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
