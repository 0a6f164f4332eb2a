# SPDX-License-Identifier: Apache-2.0
"""Models that several processes load together: each reads its share of the bytes, and torch.distributed brings it to the others.

    tensors = coffer.distributed.load("model.safetensors")                        # all of them, everywhere
    tensors = coffer.distributed.load("model.safetensors", {"down.weight": 1})    # of this one a column block each

It is for processes that have no disk in common, or one that is slower than the network between them. All of them call `load` with
the same arguments, and have the same model. Before anything is read they compare what they are about to do, and each exchange
carries whether its sender could read: so if one fails, all of them fail, in the time that `timeout` gives. The schedule is data:
`schedule` says which process reads what, and when.
"""

from __future__ import annotations

import ctypes
import datetime
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from math import ceil, prod
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from . import _native
from ._dtypes import is_packed
from ._errors import Error, build, no_tensor, wrong_argument
from ._file import File, open
from ._frameworks import torch_dtype
from ._load import Load, load_parts

# Along which dimension tensors are divided, by their names, or by name and shape; None: everybody gets the whole.
Split = Mapping[str, int] | Callable[[str, tuple[int, ...]], int | None]
_Agreement = tuple[bool, bytes, str]

# ---- The schedule -----------------------------------------------------------------------------------------------------


class Wanted(NamedTuple):
    """A tensor, and along which dimension it is divided."""

    name: str
    shape: tuple[int, ...]
    itemsize: int
    split: int | None


class Piece(NamedTuple):
    """Consecutive bytes of a tensor: all that has these indices of its first dimension that is longer than 1."""

    name: str
    dim: int
    start: int
    stop: int
    size: int


class Round(NamedTuple):
    """What the processes read at the same time, and then exchange."""

    kind: Literal["gather", "exchange"]  # everybody gets all of it; everybody gets a block of each piece
    lanes: tuple[tuple[Piece, ...], ...]  # what each process reads
    size: int  # bytes of the longest lane


