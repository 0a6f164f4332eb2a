# SPDX-License-Identifier: Apache-2.0
"""Reads parts of tensors, and reads ahead what a learner guesses.

Somebody goes through the tensors of some files in a known order, and takes parts of them. `advance` says how far that has come.
Threads read the guessed parts of the tensors that follow, into memory of at most `memory` bytes; `read_into` finds them there,
and reads at once what nobody guessed. What was guessed and not taken is dropped: first where its room is needed, else at the end.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

from .. import _native
from .._errors import Error
from .boxes import Ranges, slices
from .learning import Learner

MEMORY = 256 << 20
THREADS = 4
# What one thread reads at once: so many parts, or bytes.
_BATCH = 64
_BATCH_SIZE = 1 << 20
# How many tensors are looked ahead at least, of a model that has few in a layer.
_HORIZON = 16
# How many bytes are looked ahead at least.
_NEAR = 8 << 20


@dataclass
class Statistics:
    """What was done so far, in bytes unless it says otherwise."""

    tensors: int = 0  # how many tensors were passed
    untouched: int = 0  # of how many of them nothing was taken
    parts: int = 0  # how many parts were taken
    taken: int = 0
    found: int = 0  # of `taken`, what had been read ahead
    demanded: int = 0  # of `taken`, what was read when it was asked for
    wrong: int = 0  # what was read ahead for nothing
    most: int = 0  # the most memory that was used at once for what was read ahead


@dataclass
class _Entry:
    """A part that is read ahead."""

    position: int  # of its tensor
    part: _native.Tensor
    size: int
    uses: int  # how often it will still be taken; 0: it is not wanted any more
    readers: int = 0  # threads that are at its memory: the one that reads it, those that copy it
    started: bool = False
    used: bool = False
    memory: _native.Buffer | None = None  # None: not read yet, or it failed
    batch: Future[None] | None = None  # those that are read together with it


class ReadAhead:
    """Tensors of several files in one order. Parts may be taken from any thread."""

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        order: Iterable[str] | None = None,
        memory: int = MEMORY,
        threads: int = THREADS,
    ) -> None:
        """`order` has the names as they will come; None: as their bytes lie in the files."""
        self._models = [_native.Model.open(path, access="read", format="safetensors") for path in paths]
        self.tensors: Mapping[str, _native.Tensor] = {
            tensor.name: tensor for model in self._models for tensor in model.tensors()
        }
        self.statistics = Statistics()
        self._names = list(self.tensors if order is None else order)
        self._positions = {name: position for position, name in enumerate(self._names)}
        self._learner = Learner(self._names)
        self._first: dict[str, int] = {}  # the position of the first tensor of each kind
        for position, name in enumerate(self._names):
            self._first.setdefault(self._learner.kind(name), position)
        self._horizon = max(len(self._first), _HORIZON)
        self._taken: dict[str, list[Ranges]] = {}
        self._passed = 0  # the tensors before this position have come
        self._looked = 0  # up to which position it was decided what to read ahead
        self._limit = memory
        self._used = 0
        self._entries: OrderedDict[tuple[str, Ranges], _Entry] = OrderedDict()
        self._lock = threading.RLock()  # what is done may call back at once
        self._pool = ThreadPoolExecutor(threads, "coffer-ahead") if memory and threads else None

    # ---- For who goes through them ------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[str]:
        """The names in order, each after all that can be known from those before it was learned."""
        for position, name in enumerate(self._names):
            self.advance(position)
            yield name
        self.advance(len(self._names))

    def advance(self, position: int) -> None:
        """The tensors before `position` have come: what is taken of them was, as a rule, taken by now."""
        with self._lock:
            while self._passed < position:
                self._pass(self._names[self._passed])
            self._look_ahead()

    def follow(self, name: str) -> None:
        """The same for who does not go through them by iterating: the tensors before `name` have come. Threads may do it that are
        not quite in order: what is taken late is learned late."""
        self.advance(self._positions[name])

    def _pass(self, name: str) -> None:
        self._passed += 1
        self.statistics.tensors += 1
        if name not in self._taken:
            self.statistics.untouched += 1
            self._learner.learn(name, self.tensors[name].shape, ())

    def read(self, name: str, ranges: Ranges) -> memoryview:
        """A part, in memory of its own."""
        part = self.tensors[name][slices(ranges)]
        entry = self._take(name, ranges, part.nbytes)
        if entry is None:
            return memoryview(part.read())
        try:
            found = _content(entry)
            # What will be taken again has to stay as it is.
            return memoryview(found) if entry.uses == 0 else memoryview(bytearray(found))
        finally:
            self._release(entry)

    def read_into(self, name: str, ranges: Ranges, target: memoryview) -> None:
        """A part, into memory of exactly its size."""
        part = self.tensors[name][slices(ranges)]
        entry = self._take(name, ranges, part.nbytes)
        if entry is None:
            part.read_into(target)
            return
        try:
            target[:] = _content(entry)
        finally:
            self._release(entry)

    def close(self) -> None:
        """Ends all reading ahead. Parts can still be taken."""
        with self._lock:
            pool, self._pool = self._pool, None
            for key in list(self._entries):
                self._drop(key)
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # ---- What is read ahead -------------------------------------------------------------------------------------------

    def _take(self, name: str, ranges: Ranges, size: int) -> _Entry | None:
        """Counts and learns that a part is taken; what was read ahead for it, if anything was, is released afterwards."""
        with self._lock:
            parts = self._taken.setdefault(name, [])
            if not parts and self._positions[name] < self._passed:
                self.statistics.untouched -= 1  # it comes late
            parts.append(ranges)
            self._learner.learn(name, self.tensors[name].shape, parts)
            self.statistics.parts += 1
            self.statistics.taken += size
            entry = self._entries.get((name, ranges))
            if entry is None:
                self.statistics.demanded += size
                return None
            self.statistics.found += size
            entry.used = True
            entry.uses -= 1
            entry.readers += 1
            if entry.uses == 0:
                del self._entries[name, ranges]
            return entry

    def _release(self, entry: _Entry) -> None:
        with self._lock:
            entry.readers -= 1
            if entry.uses == 0 and entry.readers == 0:
                self._used -= entry.size

    def _look_ahead(self) -> None:
        """Starts reading what is guessed of the tensors that follow, as far as memory goes.

        It goes one layer ahead at most, since the next one may teach something else, or some bytes where layers are small; and not
        beyond a tensor of whose kind nothing is known yet, if another of that kind is still to come before it. With little room it
        waits for more, so that small parts are read in batches: handing one over costs more than reading it.
        """
        if self._pool is None or not self._make_room(self._limit // 2):
            return
        batch: list[_Entry] = []
        while self._looked < len(self._names):
            far = self._looked >= self._passed + self._horizon
            if far and self._used >= _NEAR:
                break
            name = self._names[self._looked]
            if self._looked >= self._passed:
                first = self._first[self._learner.kind(name)]
                if not self._learner.knows(name) and self._passed <= first < self._looked:
                    break
                if not self._add(name, batch, far):
                    break
            self._looked += 1
            if len(batch) >= _BATCH or sum(entry.size for entry in batch) >= _BATCH_SIZE:
                self._submit(batch)
                batch = []
        if batch:
            self._submit(batch)

    def _add(self, name: str, batch: list[_Entry], far: bool) -> bool:
        """Puts what is guessed of a tensor into a batch. False where there is no room yet, or it is too early to say."""
        tensor = self.tensors[name]
        parts = Counter(self._learner.guess(name, tensor.shape))
        wanted = {ranges: tensor[slices(ranges)] for ranges in parts}
        size = sum(part.nbytes for part in wanted.values())
        if size > self._limit or size == 0:
            return not far  # it is read when it is asked for
        if not self._make_room(size):
            return False
        for ranges, part in wanted.items():
            entry = _Entry(self._positions[name], part, part.nbytes, parts[ranges])
            self._entries[name, ranges] = entry
            batch.append(entry)
        self._used += size
        self.statistics.most = max(self.statistics.most, self._used)
        return True

    def _submit(self, batch: list[_Entry]) -> None:
        assert self._pool is not None
        future = self._pool.submit(self._read_batch, batch)
        for entry in batch:
            entry.batch = future

    def _read_batch(self, batch: list[_Entry]) -> None:
        for entry in batch:
            with self._lock:
                entry.started = True
                entry.readers += 1
            try:
                if entry.uses:
                    entry.memory = entry.part.read()
            except Error:
                pass  # who takes it reads it again, and fails in the same way unless it has passed
            finally:
                self._release(entry)

    def _make_room(self, size: int) -> bool:
        """Drops what should have been taken by now, the oldest first, until there is room for `size` bytes."""
        while self._used + size > self._limit:
            key = next(iter(self._entries), None)
            if key is None or self._entries[key].position >= self._passed:
                return False
            self._drop(key)
        return True

    def _drop(self, key: tuple[str, Ranges]) -> None:
        """Forgets a part that was not taken as often as was guessed."""
        entry = self._entries.pop(key)
        entry.uses = 0
        if not entry.used and entry.started:
            self.statistics.wrong += entry.size
        if entry.started and entry.readers == 0:
            self._used -= entry.size  # else by the thread that still has it


def _content(entry: _Entry) -> _native.Buffer:
    """What was read ahead."""
    try:
        assert entry.batch is not None
        entry.batch.result()
    except CancelledError:
        pass
    return entry.part.read() if entry.memory is None else entry.memory
