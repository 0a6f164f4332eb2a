# SPDX-License-Identifier: Apache-2.0
"""coffer.load: many tensors at once, in the background, for any framework and device."""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextlib import ExitStack
from functools import cache, cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex

from . import _native
from ._dtypes import framework_shape
from ._errors import ArgumentError, Error, build, no_tensor, wrong_argument, wrong_type
from ._file import File
from ._frameworks import Framework, TorchFramework, ViewFramework, framework as framework_on, framework_of, imported_framework
from ._frameworks import is_host, of_memory
from ._places import Item, Place, Rooms, reaches
from ._plan import Plan, plan_of
from ._progress import shown

if TYPE_CHECKING:
    from ._native import Engine, Progress, Staging
    from ._progress import Shown

Order = Literal["file", "plan"]
Tensors = dict[str, Any]


class LoadStats(NamedTuple):
    """What a load has done so far. Times are in seconds; those spent waiting are of all threads together."""

    wanted: int  # bytes of the results, all in all
    done: int  # of them, in place
    read: int  # bytes that were read, from wherever
    cached: int  # of them, found in the page cache
    direct: int  # of them, read past it
    requests: int  # reads
    seconds: float  # since the start, until the end
    first: float  # until the first tensor was ready; 0: none was
    waited_source: float  # for bytes
    waited_device: float  # for the device
    waited_caller: float  # for the caller to take what fills a budget
    engines: tuple[Engine, ...]  # that were used
    threads: int  # that worked at once, at most


