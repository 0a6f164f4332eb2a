# SPDX-License-Identifier: Apache-2.0
"""Why: a model that the processes of a real MPI load together arrives whole, is read once in sum, and fails for all of them
when one cannot take part."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

BUILD = Path(os.environ.get("COFFER_BUILD_DIR") or Path(os.environ["COFFER_LIB"]).parent).resolve()
LOAD = BUILD / "examples/mpi_load"
# Of Open MPI, whatever the machine has: more processes than processors, as root, and nothing but this host.
SURROUNDINGS = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl": "self,vader",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_plm": "isolated",
}
SAID = re.compile(r"rank (\d+) of (\d+) has (\d+) tensors, (\d+) bytes that add up to (\d+), and has read (\d+) bytes\n")


def run(world, *arguments):
    command = ["mpirun", "-np", str(world), *arguments]
    done = subprocess.run(command, env=SURROUNDINGS, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def model(tmp_path):
    """Two layers as transformers name them, of which one is split by rows and one by columns, and a table that all want."""
    numbers = np.random.default_rng(7)
    tensors = {
        "model.norm.weight": numbers.integers(0, 256, (3000, 1000), dtype=np.uint8),
        "model.layers.0.mlp.up_proj.weight": numbers.integers(0, 256, (2048, 1500), dtype=np.uint8),
        "model.layers.0.mlp.down_proj.weight": numbers.integers(0, 256, (1500, 2048), dtype=np.uint8),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    return tensors, tmp_path / "model.safetensors"


def sum_of(array):
    return int(array.sum(dtype=np.uint64))


@pytest.mark.parametrize("world", [1, 2, 4])
def test_each_process_gets_its_part(model, world):
    tensors, path = model
    norm, up, down = tensors.values()
    code, out, err = run(world, LOAD, path)
    assert code == 0, out + err
    found = {int(rank): tuple(map(int, rest)) for rank, *rest in SAID.findall(out)}
    assert found.keys() == set(range(world))
    for rank, (of, count, size, total, _) in found.items():
        parts = [norm, np.split(up, world)[rank], np.split(down, world, axis=1)[rank]]
        assert (of, count, size) == (world, 3, sum(part.size for part in parts))
        assert total == sum(map(sum_of, parts))
    assert sum(read for *_, read in found.values()) == sum(tensor.size for tensor in tensors.values())


def test_one_that_cannot_take_part_ends_all(model, tmp_path):
    _, path = model
    shutil.copy(path, tmp_path / "other.safetensors")
    code, out, err = run(2, LOAD, path, ":", "-np", "1", LOAD, tmp_path / "none.safetensors")
    assert code != 0 and not SAID.search(out)
    assert 'rank 2: cannot open the file: no such file or directory (errno 2)' in err
    for rank in (0, 1):
        assert f"rank {rank}: host 2 of 3 failed: " in err
