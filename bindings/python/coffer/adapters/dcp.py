# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint: a reader of safetensors files that reads only what each process takes.

    dcp.load(state, storage_reader=StorageReader("folder"))

It is torch's own reader of such files, but for how tensors are read: the box of each request goes straight into the tensor that
it is for, where that has the same elements in the same order, and several are read at once.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from torch.futures import Future

from .._errors import wrong_argument
from .standins import Weights


class StorageReader(HuggingFaceStorageReader):
    """Reads a folder of safetensors files; `thread_count` requests at once."""

    def __init__(self, path: str | os.PathLike[str], thread_count: int = 4) -> None:
        super().__init__(os.fspath(path), thread_count)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        files = {self.storage_data[item.storage_index].relative_path for item in plan.items}
        opened = {file: Weights([file], memory=0) for file in files}
        with ThreadPoolExecutor(max(1, self.thread_count)) as pool:
            # The planner is asked by this thread alone. Whatever fails ends the load, with nothing committed of what failed.
            targets = [planner.resolve_tensor(item).detach() for item in plan.items]
            copies = [
                pool.submit(_copy, target, opened[self._file(item)][item.storage_index.fqn], item)
                for target, item in zip(targets, plan.items, strict=True)
            ]
            for copy, target, item in zip(copies, targets, plan.items, strict=True):
                copy.result()
                planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _file(self, item: ReadItem) -> Any:
        return self.storage_data[item.storage_index].relative_path


def _copy(target: torch.Tensor, source: torch.Tensor, item: ReadItem) -> None:
    for dim, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
        source = source.narrow(dim, offset, length)
    if source.shape != target.shape:
        what = f"{tuple(source.shape)} elements of '{item.storage_index.fqn}' for {tuple(target.shape)}"
        raise wrong_argument(f"the checkpoint's plan has {what}")
    target.copy_(source)
