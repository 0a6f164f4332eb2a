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


# ---- a file of each process


def save_ranks(rank, world, folder):
    mesh = DeviceMesh("cpu", list(range(world)))
    torch.manual_seed(3)
    whole = {}
    state = {}
    for i, (shape, dim) in enumerate([((5, 3), 0), ((3, 8), 1), ((7, 6, 5), 2), ((7, 6, 5), 1), ((1, 9), 0), ((300, 70), 1)]):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            whole[f"{i}.{dtype}"] = torch.randn(shape).mul(100).to(dtype)
            state[f"{i}.{dtype}"] = distribute_tensor(whole[f"{i}.{dtype}"], mesh, [Shard(dim)])
    whole["parameter"] = torch.nn.Parameter(torch.randn(6, 2))
    state["parameter"] = torch.nn.Parameter(distribute_tensor(whole["parameter"].detach(), mesh, [Shard(0)]))
    whole["same"] = torch.randn(4, 4)
    state["same"] = distribute_tensor(whole["same"], mesh, [Replicate()])
    whole["plain"] = state["plain"] = torch.arange(3)
    torch.save(state, folder / f"model_world_size_{world}_rank_{rank}.pt")
    grid = DeviceMesh("cpu", torch.arange(world).reshape(1, world))
    torch.save({"w": distribute_tensor(torch.ones(4, 4), grid, [Shard(0), Shard(1)])}, folder / f"grid_world_size_{world}_rank_{rank}.pt")
    if rank == 0:
        torch.save(whole, folder / "whole.pt")


def test_files_of_ranks(tmp_path):
    world = 3
    run_ranks(world, save_ranks, tmp_path)
    expected = torch.load(tmp_path / "whole.pt")
    paths = [tmp_path / f"model_world_size_{world}_rank_{rank}.pt" for rank in range(world)]
    for path in paths:
        told = compare(path, expected, tmp_path / "model.safetensors")
        assert told.format == "fsdp"
    with pytest.raises(coffer.Error) as raised:
        coffer.convert(tmp_path / f"grid_world_size_{world}_rank_0.pt", None)
    assert (raised.value.code, raised.value.tensor) == ("UNSUPPORTED", "w")
    assert 'a mesh of several dimensions, and its first placement is "Shard"' in str(raised.value)
    first = paths[0].read_bytes()
    paths[0].write_bytes(paths[1].read_bytes())
    paths[1].write_bytes(first)
    with pytest.raises(coffer.Error, match="of other ranks than the files' names say"):
        coffer.convert(paths[2], None)
    paths[1].unlink()
    with pytest.raises(coffer.Error) as raised:
        coffer.convert(paths[2], None)
    assert raised.value.code == "SHARD_MISSING"


# ---- DeepSpeed: its layout, as its script zero_to_fp32.py reads it


