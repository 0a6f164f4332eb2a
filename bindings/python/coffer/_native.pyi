# SPDX-License-Identifier: Apache-2.0
"""The extension: the C library's models, tensors and writers as Python objects.

Failures of the library are `coffer.Error` (see `_errors.py`). A wrong type of argument is a TypeError. Every call that does
I/O or parses releases the GIL. Objects may be used from several threads at once, except that what is said of
`Writer.write` holds. `Dtype` names are those of the format ("F32", "BF16", "F8_E4M3").
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import EllipsisType, TracebackType
from typing import Any, Literal, NoReturn, SupportsIndex, TypedDict, final, overload

import jax
import numpy as np
import torch as _torch
from numpy.typing import DTypeLike
from typing_extensions import Buffer as _Buffer, CapsuleType, Self

# numpy's arrays, too, say that they are buffers, but to checkers of Python 3.12 and newer alone.
BufferLike = _Buffer | np.ndarray[Any, Any]
Access = Literal["auto", "map", "private", "read"]
Formats = Literal["all", "plain", "own"]
Sync = Literal["replace", "always", "never"]
Format = Literal["safetensors", "bintensors", "bintensors-a"]
Algorithm = Literal["sha256", "xxh3-128"]
EditMode = Literal["auto", "in place", "rewrite"]
EditWay = Literal["nothing", "clone", "in place", "rewrite"]
ManifestFormat = Literal["lines", "statement", "bundle"]
RewriteKind = Literal[
    "drop", "keep", "rename", "cast", "rename exact", "rename regex", "rename regex all", "rename map", "layers"
]
RewriteWay = Literal["nothing", "headers", "files"]
RewritePlace = tuple[str, str, int, int]  # name, dtype, byte in the file, number of the file
# before, afterwards (None: left out), and how many numbers a cast made infinite and zero
RewriteChange = tuple[RewritePlace, RewritePlace | None, int, int, bool]
RewriteReported = tuple[RewriteWay, int, int, int, int, int, int, list[RewriteChange]]
Engine = Literal["auto", "buffered", "direct", "ring", "cufile", "mapped"]
# the address of the first element, bytes from there on, bytes from element to element of each dimension, and the stream
PlanPlace = tuple[int, int, tuple[int, ...] | None, int]
Fate = Literal["written", "alias", "skipped"]
Weight = Literal["note", "opaque", "danger"]
# name, dtype, shape, bytes, fate, number of the one that an alias is the same as (-1), reason, storage, gathered, changed, decoded
ImportTensor = tuple[str, str | None, tuple[int, ...], int, Fate, int, str, str, int, int, int]
ImportFinding = tuple[Weight, str, str, int | None, str, str]  # weight, sentence, file, byte, member, subject
Index = SupportsIndex | slice | EllipsisType
Progress = Callable[[int, int], object]  # bytes done, bytes in all; an exception that it raises cancels

VERSION: str  # of the C library
DTYPES: dict[str, str]  # the names that frameworks have for dtypes, by those in files

@final
class StoredTensor(TypedDict):
    type: str  # as its format says: "Q4_K", "torch.float16"; else its dtype
    size: int  # bytes of the file that it is made of
    mapped: bool  # it lies there as it is read
    gathered: bool  # its elements do not lie one after another
    changed: bool  # its elements are byte-swapped, negated or conjugated
    decoded: bool  # its bytes are inflated, dequantised or decoded from text
    in_order: bool  # … from the first to the last of what is wanted
    tied: str | None  # the name of the tensor whose bytes it is

class Model:
    """An opened file: its header was read and validated, its data were not touched. Immutable.

    What was handed out (tensors, views, DLPack capsules, arrays made from them) stays usable after `close`; the file and its
    map are released when the last of it is gone.
    """

    @staticmethod
    def open(
        source: str | os.PathLike[str] | os.PathLike[bytes] | int | BufferLike,
        *,
        access: Access = "auto",
        populate: bool = False,
        max_header_size: int = 0,
        unknown_dtypes: bool = False,
        all_notes: bool = False,
        format: Format | None = None,
        verify: bool | Literal["recorded"] = False,
        token: str | None = None,
        timeout: float | None = None,
        partial: bool = False,
        to_fetch: bool = False,
        progress: Progress | None = None,
        formats: Formats = "all",
    ) -> Model:
        """A path (str or os.PathLike), a descriptor (int, duplicated), or a whole file in memory (bytes, any buffer).

        access   "map" (read-only map), "private" (copy-on-write map: memory may be changed, the file never is), "read" (no
                 map: tensors are read into memory of their own), or "auto": "read" of URLs and on network file systems, else
                 "private"
        format   what the file has to be; None: what its content says, which is never layout A
        verify   hold each tensor against the digest that its file records when its bytes are first wanted; "recorded": those of
                 files that record any
        token    for the Hub; "": none. None: the environment's
        timeout  seconds that a server may say nothing; None: what the environment says
        partial  open a file that ends before its data do, for the tensors that are whole (Tensor.whole)
        to_fetch for `fetch`: a server that serves no ranges is put up with, and the Hub is asked for the newest commit
        progress called now and then while servers are waited for, with the files whose headers were read, and those in all
        formats  which files of other programs are opened: "all", "plain" (those without pickles) or "own" (none). None where
                 `format`, `partial` or `to_fetch` is given
        """
    @property
    def path(self) -> str | None:
        """As it was given; None for a descriptor and for memory."""
    @property
    def access(self) -> Literal["map", "private", "read"]: ...
    @property
    def closed(self) -> bool: ...
    @property
    def format(self) -> Format: ...
    @property
    def shards(self) -> list[str]:
        """The paths of its files, in the order in which their tensors come; "" for a descriptor and for memory."""
    @property
    def index_metadata(self) -> str | None:
        """The JSON text of what the index has as its metadata; "" when it has none, None when there is no index."""
    @property
    def algorithm(self) -> Algorithm | None:
        """Of the digests that the first of its files records that does; None when none does."""
    @property
    def data_offset(self) -> int:
        """Bytes from the start of the (first) file to the start of its data."""
    def close(self) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object) -> bool: ...
    def keys(self) -> list[str]:
        """Names in byte order."""
    def offset_keys(self) -> list[str]:
        """Names in the order of their data in the file."""
    def find(self, name: str) -> Tensor:
        """Error NO_TENSOR (a KeyError too) when there is none."""
    def tensors(self) -> list[Tensor]:
        """All, in the order of their data in the file."""
    def infos(self) -> list[tuple[str, str, tuple[int, ...], int, int]]:
        """(name, dtype, shape, offset in the file, nbytes) of each, in the order of their data in the file."""
    def dtypes(self) -> set[str]:
        """Of all tensors, each once."""
    def metadata(self) -> dict[str, str] | None:
        """None when the header has none. Of several files the pairs of all; where they differ, those of the first."""
    def headers(self) -> list[tuple[dict[str, str], dict[str, tuple[str, tuple[int, ...], tuple[int, int]]]]]:
        """Of each file, as `shards` has them: its metadata, and its tensors as {name: (dtype, shape, (begin, end))}, offsets being
        those in the data."""
    def notes(self) -> list[tuple[str, int, int | None, str, str | None]]:
        """What is legal but suspicious: (description, how often, byte offset of the first, the file's path, what it is about)."""
    def read_many(
        self, names: Iterable[str] | None = None, *, progress: Progress | None = None, threads: int = 0
    ) -> list[Buffer]:
        """Reads tensors (all, in the order of their data, when names is None), each into memory of its own."""
    @overload
    def array(self, name: str, /) -> tuple[str, tuple[int, ...], Buffer]: ...
    @overload
    def array(self, name: str, index: object, /) -> tuple[str, tuple[int, ...], Buffer] | None:
        """A tensor, or what `index` takes of it, in memory of its own: its dtype, its shape and the memory. None for an index that
        is not plain: anything but ints, and slices that go forwards and end within their dimensions."""
    def plain_part(self, name: str, index: object, /) -> Tensor | None:
        """What `index` takes of a tensor, unread; None for an index that is not plain, as `array` has it."""
    def read_into(
        self, targets: Iterable[tuple[str, BufferLike]], *, progress: Progress | None = None, threads: int = 0
    ) -> None:
        """Reads tensors into writable contiguous buffers of exactly their sizes."""
    def dlpack_many(
        self,
        names: Iterable[str] | None = None,
        *,
        as_bytes: Iterable[str] = (),
        copy: bool = False,
        progress: Progress | None = None,
        threads: int = 0,
    ) -> list[CapsuleType]:
        """One unversioned DLPack capsule ("dltensor") a tensor, as `read_many` orders them.

        With a private map they view it, else (or with `copy`) each has memory of its own, read in parallel. Tensors of the
        dtypes named in as_bytes, and of those that DLPack has not, are exported as one dimension of uint8.
        """

    def verify(
        self, names: Iterable[str] | None = None, *, progress: Progress | None = None, threads: int = 0
    ) -> None:
        """Holds tensors, all when names is None, against the digests that their files record, and these files' metadata too."""
    def content_digest(
        self, algorithm: Algorithm = "sha256", *, progress: Progress | None = None, threads: int = 0
    ) -> bytes:
        """Of all tensors, whatever files they are in, in which order and format, and with which metadata."""
    def digests(
        self, algorithm: Algorithm = "sha256", *, progress: Progress | None = None, threads: int = 0
    ) -> list[bytes]:
        """Of the bytes of each tensor, in the order of their data."""
    def fetch(
        self,
        folder: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        names: Iterable[str] | None = None,
        *,
        force: bool = False,
        progress: Progress | None = None,
        threads: int = 0,
    ) -> None:
        """Downloads it, or those tensors of it, into a folder that exists."""
    def rewrite(
        self,
        rules: Iterable[tuple[RewriteKind, str, str | None]],
        edits: Iterable[tuple[str, str | None]],
        *,
        output: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None = None,
        format: Format | None = None,
        alignment: int = 0,
        max_shard_size: int = 0,
        digests: Algorithm | None = None,
        sync: Sync = "replace",
        follow_links: bool = False,
        force: bool = False,
        dry_run: bool = False,
        threads: int = 0,
        progress: Progress | None = None,
        ignore_unmatched: bool = False,
        computed: (
            tuple[str, tuple[tuple[str | bytes | os.PathLike[str], float], ...], tuple[str, ...]]
            | tuple[str, tuple[Model, ...], tuple[float, ...] | None, tuple[tuple[str, tuple[float, ...]], ...], bool]
            | tuple[str, str | None, str | None, bool]
            | None
        ) = None,
    ) -> RewriteReported:
        """Writes the model again, each rule being what is done, a pattern, and the new name or dtype; or only plans it. How it is done,
        the new model's files and tensors, bytes of the files before and afterwards, bytes of tensors that are copied and cast, and what
        becomes of each tensor. `computed` is what computes it from other models: ("lora", paths with scales, patterns), or ("average", the other
        models, weights, patterns with weights, whether they are t of slerp), or ("dequantize", dtype, which program's roundings, whether
        scales may be infinite or NaN)."""
    def extract_lora(
        self,
        tuned: Model,
        rank: int,
        select: Iterable[str],
        dtype: str,
        fan_in_fan_out: bool,
        *,
        folder: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None = None,
        digests: Algorithm | None = None,
        sync: Sync = "replace",
        threads: int = 0,
        progress: Progress | None = None,
    ) -> list[tuple[str, int, bool, float | None]]:
        """Writes the adapter that makes another model of it into a folder that exists; None: only plans it. Of each tensor that differs
        its name, the rank (0: the tensor itself), whether the product is transposed, and how much of the difference is kept (None:
        not computed)."""
    def parameters(self, config: str | None = None) -> tuple[dict[str, int], dict[str, int], dict[str, int], str]:
        """How many, by dtype: elements as stored, weights as trained, as @huggingface/hub counts; and what was assumed of the
        quantisation. By the text of a config.json; None: by the one beside the file, if there is one; "": by none."""
    def __reduce__(self) -> tuple[object, ...]:
        """By its path; a TypeError for what was opened from memory or a descriptor."""

@final
class Tensor:
    """A tensor of a model, or a part of one: what it is, and ways to its bytes. Nothing is read until one of them is used."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int:
        """Elements."""
    @property
    def nbytes(self) -> int: ...
    @property
    def itemsize(self) -> int | float:
        """Bytes of an element; 0.5 and 0.75 for F4 and F6."""
    @property
    def offset(self) -> int | None:
        """Of its first byte in the file; None for a slice whose bytes are not contiguous there, and in a file of another program."""
    @property
    def writable(self) -> bool:
        """Whether a writable buffer can be had: it is a private map, or was read."""
    @property
    def stored(self) -> StoredTensor | None:
        """How it lies in a file of another program; None in a file of tensors."""
    @property
    def whole(self) -> bool:
        """Whether the file has all bytes of the tensor, which can be false only with partial=True: they cannot be read then."""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Tensor]:
        """The parts along the first dimension, unread. A tensor of no dimension is a TypeError."""
    def __contains__(self, value: object) -> NoReturn:
        """A TypeError: arrays know how to look for values, tensors do not."""
    def __eq__(self, other: object) -> Any:
        """Element by element, as arrays compare; with None, False. Reads the tensor."""
    def __ne__(self, other: object) -> Any: ...
    def __hash__(self) -> int:
        """Of the object, not of its elements."""
    def __bool__(self) -> bool:
        """Whether the only element is not 0; of more than one, or none, a ValueError."""
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __getitem__(self, index: Index | tuple[Index, ...]) -> Tensor:
        """A slice, as lazy as the whole, by Python's rules; reading it reads only its runs."""
    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """numpy's protocol, by which other packages take the tensor, too. A read-only view where it can be one."""
    def __jax_array__(self) -> jax.Array:
        """The same for jax."""
    def __buffer__(self, flags: int, /) -> memoryview:
        """A view of the map where there is one and it is aligned and contiguous there, else of a copy. Read-only, unless
        a writable buffer is asked for and the memory is a private map or a copy. It lives as long as this object, and is
        the same each time. A BufferError for those who ask for no shape, and for dtypes that the protocol has no format for:
        BF16, F8, F6, F4."""
    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def memory(self, writable: bool = False) -> memoryview:
        """The same memory as bytes, in one dimension, whatever the dtype. A BufferError when it cannot be `writable`."""
    def read(self) -> Buffer:
        """A copy of the bytes in memory of its own."""
    def read_into(self, buffer: BufferLike | _torch.Tensor) -> None:
        """Reads into a writable buffer of exactly nbytes, or into an array or torch tensor of as many elements, with any strides: of the
        dtype, or of one that has every number of it; another one is a TypeError."""
    def tobytes(self) -> bytes: ...
    def item(self) -> Any:
        """The only element, as a number of Python's: bool, int, float or complex. A ValueError when there are more, or none."""
    def tolist(self) -> Any:
        """The elements as numbers of Python's, in lists of lists; of no dimension, the number."""
    def numpy(self) -> np.ndarray[Any, Any]:
        """A numpy array that views this tensor (read-only) where it can; bfloat16 and float8 need ml_dtypes."""
    def astype(self, dtype: DTypeLike) -> np.ndarray[Any, Any]:
        """A numpy array of the values as another dtype: one of numpy's, or the name of one in files or frameworks ("BF16",
        "bfloat16"). Its memory is its own."""
    def __reduce__(self) -> tuple[object, ...]:
        """By the path of its file; a TypeError when that was opened from memory or a descriptor."""
    def torch(self, device: _torch.device | str | int | None = None) -> _torch.Tensor:
        """A torch tensor that views this tensor where it is a private map, else of a copy."""

@final
class Buffer:
    """Memory that tensors were read into, as writable bytes; in huge pages where it is large."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Device:
    """A memory space: "cpu", "cuda:N" or "hip:N"."""

    def __new__(cls, name: str) -> Self: ...
    def describe(self) -> tuple[Literal["cpu", "cuda", "hip"], int, str, int, int, bool, bool]:
        """Its kind, its number, its name, bytes of memory in all and free, whether they are the host's, and whether host memory is
        registered with it."""

def list_facilities(path: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None, /) -> list[tuple[str, bool, str, str]]:
    """What loading may use, and the file system of a path: its name, whether it can be used, what it is or why not, and what to
    change."""

@final
class Staging:
    """A staging buffer: what bytes pass through on their way, with memory of a fixed size, threads, and what is registered with
    devices. It serves any number of loads, one after the other."""

    def __new__(
        cls,
        *,
        memory: int = 0,
        threads: int = 0,
        engine: Engine = "auto",
        group: str | None = None,
        ranks: int = 0,
        rank: int = 0,
    ) -> Self:
        """memory   bytes in flight, at most; 0: 64 MiB, more where a device has much memory of its own
        threads  0: by engine and processors
        engine   how files are read: "buffered", "direct", "ring", "cufile", "mapped"; "auto": by what the system says of each file.
                 One that is named is used, or the load is an Error with the code ENGINE
        group    with `ranks` above 1: processes of this user on this host that name the same group and load the same model read
                 each byte once, together; None: any that loads the model
        ranks    how many processes that are
        rank     which of them this is
        """

@final
class Plan:
    """Which tensors of a model, or parts of them, go where. For one thread at a time."""

    def __new__(cls, model: Model) -> Self: ...
    def __len__(self) -> int: ...
    def add(
        self, name: str, index: object = None, *, place: PlanPlace | None = None, device: Device | None = None
    ) -> int:
        """Adds a tensor, or what an index takes of it; the item's number."""
    def add_items(self, plan: Plan, addresses: list[int], device: Device | None, stream: int, /) -> bool:
        """Adds the items of another plan of the model, each to contiguous bytes at an address. False, and nothing is added, where
        they are not all whole tensors."""
    def shard(
        self,
        name: str,
        dim: int,
        parts: Sequence[int],
        rank: int,
        world: int,
        *,
        place: PlanPlace | None = None,
        device: Device | None = None,
    ) -> int:
        """Adds a rank's part of a tensor that is split along a dimension; the item's number."""
    def all(
        self, rules: Iterable[tuple[str, int]] | None, rank: int, world: int, *, device: Device | None = None
    ) -> None:
        """Adds every tensor as a rank takes it by rules, each a pattern and a dimension (-1: none); None: the usual ones."""
    def items(self) -> list[tuple[str, str, tuple[int, ...], int, bool]]:
        """Name, dtype, shape of the result, its bytes, and whether it is all of the tensor, of each item."""
    def dtypes(self, numbers: list[int], /) -> set[str]:
        """Of the items of those numbers."""
    def cost(self, shard: int | None, /) -> tuple[int, int, int, int]:
        """Items, bytes needed, bytes read, and requests, of a file or of all."""

@final
class Load:
    """A plan that is carried out in the background. Any number of threads may use it."""

    def __new__(
        cls,
        plan: Plan,
        *,
        staging: Staging | None = None,
        host_budget: int = 0,
        device_budget: int = 0,
        order: Literal["file", "plan"] = "file",
        verify: bool = True,
        uncached: bool = False,
        progress: Progress | None = None,
    ) -> Self: ...
    def next(self) -> tuple[int, Loaded | None, bool] | None:
        """Waits for an item that is ready: its number, its memory (None: the plan gave its place), and whether its digest was held
        against what is recorded; None after the last."""
    def take(self, item: int, /) -> tuple[int, Loaded | None, bool]:
        """The same for one item."""
    def wait(self) -> None:
        """Waits until everything is in place."""
    def cancel(self) -> None: ...
    def close(self) -> None: ...
    def stats(self) -> tuple[Any, ...]:
        """As `LoadStats` has them, but times in nanoseconds, and `engines` as a list."""

@final
class Loaded:
    """Memory that a load handed out, as writable bytes."""

    @property
    def address(self) -> int: ...
    @property
    def device(self) -> Device | None:
        """None: it is host memory."""
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def tobytes(self) -> bytes:
        """A copy of the bytes, of a device's memory, too."""
    def dlpack(self, dtype: str, shape: tuple[int, ...], as_bytes: bool, /) -> CapsuleType:
        """An unversioned DLPack capsule, which owns the memory from then on."""

# Brings messages to the other processes: carry(send, send_sizes, receive, receive_sizes). Both memories are for the call only, and
# the bytes for and from each process lie in them one after the other.
Carry = Callable[[memoryview, list[int], memoryview, list[int]], object]

@final
class Exchange:
    """Who reads what where several processes load one model together."""

    def __new__(cls, plans: Sequence[Plan], *, memory: int = 0) -> Self:
        """plans   what each process wants; they cannot be changed any more
        memory  bytes that all processes together read in a round; 0: 256 MiB"""
    def chunks(self) -> list[tuple[int, int, int, int, int, int]]:
        """What is read at one time: the process that does, the round, the file's number, from which byte to which, and how many are
        read."""
    def size(self, round: int, sender: int, receiver: int, /) -> int:
        """Bytes of the model that one process sends to another one in a round; to itself: what it has read of its own plan."""
    def run(self, host: int, carry: Carry, *, staging: Staging | None = None) -> list[Loaded | None]:
        """Loads a process's plan together with the others: the memory of each item; None: the plan gave its place."""

def refuse_exchange(host: int, world: int, carry: Carry, message: str, /) -> None:
    """Tells the other processes that this one cannot take part in an exchange, and why."""

# name, dtype, shape, bytes: an object with the buffer protocol (contiguous) or (address, nbytes)
Entry = tuple[str, str, Sequence[int], BufferLike | tuple[int, int]]

def serialize(
    entries: Iterable[Entry], metadata: Mapping[str, str] | None = None, *, format: Format | None = None
) -> bytes:
    """The bytes of a file, in the canonical order and spelling; without a format, of safetensors."""

def serialize_file(
    entries: Iterable[Entry],
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes] | int,
    metadata: Mapping[str, str] | None = None,
    *,
    sync: Sync = "replace",
    alignment: int = 0,
    slack: int = 0,
    in_place: bool = False,
    format: Format | None = None,
    digests: Algorithm | None = None,
    progress: Progress | None = None,
    packed: bool = False,
) -> None:
    """Writes the same to a path (atomically) or a descriptor."""

