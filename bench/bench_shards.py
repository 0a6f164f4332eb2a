# SPDX-License-Identifier: Apache-2.0
"""`coffer convert` on checkpoints of distributed trainings beside what their own frameworks offer, in turns: rows of tools/assurance/bench.sh.

    bench_shards.py COMMAND FOLDER [quick]

The checkpoints are written by one process as many would have written them, and are in the page cache. Figures are medians, without
importing torch.
"""

import os
import pickle
import shutil
import subprocess
import sys
from io import BytesIO
from functools import partial
from pathlib import Path

import torch
import turns
from safetensors.torch import save_file
from torch.distributed.checkpoint import metadata as dcp_metadata
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

COMMAND, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
QUICK = sys.argv[3:4] == ["quick"]
RANKS = 8
TENSORS = 10 if QUICK else 250
ROUNDS = 1 if QUICK else 3
DCP, ZERO, WHOLE, OUTPUT = FOLDER / "shards-dcp", FOLDER / "shards-zero", FOLDER / "shards-whole.pt", FOLDER / "shards.safetensors"


def save_dcp():
    """2 GB in 2,000 parts: 250 tensors of 8 MB, each of 8 ranks; every second one is cut along dimension 1."""
    shutil.rmtree(DCP, ignore_errors=True)
    DCP.mkdir(parents=True)
    shape = torch.Size([2048, 1024])
    stored, places, paths = {}, {}, {}
    files = [(DCP / f"__{rank}_0.distcp").open("wb") for rank in range(RANKS)]
    data = torch.randn(shape)
    for i in range(TENSORS):
        name, dim = f"model.layers.{i}.weight", i % 2
        chunks = []
        for rank, part in enumerate(data.add_(1).chunk(RANKS, dim)):
            offsets = torch.Size([rank * part.shape[0], 0] if dim == 0 else [0, rank * part.shape[1]])
            buffer = BytesIO()
            torch.save(part.contiguous().clone(), buffer)
            index = dcp_metadata.MetadataIndex(name, offsets, rank)
            places[index] = _StorageInfo(f"__{rank}_0.distcp", files[rank].tell(), len(buffer.getbuffer()))
            files[rank].write(buffer.getbuffer())
            chunks.append(dcp_metadata.ChunkStorageMetadata(offsets, part.shape))
        properties = dcp_metadata.TensorProperties(dtype=torch.float32)
        stored[name] = dcp_metadata.TensorStorageMetadata(properties, shape, chunks)
        paths[name] = ("model", "layers", i, "weight")
    for file in files:
        file.close()
    (DCP / ".metadata").write_bytes(pickle.dumps(dcp_metadata.Metadata(stored, paths, places)))


def save_zero():
    """2 GB of parameters, of stage 3 over 8 ranks, without moments: nobody reads those."""
    shutil.rmtree(ZERO, ignore_errors=True)
    folder = ZERO / "global_step1"
    folder.mkdir(parents=True)
    shapes = {f"layers.{i}.weight": torch.Size([2048, 1024]) for i in range(TENSORS)}
    flat = torch.randn(TENSORS * 2048 * 1024 // RANKS)
    for rank in range(RANKS):
        state = {"zero_stage": 3, "partition_count": RANKS, "fp32_flat_groups": [flat.add_(1)]}
        torch.save({"optimizer_state_dict": state}, folder / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
        model = {"module": {}, "buffer_names": [], "param_shapes": [shapes], "shared_params": {}, "frozen_param_shapes": None,
                 "frozen_param_fragments": None, "ds_version": "0.19.8"}
        torch.save(model, folder / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
    (ZERO / "latest").write_text("global_step1")


def by_merging():
    """What DeepSpeed's zero_to_fp32.py does, which needs DeepSpeed: all partitions in memory, joined parameter by parameter."""
    files = sorted((ZERO / "global_step1").glob("*_optim_states.pt"))
    flats = [torch.load(path, weights_only=False)["optimizer_state_dict"]["fp32_flat_groups"][0] for path in files]
    shapes = torch.load(next((ZERO / "global_step1").glob("*_model_states.pt")), weights_only=False)["param_shapes"][0]
    tensors, offset = {}, 0
    for name, shape in shapes.items():
        each = -(-shape.numel() // RANKS)
        tensors[name] = torch.cat([flat.narrow(0, offset, each) for flat in flats]).narrow(0, 0, shape.numel()).view(shape)
        offset += each
    save_file(tensors, OUTPUT)


def command(path, *options):
    subprocess.run([COMMAND, "convert", "-q", "-f", path, "-o", OUTPUT, *options], check=True)


def by_dcp_to_torch_save():
    dcp_to_torch_save(DCP, WHOLE)
    tensors = {}

    def take(value, path):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            take(item, f"{path}{key}.") if isinstance(item, (dict, list)) else tensors.update({f"{path}{key}": item})

    take(torch.load(WHOLE, weights_only=False), "")
    save_file(tensors, OUTPUT)


in_turns = partial(turns.in_turns, OUTPUT, ROUNDS)


def peak(path):
    """MB of a process of its own, which a small one starts: a process keeps the peak of the one that started it."""
    code = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:])
_, status, used = os.wait4(process.pid, 0)
assert status == 0
print(used.ru_maxrss / 1000)
"""
    words = [sys.executable, "-c", code, COMMAND, "convert", "-q", "-f", path, "-o", OUTPUT]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def distributed():
    save_dcp()
    verified, plain, others = in_turns(lambda: command(DCP), lambda: command(DCP, "--no-verify"), by_dcp_to_torch_save)
    other = "dcp_to_torch_save, save_file"
    turns.row("convert 2 GB in 2,000 parts (DCP), verified", "ms", 1e3 * verified, other, 1e3 * others)
    turns.row("the same, not verified", "ms", 1e3 * plain, other, 1e3 * others)
    turns.row("the same: peak memory", "MB", peak(DCP), "all tensors", TENSORS * 8.4)
    shutil.rmtree(DCP)


def deepspeed():
    save_zero()
    verified, plain, others = in_turns(lambda: command(ZERO), lambda: command(ZERO, "--no-verify"), by_merging)
    turns.row("convert 2 GB of ZeRO-3 over 8 ranks, verified", "ms", 1e3 * verified, "merging as zero_to_fp32, save_file", 1e3 * others)
    turns.row("the same, not verified", "ms", 1e3 * plain, "merging as zero_to_fp32, save_file", 1e3 * others)
    turns.row("the same: peak memory", "MB", peak(ZERO), "all tensors", TENSORS * 8.4)
    shutil.rmtree(ZERO)


def main():
    torch.manual_seed(1)
    deepspeed()
    distributed()
    for path in (WHOLE, OUTPUT):
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