def partition(vector, world):
    """Equal parts for each rank, the last one padded."""
    each = -(-vector.numel() // world)
    return list(torch.cat([vector, torch.full((each * world - vector.numel(),), 7.0, dtype=vector.dtype)]).split(each))


def save_zero(folder, stage, world, groups, buffers, frozen, shared, prefix=""):
    """`groups`: dicts of parameters. What the script makes of it is returned."""
    folder.mkdir(parents=True)
    shapes = [{name: tensor.shape for name, tensor in group.items()} for group in groups]
    module = {name: tensor.clone() for name, tensor in buffers.items()} | {name: torch.zeros(1) for group in groups for name in group}
    flats = [[] for _ in range(world)]
    for group in groups:
        if stage == 3:
            parts = [[] for _ in range(world)]
            for tensor in group.values():
                for rank, part in enumerate(partition(tensor.reshape(-1), world)):
                    parts[rank].append(part)
            for rank in range(world):
                flats[rank].append(torch.cat(parts[rank]))
        else:
            vector = torch.cat([tensor.reshape(-1) for tensor in group.values()])
            padding = -vector.numel() % (2 * world)
            for rank, part in enumerate(torch.cat([vector, torch.full((padding,), 7.0)]).chunk(world)):
                flats[rank].append(part.clone())
    key = "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"
    for rank in range(world):
        moments = {"state": {0: {"exp_avg": torch.ones(5), "step": 3}}, "param_groups": [{"lr": 0.1}]}
        state = {"zero_stage": stage, "partition_count": world if stage == 3 else [world] * len(groups), "loss_scaler": None,
                 key: flats[rank], "optimizer_state_dict": moments}
        torch.save({"optimizer_state_dict": state, "ds_version": "0.19.8"}, folder / f"{prefix}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    for rank in range(world if stage == 3 else 1):
        fragments = {name: partition(tensor.reshape(-1), world)[rank].clone() if stage == 3 else tensor for name, tensor in frozen.items()}
        state = {"module": module, "buffer_names": list(buffers), "param_shapes": shapes, "shared_params": shared,
                 "frozen_param_shapes": {name: tensor.shape for name, tensor in frozen.items()} or None,
                 "frozen_param_fragments": fragments or None, "ds_version": "0.19.8", "num_experts": []}
        called = f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt" if stage == 3 else "mp_rank_00_model_states.pt"
        torch.save(state, folder / called)
    (folder.parent / "latest").write_text(folder.name)
    return buffers | frozen | {name: tensor for group in groups for name, tensor in group.items()}


def some_groups(draw, count):
    return [{f"group{g}.{i}.weight": torch.randn([draw.randint(1, 9) for _ in range(draw.randint(0, 3))]) for i in range(draw.randint(1, 12))}
            for g in range(count)]


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("world", [1, 2, 3, 8])
@pytest.mark.parametrize("bf16", [False, True])
def test_deepspeed(tmp_path, stage, world, bf16):
    draw = random.Random(stage * 10 + world)
    torch.manual_seed(4)
    buffers = {"norm.mean": torch.randn(3)}
    frozen = {"frozen.a": torch.randn(5, 3), "frozen.b": torch.randn(1)} if bf16 else {}
    groups = some_groups(draw, 1 + (world > 2))
    folder = tmp_path / "global_step7"
    expected = save_zero(folder, stage, world, groups, buffers, frozen, {}, "bf16_" if bf16 else "")
    for source in (tmp_path, folder, folder / ("zero_pp_rank_0_" * (stage == 3) + "mp_rank_00_model_states.pt")):
        told = compare(source, expected, tmp_path / "model.safetensors")
        assert told.format == "deepspeed"


@pytest.mark.parametrize("stage", [2, 3])
def test_shared_parameters_of_deepspeed(tmp_path, stage):
    groups = [{"embed": torch.randn(5, 3), "w": torch.randn(7)}]
    expected = save_zero(tmp_path / "a", stage, 2, groups, {}, {}, {"lm_head": "embed"})
    compare(tmp_path / "a", expected | {"lm_head": expected["embed"]}, tmp_path / "m.safetensors", tied="keep")
    compare(tmp_path / "a", expected, tmp_path / "m.safetensors")
    with coffer.open(tmp_path / "m.safetensors") as model:
        assert model.metadata["lm_head"] == "embed"


@pytest.mark.parametrize("stage", [2, 3])
def test_what_is_wrong_about_files_of_deepspeed(tmp_path, stage):
    def made(name, change):
        folder = tmp_path / name
        save_zero(folder, stage, 2, [{"a": torch.randn(5, 3), "b": torch.randn(400)}], {}, {}, {})
        path = folder / "zero_pp_rank_1_mp_rank_00_optim_states.pt"
        state = torch.load(path, weights_only=False)
        change(state["optimizer_state_dict"])
        torch.save(state, path)
        with pytest.raises(coffer.Error) as raised:
            coffer.convert(folder, None)
        return raised.value.code

    key = "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"
    assert made("short", lambda state: state.update({key: [state[key][0][:-150].clone()]})) == "VIEW"
    assert made("long", lambda state: state.update({key: [torch.cat([state[key][0], torch.zeros(999)])]})) == "VIEW"
    assert made("half", lambda state: state.update({key: [state[key][0].half()]})) == "PICKLE"
    assert made("groups", lambda state: state.update({key: state[key] * 2})) == "PICKLE"
    assert made("none", lambda state: state.pop(key)) == "PICKLE"
    save_zero(tmp_path / "missing", stage, 3, [{"a": torch.randn(5, 3)}], {}, {}, {})
    (tmp_path / "missing" / "zero_pp_rank_2_mp_rank_00_optim_states.pt").unlink()
    with pytest.raises(coffer.Error) as raised:
        coffer.convert(tmp_path / "missing", None)
    assert raised.value.code == "SHARD_MISSING"
