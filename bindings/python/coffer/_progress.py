# SPDX-License-Identifier: Apache-2.0
"""A progress bar, where tqdm is installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ._frameworks import Progress


@contextmanager
def bar(path: str) -> Iterator[Progress | None]:
    """A bar of bytes for the length of the block; what advances it is called with the bytes done, and in all."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(desc=os.path.basename(path), unit="B", unit_scale=True) as shown:

        def advance(done: int, total: int) -> None:
            shown.total = total
            shown.update(done - shown.n)

        yield advance