def serialize_model(
    entries: Iterable[Entry],
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    metadata: Mapping[str, str] | None = None,
    *,
    max_shard_size: int = 0,
    sync: Sync = "replace",
    force: bool = False,
    digests: Algorithm | None = None,
    progress: Progress | None = None,
    packed: bool = False,
) -> None:
    """Writes a model of as many files as it takes for none to have more than max_shard_size bytes of tensors (0: 5 GB), and
    their index; one file, at `path` itself, where that is enough. `force` takes away a file at `path` that is in the way."""

def record_digests(
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    algorithm: Algorithm = "sha256",
    *,
    progress: Progress | None = None,
) -> None:
    """Records digests of a file's tensors in its metadata: in place where they fit, else by writing the file anew. Of a model of
    several files every file gets those of its tensors, and the index those of the whole. What was recorded before is replaced,
    without being verified."""

def lay_out(
    plan: Plan, numbers: list[int], small: int, slab: int, alignment: int, /
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Lays the items of those numbers out in slabs, in their order: first those of less than `small` bytes, then the others. A slab
    has at most `slab` bytes, or one item. Returns the bytes and the number of items of each slab, the slab of each item, and where
    in it the item begins, which is a multiple of `alignment`, a power of two."""

def copy_tensors(
    tensors: Iterable[tuple[str, Tensor]],
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    metadata: Mapping[str, str] | None = None,
    *,
    sync: Sync = "replace",
    alignment: int = 0,
    slack: int = 0,
    digests: Algorithm | None = None,
    format: Format | None = None,
    max_shard_size: int | None = None,
    balanced: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    packed: bool = False,
) -> None:
    """Writes whole tensors of opened files, under the names given, to a file; with `max_shard_size` to as many as it asks for, and
    their index, as `serialize_model` does, `balanced` or not. Their bytes go from file to file."""

def edit_metadata(
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    edits: Iterable[tuple[str, str | None]],
    *,
    mode: EditMode = "auto",
    slack: int = 0,
    follow_links: bool = False,
    sync: Sync = "replace",
    progress: Progress | None = None,
) -> EditWay:
    """Sets keys of a file's metadata, and removes those whose value is None. How it was done."""

def recover(
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes], *, follow_links: bool = False
) -> None:
    """Finishes what an interrupted edit of a file left, or an interrupted save of a model of several: it is completed, or what was
    there before is put back. Error NO_UNDO when there is nothing to recover."""

