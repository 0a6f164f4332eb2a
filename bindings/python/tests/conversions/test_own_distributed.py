# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of distributed trainings, converted: compared with what torch itself makes of them, byte by byte."""

import os
import random
import socket
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.tensor import DTensor, DeviceMesh, Replicate, Shard, distribute_tensor

import coffer

warnings.simplefilter("ignore")


def flat(value, path=""):
    """Tensors by their keys, joined by dots."""
    if isinstance(value, torch.Tensor):
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    return {name: tensor for key, item in items for name, tensor in flat(item, f"{path}.{key}" if path else str(key)).items()}


def bytes_of(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def compare(source, expected, output, **options):
    told = coffer.convert(source, output, **options)
    assert told.total == told.written + told.aliased + told.skipped + told.unreferenced
    with coffer.open(output) as model:
        assert set(model.keys()) == set(expected)
        for name, tensor in expected.items():
            assert list(model[name].shape) == list(tensor.shape), name
            assert model[name].tobytes() == bytes_of(tensor), name
    return told


def as_torch_has_it(folder):
    whole = folder.parent / "whole.pt"
    dcp_to_torch_save(folder, whole)
    return flat(torch.load(whole, weights_only=False))


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def run_rank(rank, world, port, work, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    work(rank, world, Path(folder))
    dist.destroy_process_group()


def run_ranks(world, work, folder):
    """Runs a function in as many processes, which are a group."""
    mp.start_processes(run_rank, args=(world, free_port(), work, str(folder)), nprocs=world, start_method="fork")


# ---- one process


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool,
          torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2]  # fmt: skip


def any_tensor(draw):
    dtype = draw.choice(DTYPES)
    shape = [draw.randint(draw.random() > 0.1, 6) for _ in range(draw.randint(0, 4))]
    count = torch.Size(shape).numel()
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,)).bool().reshape(shape)
    data = torch.randint(0, 256, (count * dtype.itemsize,), dtype=torch.uint8)
    return data.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)


def test_any_state_of_one_process(tmp_path):
    draw = random.Random(5)
    for number in range(12):
        state = {f"layers.{i}": any_tensor(draw) for i in range(draw.randint(1, 20))}
        state["turned"] = torch.arange(12.0).reshape(3, 4).t()
        state["part"] = torch.arange(30.0).reshape(5, 6)[1:4, 2:5]
        folder = tmp_path / f"{number}"
        dcp.save(state, checkpoint_id=folder)
        compare(folder, as_torch_has_it(folder), tmp_path / f"{number}.safetensors")


def test_which_tensors(tmp_path):
    state = {
        "model": {"a": torch.ones(2), "b": {"c": torch.zeros(3)}},
        "optim": {"state": {"a": {"exp_avg": torch.ones(2), "step": torch.tensor(1.0)}}},
        "step": 7,
    }
    folder = tmp_path / "checkpoint"
    dcp.save(state, checkpoint_id=folder)
    everything = as_torch_has_it(folder)
    output = tmp_path / "model.safetensors"
    model = {name[6:]: tensor for name, tensor in everything.items() if name.startswith("model.")}
    told = compare(folder, model, output)
    assert [finding.text for finding in told.findings][0] == 'the model is what the checkpoint has as "model"'
    assert {tensor.reason for tensor in told.tensors if tensor.fate == "skipped"} == {"outside of the model"}
    compare(folder, everything, output, root="all")
    compare(folder / ".metadata", everything, output, root="all")
    compare(folder, {"b.c": model["b.c"]}, output, select="b.*")
    compare(folder, {"a.exp_avg": torch.ones(2), "a.step": torch.tensor(1.0)}, output, root="optim.state")
    compare(folder, {"optim.state.a.exp_avg": torch.ones(2)}, output, root="all", select=["optim.*exp_avg"])
    for options in ({"root": "ema"}, {"select": "nothing*"}):
        with pytest.raises(coffer.Error) as raised:
            coffer.convert(folder, tmp_path / "none.safetensors", **options)
        assert raised.value.code == "ROOT"