class Load(Iterator[tuple[str, Any]]):
    """A plan that is carried out in the background. It is a mapping of names to tensors, and its iteration gives pairs of a name and a
    tensor, as they become ready.

    `load[name]` waits for a tensor, and the load keeps it, and what becomes ready before it: who asks again gets the same one. `keys`,
    `values`, `items`, `get`, `in`, `dict(load)` and `**load` are those of a dict in the order of the plan. Iteration and `take` hand a
    tensor out once, and the mapping no longer has it then: its memory is free when the caller drops it. Iteration gives what was not
    asked for by name.

    What was handed out owns its memory, and stays when the load is closed. As a context manager it is closed at the end. Any number of
    threads may use it at once. Ctrl-C ends a call that waits, and the load continues until it is closed.

    What goes wrong is a `coffer.Error`: first of all with the code CHANGED for a file that was changed meanwhile, TENSOR_DIGEST for a
    tensor that is damaged, DEVICE, PEER, CANCELLED. After a failure nothing more is handed out: every call raises it again. A closed
    load is a ValueError.
    """

    def __init__(self, plan: Plan, native: _native.Load, destination: Destination, shown: ExitStack) -> None:
        self._plan = plan
        self._native = native
        self._destination = destination
        self._shown = shown  # the progress
        self._items = destination.items
        self._names = [item[0] for item in self._items]
        self._numbers = dict(zip(reversed(self._names), reversed(range(len(self._names))), strict=True))  # the first of each name
        self._taken: set[int] = set()
        self._kept: dict[int, Any] = {}  # of those, what `load[name]` gave
        self._early: dict[int, Any] = {}  # and what became ready while that was waited for
        self._keeping = threading.RLock()  # again by the same thread: progress may be told to a caller of this load

    def names(self) -> list[str]:
        """Of all that is loaded, in the order of the plan."""
        return self._names.copy()

    def __len__(self) -> int:
        return len(self._items) - len(self._taken) + len(self._kept) + len(self._early)

    def __getitem__(self, name: str) -> Any:
        """Waits for a tensor, and keeps it; of a name that the plan has more than once, the first. `take` has a tensor read next. A
        KeyError for a name that the load does not have, a ValueError with the code TAKEN for what was handed out before."""
        number = self._first(name)
        with self._keeping:
            while number not in self._kept:
                if number in self._early:
                    self._kept[number] = self._early.pop(number)
                elif number in self._taken or not self._wait_for_one():
                    raise self._was_taken(number)
            return self._kept[number]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._numbers and self._has(self._numbers[name])

    def keys(self) -> KeysView[str]:
        """The names of what the mapping has. None of these views waits before somebody wants a tensor of it."""
        return KeysView(_ByName(self))

    def values(self) -> ValuesView[Any]:
        """The tensors, each of which is waited for."""
        return ValuesView(_ByName(self))

    def items(self) -> ItemsView[str, Any]:
        """The pairs of both, in the order of the plan."""
        return ItemsView(_ByName(self))

    def get(self, name: str, default: Any = None) -> Any:
        """`load[name]`, or the default where the mapping does not have it."""
        return self[name] if name in self else default

    def dict(self) -> Tensors:
        """Everything, when it is there."""
        with self._keeping:
            while self._wait_for_one():
                pass
        return {name: self[name] for name in self._names if self._has(self._numbers[name])}

    def __iter__(self) -> Load:
        return self

    def __next__(self) -> tuple[str, Any]:
        found = self._next()
        if found is None:
            raise StopIteration
        return self._names[found[0]], found[1]

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """The same pairs with the number of each item in the plan in place of its name, which a plan may have more than once."""
        while (found := self._next()) is not None:
            yield found

    def take(self, name: str | int) -> Any:
        """Waits for a tensor, by its name or by its number in the plan, and has it read next. A name that the plan has more than once
        is taken as often. A KeyError for a name that it does not have, a ValueError with the code TAKEN for what was handed out
        before, and with the code BUDGET for what cannot be read before other tensors were taken."""
        number = self._number(name) if isinstance(name, str) else self._checked(name)
        if number not in self._taken:
            try:
                return self._made(number, self._native.take(number)[1])
            except Error as error:
                if error.code != "TAKEN":
                    raise
        with self._keeping:  # a thread that waits for another tensor may have it
            for held in (self._kept, self._early):
                if number in held:
                    return held.pop(number)
        raise self._was_taken(number)

    def wait(self) -> None:
        """Waits until everything is in place, without handing it out. A ValueError with the code BUDGET where a budget has no room
        for that."""
        self._native.wait()

    def cancel(self) -> None:
        """Ends the load soon: its calls fail with the code CANCELLED. From any thread."""
        self._native.cancel()

    def stats(self) -> LoadStats:
        """What it has done so far. From any thread."""
        *counts, engines, threads = self._native.stats()
        return LoadStats._make([*counts[:6], *(time / 1e9 for time in counts[6:]), tuple(engines), threads])

    def close(self) -> None:
        """Ends the load, and releases what was not taken."""
        self._native.close()
        self._taken.difference_update(self._kept, self._early)  # asking for these now says that the load is closed
        self._kept.clear()
        self._early.clear()
        self._destination.forget()
        self._shown.close()

    def __enter__(self) -> Load:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a coffer.Load cannot be pickled or copied: it is threads and memory of this process")

    def __repr__(self) -> str:
        name = self._plan.file.path or "memory"
        return f"<coffer.Load of {name}: {len(self._items)} items, {len(self._items) - len(self)} taken>"

    def __del__(self) -> None:
        if hasattr(self, "_native"):  # not when making it failed
            self.close()

    def _first(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            raise no_tensor(f"the load has no tensor '{name}'")
        return number

    def _number(self, name: str) -> int:
        """Of the first of that name that was not handed out."""
        number = self._first(name)
        if len(self._numbers) < len(self._names):
            numbers = (i for i, other in enumerate(self._names) if other == name and self._has(i))
            number = next(numbers, number)
        return number

    def _has(self, number: int) -> bool:
        """Whether the mapping has an item: it was not handed out for good."""
        return number not in self._taken or number in self._kept or number in self._early

    def _wait_for_one(self) -> bool:
        """Waits for the next tensor, and keeps it for whoever will want it; False when there is none."""
        found = self._native.next()
        if found is not None:
            self._early[found[0]] = self._made(found[0], found[1])
        return found is not None

    def _next(self) -> tuple[int, Any] | None:
        """The next tensor that was not asked for by name, and its number."""
        if self._early:
            with self._keeping:
                for number in self._early:
                    return number, self._early.pop(number)
        found = self._native.next()
        return None if found is None else (found[0], self._made(found[0], found[1]))

    def _was_taken(self, number: int) -> Exception:
        return build(ArgumentError, "TAKEN", {"message": f"'{self._names[number]}' was handed out before, as item {number}"})

    def _checked(self, number: object) -> int:
        """The number of an item."""
        if not isinstance(number, SupportsIndex):
            raise wrong_type(f"an item is taken by its name or number, not by a {type(number).__name__}")
        if not 0 <= operator.index(number) < len(self._items):
            raise wrong_argument(f"the plan has {len(self._items)} items, which count from 0: there is no item {number}")
        return operator.index(number)

    def _made(self, number: int, memory: _native.Loaded | None) -> Any:
        self._taken.add(number)
        return self._destination.made(number, memory)


class _ByName(Mapping[str, Any]):
    """A load whose iteration gives names, as that of other mappings does."""

    def __init__(self, load: Load) -> None:
        self._load = load

    def __getitem__(self, name: str) -> Any:
        return self._load[name]

    def __contains__(self, name: object) -> bool:
        return name in self._load

    def __iter__(self) -> Iterator[str]:
        return (name for name in dict.fromkeys(self._load.names()) if name in self._load)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Destination:
    """Where the results of a load go: to memory that the load makes, and that a framework takes; or to tensors that are there."""

    def __init__(self, framework: Framework | _Bytes, plan: Plan) -> None:
        self._framework = framework
        # Of a device that no driver of Coffer's reaches, tensors are made in host memory, and the framework moves them.
        self._mover = framework if isinstance(framework, ViewFramework) and not framework.on_host else None
        self._there: dict[int, Any] = dict(plan._outs)
        self._rooms: Rooms | None = None  # of tensors that are made on a device
        self._plan = plan._native
        self._places: dict[int, Place] = plan._places(self.items) if self._there else {}
        made = [number for number in range(len(plan)) if number not in self._there]
        self._dtypes = {dtype: framework.dtype(dtype) for dtype in self._plan.dtypes(made)}
        if self._mover is not None and isinstance(framework, TorchFramework) and reaches(self._mover.device):
            self._rooms = Rooms(self._plan, made, self._mover.device)
            self._mover = None
        elif isinstance(self._mover, TorchFramework):
            self._mover.moved(_nothing())  # a device that torch does not have is an error before anything is read

    @cached_property
    def items(self) -> list[Item]:
        """As `Plan.items` of the extension has them, when they are first asked for: with many of them that is when the load runs."""
        return self._plan.items()

    def place(self, number: int) -> Place | None:
        """Where an item goes; None: to memory that the load makes."""
        if self._rooms is not None and number in self._rooms:
            return self._rooms.place(number, self.items[number][3])
        return self._places.get(number)

    def placed(self, plan: Plan) -> _native.Plan:
        """The plan for one load, with the places of its items."""
        if self._rooms is None and not self._places:
            return plan._native
        placed = _native.Plan(plan.file._model)
        if self._rooms is None or not self._rooms.put_all(placed):
            plan.put_into(placed, self.place, self.items)
        return placed

    def reaches_devices(self) -> bool:
        return self._rooms is not None or any(place.device is not None for place in self._places.values())

    def made(self, number: int, memory: _native.Loaded | None) -> Any:
        """What is handed out as that item."""
        if memory is None:
            # Nothing else keeps it from now on: who drops it has its memory back.
            if self._rooms is not None and number in self._rooms:
                _, dtype, shape, _, _ = self.items[number]
                return self._rooms.pop(number, self._dtypes[dtype], framework_shape(dtype, shape))
            self._places.pop(number, None)
            return self._there.pop(number)
        _, dtype, shape, _, _ = self.items[number]
        tensor = self._framework.made(dtype, shape, memory)
        return tensor if self._mover is None else self._mover.moved(tensor)

    def forget(self) -> None:
        self._there.clear()
        if self._rooms is not None:
            self._rooms.clear()
        self._places.clear()


def _nothing() -> Any:
    """An empty tensor of torch."""
    return of_memory(bytearray(), "U8", (0,))


def load(
    source: str | os.PathLike[str] | File | Plan,
    device: Any = "cpu",
    framework: str | None = None,
    *,
    staging: Staging | None = None,
    order: Order = "file",
    verify: bool = True,
    host_budget: int = 0,
    device_budget: int = 0,
    uncached: bool = False,
    progress: Shown = None,
) -> Load:
    """Starts loading a model, or what a plan wants of it, in the background.

    source         a path, a URL or what else coffer.open takes, what it gave, or a `coffer.Plan`
    device         where tensors go that have no place yet, of frameworks that have devices
    framework      "numpy", "torch", "flax", "tensorflow", "mlx" or "paddle", or another of their names ("np", "pt" …). None: that of
                   these which the program has imported, if it is one besides numpy; otherwise "numpy", and for a device "torch"
    staging        a `coffer.Staging`, which bytes pass through; None: one that all loads to devices share, and for host memory one
                   of the load's own
    order          "file": as the bytes lie in the files, which is the fastest; "plan": as the plan has them
    verify         whether whole tensors are held against the digests that files record, where they do
    host_budget    bytes of host memory that may be ready and not yet taken; 0: any number
    device_budget  the same of a device whose memory the load makes itself
    uncached       leave nothing in the page cache
    progress       called with the bytes done and in all by the thread that waits; True shows a bar, where tqdm is installed. What it
                   raises ends the load

    Tensors in host memory may be parts of a private map of the file, which copies nothing: they are yours to change, and the file
    never is, but what another program overwrites in the file shows in them. A file opened with access="read", or a Staging with the
    engine "buffered", gives memory of its own.

    Everything that can be refused is refused here, before anything is read: a place that does not fit (ValueError, code DESTINATION), a
    tensor larger than its budget (BUDGET), an engine that cannot be used (RuntimeError, code ENGINE), a device that is not there, a
    dtype that the framework does not have. A plan of less than 2 MiB in local files is read before this returns. In a fork, the loads
    of its parent are not to be used.
    """
    plan = plan_of(source)
    device = "cpu" if is_host(device) else device
    name = imported_framework(device != "cpu") if framework is None else framework_of(framework)
    destination = Destination(framework_on(name, device), plan)
    return started(plan, destination, staging, order=order, verify=verify, host_budget=host_budget,
                   device_budget=device_budget, uncached=uncached, progress=progress)  # fmt: skip


def started(
    plan: Plan, destination: Destination, staging: Staging | None, *, progress: Shown = None, **options: Any
) -> Load:
    """The load of a plan."""
    placed = destination.placed(plan)
    stack = ExitStack()
    if staging is None and destination.reaches_devices():
        staging = _shared_staging(os.getpid())
    advance = None
    if progress is not None and progress is not False:
        advance = stack.enter_context(shown(progress, plan.file.path or ""))
    try:
        native = _native.Load(placed, staging=staging, progress=advance, **options)
    except BaseException:
        stack.close()
        raise
    return Load(plan, native, destination, stack)


class _Bytes:
    """In place of a framework: what is handed out is the memory itself."""

    def dtype(self, dtype: str) -> str:
        return dtype

    def made(self, dtype: str, shape: tuple[int, ...], memory: _native.Loaded) -> _native.Loaded:
        return memory


def load_parts(model: _native.Model, parts: Iterable[tuple[str, Any, Any]], staging: Staging | None = None) -> Load:
    """The bytes of parts of tensors: of each its name, an index or None, and where they go, or None. What has no place is handed out
    as a buffer."""
    plan = Plan(File(model))
    for name, index, out in parts:
        plan.add(name, index, out=out)
    return started(plan, Destination(_Bytes(), plan), staging)


def everything(framework: Framework, model: _native.Model, progress: Progress | None = None) -> dict[str, Any]:
    """Every tensor of a model, in the order of the file: by a load on devices that a driver of Coffer's reaches."""
    if not isinstance(framework, TorchFramework) or framework.on_host or not reaches(framework.device):
        return framework.all(model, progress)
    plan = Plan(File(model)).all()
    with started(plan, Destination(framework, plan), None, progress=progress) as load:
        found = dict(load)
    return {name: found[name] for name in model.offset_keys()}


@cache
def _shared_staging(_pid: int) -> Staging:
    """What loads to devices share, so that memory is pinned once in a process."""
    return _native.Staging()
