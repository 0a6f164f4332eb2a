# SPDX-License-Identifier: Apache-2.0
"""`coffer get` of a tenth of a model beside `cp` of a file of as many bytes, in turns: a row of tools/assurance/bench.sh.

    bench_part.py COMMAND FOLDER [quick]

Both files are in the page cache, and both copies replace nothing. Figures are medians.
"""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import turns

COMMAND, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
QUICK = sys.argv[3:4] == ["quick"]
SIZE = 1 << 20 if QUICK else 16 << 20
TENSORS = 200
ROUNDS = 1 if QUICK else 9
MODEL, TENTH, OUTPUT = FOLDER / "part-model.safetensors", FOLDER / "part-tenth.bin", FOLDER / "part.safetensors"


def save_model():
    """Of ten tensors one is wanted."""
    header = {
        f"layers.{i // 10}.{i % 10}": {"dtype": "U8", "shape": [SIZE], "data_offsets": [i * SIZE, (i + 1) * SIZE]} for i in range(TENSORS)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = os.urandom(SIZE)
    with MODEL.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(TENSORS):
            file.write(data)
    with TENTH.open("wb") as file:
        for _ in range(TENSORS // 10):
            file.write(data)


def run(*words):
    subprocess.run(words, check=True)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    save_model()
    ours, theirs = turns.in_turns(
        OUTPUT, ROUNDS, lambda: run(COMMAND, "get", "-q", MODEL, "layers.*.3", "-o", OUTPUT), lambda: run("cp", TENTH, OUTPUT)
    )
    turns.row(f"get {SIZE * TENSORS // 10 / 1e6:.0f} MB, a tenth of a model", "ms", 1e3 * ours, "cp", 1e3 * theirs)
    for path in (MODEL, TENTH, OUTPUT):
        path.unlink()


if __name__ == "__main__":
    main()
