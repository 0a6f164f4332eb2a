# SPDX-License-Identifier: Apache-2.0
"""Models that several processes load together: each reads its share of the bytes, and torch.distributed brings it to the others.

    tensors = coffer.distributed.load("model.safetensors")                        # all of them, everywhere
    tensors = coffer.distributed.load("model.safetensors", {"down.weight": 1})    # of this one a column block each

It is for processes that have no disk in common, or one that is slower than the network between them. All of them call `load` with
the same arguments, and have the same model. Before anything is read they compare what they are about to do, and each exchange
carries whether its sender could read: so if one fails, all of them fail, in the time that `timeout` gives. The schedule is data:
`schedule` says which process reads what, and when.

Schedule, messages and failures are those of the C library (`coffer_exchange` in coffer/load.h); here is the way between processes.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from . import _native
from ._dtypes import framework_shape
from ._errors import Error, build, no_tensor, wrong_argument
from ._file import File, open
from ._frameworks import TorchFramework

# Along which dimension tensors are divided, by their names, or by name and shape; None: everybody gets the whole.
Split = Mapping[str, int] | Callable[[str, tuple[int, ...]], int | None]


class Chunk(NamedTuple):
    """Bytes of a file that one process reads, and sends to those that want some of them."""

    process: int  # that reads it
    round: int  # in which it does; in each, all exchange what they have read
    shard: int  # the number of the file
    begin: int  # bytes of the file; long gaps between what is wanted are not read
    end: int
    nbytes: int  # that are read


def schedule(source: str | os.PathLike[str] | File, split: Split | None = None, *, world: int, memory: int = 256 << 20) -> list[Chunk]:
    """Who reads what when `world` processes load a model together, as `load` has it: by round, process and file. Nothing of the
    tensors is read."""
    file = source if isinstance(source, File) else open(source, access="read")
    return [Chunk(*chunk) for chunk in _native.Exchange(_plans(file, split, world), memory=memory).chunks()]


def load(
    source: str | os.PathLike[str],
    split: Split | None = None,
    device: torch.device | str = "cpu",
    *,
    group: dist.ProcessGroup | None = None,
    memory: int = 256 << 20,
    threads: int = 4,
    timeout: float = 300,
) -> dict[str, Tensor]:
    """The tensors of a model, on every process of a group, each of which reads its share.

    source   a path or a URL: of the same model everywhere, not of the same file
    split    of which tensors each process gets only its block, and along which dimension; the length has to divide evenly, and
             the model has to have the names
    device   where the tensors go
    group    of torch.distributed; None: all processes
    memory   bytes in a round of the exchange, of all processes together; each holds about four times that
    threads  that read, in each process, at most
    timeout  seconds that the others may take for one exchange

    The tensors own their memory. Raises `coffer.Error`: what went wrong in this process, or with the code PEER what did in another.
    For one thread at a time, as are all calls of torch.distributed in one group.
    """
    transport = _Transport(group, timeout)
    framework = TorchFramework("cpu")
    try:
        plans = _plans(open(source, access="read"), split, transport.world)
        items = plans[transport.rank].items()
        for _, dtype, shape, _, _ in items:
            framework.dtype(dtype)
            framework_shape(dtype, shape)
        exchange = _native.Exchange(plans, memory=memory)
        staging = _native.Staging(threads=max(1, threads))
    except Exception as error:
        with suppress(Error):  # that the others cannot be told is not what went wrong here
            _native.refuse_exchange(transport.rank, transport.world, transport.carry, str(error))
        raise
    found: dict[str, Tensor] = {}
    loaded = exchange.run(transport.rank, transport.carry, staging=staging)
    for (name, dtype, shape, _, _), tensor in zip(items, loaded, strict=True):
        assert tensor is not None  # the plan has no places
        found[name] = framework.made(dtype, shape, tensor).to(torch.device(device))
    return found


def _plans(file: File, split: Split | None, world: int) -> list[_native.Plan]:
    """What each process wants. All of them know that of all, so each comes to the same schedule by itself."""
    for name in split if isinstance(split, Mapping) else ():
        if name not in file:
            raise no_tensor(f"the model has no tensor '{name}', which is to be split")
    wanted = [(tensor.name, _dim(tensor, split, world)) for tensor in file._model.tensors()]
    plans = [_native.Plan(file._model) for _ in range(world)]
    for rank, plan in enumerate(plans):
        for name, dim in wanted:
            if dim is None:
                plan.add(name)
            else:
                plan.shard(name, dim, (), rank, world)
    return plans


def _dim(tensor: _native.Tensor, split: Split | None, world: int) -> int | None:
    """Along which dimension a tensor is divided."""
    dim = split.get(tensor.name) if isinstance(split, Mapping) else split and split(tensor.name, tensor.shape)
    if dim is not None and (not 0 <= dim < tensor.ndim or tensor.shape[dim] % world):
        raise wrong_argument(f"'{tensor.name}' with the shape {list(tensor.shape)} cannot be divided along {dim} among {world}")
    return dim


class _Transport:
    """The way to the other processes of a group, for one load."""

    def __init__(self, group: dist.ProcessGroup | None, timeout: float) -> None:
        self._group = group
        self._timeout = datetime.timedelta(seconds=timeout)
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        # Where NCCL carries it, what is exchanged has to be on the GPU.
        self._device = torch.device("cuda" if "nccl" in str(dist.get_backend(group)) else "cpu")
        self._sent = self._got = torch.empty(0, dtype=torch.uint8, device=self._device)

    def carry(self, send: memoryview, send_sizes: list[int], receive: memoryview, receive_sizes: list[int]) -> None:
        """Sends and receives a message for and from each process, as the extension asks.

        What is lent is never given to torch.distributed: a call that was given up goes on in the background, and may write to its
        tensors, which it keeps, when the memory of the load is gone.
        """
        if self.world == 1:
            return
        self._sent = self._of_size(self._sent, send.nbytes)
        self._got = self._of_size(self._got, receive.nbytes)
        sent, got = self._sent[: send.nbytes], self._got[: receive.nbytes]
        sent.copy_(torch.frombuffer(send, dtype=torch.uint8))
        try:
            work = dist.all_to_all_single(got, sent, receive_sizes, send_sizes, group=self._group, async_op=True)
            if work is not None:  # which it is only of a process that is not in the group
                work.wait(self._timeout)
        except RuntimeError as error:
            message = f"the exchange with the other processes failed: {error}"
            raise build(Error, "PEER", {"message": message}) from error
        torch.frombuffer(receive, dtype=torch.uint8).copy_(got)

    def _of_size(self, tensor: Tensor, size: int) -> Tensor:
        """The tensor, or a larger one: the pages of memory that was used before are there."""
        return tensor if tensor.numel() >= size else torch.empty(size, dtype=torch.uint8, device=self._device)
