# SPDX-License-Identifier: Apache-2.0
"""The first screen of `coffer browse` beside that of `sft browse` (sft-cli), for a file of very many tensors: rows of tools/assurance/bench.sh.

    bench_browse.py COMMAND FOLDER [quick]

Each runs in a new terminal, in turns, until a tensor, or the layers of many, are seen in it; the memory is the process's peak until
then. Once the names have layers, which folds make few of, and once they are letters at random. The file is in the page cache, and
figures are medians.
"""

import fcntl
import json
import os
import pty
import random
import re
import select
import statistics
import string
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import turns

COMMAND, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
QUICK = sys.argv[3:4] == ["quick"]
SFT = Path(sys.executable).with_name("sft")
LAYERS, EXPERTS = (2, 8) if QUICK else (60, 256)
ROUNDS = 1 if QUICK else 9
PATIENCE = 300  # seconds
ENVIRONMENT = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", "HOME": "/nonexistent"}
SEEN = re.compile(rb"layers|[a-z]{24}")  # neither is in what else the programs show


def names_with_layers():
    """As a mixture of experts has them."""
    kinds = [f"{part}_proj.{kind}" for part in ("gate", "up", "down") for kind in ("weight", "weight_scale_inv")]
    return [f"model.layers.{layer}.mlp.experts.{expert}.{kind}" for layer in range(LAYERS) for expert in range(EXPERTS) for kind in kinds]


def names_at_random():
    letters = random.Random(1)
    return ["".join(letters.choices(string.ascii_lowercase, k=24)) for _ in names_with_layers()]


def save(path, names):
    header = {name: {"dtype": "U8", "shape": [4], "data_offsets": [4 * i, 4 * i + 4]} for i, name in enumerate(names)}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(4 * len(names)))


def peak_memory(process):
    """In MB."""
    return int(re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())[1]) * 1024 / 1e6


def first_screen(program, path):
    """How many milliseconds it takes, and how much memory."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    said = b""
    start = time.perf_counter()
    process = subprocess.Popen(
        [program, "browse", path.name], cwd=path.parent, env=ENVIRONMENT, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    while not SEEN.search(said):
        if not select.select([master], [], [], PATIENCE)[0]:
            process.kill()
            raise TimeoutError(f"{program} shows no tensor")
        said += os.read(master, 65536)
    measured = 1e3 * (time.perf_counter() - start), peak_memory(process)
    process.kill()
    process.wait()
    os.close(master)
    return measured


def measure(path, kind, names):
    save(path, names)
    rounds = [(first_screen(COMMAND, path), first_screen(SFT, path)) for _ in range(ROUNDS + 1)]
    for i, unit, what in ((0, "ms", "first screen"), (1, "MB", "peak memory")):
        ours, theirs = (statistics.median(figures[i] for figures in program) for program in zip(*rounds[1:], strict=True))
        turns.row(f"browse {len(names)} tensors, {kind}: {what}", unit, ours, "sft browse", theirs)
    path.unlink()


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "browse.safetensors"
    measure(path, "layers", names_with_layers())
    measure(path, "names at random", names_at_random())


if __name__ == "__main__":
    main()