def schedule(tensors: Iterable[Wanted], world: int, memory: int) -> list[Round]:
    """Who reads what of the tensors that have to be exchanged, with at most about `memory` bytes in a round. What is divided along
    its first dimension is not there: its blocks lie in one piece in the file, and each process reads its own."""
    kinds: dict[Literal["gather", "exchange"], list[Wanted]] = {"gather": [], "exchange": []}
    for tensor in tensors:
        if 0 not in tensor.shape and not _is_own(tensor):
            kinds["gather" if tensor.split is None else "exchange"].append(tensor)
    rounds = []
    for kind, members in kinds.items():
        total = sum(prod(tensor.shape) * tensor.itemsize for tensor in members)
        limit = max(1, min(memory // world, ceil(total / world)))
        pieces = [piece for tensor in members for piece in _pieces(tensor, limit)]
        rounds += [Round(kind, *_padded(lanes, world)) for lanes in _grouped(_lanes(pieces, limit), world)]
    return rounds


def _first_dim(shape: tuple[int, ...]) -> int:
    """The dimension whose parts are consecutive bytes."""
    return next((dim for dim, length in enumerate(shape) if length > 1), 0)


def _is_own(tensor: Wanted) -> bool:
    return tensor.split is not None and tensor.split <= _first_dim(tensor.shape)


def _pieces(tensor: Wanted, limit: int) -> list[Piece]:
    """A tensor in pieces that fit a lane, if one index of its first dimension does."""
    dim = _first_dim(tensor.shape)
    count = tensor.shape[dim] if tensor.shape else 1
    each = prod(tensor.shape) * tensor.itemsize // count
    step = max(1, limit // each)
    return [
        Piece(tensor.name, dim, start, min(start + step, count), (min(start + step, count) - start) * each)
        for start in range(0, count, step)
    ]


def _lanes(pieces: Iterable[Piece], limit: int) -> list[list[Piece]]:
    found: list[list[Piece]] = []
    room = 0
    for piece in pieces:
        if piece.size > room:
            found.append([])
            room = max(limit, piece.size)
        found[-1].append(piece)
        room -= piece.size
    return found


def _grouped(lanes: list[list[Piece]], world: int) -> list[list[list[Piece]]]:
    return [lanes[first : first + world] for first in range(0, len(lanes), world)]


def _padded(lanes: list[list[Piece]], world: int) -> tuple[tuple[tuple[Piece, ...], ...], int]:
    whole = tuple(tuple(lane) for lane in lanes) + ((),) * (world - len(lanes))
    return whole, max(sum(piece.size for piece in lane) for lane in whole)


# ---- Loading ----------------------------------------------------------------------------------------------------------


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
    memory   bytes in a round of the exchange, of all processes together; each holds about twice that
    threads  that read, in each process, at most
    timeout  seconds that the others may take for one exchange

    The tensors own their memory. Raises `coffer.Error`: what went wrong in this process, or with the code PEER what did in another.
    For one thread at a time, as are all calls of torch.distributed in one group.
    """
    peers = _Peers(group, timeout)
    file, wanted, failure = _opened(source, split, peers.world)
    peers.agree(failure, _hash(file, wanted, memory) if file is not None else b"")
    assert file is not None
    with ExitStack() as stack:
        loading = _Loading(file, wanted, peers, _Reader(file, threads, stack))
        found = loading.run(schedule(wanted, peers.world, memory))
    return {name: tensor.to(torch.device(device)) for name, tensor in found.items()}


def _opened(source: str | os.PathLike[str], split: Split | None, world: int) -> tuple[File | None, list[Wanted], Error | None]:
    """A process that fails here has to say so to the others first."""
    try:
        file = open(source, access="read")
        _check_names(file, split)
        return file, [_wanted(tensor, split, world) for tensor in file._model.tensors()], None
    except Error as error:
        return None, [], error


def _check_names(file: File, split: Split | None) -> None:
    """A name that the model does not have would split nothing."""
    for name in split if isinstance(split, Mapping) else ():
        if name not in file:
            raise no_tensor(f"the model has no tensor '{name}', which is to be split")


def _wanted(tensor: _native.Tensor, split: Split | None, world: int) -> Wanted:
    torch_dtype(tensor.dtype)
    if is_packed(tensor.dtype):
        raise wrong_argument(f"'{tensor.name}' is of {tensor.dtype}, whose elements share bytes: it cannot be loaded together")
    if split is None:
        dim = None
    else:
        dim = split.get(tensor.name) if isinstance(split, Mapping) else split(tensor.name, tensor.shape)
    if dim is not None and (not 0 <= dim < tensor.ndim or tensor.shape[dim] % world):
        raise wrong_argument(f"'{tensor.name}' with the shape {list(tensor.shape)} cannot be divided along {dim} among {world}")
    return Wanted(tensor.name, tensor.shape, int(tensor.itemsize), dim)


def _hash(file: File, wanted: list[Wanted], memory: int) -> bytes:
    """Of all that the schedule depends on."""
    described = [memory, wanted, [(tensor.dtype, tensor.shape) for tensor in file._model.tensors()]]
    return hashlib.sha256(json.dumps(described).encode()).digest()


class _Lane(NamedTuple):
    """What this process reads in a round: the bytes of each piece."""

    parts: list[Tensor]
    load: Load | None
    failure: Error | None  # it could not be started

    def finished(self) -> tuple[list[Tensor], Error | None]:
        """Waits for the bytes. What went wrong is said to the others before it is raised."""
        try:
            if self.load is not None:
                self.load.wait()
                self.load.close()
        except Error as error:
            return [], error
        return ([], self.failure) if self.failure else (self.parts, None)


class _Reader:
    """Starts the loads of this process. What it keeps for itself passes through a window of its own, beside the rounds."""

    def __init__(self, file: File, threads: int, stack: ExitStack) -> None:
        self._file = file
        self._threads = max(1, threads)
        self._stack = stack
        self._window = _native.Window(threads=self._threads)

    def lane(self, pieces: Iterable[Piece]) -> _Lane:
        """Begins to read pieces, into memory of their own."""
        wanted = [
            (piece.name, (*[slice(None)] * piece.dim, slice(piece.start, piece.stop)), torch.empty(piece.size, dtype=torch.uint8, device="cpu"))
            for piece in pieces
        ]
        return self._begin(wanted, self._window)

    def own(self, blocks: Iterable[tuple[str, tuple[slice, ...], Tensor]]) -> _Lane:
        """Begins to read blocks of tensors, into contiguous tensors."""
        return self._begin(list(blocks), _native.Window(threads=self._threads))

    def _begin(self, wanted: list[tuple[str, tuple[slice, ...], Tensor]], window: _native.Window) -> _Lane:
        parts = [(name, index if self._file[name].ndim else None, _memory(out)) for name, index, out in wanted]
        try:
            load = self._stack.enter_context(load_parts(self._file._model, parts, window))
        except Error as error:
            return _Lane([], None, error)
        return _Lane([out for _, _, out in wanted], load, None)


class _Loading:
    """One load, on one process."""

    def __init__(self, file: File, wanted: list[Wanted], peers: _Peers, reader: _Reader) -> None:
        self._file = file
        self._wanted = {tensor.name: tensor for tensor in wanted}
        self._peers = peers
        self._reader = reader
        self._found = {tensor.name: self._empty(tensor) for tensor in wanted}

    def _empty(self, tensor: Wanted) -> Tensor:
        shape = list(tensor.shape)
        if tensor.split is not None:
            shape[tensor.split] //= self._peers.world
        return torch.empty(shape, dtype=torch_dtype(self._file[tensor.name].dtype), device="cpu")

    def run(self, rounds: list[Round]) -> dict[str, Tensor]:
        """While one round is exchanged the next is read."""
        lane = self._lane(rounds[0]) if rounds else None
        own = self._reader.own(self._blocks())
        for number, each in enumerate(rounds):
            assert lane is not None
            sent, failure = lane.finished()
            lane = self._lane(rounds[number + 1]) if number + 1 < len(rounds) else None
            if each.kind == "gather":
                self._gather(each, sent, failure)
            else:
                self._exchange(each, sent, failure)
        self._peers.agree(own.finished()[1], b"")
        return self._found

    def _lane(self, each: Round) -> _Lane:
        return self._reader.lane(each.lanes[self._peers.rank])

    def _blocks(self) -> Iterator[tuple[str, tuple[slice, ...], Tensor]]:
        """What this process reads for itself alone."""
        for tensor in self._wanted.values():
            if tensor.split is not None and _is_own(tensor) and 0 not in tensor.shape:
                yield tensor.name, self._block(tensor, tensor.split), self._found[tensor.name]

    def _block(self, tensor: Wanted, dim: int) -> tuple[slice, ...]:
        length = tensor.shape[dim] // self._peers.world
        return (*[slice(None)] * dim, slice(self._peers.rank * length, (self._peers.rank + 1) * length))

    def _gather(self, each: Round, sent: list[Tensor], failure: Error | None) -> None:
        sizes = [[piece.size for piece in lane] for lane in each.lanes]
        self._place(each, self._peers.gather(sent, sizes, failure))

    def _exchange(self, each: Round, sent: list[Tensor], failure: Error | None) -> None:
        """Each process sends everybody a block of each of its pieces."""
        world = self._peers.world
        blocks: list[list[Tensor]] = [[] for _ in range(world)]
        for piece, data in zip(each.lanes[self._peers.rank], sent, strict=False):
            tensor = self._wanted[piece.name]
            shape = (*tensor.shape[: piece.dim], piece.stop - piece.start, *tensor.shape[piece.dim + 1 :])
            assert tensor.split is not None
            whole = data.view(self._found[piece.name].dtype).view(shape)
            for rank, block in enumerate(whole.chunk(world, tensor.split)):
                blocks[rank].append(block.contiguous().view(-1).view(torch.uint8))
        sizes = [[piece.size // world for piece in lane] for lane in each.lanes]
        self._place(each, self._peers.exchange(blocks, sizes, failure))

    def _place(self, each: Round, got: list[list[Tensor]]) -> None:
        for pieces, parts in zip(each.lanes, got, strict=True):
            for piece, data in zip(pieces, parts, strict=True):
                target = self._target(piece)
                target.copy_(data.view(target.dtype).view(target.shape))

    def _target(self, piece: Piece) -> Tensor:
        found = self._found[piece.name]
        return found.narrow(piece.dim, piece.start, piece.stop - piece.start) if found.ndim else found


def _memory(tensor: Tensor) -> memoryview:
    """Of a contiguous tensor, as bytes."""
    size = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B")


# ---- Talking to the others --------------------------------------------------------------------------------------------

_ALIGNED = 16  # elements of what is sent begin at multiples of this, and a flag that says whether the sender failed is before them
_SAID = 1024  # bytes of an agreement: a flag, a hash, and the text of what went wrong
_Sizes = list[list[int]]  # of the parts that each process sends


class _Peers:
    """The processes of a group. Whatever one of them fails with, all of them raise, in the same exchange."""

    def __init__(self, group: dist.ProcessGroup | None, timeout: float) -> None:
        self._group = group
        self._timeout = datetime.timedelta(seconds=timeout)
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        # Where NCCL carries it, what is exchanged has to be on the GPU.
        self._device = torch.device("cuda" if "nccl" in str(dist.get_backend(group)) else "cpu")

    def agree(self, failure: Error | None, content: bytes) -> None:
        """Returns where nobody failed and all have the same content."""
        said = bytes([failure is not None]) + content.ljust(32, b"\0") + str(failure or "").encode()[: _SAID - 33]
        mine = torch.frombuffer(bytearray(said.ljust(_SAID, b"\0")), dtype=torch.uint8)
        heard = [bytes(each.tolist()) for each in self._all(mine)]
        if failure is not None:
            raise failure
        for rank, each in enumerate(heard):
            if each[0]:
                text = each[33:].rstrip(b"\0").decode(errors="replace")
                raise _peer_failed(f"process {rank} of {self.world} failed: {text}")
        other = next((rank for rank, each in enumerate(heard) if each[1:33] != heard[0][1:33]), None)
        if other is not None:
            raise _peer_failed(f"processes 0 and {other} do not load the same tensors in the same way")

    def gather(self, sent: list[Tensor], sizes: _Sizes, failure: Error | None) -> list[list[Tensor]]:
        """What each process sent."""
        return self._opened(self._all(_message(sent, _longest(sizes), failure)), sizes, failure)

    def exchange(self, sent: list[list[Tensor]], sizes: _Sizes, failure: Error | None) -> list[list[Tensor]]:
        """What each process sent to this one."""
        mine = torch.cat([_message(parts, _longest(sizes), failure) for parts in sent]).to(self._device)
        got = torch.empty_like(mine)
        self._wait(lambda: dist.all_to_all_single(got, mine, group=self._group, async_op=True))
        return self._opened(list(got.cpu().chunk(self.world)), sizes, failure)

    def _all(self, mine: Tensor) -> list[Tensor]:
        here = mine.to(self._device)
        got = torch.empty(self.world * here.numel(), dtype=torch.uint8, device=self._device)
        self._wait(lambda: dist.all_gather_into_tensor(got, here, group=self._group, async_op=True))
        return list(got.cpu().chunk(self.world))

    def _opened(self, got: list[Tensor], sizes: _Sizes, failure: Error | None) -> list[list[Tensor]]:
        if any(each[0] for each in got):
            self.agree(failure, b"")  # which raises
        found = []
        for message, parts in zip(got, sizes, strict=True):
            found.append([message[at : at + size] for at, size in zip(_places(parts), parts, strict=False)])
        return found

    def _wait(self, start: Callable[[], Any]) -> None:
        try:
            start().wait(self._timeout)
        except RuntimeError as error:
            raise _peer_failed(f"the exchange with the other processes failed: {error}") from error


def _places(sizes: Iterable[int]) -> list[int]:
    """Where parts are in a message, and where that ends."""
    found = [_ALIGNED]
    for size in sizes:
        found.append(found[-1] + -(-size // _ALIGNED) * _ALIGNED)
    return found


def _longest(sizes: _Sizes) -> int:
    return max(_places(parts)[-1] for parts in sizes)


def _message(parts: list[Tensor], size: int, failure: Error | None) -> Tensor:
    found = torch.zeros(size, dtype=torch.uint8, device="cpu")
    found[0] = failure is not None
    for at, part in zip(_places(part.numel() for part in parts), parts, strict=False):
        found[at : at + part.numel()] = part
    return found


def _peer_failed(message: str) -> Error:
    return build(Error, "PEER", {"message": message})