def test_names_that_begin_like_a_root(tmp_path):
    """A model of transformers has "model." in its names, and is no dict of that name."""
    state = {"model.embed.weight": torch.ones(2, 3), "lm_head.weight": torch.zeros(2, 3), "optim.lr": torch.ones(1)}
    dcp.save(state, checkpoint_id=tmp_path / "checkpoint")
    expected = {name: tensor for name, tensor in state.items() if name != "optim.lr"}
    compare(tmp_path / "checkpoint", expected, tmp_path / "model.safetensors")


def test_complex128_and_what_is_lacking(tmp_path):
    state = {"z": torch.randn(4, dtype=torch.complex128), "w": torch.ones(2)}
    dcp.save(state, checkpoint_id=tmp_path / "checkpoint")
    with pytest.raises(coffer.Error) as raised:
        coffer.convert(tmp_path / "checkpoint", None)
    assert (raised.value.code, raised.value.tensor) == ("NO_EQUIVALENT", "z")
    compare(tmp_path / "checkpoint", {"w": state["w"]}, tmp_path / "w.safetensors", skip_unsupported=True)
    pairs = {"z": torch.view_as_real(state["z"]), "w": state["w"]}
    compare(tmp_path / "checkpoint", pairs, tmp_path / "z.safetensors", complex128=True)


# ---- several processes


def save_sharded(rank, world, folder):
    mesh = DeviceMesh("cpu", list(range(world)))
    torch.manual_seed(1)
    model = {}
    for i, (shape, dim) in enumerate([((5, 3), 0), ((3, 8), 1), ((7, 6, 5), 2), ((7, 6, 5), 1), ((1, 9), 0), ((1, 9), 1), ((300, 70), 1)]):
        for dtype in (torch.float32, torch.bfloat16):
            model[f"{i}.{dtype}"] = distribute_tensor(torch.randn(shape).to(dtype), mesh, [Shard(dim)])
    model["same"] = distribute_tensor(torch.randn(4, 4), mesh, [Replicate()])
    model["plain"] = torch.arange(3)
    # A shard of a transposed matrix, whose bytes lie column by column.
    local = torch.arange(12.0).reshape(3, 4).add(100 * rank).t()
    model["turned"] = DTensor.from_local(local, mesh, [Shard(0)])
    model["turned_1"] = DTensor.from_local(local, mesh, [Shard(1)])
    dcp.save({"model": model, "optim": {"m": model["same"]}}, checkpoint_id=folder / "checkpoint")


@pytest.mark.parametrize("world", [2, 3])
def test_shards_of_several_processes(tmp_path, world):
    run_ranks(world, save_sharded, tmp_path)
    everything = as_torch_has_it(tmp_path / "checkpoint")
    expected = {name[6:]: tensor for name, tensor in everything.items() if name.startswith("model.")}
    told = compare(tmp_path / "checkpoint", expected, tmp_path / "model.safetensors")
    assert told.format == "dcp"
    assert len([tensor for tensor in told.tensors if tensor.gathered]) > 10


def save_on_a_grid(rank, world, folder):
    mesh = DeviceMesh("cpu", torch.arange(world).reshape(2, world // 2))
    torch.manual_seed(2)
    placements = [[Shard(0), Shard(1)], [Shard(1), Shard(0)], [Shard(1), Replicate()], [Replicate(), Shard(0)], [Shard(0), Shard(0)]]
    state = {f"{i}": distribute_tensor(torch.randn(7, 10), mesh, each) for i, each in enumerate(placements)}
    dcp.save(state, checkpoint_id=folder / "checkpoint")


def test_shards_on_a_grid(tmp_path):
    run_ranks(4, save_on_a_grid, tmp_path)
    compare(tmp_path / "checkpoint", as_torch_has_it(tmp_path / "checkpoint"), tmp_path / "model.safetensors")