Severity = Literal["note", "warning", "error"]
Evidence = Literal["names", "files", "headers", "data"]
Advice = Literal["coffer", "remove", "rename", "copy", "program"]
DoctorStep = tuple[Advice, tuple[str, ...]]
# severity, kind, evidence, file, tensor, offset, message, more, steps, fixes
DoctorFinding = tuple[Severity, str, Evidence, str, str | None, int | None, str, int, list[DoctorStep], bool]
# name, type, files, tensors, size
DoctorModel = tuple[str, str | None, int, int, int]

def doctor(
    path: str | os.PathLike[str] | os.PathLike[bytes],
    against: Model | None = None,
    against_path: str | os.PathLike[str] | os.PathLike[bytes] = ...,
    data: bool = False,
    progress: Progress | None = None,
) -> tuple[int, int, int, list[DoctorFinding], list[DoctorModel], dict[str, tuple[int, int]], bool]:
    """Looks at a model and all that lies around it: (errors, warnings, notes, findings, models, scope, unreadable)."""

def import_file(
    paths: tuple[str | os.PathLike[str], ...],
    output: str | os.PathLike[str] | None = None,
    *,
    root: str | None = None,
    strip_prefix: str | None = None,
    tied: Literal["hf", "keep"] = "hf",
    scalars: Literal["skip", "metadata"] = "skip",
    bytes_as: str | None = None,
    skip_unsupported: bool = False,
    strict: bool = False,
    complex128: bool = False,
    allow_expand: bool = False,
    scan: bool = False,
    token: str | None = None,
    max_shard_size: int = 0,
    force: bool = False,
    unverified: bool = False,
    unchecked: bool = False,
    sync: Sync = "replace",
    digests: Algorithm | None = None,
    threads: int = 0,
    progress: Progress | None = None,
    raw_blocks: bool = False,
    blocks_as: str | None = None,
    sidecar: str | None = None,
    packed: bool = False,
    constants: bool = False,
    select: tuple[str, ...] = (),
) -> tuple[
    str,
    str,
    list[ImportTensor],
    list[ImportFinding],
    list[tuple[str, int]],
    int,
    int,
    int,
    int,
    int,
    int,
    int,
]:
    """Looks at a file of another program, and writes what is in it as safetensors where there is an output. What `coffer.convert`
    makes a `Conversion` of."""

