# SPDX-License-Identifier: Apache-2.0
"""coffer.check: whether a file is sound, and what is odd about it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._errors import Error
from ._native import Model

if TYPE_CHECKING:
    from ._native import BufferLike


@dataclass(frozen=True)
class Note:
    """Something that is legal but suspicious."""

    text: str
    count: int
    offset: int | None  # the byte of the file where it was seen first; None where it is at no byte
    path: str  # that file, which matters where a model has several; of what the model is as a whole, as it was opened
    subject: str | None = None  # the tensor or file that such a note is about, the first of them


@dataclass(frozen=True)
class Report:
    """What a check found. True when the file is sound, with notes or without."""

    path: str | None  # as it was given; None for a descriptor and for memory
    error: Error | None
    notes: tuple[Note, ...]

    def __bool__(self) -> bool:
        return self.error is None


def check(
    source: str | os.PathLike[str] | os.PathLike[bytes] | int | BufferLike, *, max_header_size: int = 0
) -> Report:
    """Reads and validates a file's header and frame, or those of a model's files, as strictly as the library does; the data are
    not read. The source is what `open` takes."""
    path = os.fsdecode(source) if isinstance(source, str | os.PathLike) else None
    try:
        model = Model.open(source, access="read", max_header_size=max_header_size, all_notes=True, formats="own")
    except Error as error:
        return Report(path, error, ())
    notes = tuple(Note(*note) for note in model.notes())
    model.close()
    return Report(path, None, notes)
