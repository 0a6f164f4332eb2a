# SPDX-License-Identifier: Apache-2.0
"""Models computed from others: adapters merged into what they were trained on, or extracted again, and averages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native
from ._dtypes import FORMAT
from ._models import Source, _opened
from ._options import Sync, several, size_of
from ._rewrite import Rewrite, _told

if TYPE_CHECKING:
    from ._native import Algorithm, Progress

Path = str | os.PathLike[str]


def merge_lora(
    base: Source,
    adapters: Path | Iterable[Path] | Mapping[Path, float],
    output: Path,
    *,
    scale: float = 1.0,
    select: str | Iterable[str] = (),
    max_shard_size: int | str | None = None,
    digests: Algorithm | None = None,
    sync: Sync = "replace",
    force: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    progress: Progress | None = None,
) -> Rewrite:
    """Adds adapters of low rank (LoRA, DoRA, LoHa, LoKr) to the model that they were trained on, and writes the result. Returns what was done.

    base            a path, a URL, or what coffer.open gave
    adapters        one or several, each a file, a folder or a URL: of PEFT with its adapter_config.json beside it, of kohya's scripts or
                    of diffusers. A mapping has the scale of each
    output          the new file, which for several files has to end in NAME.safetensors; layout, dtypes and metadata are those of the base
    scale           how much of each adapter is added, where they are no mapping; 1 as it was trained. DoRA's rows get the lengths that
                    were trained whatever it is
    select          patterns of the adapters' tensors that count, of a file for several models; all without
    max_shard_size, digests, sync, force, dry_run, threads, progress   as of coffer.rewrite

    The numbers are those of docs/editing.md. Every tensor of an adapter has to find its place and shape in the base, or nothing is
    done. Tensors that no adapter changes are copied as they are.
    """
    scales = adapters if isinstance(adapters, Mapping) else dict.fromkeys(_paths(adapters), scale)
    with _opened(base, verify=True) as opened:
        by = ("lora", tuple((path, float(each)) for path, each in scales.items()), tuple(several(select)))
        return _computed(
            opened._model, by, output, max_shard_size,
            digests=digests, sync=sync, force=force, dry_run=dry_run, threads=threads, progress=progress,
        )  # fmt: skip


class Extracted(NamedTuple):
    """What an adapter has of a tensor. `rank` 0: the tensor itself. `transposed`: the product of its matrices is the transposed
    difference. `kept`: the share of the difference's squares that stays; None when it was not computed."""

    name: str
    rank: int
    transposed: bool
    kept: float | None


def extract_lora(
    base: Source,
    tuned: Source,
    output: Path,
    rank: int,
    *,
    select: str | Iterable[str] = (),
    dtype: str = "F32",
    fan_in_fan_out: bool = False,
    digests: Algorithm | None = None,
    sync: Sync = "replace",
    dry_run: bool = False,
    threads: int = 0,
    progress: Progress | None = None,
) -> list[Extracted]:
    """Writes what differs between two models as an adapter of low rank (LoRA), which PEFT loads and merge_lora merges. Returns what it
    has of each tensor that differs.

    base, tuned     paths, URLs, or what coffer.open gave, with the same tensors among those that are selected
    output          the folder of the adapter, which is made if it is not there
    rank            of all its matrices
    select          patterns of the tensors that count; all without
    dtype           of the matrices: F32, BF16 or F16, as files or as frameworks call them
    fan_in_fan_out  matrices are stored as [in, out], as those of GPT-2
    digests, sync, dry_run, threads   as of coffer.rewrite
    progress        called with the elements done and in all, first of comparing, then of extracting

    It needs OpenBLAS or another LAPACK. What becomes of which tensor is in docs/editing.md.
    """
    with _opened(base, verify=True) as one, _opened(tuned, verify=True) as other:
        made = not dry_run and not os.path.isdir(output)
        if made:
            os.mkdir(output)
        try:
            told = one._model.extract_lora(
                other._model,
                rank,
                several(select),
                FORMAT.get(dtype, dtype),
                fan_in_fan_out,
                folder=None if dry_run else output,
                digests=digests,
                sync=sync,
                threads=threads,
                progress=progress,
            )
        except BaseException:
            if made and not os.listdir(output):
                os.rmdir(output)
            raise
    return [Extracted(*tensor) for tensor in told]


class Added(NamedTuple):
    """A module of an adapter that was made of several: how many of them have it, the ranks that they have together, and its own.
    `kept`: the share of the sum's squares that stays with a smaller rank; None when it was not computed."""

    module: str
    adapters: int
    rank_sum: int
    rank: int
    kept: float | None


