# SPDX-License-Identifier: Apache-2.0
"""Loading to a real CUDA device: what the tests with a played driver show, on hardware. tools/check/device.sh runs these; the test run
does not, as its machines have no device.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import coffer
import coffer.torch
from coffer.compat.safetensors import SafetensorError, safe_open
from coffer.compat.safetensors.torch import load_file

DEVICE = "cuda:0"
DTYPES = ["bfloat16", "float16", "float32", "float64", "int8", "int64", "uint16", "bool", "complex64", "float8_e4m3fn", "float8_e5m2"]


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8).cpu()


def assert_equal(found, wanted):
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        assert torch.equal(bits(found[name]), bits(tensor)), name


@pytest.fixture
def file(tmp_path):
    """Tensors of every kind, that begin at odd places too."""
    torch.manual_seed(7)
    tensors = {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3), "odd": torch.randint(0, 255, (31,), dtype=torch.uint8)}
    for dtype in DTYPES:
        wide = torch.randint(0, 2, (33, 64), dtype=torch.uint8)
        tensors[dtype] = wide.bool() if dtype == "bool" else wide.view(getattr(torch, dtype))
    tensors["large"] = torch.randn(3000, 2000)
    path = tmp_path / "model.safetensors"
    coffer.torch.save_file(tensors, path)
    return path, tensors


@pytest.fixture
def many(tmp_path):
    """A model in three files, with 3,000 small tensors and some that are larger than a slot of a staging buffer."""
    rng = np.random.default_rng(1)
    tensors = {f"small.{i}": torch.from_numpy(rng.random(int(rng.integers(1, 300)), dtype=np.float32)) for i in range(3000)}
    tensors |= {f"large.{i}": torch.from_numpy(rng.random((1500 + i, 1024), dtype=np.float32)) for i in range(6)}
    path = tmp_path / "model.safetensors"
    coffer.torch.save_file(tensors, path)
    return coffer.split(path, tmp_path / "parts", 16 << 20), tensors


# ---- Whole models ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [DEVICE, torch.device(DEVICE), "cuda", 0])
def test_every_dtype(file, device):
    path, wanted = file
    with coffer.load(path, device) as load:
        found = dict(load)
        stats = load.stats()
    assert all(tensor.is_cuda for tensor in found.values())
    assert_equal(found, wanted)
    assert stats.done == stats.wanted


def test_several_files(many):
    path, wanted = many
    with coffer.load(path, DEVICE) as load:
        assert_equal(dict(load), wanted)


@pytest.mark.parametrize("engine", ["buffered", "direct", "ring"])
def test_engines(many, engine):
    path, wanted = many
    try:
        staging = coffer.Staging(engine=engine)
    except RuntimeError as refused:
        assert "io_uring" in str(refused)
        return
    with coffer.load(path, DEVICE, staging=staging) as load:
        assert_equal(dict(load), wanted)


@pytest.mark.parametrize("memory", [4 << 20, 16 << 20, 256 << 20])
def test_small_staging_buffers_are_used_again(many, memory):
    """Slots are read into while copies out of them are queued: bytes that came too early would show."""
    path, wanted = many
    staging = coffer.Staging(memory=memory)
    for _ in range(4):
        with coffer.load(path, DEVICE, staging=staging) as load:
            assert_equal(dict(load), wanted)


def test_taken_in_any_order(many):
    path, wanted = many
    names = list(wanted)
    np.random.default_rng(2).shuffle(names)
    with coffer.load(path, DEVICE) as load:
        assert_equal({name: load.take(name) for name in names}, wanted)


def test_tensors_outlive_the_load(file):
    path, wanted = file
    found = dict(coffer.load(path, DEVICE))
    gc.collect()
    torch.cuda.synchronize()
    assert_equal(found, wanted)


def test_threads_share_a_staging_buffer(many):
    path, wanted = many
    staging = coffer.Staging()
    results: list[dict[str, torch.Tensor]] = []

    def load() -> None:
        with coffer.load(path, DEVICE, staging=staging) as running:
            results.append(dict(running))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for found in results:
        assert_equal(found, wanted)


# ---- Parts, places and streams ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index",
    [
        np.s_[10:20], np.s_[:, 3], np.s_[5:2900:7, 100:1900], np.s_[..., ::3], np.s_[1, :], np.s_[::-1], np.s_[2:2],
        np.s_[:, 1990:2000], np.s_[7, 9],
    ],
    ids=str,
)  # fmt: skip
def test_slices(file, index):
    path, wanted = file
    plan = coffer.Plan(path).add("large", index)
    with coffer.load(plan, DEVICE) as load:
        found = load.take("large")
    expected = torch.from_numpy(np.array(wanted["large"].numpy()[index]))
    assert found.is_cuda and torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("world", [2, 4, 8])
def test_shares(file, world):
    path, wanted = file
    for dim in (0, 1):
        parts = []
        for rank in range(world):
            with coffer.load(coffer.Plan(path).shard("large", dim, rank, world), DEVICE) as load:
                parts.append(load.take("large"))
        assert torch.equal(torch.cat(parts, dim).cpu(), wanted["large"])


def test_places_with_strides(file):
    path, wanted = file
    room = torch.zeros(2000, 3000, device=DEVICE)
    gaps = torch.full((3000, 4000), -1.0, device=DEVICE)
    torch.cuda.synchronize()
    with coffer.load(coffer.Plan(path).add("large", out=room.t()).add("large", out=gaps[:, ::2])) as load:
        load.wait()
    assert torch.equal(room.t().cpu(), wanted["large"])
    assert torch.equal(gaps[:, ::2].cpu(), wanted["large"]) and bool((gaps[:, 1::2] == -1).all())


def test_modules(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.LayerNorm(200), torch.nn.Embedding(500, 64))
    coffer.torch.save_model(model, tmp_path / "m.safetensors")
    other = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.LayerNorm(200), torch.nn.Embedding(500, 64)).to(DEVICE)
    coffer.torch.load_into(other, tmp_path / "m.safetensors")
    assert_equal({n: t.detach() for n, t in other.state_dict().items()}, model.state_dict())
    half = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.LayerNorm(200), torch.nn.Embedding(500, 64)).to(DEVICE, torch.float16)
    coffer.torch.load_into(half, tmp_path / "m.safetensors")
    assert_equal({n: t.detach() for n, t in half.state_dict().items()}, {n: t.half() for n, t in model.state_dict().items()})


def test_writes_that_are_queued_come_first(file):
    """What is queued on the current stream when the load starts must not overwrite what is loaded."""
    path, wanted = file
    stream = torch.cuda.Stream()
    room = torch.empty(3000, 2000, device=DEVICE)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        room.fill_(-1)
        with coffer.load(coffer.Plan(path).add("large", out=room)) as load:
            found = load.take("large")
        doubled = found * 2
    torch.cuda.synchronize()
    assert torch.equal(found.cpu(), wanted["large"]) and torch.equal(doubled.cpu(), wanted["large"] * 2)


# ---- The drop-in --------------------------------------------------------------------------------------------------------


def test_load_file(file):
    path, wanted = file
    assert_equal(load_file(path, DEVICE), wanted)
    assert_equal(load_file(path, 0), wanted)


def test_safe_open(file):
    path, wanted = file
    with safe_open(path, "pt", DEVICE) as f:
        assert_equal({name: f.get_tensor(name) for name in f.keys()}, wanted)
        part = f.get_slice("large")[7:100, 3:9]
    assert part.is_cuda and torch.equal(part.cpu(), wanted["large"][7:100, 3:9])


def test_prefetch(file):
    path, wanted = file
    with safe_open(path, "pt", DEVICE) as f:
        with f.prefetch() as loader:
            assert len(loader) == len(wanted)
            first = loader.take("large")
            rest = dict(loader)
            with pytest.raises(SafetensorError, match="already delivered"):
                loader.take("large")
        assert_equal(rest | {"large": first}, wanted)
        plan = {"large": (slice(10, 500), slice(3, 700)), "float16": slice(1, 9), "odd": None}
        found = dict(f.prefetch(plan))
    assert_equal(found, {"large": wanted["large"][10:500, 3:700], "float16": wanted["float16"][1:9], "odd": wanted["odd"]})


def test_prefetch_is_closed_early(many):
    path, wanted = many
    for shard in coffer.open(path).shards:
        with safe_open(shard, "pt", DEVICE) as f:
            loader = f.prefetch()
            name = loader.names()[-1]
            kept = loader.take(name)
            loader.close()
            with pytest.raises(SafetensorError, match="closed"):
                loader.take(loader.names()[0])
        assert torch.equal(kept.cpu(), wanted[name])


# ---- Failures -----------------------------------------------------------------------------------------------------------


def test_a_truncated_file(file):
    path, _ = file
    model = coffer.open(path, access="read")
    with path.open("r+b") as f:
        f.truncate(path.stat().st_size - 5000)
    with pytest.raises(coffer.Error) as raised, coffer.load(model, DEVICE) as load:
        dict(load)
    assert raised.value.code == "CHANGED"
    torch.zeros(1, device=DEVICE).add_(1)


def test_a_damaged_tensor(tmp_path):
    path = tmp_path / "m.safetensors"
    coffer.torch.save_file({"x": torch.randn(2000, 1000)}, path)
    subprocess.run([sys.executable, "-m", "coffer", "hash", "--write", path], check=True, capture_output=True)
    with coffer.load(path, DEVICE) as load:
        load.take("x")
    with path.open("r+b") as f:
        f.seek(-4000, 2)
        f.write(b"damaged")
    with pytest.raises(coffer.Error) as raised, coffer.load(path, DEVICE) as load:
        load.take("x")
    assert raised.value.code == "TENSOR_DIGEST"


def test_too_little_memory(tmp_path):
    path = tmp_path / "huge.safetensors"
    free = torch.cuda.mem_get_info()[0]
    rows = free // (1 << 20) + 4096
    header = f'{{"x":{{"dtype":"U8","shape":[{rows},1048576],"data_offsets":[0,{rows << 20}]}}}}'.encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, 8 + len(header) + (rows << 20))  # the rest is a hole
    with pytest.raises((coffer.Error, torch.cuda.OutOfMemoryError)), coffer.load(path, DEVICE) as load:
        dict(load)
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] > free - (256 << 20)


def test_a_device_that_is_not_there(file):
    with pytest.raises(Exception, match="cuda:63|device"):
        dict(coffer.load(file[0], "cuda:63"))


def test_nothing_leaks(many):
    path, _ = many

    def rounds(count: int) -> int:
        for _ in range(count):
            dict(coffer.load(path, DEVICE))
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]

    before = rounds(3)
    assert rounds(20) >= before - (4 << 20)


def test_cancelled(many):
    for _ in range(10):
        load = coffer.load(many[0], DEVICE)
        next(load)
        load.close()
    torch.zeros(1, device=DEVICE).add_(1)


def test_a_small_file_many_times(tmp_path):
    path = tmp_path / "small.safetensors"
    wanted = {f"t{i}": torch.randn(64, 64) for i in range(60)}
    coffer.torch.save_file(wanted, path)
    for _ in range(300):
        found = load_file(path, DEVICE)
    assert_equal(found, wanted)


# ---- The command --------------------------------------------------------------------------------------------------------


def test_devices():
    said = subprocess.run([sys.executable, "-m", "coffer", "devices"], check=True, capture_output=True, text=True).stdout
    assert "cuda:0" in said and torch.cuda.get_device_name(0) in said


def test_load_by_the_command(many):
    command = [sys.executable, "-m", "coffer", "load", many[0], "--device", DEVICE]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert f"to {DEVICE}" in said


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", "-p", "no:cacheprovider"]))
