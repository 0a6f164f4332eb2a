# SPDX-License-Identifier: Apache-2.0
"""The metadata of a model of 160 files on a Hub that is 50 ms away, by coffer.hub and the command, beside the Hub's own clients: rows
of tools/assurance/bench.sh.

    bench_hub.py COMMAND NODE FOLDER [quick]    FOLDER/node_modules has @huggingface/hub

In turns, each time in a new process with an empty cache, so that connections are made anew. Of a package the call is timed when it
is imported, of the command all of it, from start to end.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMAND, NODE, MODULES = sys.argv[1:4]
QUICK = sys.argv[4:5] == ["quick"]
FILES = 20 if QUICK else 160
LATENCY_MS = 50
ROUNDS = 1 if QUICK else 7

CALL = """
import time
from {package} import get_safetensors_metadata
began = time.perf_counter()
found = get_safetensors_metadata("owner/model")
print(time.perf_counter() - began, len(found.files_metadata))
"""


class Far:
    """The server, and one way after the other to ask it."""

    def __init__(self) -> None:
        command = [NODE, str(HERE / "hub_server.mjs"), str(FILES), str(LATENCY_MS)]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.origin = self.server.stdout.readline().strip()
        self.ways = {
            "coffer.hub": [sys.executable, "-c", CALL.format(package="coffer.hub")],
            "coffer ls": [COMMAND, "ls", "--json", "hf://owner/model"],
            "huggingface_hub": [sys.executable, "-c", CALL.format(package="huggingface_hub")],
            "@huggingface/hub": [NODE, str(HERE / "hub_client.mjs"), MODULES, self.origin, "owner/model"],
        }

    def ask(self, way: str) -> tuple[float, str]:
        """How long it took in seconds, and how many requests over how many connections."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        with tempfile.TemporaryDirectory() as home:
            environment |= {"HF_ENDPOINT": self.origin, "HF_HOME": home, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
            began = time.perf_counter()
            done = subprocess.run(self.ways[way], env=environment, capture_output=True, text=True, check=True)
            taken = time.perf_counter() - began
        if way != "coffer ls":
            seconds, files = done.stdout.split()
            assert int(files) == FILES, done.stdout
            taken = float(seconds)
        self.server.stdin.write("\n")
        self.server.stdin.flush()
        return taken, self.server.stdout.readline().strip()


def main() -> None:
    far = Far()
    taken: dict[str, list[float]] = {way: [] for way in far.ways}
    asked: dict[str, str] = {}
    for _ in range(ROUNDS):
        for way in far.ways:
            seconds, asked[way] = far.ask(way)
            taken[way].append(seconds)
    median = {way: statistics.median(times) for way, times in taken.items()}
    for ours in ("coffer.hub", "coffer ls"):
        for theirs in ("huggingface_hub", "@huggingface/hub"):
            state = "; ".join("{} requests over {} connections".format(*asked[way].split()) for way in (ours, theirs))
            what = f"hub {LATENCY_MS} ms away, {FILES} files: {ours}"
            row = (what, "ms", f"{1000 * median[ours]:g}", theirs, f"{1000 * median[theirs]:g}", f"{median[theirs] / median[ours]:g}", state)
            print("ROW", *row, sep="\t", flush=True)
    far.server.communicate()


main()
