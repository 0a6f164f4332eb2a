# SPDX-License-Identifier: Apache-2.0
"""Models written again: with other names, other dtypes, fewer tensors, other metadata, aligned, or in another format."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ._dtypes import FORMAT
from ._models import Source, _opened
from ._options import Sync, several, size_of

if TYPE_CHECKING:
    from ._native import Algorithm, Format, Progress, RewriteKind, RewriteReported, RewriteWay


class Place(NamedTuple):
    """What a tensor is called, its dtype as files have it ("BF16"), its first byte in its file, and which of the files that is."""

    name: str
    dtype: str
    offset: int
    shard: int


@dataclass(frozen=True)
class TensorRewrite:
    """What becomes of a tensor: `after` is None when it is left out. Numbers that a cast made infinite and zero are counted once it
    has run. `computed`: its numbers are computed, by coffer.merge_lora, coffer.average or coffer.dequantize."""

    before: Place
    after: Place | None
    overflowed: int
    vanished: int
    computed: bool = False


@dataclass(frozen=True)
class Rewrite:
    """What a rewrite does, or has done.

    way      "nothing": the model is that way already. "headers": only metadata or names change, in place where they fit.
             "files": new files
    shards   files of the new model
    tensors  what becomes of each, in the order of the file
    size_before, size   bytes of the model's files, before and afterwards
    copied, cast        bytes of the new tensors that are copied as they are, and that are computed
    """

    way: RewriteWay
    shards: int
    tensors: tuple[TensorRewrite, ...]
    size_before: int
    size: int
    copied: int
    cast: int


def rewrite(
    source: Source,
    output: str | os.PathLike[str] | None = None,
    *,
    rename: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    regex: Mapping[str, str] | None = None,
    maps: str | Iterable[str] = (),
    layers: str | Mapping[str, str] | None = None,
    drop: str | Iterable[str] = (),
    keep: str | Iterable[str] = (),
    cast: str | Mapping[str, str] | None = None,
    metadata: Mapping[str, str | None] | None = None,
    align: int | None = None,
    format: Format | None = None,  # noqa: A002  what it is
    max_shard_size: int | str | None = None,
    digests: Algorithm | None = None,
    sync: Sync = "replace",
    follow_links: bool = False,
    force: bool = False,
    ignore_unmatched: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    progress: Progress | None = None,
) -> Rewrite:
    """Writes a model again: a file, or the files of a folder or an index, which take the old ones' place together. Returns what was done.

    source          a path, a URL, or what coffer.open gave
    output          the new file, which for several files has to end in NAME.safetensors; None: in the source's place
    rename          patterns, and the new names: each * there becomes what the * of the same place in the pattern took. Of several that
                    match the first counts; all are about the names that the model has now
    names           names, exactly as they are, and the new ones: these count before `rename`, `regex` and `maps`, in this order
    regex           POSIX extended regular expressions, which may match anywhere in a name, and what every match becomes: \\1 to \\9 are
                    its groups, & is all of it. Not on Windows
    maps            known maps, such as "unwrap" or "whisper-hf": docs/editing.md has them
    layers          which to keep, "0-15,20", numbered anew in that order; or by their stack, {"model.layers": "0-15,20"}. Without renames
    drop, keep      patterns of tensors to leave out, or of the only ones to keep
    cast            patterns, and dtypes: F16, BF16, F32 or F64, as files or as frameworks call them; a dtype alone is for all tensors
    metadata        keys with their new values; None removes a key
    align           the data begin at a multiple of that many bytes, 8 at least, and every tensor where its dtype wants it
    format          "safetensors" or "bintensors"; None: that of the source
    max_shard_size  bytes of tensors in a file, or "5GB"; None: every tensor stays in its file
    digests         to record; None: by that with which the source records them, if it does
    follow_links    rewrite what a symbolic link leads to, and files that have several names
    force           take a model of one file away that is in the way of an index
    ignore_unmatched  a pattern, name, expression or map that matches nothing is no failure
    dry_run         write nothing, and tell what would be done
    progress        called with the bytes of tensors done and in all

    In a pattern * is any text, ? one character, [a-z] one of a set, and a backslash takes the next character as it is. Every pattern
    has to match something, or nothing is done; nor is it when two tensors would get one name, or when what is cast is no float.
    """
    stacks: list[tuple[str | None, str]] = [(None, layers)] if isinstance(layers, str) else [*(layers or {}).items()]
    casts = {"*": cast} if isinstance(cast, str) else cast or {}
    rules: list[tuple[RewriteKind, str, str | None]] = [
        *(("drop", pattern, None) for pattern in several(drop)),
        *(("keep", pattern, None) for pattern in several(keep)),
        *(("rename exact", old, name) for old, name in (names or {}).items()),
        *(("rename", pattern, name) for pattern, name in (rename or {}).items()),
        *(("rename regex all", pattern, name) for pattern, name in (regex or {}).items()),
        *(("rename map", name, None) for name in several(maps)),
        *(("layers", listed, stack) for stack, listed in stacks),
        *(("cast", pattern, FORMAT.get(dtype, dtype)) for pattern, dtype in casts.items()),
    ]
    with _opened(source, verify=True) as opened:
        told = opened._model.rewrite(
            rules,
            [*(metadata or {}).items()],
            output=output,
            format=format,
            alignment=align or 0,
            max_shard_size=0 if max_shard_size is None else size_of(max_shard_size),
            digests=digests,
            sync=sync,
            follow_links=follow_links,
            force=force,
            dry_run=dry_run,
            ignore_unmatched=ignore_unmatched,
            threads=threads,
            progress=progress,
        )
    return _told(told)


def _told(told: RewriteReported) -> Rewrite:
    way, shards, _, before, size, copied, computed, tensors = told
    changes = tuple(
        TensorRewrite(Place(*old), None if new is None else Place(*new), overflowed, vanished, was_computed)
        for old, new, overflowed, vanished, was_computed in tensors
    )
    return Rewrite(way, shards, changes, before, size, copied, computed)
