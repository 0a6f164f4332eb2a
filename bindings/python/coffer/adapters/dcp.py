# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint: a reader of safetensors files that reads only what each process takes.

    dcp.load(state, storage_reader=StorageReader("folder"))

It is torch's own reader of such files, but for how tensors are read: each file is a load in the background, of the boxes that the
process takes. They go straight into the tensors that they are for, where these have the same dtype, whatever their strides.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from torch import no_grad
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from torch.futures import Future

from .. import _native
from .._file import open as open_file
from .._plan import Plan
from .._torch_load import Filling
from .._torch_memory import find_shared


class StorageReader(HuggingFaceStorageReader):
    """Reads a folder of safetensors files, by at most `thread_count` threads at once. For one load at a time.

    What fails is a `coffer.Error` in the process where it fails, for which torch raises a `CheckpointException` in all of them. Of a
    file that fails nothing more is committed.
    """

    def __init__(self, path: str | os.PathLike[str], thread_count: int = 4) -> None:
        super().__init__(os.fspath(path), thread_count)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Reads what torch's plan asks for, and commits each tensor when it is complete. The future that it returns is done."""
        targets = [planner.resolve_tensor(item).detach() for item in plan.items]
        groups = find_shared({str(number): target for number, target in enumerate(targets)})
        shared = {int(number) for group in groups if len(group) > 1 for number in group}
        staging = _native.Staging(threads=max(1, self.thread_count))
        with ExitStack() as stack, no_grad():
            waiting: list[tuple[list[int], Filling]] = []
            for path, numbers in self._files(plan.items):
                wanted = Plan(open_file(path, access="read", format="safetensors"))
                for number in numbers:
                    wanted.add(plan.items[number].storage_index.fqn, _box(plan.items[number]))
                by_torch = {at for at, number in enumerate(numbers) if number in shared}
                filling = Filling(wanted, [targets[number] for number in numbers], by_torch, staging)
                waiting.append((numbers, stack.enter_context(filling)))
                # The next file is begun before what is there of the last one is committed, so that the disk is always busy.
                if len(waiting) > 1:
                    _commit(planner, plan.items, targets, *waiting.pop(0))
            for numbers, filling in waiting:
                _commit(planner, plan.items, targets, numbers, filling)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _files(self, items: list[ReadItem]) -> Iterator[tuple[str, list[int]]]:
        """The numbers of the requests, by file."""
        found: dict[str, list[int]] = {}
        for number, item in enumerate(items):
            found.setdefault(self.storage_data[item.storage_index].relative_path, []).append(number)
        return iter(found.items())


def _box(item: ReadItem) -> tuple[slice, ...]:
    return tuple(slice(first, first + count) for first, count in zip(item.storage_offsets, item.lengths, strict=True))


def _commit(planner: LoadPlanner, items: list[ReadItem], targets: list[Any], numbers: list[int], filling: Filling) -> None:
    """Commits what a file has, as it comes."""
    for at, tensor in filling:
        number = numbers[at]
        if tensor is not None:
            targets[number].copy_(tensor)
        planner.commit_tensor(items[number], targets[number])
