# SPDX-License-Identifier: Apache-2.0
"""A model as text and as a table for notebooks, of what its header says: nothing is read.

Names come from strangers. What cannot be printed is escaped, long ones are cut, and in HTML all of it is text.
"""

from __future__ import annotations

import heapq
import html
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Info = tuple[str, str, tuple[int, ...], int, int]  # as Model.infos has it: name, dtype, shape, offset, nbytes

# Characters of a name that are shown, and dimensions of a shape.
NAME_MAX = 120
RANK_MAX = 12


class Share(NamedTuple):
    """The tensors of one dtype."""

    dtype: str
    tensors: int
    parameters: int
    nbytes: int


def plain(text: str) -> str:
    """Text that is safe to print: cut in the middle where it is long, and what cannot be printed escaped."""
    if len(text) > NAME_MAX:
        half = NAME_MAX // 2
        return f"{plain(text[:half])}…{plain(text[-half + 1 :])}"
    return text if text.isprintable() else repr(text)[1:-1]


def size_text(nbytes: int) -> str:
    size = float(nbytes)
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if size < 999.95:  # rounded, more would be 1000.0, which belongs to the next unit
            return f"{nbytes} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} EB"


def counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def shape_text(shape: Sequence[int]) -> str:
    shown = " × ".join(map(str, shape[:RANK_MAX]))
    return f"{shown} × …" if len(shape) > RANK_MAX else shown or "scalar"


def rows(infos: Iterable[Info], most: int) -> list[tuple[str, str, str, str]]:
    """The first tensors in the order of their names: name, dtype, shape, size."""
    return [
        (plain(name), plain(dtype), shape_text(shape), size_text(nbytes))
        for name, dtype, shape, _, nbytes in heapq.nsmallest(most, infos)
    ]


def shares(infos: Iterable[Info]) -> list[Share]:
    """By dtype, the one with the most bytes first."""
    sums: dict[str, list[int]] = {}
    for _, dtype, shape, _, nbytes in infos:
        of_dtype = sums.setdefault(dtype, [0, 0, 0])
        of_dtype[0] += 1
        of_dtype[1] += math.prod(shape)
        of_dtype[2] += nbytes
    return sorted((Share(dtype, *of_dtype) for dtype, of_dtype in sums.items()), key=lambda share: (-share.nbytes, share.dtype))


def _table(head: Sequence[str], lines: Iterable[Sequence[str]], left: int) -> str:
    """A table of HTML, whose first `left` columns are text and the others numbers."""
    sides = ["left" if i < left else "right" for i in range(len(head))]

    def row(tag: str, cells: Sequence[str]) -> str:
        made = (f"<{tag} style='text-align: {side}'>{html.escape(cell)}</{tag}>" for side, cell in zip(sides, cells, strict=True))
        return f"<tr>{''.join(made)}</tr>"

    return f"<table><thead>{row('th', head)}</thead><tbody>{''.join(row('td', line) for line in lines)}</tbody></table>"


def model_html(name: str, format: str, files: int, infos: Sequence[Info], most: int) -> str:  # noqa: A002
    """A line with the sums, a table of the dtypes, and one of the first tensors."""
    by_dtype = shares(infos)
    facts = [
        format,
        *([counted(files, "file")] if files > 1 else []),
        counted(len(infos), "tensor"),
        counted(sum(share.parameters for share in by_dtype), "parameter"),
        size_text(sum(share.nbytes for share in by_dtype)),
    ]
    parts = [f"<p><b>{html.escape(name)}</b>: {html.escape(', '.join(facts))}</p>"]
    if by_dtype:
        lines = [(plain(s.dtype), f"{s.tensors:,}", f"{s.parameters:,}", size_text(s.nbytes)) for s in by_dtype[:most]]
        parts.append(_table(("dtype", "tensors", "parameters", "size"), lines, 1))
        parts.append(_table(("tensor", "dtype", "shape", "size"), rows(infos, most), 3))
    if len(infos) > most:
        parts.append(f"<p>… and {counted(len(infos) - most, 'more tensor')}</p>")
    return "".join(parts)
