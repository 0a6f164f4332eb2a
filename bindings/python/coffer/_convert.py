# SPDX-License-Identifier: Apache-2.0
"""Files of other programs: PyTorch's checkpoints, NumPy's arrays and the like, written as safetensors, without running anything of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ._errors import worded
from ._native import export_file, export_format, import_file
from ._options import Sync, several, size_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._native import Algorithm, Fate, ImportTensor, Progress, Weight


@dataclass(frozen=True)
class ConvertedTensor:
    """What becomes of a tensor.

    dtype     as files have it ("BF16"); None for what has none there
    size      bytes that are written
    fate      "written"; "alias": the same as `alias_of`, which is written, and in the metadata; "skipped": left out, for `reason`
    storage   what its bytes are called in the input
    gathered  it is a slice, transposed or expanded there
    changed   its elements are swapped or negated there
    decoded   its bytes are compressed, or text
    """

    name: str
    dtype: str | None
    shape: tuple[int, ...]
    size: int
    fate: Fate
    alias_of: str | None
    reason: str
    storage: str
    gathered: bool
    changed: bool
    decoded: bool


@dataclass(frozen=True)
class Finding:
    """Something worth knowing of a file.

    weight   "note"; "opaque": an object of another program, which is left out; "danger": what a loader would have called, or a file
             made to mislead
    text     a sentence
    file     the plain name of a file beside the input; "" for the input itself
    offset   the byte of the file, where it is about one
    member   of an archive
    subject  "os.system", a key, a name: as in the file, which nobody has to trust
    """

    weight: Weight
    text: str
    file: str
    offset: int | None
    member: str
    subject: str


@dataclass(frozen=True)
class Conversion:
    """What a file holds, and what becomes of it. The bytes add up: total = written + aliased + skipped + unreferenced, where a byte
    that several tensors view counts once.

    format        which reader knows it: "torch", "npz", …
    kind          the same in words: "a PyTorch checkpoint"
    unreferenced_storages   names and sizes of what no tensor views
    output_size   bytes of the tensors that are written
    bytes_read    of the input, to find all this out: without the bytes of tensors
    """

    format: str
    kind: str
    tensors: tuple[ConvertedTensor, ...]
    findings: tuple[Finding, ...]
    unreferenced_storages: tuple[tuple[str, int], ...]
    total: int
    written: int
    aliased: int
    skipped: int
    unreferenced: int
    output_size: int
    bytes_read: int


def convert(
    source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None,
    *,
    root: str = "auto",
    tied: Literal["hf", "keep"] = "hf",
    scalars: Literal["skip", "metadata"] = "skip",
    strip_prefix: str = "",
    select: str | Iterable[str] = (),
    skip_unsupported: bool = False,
    strict: bool = False,
    complex128: bool = False,
    allow_expand: bool = False,
    bytes_as: str | None = None,
    dequantize: Literal["F32", "F16", "BF16"] | None = None,
    raw: bool = False,
    sidecar: str | os.PathLike[str] | None = None,
    packed: bool = False,
    constants: bool = False,
    to: Literal["safetensors", "npz", "npy", "pt", "gguf"] | None = None,
    arch: str | None = None,
    tensor: str | None = None,
    max_shard_size: int | str | None = None,
    verify: bool = True,
    crc: bool = True,
    digests: Algorithm | None = None,
    sync: Sync = "replace",
    force: bool = False,
    token: str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> Conversion:
    """Writes what is in a file of another program as safetensors, and tells what that is. Nothing of the file is run or imported, and
    neither torch nor numpy is needed. Or the other way: when the output is a .npz, .npy, .pt, .pth, .ckpt or .gguf file, the source is
    safetensors or bintensors (of a file of another program, make that first), and of the options only `to`, `arch`, `sidecar`, `tensor`,
    `bytes_as`, `tied`, `sync`, `token`, `threads` and `progress` mean something.

    source            a path or a URL, also the folder of a distributed checkpoint of PyTorch, or of TensorFlow's; several of files of other programs become one model, in their order, and no tensor may be in
                      two of them
    output            the new file; None: write nothing, only tell
    to                what the new file is, whatever its name ends in
    arch              the architecture that a .gguf file names: "llama"; None: that of the metadata, gguf.general.architecture
    tensor            write this one only; a .npy file has one
    root              the dict whose tensors are wanted, its path joined by dots; "all"; "auto" finds the model's
    tied              "hf": of several names for the same bytes one is written, and the others are in the metadata; "keep": all are
    scalars           what becomes of numbers beside the tensors
    strip_prefix      what is removed from the beginnings of names: "module."
    select            patterns, "layers.0.*": only tensors that have a name that one of them matches are written; (): all
    skip_unsupported  leave out sparse, quantised and other tensors that safetensors has no place for, instead of failing
    strict            fail where an object of another program would be left out
    complex128        write complex128 as F64 with a last dimension of 2
    allow_expand      write expanded tensors however large they become
    bytes_as          what NumPy's one-byte voids are: "F8_E4M3"; of a file that is written for NumPy or torch, "U8" or "I8": what
                      becomes of dtypes that they lack
    dequantize        make numbers of GGUF's quantised blocks: "F32", "F16" or "BF16"
    raw               keep such blocks as bytes, with their types in the metadata
    sidecar           of GGUF: where all its keys go as well, with the arrays that are too long for metadata; to GGUF: where they are read
    packed            keep integers of less than a byte (INT4) as bytes, with their dtypes and shapes in the metadata
    constants         of ONNX: take the tensors in the attributes of nodes, too
    max_shard_size    bytes of tensors in a file, or "5GB"; None: one file
    verify            read both sides again at the end, and compare them
    crc               compare the CRCs that an archive records
    digests           to record in the new files
    force             take a model of one file away that is in the way of an index
    progress          called with the bytes done and in all
    """
    exported = to or ("" if output is None else export_format(output))
    sources = (source,) if isinstance(source, (str, bytes, os.PathLike)) else tuple(source)
    if output is not None and exported and exported != "safetensors":
        if len(sources) != 1:
            raise ValueError("a file of another program is written from one file of tensors")
        return _export(
            sources[0],
            output,
            exported,
            tensor=tensor,
            arch=arch,
            sidecar=None if sidecar is None else os.fsdecode(sidecar),
            bytes_as=bytes_as,
            tied=tied == "hf",
            token=token,
            sync=sync,
            threads=threads,
            progress=progress,
        )
    return _conversion(
        sources,
        output,
        root=root,
        tied=tied,
        scalars=scalars,
        strip_prefix=strip_prefix,
        select=tuple(several(select)),
        skip_unsupported=skip_unsupported,
        strict=strict,
        complex128=complex128,
        allow_expand=allow_expand,
        bytes_as=bytes_as,
        blocks_as=dequantize,
        raw_blocks=raw,
        sidecar=None if sidecar is None else os.fsdecode(sidecar),
        packed=packed,
        constants=constants,
        max_shard_size=0 if max_shard_size is None else size_of(max_shard_size),
        unverified=not verify,
        unchecked=not crc,
        digests=digests,
        sync=sync,
        force=force,
        token=token,
        threads=threads,
        progress=progress,
    )


def scan(source: str | os.PathLike[str], *, token: str | None = None) -> tuple[Finding, ...]:
    """What is odd or dangerous about a file: which functions a loader would have called, with which arguments, and what the archive
    hides. Nothing of it is run. No finding does not mean that a file is harmless to every program.

    source  a path or a URL
    """
    return _conversion((source,), None, scan=True, token=token).findings


def _export(
    source: str | os.PathLike[str], output: str | os.PathLike[str], to: str, **options: object
) -> Conversion:
    format_, tensors = export_file(source, output, to, **options)  # type: ignore[arg-type]
    size = sum(tensor[3] for tensor in tensors)
    return Conversion(format_, "a file of tensors", _tensors(tensors), (), (), size, size, 0, 0, 0, size, 0)


def _tensors(told: list[ImportTensor]) -> tuple[ConvertedTensor, ...]:
    names = [tensor[0] for tensor in told]
    return tuple(
        ConvertedTensor(
            name, dtype, shape, size, fate, None if of < 0 else names[of], worded(reason), storage, bool(a), bool(b), bool(c)
        )
        for name, dtype, shape, size, fate, of, reason, storage, a, b, c in told
    )


def _conversion(
    sources: tuple[str | os.PathLike[str], ...], output: str | os.PathLike[str] | None, **options: object
) -> Conversion:
    told = import_file(sources, output, **options)  # type: ignore[arg-type]
    format_, kind, tensors, findings, left, *numbers = told
    return Conversion(
        format_, kind, _tensors(tensors), tuple(_finding(*finding) for finding in findings), tuple(left), *numbers
    )


def _finding(weight: Weight, text: str, *rest: Any) -> Finding:
    return Finding(weight, worded(text), *rest)
