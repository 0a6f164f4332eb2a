# SPDX-License-Identifier: Apache-2.0
"""Starts the processes of an engine, of which each loads every case by the engine's own loader and by Coffer, and collects what they
found: for each case and rank the SHA-256, shape and dtype of every parameter, or why it failed."""

import hashlib
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

import torch

from coffer.adapters import lazy_tensors

HERE = Path(__file__).parent


def run(script, folder, world, cases, **environment):
    """A list for each rank of what it reports by case."""
    out = folder / f"{script}-{world}"
    out.mkdir()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **environment}
    commands = [[sys.executable, HERE / script, folder, out, str(rank), str(world), *cases] for rank in range(world)]
    logs = [out / f"{rank}.log" for rank in range(world)]
    processes = []
    for command, log in zip(commands, logs, strict=True):
        with log.open("wb") as said:
            processes.append(subprocess.Popen(command, env=environment, stdout=said, stderr=subprocess.STDOUT))
    try:
        codes = [process.wait(timeout=1800) for process in processes]
    finally:
        for process in processes:
            process.kill()  # it may wait for one that is gone
    assert not any(codes), "\n".join(log.read_text()[-5000:] for log in logs)
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(world)]


def arguments():
    folder, out, rank, world, *cases = sys.argv[1:]
    return Path(folder), Path(out), int(rank), int(world), cases


def report(out, rank, cases, one):
    """Carries out each case; what `one` returns for it, or the error."""
    found = {}
    for case in cases:
        try:
            found[case] = one(case)
        except Exception:
            found[case] = {"error": traceback.format_exc()}
            Watched.read()  # what it counted is not the next one's
    (out / f"{rank}.json").write_text(json.dumps(found))


def summary(named):
    """Of all tensors of a model, or of something else that has some."""
    return {name: [_sha256(tensor), list(tensor.shape), str(tensor.dtype)] for name, tensor in named}


def _sha256(tensor):
    values = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(values.numpy().tobytes()).hexdigest()


class Watched(lazy_tensors.Weights):
    """What Coffer is asked for, counted."""

    all = []

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.all.append(self)

    @classmethod
    def read(cls):
        """How many bytes were read since the last call, those for nothing too, and how many the files have."""
        opened = [(weights.statistics, weights._source.tensors.values()) for weights in cls.all]
        cls.all.clear()
        return {
            "read": sum(found.taken + found.wrong for found, _ in opened),
            "size": sum(tensor.nbytes for _, tensors in opened for tensor in tensors),
        }


lazy_tensors.Weights = Watched