def add_lora(
    adapters: Path | Iterable[Path] | Mapping[Path, float],
    output: Path,
    *,
    scale: float = 1.0,
    rank: int | None = None,
    select: str | Iterable[str] = (),
    dtype: str | None = None,
    digests: Algorithm | None = None,
    sync: Sync = "replace",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> list[Added]:
    """Writes the adapter (LoRA) whose product is the sum of those of some adapters. Returns what it has of each module.

    adapters        as of merge_lora; a mapping has the scale of each
    output          the folder of the adapter, which is made if it is not there; of adapters with the names of kohya's scripts or of
                    diffusers, the file
    scale           how much of each adapter is added, where they are no mapping
    rank            the most that its matrices have; None: as much as the adapters have together, and nothing is lost
    select          patterns of the adapters' tensors that count; all without
    dtype           of the matrices: F32, BF16 or F16, as files or as frameworks call them; None: that of all adapters, or F32
    digests, sync, dry_run   as of coffer.rewrite
    progress        called with the modules done and in all

    What is there is replaced. A smaller rank needs OpenBLAS or another LAPACK: docs/editing.md.
    """
    scales = adapters if isinstance(adapters, Mapping) else dict.fromkeys(_paths(adapters), scale)
    made: list[Path] = []

    def make_folder() -> None:
        if not os.path.isdir(output):
            os.mkdir(output)
            made.append(output)

    try:
        told = _native.add_lora(
            ("lora", tuple((path, float(each)) for path, each in scales.items()), tuple(several(select))),
            0 if rank is None else rank,
            None if dtype is None else FORMAT.get(dtype, dtype),
            make_folder,
            path=None if dry_run else output,
            digests=digests,
            sync=sync,
            progress=progress,
        )
    except BaseException:
        for folder in made:
            if not os.listdir(folder):
                os.rmdir(folder)
        raise
    return [Added(*module) for module in told]


def average(
    models: Sequence[Source],
    output: Path,
    *,
    weights: Sequence[float] | Mapping[str, Sequence[float]] | None = None,
    slerp: float | Mapping[str, float] | None = None,
    max_shard_size: int | str | None = None,
    digests: Algorithm | None = None,
    sync: Sync = "replace",
    force: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    progress: Progress | None = None,
) -> Rewrite:
    """Writes the weighted mean of models that have the same tensors, by name, dtype and shape. Returns what was done.

    models          paths, URLs, or what coffer.open gave; layout, dtypes and metadata are those of the first
    output          the new file, which for several files has to end in NAME.safetensors
    weights         one for each model, divided by their sum; None: all the same. A mapping has weights for the tensors whose names
                    match its patterns, of which the first that matches counts and each has to match; the same weights for the others
    slerp           from 0 to 1, how far from the first of two models to the second, on the sphere; a mapping likewise, 1/2 for the others
    max_shard_size, digests, sync, force, dry_run, threads, progress   as of coffer.rewrite

    The numbers are those of docs/editing.md. Tensors of integers have to be the same in all models, and stay as they are.
    """
    if slerp is not None and weights is not None:
        raise TypeError("models are averaged by weights or by slerp, not by both")
    plain, rules = _weights(weights) if slerp is None else _weights(_lists(slerp))
    with ExitStack() as stack:
        opened = [stack.enter_context(_opened(model, verify=True)) for model in models]
        if not opened:
            raise ValueError("there is no model to average")
        by = ("average", tuple(model._model for model in opened[1:]), plain, rules, slerp is not None)
        return _computed(
            opened[0]._model, by, output, max_shard_size,
            digests=digests, sync=sync, force=force, dry_run=dry_run, threads=threads, progress=progress,
        )  # fmt: skip


def dequantize(
    source: Source,
    output: Path,
    *,
    dtype: str | None = None,
    like: str | None = None,
    allow_not_finite: bool = False,
    max_shard_size: int | str | None = None,
    digests: Algorithm | None = None,
    sync: Sync = "replace",
    force: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    progress: Progress | None = None,
) -> Rewrite:
    """Writes a quantised model with each of its layers as one tensor of floats. Returns what was done.

    source          a path, a URL, or what coffer.open gave
    output          the new file, which for several files has to end in NAME.safetensors; config.json is the caller's
    dtype           of the layers, BF16, F16 or F32; None: as the model states
    like            "modelopt": round the scales of its FP8 first, as its own code does
    allow_not_finite   decode scales that are infinite or NaN, too
    max_shard_size, digests, sync, force, dry_run, threads, progress   as of coffer.rewrite

    The layouts are those of docs/convert.md.
    """
    with _opened(source, verify=True) as opened:
        by = ("dequantize", None if dtype is None else FORMAT.get(dtype, dtype), like, allow_not_finite)
        return _computed(
            opened._model, by, output, max_shard_size,
            digests=digests, sync=sync, force=force, dry_run=dry_run, threads=threads, progress=progress,
        )  # fmt: skip


def _computed(model: _native.Model, by: Any, output: Path, max_shard_size: int | str | None, **options: Any) -> Rewrite:
    """Writes a model again with numbers that are computed."""
    size = 0 if max_shard_size is None else size_of(max_shard_size)
    return _told(model.rewrite([], [], output=output, max_shard_size=size, computed=by, **options))


def _paths(given: Path | Iterable[Path]) -> list[Path]:
    return [given] if isinstance(given, str | os.PathLike) else list(given)


def _lists(slerp: float | Mapping[str, float]) -> Sequence[float] | Mapping[str, Sequence[float]]:
    return {pattern: [t] for pattern, t in slerp.items()} if isinstance(slerp, Mapping) else [slerp]


_Weights = tuple[float, ...]


def _weights(
    given: Sequence[float] | Mapping[str, Sequence[float]] | None,
) -> tuple[_Weights | None, tuple[tuple[str, _Weights], ...]]:
    if given is None:
        return None, ()
    if isinstance(given, Mapping):
        return None, tuple((pattern, tuple(map(float, weights))) for pattern, weights in given.items())
    return tuple(map(float, given)), ()