def add_lora(
    adapters: tuple[str, tuple[tuple[str | bytes | os.PathLike[str], float], ...], tuple[str, ...]],
    rank: int,
    dtype: str | None,
    make_folder: Callable[[], object],
    *,
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None = None,
    digests: Algorithm | None = None,
    sync: Sync = "replace",
    progress: Progress | None = None,
) -> list[tuple[str, int, int, int, float | None]]:
    """Writes an adapter that does what several do together, `adapters` being as `computed` of Model.rewrite; None: only plans it. A rank of
    0: all of theirs. `make_folder` is called before a folder is written to. Of each module its name, how many adapters have it, the
    ranks that they have together, its own, and how much of the sum is kept (None: not computed)."""

def export_file(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    to: str,
    *,
    tensor: str | None = None,
    bytes_as: str | None = None,
    tied: bool = True,
    token: str | None = None,
    sync: Sync = "replace",
    threads: int = 0,
    progress: Progress | None = None,
    arch: str | None = None,
    sidecar: str | None = None,
) -> tuple[str, list[ImportTensor]]:
    """Writes a file of tensors as one of another program: the name of the format that it has, and its tensors."""

def export_format(path: str | os.PathLike[str], /) -> str:
    """The format of another program that a path's ending stands for: "npz", "npy", "pt"; "" for none."""

