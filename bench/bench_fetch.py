# SPDX-License-Identifier: Apache-2.0
"""`coffer fetch` beside what else downloads: rows of tools/assurance/bench.sh.

    bench_fetch.py COMMAND FOLDER [quick]    FOLDER has room for 1.2 GB

A model of one file of 400 MB, and one of forty of 10 MB, from a server on this machine whose answers take 20 ms: at any rate, at
20 MB/s a connection, and at 60 MB/s in all. `curl -Z` and `aria2c -x16 -s16 -j16` are given a list of the files, `coffer fetch` and
`hf download` find them by themselves; each starts anew, into an empty folder, in turns.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMAND, FOLDER = sys.argv[1], Path(sys.argv[2])
QUICK = sys.argv[3:4] == ["quick"]
DELAY_MS = 20
ROUNDS = 1 if QUICK else 3
SCALE = 20 if QUICK else 1
SHAPES = {"one": (1, 400_000_000 // SCALE), "many": (40, 10_000_000 // SCALE)}
RATES = {"any rate": (0, 0), "20 MB/s a connection": (20_000_000, 0), "60 MB/s in all": (0, 60_000_000)}


def make_file(path: Path, name: str, size: int) -> None:
    entry = {name: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    text = json.dumps(entry).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        block = os.urandom(1 << 20)
        for at in range(0, size, len(block)):
            file.write(block[: size - at])


def make_model(folder: Path, count: int, size: int) -> list[str]:
    folder.mkdir(parents=True)
    if count == 1:
        make_file(folder / "model.safetensors", "t", size)
        return ["model.safetensors"]
    names = ["model-%05d-of-%05d.safetensors" % (i + 1, count) for i in range(count)]
    for i, name in enumerate(names):
        make_file(folder / name, "t%d" % i, size)
    index = {"metadata": {"total_size": count * size}, "weight_map": {"t%d" % i: name for i, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return [*names, "model.safetensors.index.json"]


def ways(origin: str, shape: str, names: list[str], to: Path) -> dict[str, list[str]]:
    urls = [f"{origin}/{shape}/{name}" for name in names]
    found = {
        "coffer fetch": [COMMAND, "fetch", "--quiet", "-o", str(to), f"hf://owner/{shape}"],
        "curl -Z": ["curl", "-sS", "-Z", "--no-progress-meter", "--remote-name-all", "--output-dir", str(to), *urls],
        "aria2c -x16": ["aria2c", "-q", "-x16", "-s16", "-j16", "-k1M", "-d", str(to), "-Z", *urls],
        "hf download": [str(Path(sys.executable).parent / "hf"), "download", "--quiet", f"owner/{shape}", "--local-dir", str(to)],
    }
    return {name: words for name, words in found.items() if shutil.which(words[0])}


def download(words: list[str], origin: str, to: Path, names: list[str], source: Path) -> float:
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_ENDPOINT": origin, "HF_HOME": str(to / "home"), "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    began = time.perf_counter()
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    taken = time.perf_counter() - began
    assert done.returncode == 0, done.stderr
    for name in names:
        assert (to / name).stat().st_size == (source / name).stat().st_size, name
    return taken


def compare(shape: str, rate: str, names: list[str], server: subprocess.Popen[str]) -> None:
    origin = "http://127.0.0.1:" + server.stdout.readline().strip()
    to = FOLDER / "fetched"
    taken: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for way, words in ways(origin, shape, names, to).items():
            taken.setdefault(way, []).append(download(words, origin, to, names, FOLDER / "source" / shape))
    median = {way: statistics.median(times) for way, times in taken.items()}
    ours = median.pop("coffer fetch")
    count, size = SHAPES[shape]
    what = f"fetch, {count} x {size // 1_000_000} MB, {rate}"
    for way, seconds in median.items():
        print("ROW", what, "s", ours, way, seconds, seconds / ours, f"{DELAY_MS} ms away", sep="\t", flush=True)


def main() -> None:
    shutil.rmtree(FOLDER / "source", ignore_errors=True)
    try:
        names = {shape: make_model(FOLDER / "source" / shape, *what) for shape, what in SHAPES.items()}
        for shape in SHAPES:
            for rate, (each, whole) in RATES.items():
                words = [sys.executable, str(HERE / "fetch_server.py"), str(FOLDER / "source"), *map(str, (DELAY_MS, each, whole))]
                with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
                    compare(shape, rate, names[shape], server)
                    server.stdin.close()
    finally:
        shutil.rmtree(FOLDER / "source", ignore_errors=True)
        shutil.rmtree(FOLDER / "fetched", ignore_errors=True)


if __name__ == "__main__":
    main()
