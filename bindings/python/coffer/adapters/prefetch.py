# SPDX-License-Identifier: Apache-2.0
"""Reads parts of tensors, and reads ahead what a learner guesses.

Somebody goes through the tensors of some files in a known order, and takes parts of them. `advance` says how far that has come.
The guessed parts of the tensors that follow are loaded in the background, as `coffer.load` does it, into memory of at most `memory`
bytes; `read_into` finds them there, and reads at once what nobody guessed. What was guessed and not taken is dropped: first where
its room is needed, else at the end.

Each batch of guesses is a load of its own, and all of them pass through one staging buffer. A thread starts them, since a load of
little is carried out by the thread that starts it. Whoever takes a part takes it out of its load, which then reads it next.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType

from .. import _native
from .._errors import Error
from .._load import load_parts
from .boxes import Ranges, slices, whole
from .access_predictor import AccessPredictor

MEMORY = 256 << 20
THREADS = 4
# What one load reads ahead: so many parts, or bytes. Enough that a disk is busy, and little beside the memory that there is.
_BATCH = 1024
_BATCH_SIZE = 16 << 20
# How many tensors are looked ahead at least, of a model that has few in a layer.
_HORIZON = 16
# How many bytes are looked ahead at least.
_NEAR = 32 << 20
# What is asked for and was not read ahead is loaded if it is at least so large; to start a load takes longer than to read less.
_LARGE = 1 << 20
# The memory that bytes pass through that cannot be read right to their place.
_STAGING_SIZE = 64 << 20


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


@dataclass(slots=True)
class _Entry:
    """A part that is read ahead."""

    name: str
    ranges: Ranges
    position: int  # of its tensor
    size: int
    uses: int  # how often it will still be taken; 0: it is not wanted any more
    readers: int = 0  # threads that are at its memory
    started: bool = False
    used: bool = False
    batch: Future[None] | None = None  # which starts its load
    load: _native.Load | None = None  # None: it was not started, or that failed
    number: int = 0  # in its load
    memory: _native.Loaded | None = None  # None: not taken out of its load yet
    taking: threading.Lock = field(default_factory=threading.Lock)

    def content(self) -> _native.Loaded | None:
        """What was read ahead; None where that failed or was ended. It is waited for."""
        try:
            if self.load is None and self.batch is not None:
                self.batch.result()
            with self.taking:
                if self.memory is None and self.load is not None:
                    self.memory = self.load.take(self.number)[1]
        except (CancelledError, Error):
            pass  # who takes it reads it again, and fails in the same way unless it has passed
        return self.memory


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
        models = [_native.Model.open(path, access="read", format="safetensors") for path in paths]
        self._homes = {name: model for model in models for name in model.offset_keys()}
        self.tensors: Mapping[str, _native.Tensor] = {tensor.name: tensor for model in models for tensor in model.tensors()}
        self.statistics = Statistics()
        self._names = list(self.tensors if order is None else order)
        self._positions = {name: position for position, name in enumerate(self._names)}
        self._learner = AccessPredictor(self._names)
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
        # What is asked for does not wait for what is read ahead, so it has a staging buffer of its own.
        self._staging = _native.Staging(memory=max(1, min(memory, _STAGING_SIZE)), threads=threads)
        self._urgent = _native.Staging(threads=threads)
        self._starter = ThreadPoolExecutor(1, "coffer-ahead") if memory and threads else None

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
        return self._read(name, ranges, None)

    def read_into(self, name: str, ranges: Ranges, target: memoryview) -> None:
        """A part, into memory of exactly its size."""
        self._read(name, ranges, target)

    def _read(self, name: str, ranges: Ranges, target: memoryview | None) -> memoryview:
        part = self.tensors[name][slices(ranges)]
        entry = self._take(name, ranges, part.nbytes)
        if entry is None:
            return self._demand(part, name, ranges, target)
        try:
            found = entry.content()
            if found is None:
                return self._demand(part, name, ranges, target)
            if target is not None:
                target[:] = memoryview(found)
                return target
            # What will be taken again has to stay as it is.
            return memoryview(found) if entry.uses == 0 else memoryview(bytearray(found))
        finally:
            self._release(entry)

    def _demand(self, part: _native.Tensor, name: str, ranges: Ranges, target: memoryview | None) -> memoryview:
        """A part that was not read ahead. All of a tensor is loaded, where the file has a digest that it can be compared with."""
        model = self._homes[name]
        verified = model.algorithm is not None and ranges == whole(self.tensors[name].shape)
        if part.nbytes >= _LARGE or verified:
            with load_parts(model, [(name, slices(ranges), target)], self._urgent) as load:
                return memoryview(load.take(0))
        if target is None:
            return memoryview(part.read())
        part.read_into(target)
        return target

    def close(self) -> None:
        """Ends all reading ahead. Parts can still be taken."""
        with self._lock:
            starter, self._starter = self._starter, None
            loads = {id(entry.load): entry.load for entry in self._entries.values() if entry.load is not None}
            for key in list(self._entries):
                self._drop(key)
        for load in loads.values():
            load.cancel()
        if starter is not None:
            starter.shutdown(cancel_futures=True)

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
                self._discard(entry)

    def _look_ahead(self) -> None:
        """Starts reading what is guessed of the tensors that follow, as far as memory goes.

        It goes one layer ahead at most, since the next one may teach something else, or some bytes where layers are small; and not
        beyond a tensor of whose kind nothing is known yet, if another of that kind is still to come before it. With little room, or
        little to add, it waits for more, so that parts are read in batches: starting a load costs more than reading a small part.
        """
        if self._starter is None or self._is_far() or not self._make_room(self._limit // 2):
            return
        batch: list[_Entry] = []
        before = self._used
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
            if len(batch) >= _BATCH or self._used - before >= _BATCH_SIZE:
                self._submit(batch)
                batch, before = [], self._used
        if batch:
            self._submit(batch)

    def _is_far(self) -> bool:
        """Whether most of what should be looked ahead at least is still to come."""
        return self._looked > self._passed + self._horizon * 3 // 4 and self._used >= _NEAR * 3 // 4

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
            entry = _Entry(name, ranges, self._positions[name], part.nbytes, parts[ranges])
            self._entries[name, ranges] = entry
            batch.append(entry)
        self._used += size
        self.statistics.most = max(self.statistics.most, self._used)
        return True

    def _submit(self, batch: list[_Entry]) -> None:
        assert self._starter is not None
        future = self._starter.submit(self._begin_loads, batch)
        for entry in batch:
            entry.batch = future

    def _begin_loads(self, batch: list[_Entry]) -> None:
        """Starts the loads of a batch, one for each file."""
        files: dict[int, list[_Entry]] = {}
        with self._lock:
            for entry in batch:
                if entry.uses or entry.readers:
                    entry.started = True
                    files.setdefault(id(self._homes[entry.name]), []).append(entry)
                else:
                    self._used -= entry.size  # it was dropped meanwhile
        for entries in files.values():
            try:
                plan = _native.Plan(self._homes[entries[0].name])
                for number, entry in enumerate(entries):
                    plan.add(entry.name, slices(entry.ranges))
                    entry.number = number
                load = _native.Load(plan, staging=self._staging)
            except Error:
                continue  # whoever takes a part of them reads it again
            for entry in entries:
                entry.load = load

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
            self._discard(entry)  # else the thread that still has it does so

    def _discard(self, entry: _Entry) -> None:
        """Gives back the memory of a part, which its load has if nobody took it."""
        if entry.memory is None and self._starter is not None:
            entry.readers += 1
            self._starter.submit(self._take_out, entry)
        else:
            entry.memory = entry.load = None
            self._used -= entry.size

    def _take_out(self, entry: _Entry) -> None:
        entry.content()
        with self._lock:
            entry.memory = entry.load = None
            self._used -= entry.size