def decode(dtype: str, data: BufferLike, first: int, count: int, /) -> Buffer:
    """Elements of a dtype as doubles, two for a complex one."""

def is_exact(dtype: str, other: str, /) -> bool:
    """Whether `other` has every number of a dtype."""

def is_given(data: object, dtype: str, /) -> bool:
    """Whether it is writable and contiguous memory of bytes, or of elements of that dtype."""

def compare(a: Tensor, b: Tensor, /) -> tuple[bool, int, float, float]:
    """Of two whole tensors of one shape: whether their bytes differ, how many of their numbers do, by how much at most, and in
    sum. Two NaN are equal; a complex number is two."""

def statistics(
    tensor: Tensor, bins: int, /
) -> tuple[int, int, int, int, int, int, float | None, float | None, float | None, float | None, list[int]]:
    """Of a whole tensor: how many numbers it has, finite ones, NaN, infinite, zero and subnormal ones; the least and the greatest;
    mean and standard deviation; and how many lie in each of `bins` bins between the ends."""

@final
class Hasher:
    """Computes digests of bytes that come in pieces. For one thread at a time."""

    def __new__(cls, algorithm: Algorithm) -> Self: ...
    def update(self, data: BufferLike, /) -> None: ...
    def finish(self) -> bytes:
        """The digest of all bytes since the last one."""

