# SPDX-License-Identifier: Apache-2.0
"""What the documentation speaks of besides its examples, as a program would write it: for type checkers, and never run."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch
from torch.utils.dlpack import from_dlpack
from typing_extensions import assert_type

import coffer
import coffer.hub
import coffer.jax
import coffer.numpy
import coffer.torch
from coffer.adapters.prefetch import ReadAhead
from coffer.adapters.dcp import StorageReader
from coffer.adapters.lazy_tensors import Weights
from coffer.numpy import load_file, save_file


def tensors(f: coffer.File) -> None:
    tensor = f["a"]
    assert_type(tensor, coffer.Tensor)
    assert_type(tensor.numpy(), np.ndarray[Any, Any])
    assert_type(tensor.torch(), torch.Tensor)
    assert_type(tensor.torch("cuda:0"), torch.Tensor)
    assert_type(tensor.torch(device=torch.device("cpu")).sum(), torch.Tensor)
    assert_type(tensor[1:3, ..., 0], coffer.Tensor)
    assert_type(tensor[np.int64(1)], coffer.Tensor)
    assert_type(tensor.shape, tuple[int, ...])
    assert_type(int(tensor) + float(tensor), float)
    assert_type(iter(tensor), Iterator[coffer.Tensor])
    assert_type([len(part) for part in tensor], list[int])
    assert_type(tensor.tobytes(), bytes)
    assert_type(tensor.read(), coffer.Buffer)
    assert_type(tensor.memory(writable=True), memoryview)
    mean: float = tensor.numpy().mean() + tensor.astype("bfloat16").max() + tensor.astype(np.float16)[0]
    same: bool = bool(tensor) or tensor.item() == mean
    nested: list[list[int]] = tensor.tolist()
    print(nested, same, hashlib.sha256(tensor.memory()).hexdigest(), io.BytesIO().readinto(tensor.memory(writable=True)))
    print(memoryview(tensor), np.asarray(tensor), np.asarray(tensor, np.float32), torch.as_tensor(tensor), from_dlpack(tensor))
    print(np.frombuffer(memoryview(tensor.read()), np.uint8), np.from_dlpack(tensor), np.frombuffer(tensor.memory(), np.uint8))
    tensor.read_into(np.empty((2, 3), np.float32))
    tensor.read_into(bytearray(24))
    tensor.read_into(memoryview(bytearray(24)))
    tensor.read_into(tensor)


def files(path: Path, fd: int) -> None:
    for source in ("x.safetensors", path, fd, b"", bytearray(), memoryview(b""), np.zeros(3, np.uint8)):
        with coffer.open(source, access="read", verify=True, token="", timeout=1.5) as f:
            print(sum(tensor.size for tensor in f.values()), f.metadata.get("format"), f.shards, f.nbytes, f.format)
        report = coffer.check(source)
        if report.error is not None:
            print(report.error.code, report.error.offset)
        for note in report.notes:
            print(note.text, note.count)
    coffer.record_digests(path, "xxh3-128", progress=lambda done, total: print(done, total))


def writing(path: Path) -> None:
    array = np.zeros((2, 3), np.float32)
    with coffer.Writer(path, {"a": ("F32", (2, 3)), "b": ("U8", [4])}, {"k": "v"}, sync="always", digests="sha256") as writer:
        writer.write("a", array)
        writer.write("b", b"abcd", offset=0)
        writer.write("b", memoryview(b"abcd"))
    other = coffer.Writer(str(path), [("a", "F32", array.shape)], format="bintensors", alignment=64, slack=100)
    other.write("a", torch.zeros(2, 3).numpy())
    other.finish()
    save_file({"a": array}, path, {"k": "v"}, sync="never", digests="sha256")
    loaded = load_file(path, verify=True, backend="pread")
    print({name: found.dtype for name, found in loaded.items()})
    model = torch.nn.Linear(2, 3)
    coffer.torch.save_model(model, str(path), max_shard_size="5GB")
    print(coffer.torch.load_model(model, path, device=0), coffer.torch.load(coffer.torch.save({"a": torch.ones(3)})))
    print(coffer.numpy.load(coffer.numpy.save({"a": array}, {"k": "v"})), coffer.torch.load_file(path, "cuda:0", progress=True))


def loading(path: Path) -> None:
    room = np.empty((2, 3), np.float32)
    plan = coffer.Plan(path).add("a", (slice(0, 2), ..., 1), out=room).shard("b", 0, 1, 4, parts=[8, 8]).all(0, 2, rules={"*": None})
    assert_type(plan.cost().read + plan.items[0].nbytes, int)
    with coffer.load(plan, "cuda:0", "pt", staging=coffer.Staging(memory=1 << 26, engine="ring"), progress=True) as load:
        for name, tensor in load:
            print(name, tensor, load.take("b"), load.stats().seconds, plan.to_json())
    assert_type(load, coffer.Load)
    assert_type(load.dict(), dict[str, Any])
    assert_type(dict(load), dict[str, Any])
    print(load["a"], "a" in load, list(load.keys()), [tensor for _, tensor in load.items()], list(load.values()), load.get("a"), dict(**load))
    model = torch.nn.Linear(2, 3)
    assert_type(coffer.torch.load_into(model, path, rank=1, world=2), tuple[set[str], list[str]])
    coffer.torch.load_into(model.state_dict(), coffer.open(path), False)


def hub() -> None:
    found = coffer.hub.get_safetensors_metadata("owner/name", revision="main", token=False, timeout=None)
    print(found.parameter_count["F32"], [file.tensors["a"].shape for file in found.files_metadata.values()])


def adapters(path: Path, parameter: torch.nn.Parameter, sharding: jax.sharding.Sharding) -> None:
    with Weights([path, str(path)], memory=1 << 20, threads=2) as weights:
        for name, tensor in weights:
            assert_type(tensor, torch.Tensor)
            parameter.data.copy_(tensor.narrow(0, 0, len(name)))
        print(weights["a"].shape, weights.statistics.taken, len(weights))
    with ReadAhead([path]) as source:
        for name in source:
            print(len(source.read(name, ((0, 1, 1),))))
    print(StorageReader(path, thread_count=2).thread_count)
    arrays = coffer.jax.load_sharded(path, {"a": sharding}, ["a"])
    assert_type(arrays, dict[str, jax.Array])
    print(coffer.jax.load_sharded(coffer.open(path), lambda name, shape: sharding, threads=4), coffer.jax.load_sharded("x", sharding))
