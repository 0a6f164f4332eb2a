# SPDX-License-Identifier: Apache-2.0
"""What shows progress: a function of the caller's, or a bar, where tqdm is installed."""

from __future__ import annotations

import os
from contextlib import contextmanager

from ._errors import wrong_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._native import Progress

    # A function of the bytes done and in all; or whether to show a bar.
    Shown = bool | Progress | None


@contextmanager
def shown(progress: Shown, path: str | os.PathLike[str]) -> Iterator[Progress | None]:
    """What is to be called for the length of the block; None when nothing is to be shown."""
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise wrong_type(f"progress is a function, True, False or None, not {progress!r}")
    if callable(progress):
        yield progress
    elif progress:
        with _bar(os.fspath(path)) as advance:
            yield advance
    else:
        yield None


@contextmanager
def _bar(path: str) -> Iterator[Progress | None]:
    """A bar of bytes for the length of the block; what advances it is called with the bytes done, and in all."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(desc=os.path.basename(path), unit="B", unit_scale=True) as bar:

        def advance(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield advance