@final
class Manifest:
    """Digests of files, kept beside them. For one thread at a time."""

    def __new__(cls, model: str = "") -> Self: ...
    @staticmethod
    def parse(text: BufferLike, *, key: str | None = None) -> Manifest:
        """One of any format. With a public key in PEM it must be a bundle that is signed by it."""
    @property
    def format(self) -> ManifestFormat | None: ...
    @property
    def follows_links(self) -> bool: ...
    @follows_links.setter
    def follows_links(self, follows: bool, /) -> None: ...
    def add(self, name: str, algorithm: Algorithm, digest: BufferLike, /) -> None: ...
    def ignore(self, name: str, /) -> None: ...
    def ignores(self, name: str, /) -> bool: ...
    def entries(self) -> list[tuple[str, Algorithm, bytes]]: ...
    def write(self, format: ManifestFormat, *, key: str | None = None) -> bytes:
        """A bundle wants a private key in PEM."""

@final
class Writer:
    """Writes a file piece by piece. Every tensor is declared at first; then pieces come in any order.

    `progress` is called with the bytes of tensors that were written, and those in all.

    With `digests`, those of the tensors are recorded in the metadata; they are computed as the pieces come, best in order.

    As a context manager it finishes at the end of the block, and discards everything when the block raises.
    """

    def __new__(
        cls,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes] | int,
        tensors: Mapping[str, tuple[str, Sequence[int]]] | Iterable[tuple[str, str, Sequence[int]]],
        metadata: Mapping[str, str] | None = None,
        *,
        sync: Sync = "replace",
        alignment: int = 0,
        slack: int = 0,
        in_place: bool = False,
        format: Format | None = None,
        digests: Algorithm | None = None,
        progress: Progress | None = None,
        packed: bool = False,
    ) -> Self: ...
    def write(self, name: str, data: Any, offset: int = 0) -> None:
        """Writes bytes of a tensor from its byte `offset` on: any buffer of bytes, as they are, or an array or a tensor of a framework,
        with any strides. That is cast where the tensor's dtype has every number of its own, else it is a TypeError. From any thread,
        several at once; a byte can come once."""
    def finish(self) -> None:
        """Checks that every byte came, and publishes the file."""
    def discard(self) -> None:
        """Leaves nothing behind. After finish it does nothing."""
    @property
    def nbytes(self) -> int:
        """Size of the whole file."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...
