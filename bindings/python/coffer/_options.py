# SPDX-License-Identifier: Apache-2.0
"""Options that several calls have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, TypedDict

from ._errors import wrong_argument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._native import Algorithm
    from ._progress import Shown

Backend = Literal["mmap", "pread"]
Sync = Literal["replace", "always", "never"]


class Reading(TypedDict, total=False):
    """How a whole file is loaded.

    backend   "mmap", the default: tensors of torch and paddle view a private map of the file; "pread": they are read. Arrays are
              always read, and so is everything on network file systems, where a map is slow and a lost connection ends the process
    verify    whether tensors are held against the digests that the file records, on the way
    progress  is called with the bytes done and in all; True shows a bar, where tqdm is installed. Then everything is read
    """

    backend: Backend
    verify: bool
    progress: Shown


class Writing(TypedDict, total=False):
    """How a whole file is saved. It takes the place of an older one when it is complete.

    sync      when it is made to survive a power cut: "replace", the default, before an older file is replaced; "always"; "never"
    digests   "sha256" or "xxh3-128" records those of the tensors in the metadata, for `verify`
    progress  as in `Reading`
    packed    whether tensors are packed, without loss: a third smaller of BF16, and readable by Coffer alone
    """

    sync: Sync
    digests: Algorithm | None
    progress: Shown
    packed: bool


def several(given: str | Iterable[str]) -> list[str]:
    """Names or patterns: a str is one, and not as many as it has characters."""
    return [given] if isinstance(given, str) else list(given)


def size_of(size: int | str) -> int:
    """A number of bytes, of a text such as "5GB" too, in the units of the Hugging Face libraries."""
    if isinstance(size, str):
        found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?i?B)", size, re.ASCII | re.IGNORECASE)
        if found is None:
            raise wrong_argument(f'"{size}" is no size: a number and KB, MB, GB or TB')
        unit = found[2].upper()
        size = int(float(found[1]) * (1024 if "I" in unit else 1000) ** " KMGT".index(unit[0] if len(unit) > 1 else " "))
    if size <= 0:
        raise wrong_argument(f"the limit of a file must be above 0 bytes, not {size}")
    return size
