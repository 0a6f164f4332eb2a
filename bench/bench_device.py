# SPDX-License-Identifier: Apache-2.0
"""Loading to an accelerator beside this machine's floors and beside other loaders, in turns: rows of tools/assurance/bench.sh.

    bench_device.py FLOOR FOLDER [quick]

FLOOR is build/release/bench/floor_read. The device is COFFER_BENCH_DEVICE (cuda:0), and COFFER_BENCH_DEVICE_GB says how many gigabytes
are loaded (16). It needs a torch that has the device; without one it says so, and measures nothing. Other loaders are measured where
they are installed: the reference (safetensors), InstantTensor and fastsafetensors.

A figure is the median of five runs; what takes longer than five seconds, or five times as long as ours, is run once. The time until a tensor can be used on the device counts, the release of what was loaded before does
not. The first load of each loader is not counted: it is the one that pins memory.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import coffer
import coffer.compat.safetensors.torch as drop_in

FLOOR, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
QUICK = sys.argv[3:4] == ["quick"]
DEVICE = torch.device(os.environ.get("COFFER_BENCH_DEVICE", "cuda:0"))
SIZE = 50_000_000 if QUICK else int(float(os.environ.get("COFFER_BENCH_DEVICE_GB", "16")) * 1e9)
ROUNDS = 1 if QUICK else int(os.environ.get("COFFER_BENCH_DEVICE_ROUNDS", "5"))
SHARDS = 4
MIB = 1 << 20

Tensors = dict[str, Any]
Loader = Callable[[list[Path]], Tensors]


# ---- Models -----------------------------------------------------------------------------------------------------------


def make(folder: Path, count: int) -> list[Path]:
    """A model of so many tensors in four files. What it holds does not repeat within 512 MiB, so that nothing may be left out."""
    folder.mkdir(parents=True, exist_ok=True)
    block = torch.randint(0, 256, (512 * MIB,), dtype=torch.uint8).numpy()
    rows = SIZE // count // 2 // 64
    paths, places = [], {}
    for shard in range(SHARDS):
        path = folder / f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors"
        names = [f"layers.{number:05}.weight" for number in range(shard, count, SHARDS)]
        with coffer.Writer(path, {name: ("F16", (rows, 64)) for name in names}) as writer:
            for number, name in enumerate(names):
                begin = number * 4099 * 64 % (block.size // 2)
                size = rows * 64 * 2
                for at in range(0, size, block.size // 2):
                    writer.write(name, block[begin : begin + min(block.size // 2, size - at)], at)
        paths.append(path)
        places.update(dict.fromkeys(names, path.name))
    index = {"metadata": {"total_size": rows * 128 * count}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return paths


def evict(paths: list[Path]) -> None:
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.fdatasync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def warm(paths: list[Path]) -> None:
    subprocess.run([FLOOR, "warm", *paths], check=True, stdout=subprocess.DEVNULL)


# ---- Loaders ----------------------------------------------------------------------------------------------------------


def ours(paths: list[Path]) -> Tensors:
    with coffer.load(paths[0].parent, DEVICE) as load:
        return dict(load)


def by_drop_in(paths: list[Path]) -> Tensors:
    found: Tensors = {}
    for path in paths:
        found |= drop_in.load_file(path, str(DEVICE))
    return found


def by_load_file(paths: list[Path]) -> Tensors:
    from safetensors.torch import load_file

    found: Tensors = {}
    for path in paths:
        found |= load_file(path, device=str(DEVICE))
    return found


def by_prefetch(paths: list[Path]) -> Tensors:
    """All files at once, as it reads them fastest."""
    from safetensors import safe_open

    files = [safe_open(path, framework="pt", device=str(DEVICE)) for path in paths]
    loaders = [file.prefetch() for file in files]
    return {name: tensor for loader in loaders for name, tensor in loader}


def by_fastsafetensors(paths: list[Path]) -> Tensors:
    from fastsafetensors import fastsafe_open

    with fastsafe_open([str(path) for path in paths], nogds=True, device=str(DEVICE)) as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def by_instanttensor(paths: list[Path]) -> Tensors:
    from instanttensor import safe_open

    with safe_open([str(path) for path in paths], framework="pt", device=DEVICE) as file:
        return dict(file.tensors())


def others() -> Iterator[tuple[str, Loader]]:
    """The loaders of other packages that are here."""
    import safetensors

    yield f"load_file of safetensors {safetensors.__version__}", by_load_file
    if hasattr(safetensors.safe_open, "prefetch"):
        yield f"prefetch of safetensors {safetensors.__version__}", by_prefetch
    for module, title, loader in (
        ("fastsafetensors", "fastsafetensors", by_fastsafetensors),
        ("instanttensor", "InstantTensor", by_instanttensor),
    ):
        if importlib.util.find_spec(module):
            yield title, loader
        else:
            print("NOTE", f"{title}, which is not installed", sep="\t")


# ---- Measuring --------------------------------------------------------------------------------------------------------


def row(what: str, unit: str, mine: float, other: str, theirs: float, state: str, faster: float) -> None:
    print("ROW", what, unit, f"{mine:g}", other, f"{theirs:g}", f"{faster:g}", state, sep="\t", flush=True)


def pinned_copy() -> float:
    """Bytes a second that the bus copies out of pinned memory, by four streams."""
    size = 64 * MIB
    turns = max(4, min(SIZE, 8 * 10**9) // size)
    host = [torch.empty(size, dtype=torch.uint8, pin_memory=True).fill_(1) for _ in range(4)]
    there = [torch.empty(size, dtype=torch.uint8, device=DEVICE) for _ in range(4)]
    streams = [torch.cuda.Stream(DEVICE) for _ in range(4)]
    rates = []
    for _ in range(ROUNDS + 1):
        torch.cuda.synchronize(DEVICE)
        start = time.perf_counter()
        for turn in range(turns):
            with torch.cuda.stream(streams[turn % 4]):
                there[turn % 4].copy_(host[turn % 4], non_blocking=True)
        torch.cuda.synchronize(DEVICE)
        rates.append(turns * size / (time.perf_counter() - start))
    return statistics.median(rates[1:])


def reading(state: str, paths: list[Path]) -> float:
    """Bytes a second that a program reads that does nothing else."""
    rates = []
    for _ in range(min(ROUNDS, 3)):
        if state == "cold":
            evict(paths)
        said = subprocess.run([FLOOR, state, *paths], check=True, capture_output=True, text=True).stdout
        rates.append(1e6 * float(re.match(r"[\d.]+", said)[0]))  # type: ignore[index]
    return statistics.median(rates)


def once(loader: Loader, paths: list[Path], before: Callable[[list[Path]], None]) -> float:
    gc.collect()
    torch.cuda.empty_cache()
    before(paths)
    torch.cuda.synchronize(DEVICE)
    start = time.perf_counter()
    found = loader(paths)
    torch.cuda.synchronize(DEVICE)
    taken = time.perf_counter() - start
    assert len(found) >= SHARDS
    return taken


def in_turns(loaders: dict[str, Loader], paths: list[Path], before: Callable[[list[Path]], None]) -> dict[str, float]:
    """Medians of seconds. A loader that fails is left out, and named; one that takes longer than five seconds, or five times as long as
    ours, is measured once."""
    times: dict[str, list[float]] = {name: [] for name in loaders}
    for _ in range(ROUNDS + 1):
        for name, loader in loaders.items():
            if name not in times or (len(times[name]) > 1 and times[name][1] > min(5, 5 * min(times[""]))):
                continue
            try:
                times[name].append(once(loader, paths, before))
            except Exception as error:  # of another package: whatever it raises
                if loader in (ours, by_drop_in):
                    raise
                del times[name]
                print("NOTE", f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", sep="\t")
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


def sums(tensors: Tensors) -> list[int]:
    return [int(tensor.view(torch.int32).sum(dtype=torch.int64)) for _, tensor in sorted(tensors.items())]


def compare(what: str, paths: list[Path], state: str, copying: float) -> None:
    size = sum(path.stat().st_size for path in paths)
    floors = {"copying": copying, "reading": reading("warm" if state == "cached" else "cold", paths)}
    limit = min(floors, key=lambda name: floors[name])
    seconds = in_turns({"": ours, "drop-in": by_drop_in, **dict(others())}, paths, warm if state == "cached" else evict)
    rate = size / seconds[""] / 1e9
    row(what, "GB/s", rate, f"the floor of {limit}", floors[limit] / 1e9, state, rate * 1e9 / floors[limit])
    for name, taken in seconds.items():
        if name:
            row(what, "GB/s", rate, name, size / taken / 1e9, state, taken / seconds[""])


def kept(paths: list[Path], copying: float) -> None:
    """Out of the memory of a model cache server. It passes through the staging buffer, since registering it with the driver would
    take each process longer than that."""
    server = subprocess.Popen([sys.executable, "-m", "coffer", "keep", paths[0].parent], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        server.stderr.readline()  # it says when everything is kept
        size = sum(path.stat().st_size for path in paths)
        seconds = in_turns({"": ours}, paths, lambda _: None)[""]
        row("load a model that is kept", "GB/s", size / seconds / 1e9, "copying pinned memory", copying / 1e9, "kept",
            size / seconds / copying)  # fmt: skip
    finally:
        server.terminate()
        server.wait()


def memory(what: str, paths: list[Path]) -> None:
    """What the device lacks beside the model while it is loaded, at most, and what stays pinned."""
    gc.collect()
    torch.cuda.empty_cache()
    size = sum(path.stat().st_size for path in paths)
    free = torch.cuda.mem_get_info(DEVICE)[0]
    least = free
    found = {}
    with coffer.load(paths[0].parent, DEVICE) as load:
        for name, tensor in load:
            found[name] = tensor
            if len(found) % 50 == 0:
                least = min(least, torch.cuda.mem_get_info(DEVICE)[0])
    least = min(least, torch.cuda.mem_get_info(DEVICE)[0])
    beyond = max(free - least - size, 0)
    row(f"{what}: memory of the device beyond the model", "MB", beyond / 1e6, "64 MiB and 1 %", (64 * MIB + size / 100) / 1e6, "",
        (64 * MIB + size / 100) / max(beyond, 1))  # fmt: skip


def main() -> None:
    if not torch.cuda.is_available():
        print("NOTE", f"loading to devices: torch {torch.__version__} has none here", sep="\t")
        return
    copying = pinned_copy()
    for what, count in (("load 160 tensors to the device", 160), ("load 20,000 tensors to the device", 20_000)):
        paths = make(FOLDER / f"device-{count}", count)
        warm(paths)
        with_host = sums(dict(coffer.load(paths[0].parent, "cpu", "torch")))
        assert sums(ours(paths)) == with_host, "bytes on the device differ"
        compare(what, paths, "cached", copying)
        compare(what, paths, "cold", copying)
        memory(what, paths)
        if count == 160:
            kept(paths, copying)
        for path in paths:
            path.unlink()


main()
