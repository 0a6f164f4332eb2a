# SPDX-License-Identifier: Apache-2.0
"""Reading ahead for those who take slices of one tensor after the other, as loaders of models do.

Once a few large slices were taken in an order that can be known (that of the names, of the names by their numbers, or of the bytes),
what was taken of a layer is loaded for the layers that follow, while the program is busy with the current one. A wrong
guess costs reading; what a slice gets never depends on it.
"""

from __future__ import annotations

import operator
import os
import re
import threading
from collections.abc import Sequence
from typing import Any

from ... import _native
from ..._dtypes import is_packed
from ..._frameworks import ArrayFramework, Framework, TorchFramework
from ...adapters.ahead import ReadAhead
from ...adapters.boxes import Ranges
from ._indexing import Entry, choose_part, entries

# Smaller tensors, and smaller parts, are read sooner than anything can be decided.
WORTHWHILE = 256 << 10
_PART = 64 << 10
# How far it was from one name to the next in an order, the latest most: in the right one by one tensor, or by a few where small ones
# are left out, or threads share the names among them.
_FADING = 0.75
_FAR = 64.0
# Below this, an order is followed: it is the sum of the distances, faded, of steps of 6 tensors.
_NEAR = 6 / (1 - _FADING)


class _Order:
    """An order of names, and how well it is kept to."""

    def __init__(self, names: Sequence[str]) -> None:
        self.positions = {name: position for position, name in enumerate(names)}
        self.last = 0
        self.strayed = 2 * _NEAR  # so that it takes some steps until it is followed

    def ask(self, name: str) -> None:
        here = self.positions[name]
        self.strayed = self.strayed * _FADING + min(abs(here - self.last), _FAR)
        self.last = here


def is_worthwhile(framework: Framework, model: _native.Model, tensor: _native.Tensor) -> bool:
    """Whether slices of a tensor that is large enough are read, into host memory: those of a private map are views of it."""
    if is_packed(tensor.dtype):
        return False
    if isinstance(framework, TorchFramework):
        return framework.on_host and model.access != "private"
    return isinstance(framework, ArrayFramework)


class SlicesAhead:
    """What slices of one opened file share. For any number of threads. In a fork nothing is read ahead."""

    def __init__(self, model: _native.Model) -> None:
        self._model = model
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._orders: list[_Order] = []
        self._followed: _Order | None = None
        self._source: ReadAhead | None = None  # in the order that is followed
        self._closed = False

    def part(self, framework: Framework, name: str, index: object) -> Any:
        """What `index` takes of a tensor; None where it is to be read as always, NotImplemented where that is no matter of ours."""
        if os.getpid() != self._owner:
            return NotImplemented
        part = choose_part(self._model, name, index)
        if part.nbytes < _PART:
            return NotImplemented
        source = self._told(name)
        if source is None:
            return None
        framework.dtype(part.dtype)
        shape = self._model.find(name).shape
        return framework.taken(part.dtype, part.shape, source.read(name, _ranges(entries(index, shape), shape)))

    def close(self) -> None:
        """Ends reading ahead for good. Slices stay usable."""
        with self._lock:
            source, self._source = self._source, None
            self._closed = True
        if source is not None and os.getpid() == self._owner:
            source.close()

    def _told(self, name: str) -> ReadAhead | None:
        """What reads ahead, having been told that this name is asked for; None as long as no order is known."""
        with self._lock:
            if self._closed:
                return None
            best = self._best(name)
            now = self._followed
            # Another order is followed when it is clearly better, or when the names come from the beginning again.
            if now is not None and (now.strayed > best.strayed + _NEAR / 2 or now.strayed > 2 * _NEAR):
                self._follow(None)
            if self._followed is None and best.strayed < _NEAR:
                self._follow(best)
            source = self._source
        if source is not None:
            source.follow(name)
        return source

    def _best(self, name: str) -> _Order:
        """Notes a name; the order in which the latest names are nearest to each other."""
        if not self._orders:
            names = self._model.offset_keys()
            self._orders = [_Order(order) for order in (sorted(names, key=_natural), sorted(names), names)]
        for order in self._orders:
            order.ask(name)
        return min(self._orders, key=lambda order: order.strayed)

    def _follow(self, order: _Order | None) -> None:
        if self._source is not None:
            self._source.close()
        self._followed = order
        if order is None:
            self._source = None
        else:
            self._source = ReadAhead.of([self._model], order=order.positions, start=order.last, verify=False)


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """By which "layer.10" comes after "layer.9"."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


def _ranges(found: Sequence[Entry], shape: Sequence[int]) -> Ranges:
    ranges = []
    for dim, length in enumerate(shape):
        entry = found[dim] if dim < len(found) else slice(None)
        if isinstance(entry, slice):
            ranges.append(entry.indices(length))
        else:
            ranges.append((operator.index(entry), operator.index(entry) + 1, 1))
    return tuple(ranges)
