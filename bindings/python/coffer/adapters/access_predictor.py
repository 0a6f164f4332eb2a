# SPDX-License-Identifier: Apache-2.0
"""Guesses what will be taken of a tensor from what was taken of its like.

The layers of a model have the same tensors under names that differ in numbers. What a process took of
"layers.0.mlp.up.weight" (all of it, rows 512 to 1024, or nothing) it will take of "layers.1.mlp.up.weight". The first number of
a name that differs within the file is that of the layer; only that one is generalised. Another one is the number of an expert,
and what is taken of one expert says nothing about the next: most processes own few of them. So nothing is guessed about an
expert of which nothing was taken before.

A guess says what is worth reading ahead, and nothing else depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .boxes import Ranges

_NUMBER = re.compile(r"\d+")


class _Taken(NamedTuple):
    shape: tuple[int, ...]
    parts: tuple[Ranges, ...]  # in the order in which they were taken; the same one may come twice


class AccessPredictor:
    """What was taken of tensors, by what their names have in common. For one thread at a time."""

    def __init__(self, names: Iterable[str]) -> None:
        self._kinds: dict[str, str] = {}
        self._taken: dict[str, _Taken] = {}
        groups: dict[str, list[str]] = {}
        for name in names:
            groups.setdefault(_NUMBER.sub("#", name), []).append(name)
        for members in groups.values():
            self._divide(members)

    def _divide(self, names: list[str]) -> None:
        """Names that are equal but for numbers, into kinds, which differ only in the number of the layer."""
        numbers = [_NUMBER.findall(name) for name in names]
        layer = next((at for at, found in enumerate(zip(*numbers, strict=True)) if len(set(found)) > 1), -1)
        for name, found in zip(names, numbers, strict=True):
            kept = iter("#" if at == layer else number for at, number in enumerate(found))
            self._kinds[name] = _NUMBER.sub(lambda _, kept=kept: next(kept), name)  # type: ignore[misc]

    def kind(self, name: str) -> str:
        """The name, without the number of the layer."""
        return self._kinds.get(name, name)

    def knows(self, name: str) -> bool:
        """Whether anything is known about tensors of this kind."""
        return self.kind(name) in self._taken

    def learn(self, name: str, shape: Sequence[int], parts: Iterable[Ranges]) -> None:
        """All that was taken of a tensor so far; no part means nothing. The latest counts."""
        self._taken[self.kind(name)] = _Taken(tuple(shape), tuple(parts))

    def guess(self, name: str, shape: Sequence[int]) -> tuple[Ranges, ...]:
        """What will be taken of a tensor; none where nothing will, or nothing is known."""
        taken = self._taken.get(self.kind(name))
        if taken is None:
            return ()
        if taken.shape == tuple(shape):
            return taken.parts
        scaled = [_scaled(part, taken.shape, shape) for part in taken.parts]
        return tuple(part for part in scaled if part is not None)


def _scaled(part: Ranges, shape: Sequence[int], other: Sequence[int]) -> Ranges | None:
    """The same fraction of a tensor of another shape; None where that would not be whole elements."""
    if len(shape) != len(other):
        return None
    found = []
    for (start, stop, step), length, wanted in zip(part, shape, other, strict=True):
        if length == wanted:
            found.append((start, stop, step))
        elif step != 1 or length == 0 or start * wanted % length or stop * wanted % length:
            return None
        else:
            found.append((start * wanted // length, stop * wanted // length, 1))
    return tuple(found)
