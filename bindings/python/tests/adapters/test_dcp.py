# SPDX-License-Identifier: Apache-2.0
"""The reader for torch.distributed.checkpoint, in real ranks with sharded tensors."""

import pytest
import ranks
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import HuggingFaceStorageWriter
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import coffer
from coffer.adapters import dcp as adapter
from coffer.torch import save_file

pytestmark = pytest.mark.filterwarnings("ignore")


def values():
    torch.manual_seed(1)
    return {
        "rows": torch.randn(16, 6),
        "columns": torch.randn(6, 16).bfloat16(),
        "uneven": torch.randn(10, 3),
        "cube": torch.randint(0, 99, (4, 5, 8)),
        "same": torch.randn(7),
        "scalar": torch.tensor(2.5),
        "plain": torch.arange(12.0).view(3, 4),
    }


PLACEMENTS = {"rows": Shard(0), "columns": Shard(1), "uneven": Shard(0), "cube": Shard(2), "same": Replicate(), "scalar": Replicate()}


def load(rank, world, folder):
    mesh = init_device_mesh("cpu", (world,))
    wanted = values()
    state = {name: torch.zeros_like(wanted[name]) for name in wanted}
    for name, placement in PLACEMENTS.items():
        state[name] = distribute_tensor(state[name], mesh, [placement])
    dcp.load(state, storage_reader=adapter.StorageReader(folder, thread_count=3))
    for name, tensor in state.items():
        part = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        expected = distribute_tensor(wanted[name], mesh, [PLACEMENTS[name]]).to_local() if name in PLACEMENTS else wanted[name]
        assert torch.equal(part, expected), name
    return True


def save(rank, world, folder):
    """Each rank writes a file of its own, with its parts."""
    mesh = init_device_mesh("cpu", (world,))
    state = {name: distribute_tensor(values()[name], mesh, [placement]) for name, placement in PLACEMENTS.items()}
    state["plain"] = values()["plain"]
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(folder, save_distributed=True))
    return True


@pytest.mark.parametrize("world", [2, 4])
def test_whole_tensors_into_parts(world, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    names = list(values())
    for number in range(2):
        save_file({name: values()[name] for name in names[number::2]}, folder / f"{number}.safetensors")
    assert all(ranks.run(load, world, tmp_path, str(folder)))


def test_parts_into_other_parts(tmp_path):
    """What two ranks saved, loaded by three: parts of files go into parts of tensors."""
    folder, other = tmp_path / "model", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    ranks.run(save, 2, tmp_path, str(folder))
    assert len(list(folder.glob("**/*.safetensors"))) >= 2
    where = next(folder.glob("**/*.safetensors")).parent
    assert all(ranks.run(load, 3, other, str(where)))


def test_into_any_tensors(tmp_path):
    """With gaps, of another dtype, two in the same memory; and what is not as the file recorded it is committed nowhere."""
    wanted = values()
    save_file(wanted | {"twin": wanted["same"].clone()}, tmp_path / "x.safetensors")
    twin = torch.zeros(7)
    state = {
        "rows": torch.zeros(6, 16).t(),
        "columns": torch.zeros(6, 32, dtype=torch.bfloat16)[:, ::2],
        "uneven": torch.zeros(10, 3, dtype=torch.float64),
        "same": twin,
        "twin": twin,
    }
    dcp.load(state, storage_reader=adapter.StorageReader(tmp_path), no_dist=True)
    for name in ("rows", "columns", "uneven", "same"):
        assert torch.equal(state[name], wanted[name].to(state[name].dtype)), name
    coffer.record_digests(tmp_path / "x.safetensors")
    content = bytearray((tmp_path / "x.safetensors").read_bytes())
    content[coffer.open(tmp_path / "x.safetensors")["same"].offset] ^= 1
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(CheckpointException) as raised:
        dcp.load({"same": twin}, storage_reader=adapter.StorageReader(tmp_path), no_dist=True)
    assert raised.value.failures[0][0].code == "TENSOR_DIGEST"


def test_what_fails_is_raised(tmp_path):
    save_file(values(), tmp_path / "x.safetensors")
    reader = adapter.StorageReader(tmp_path)
    read = reader.read_data

    def cut(plan, planner):
        (tmp_path / "x.safetensors").write_bytes((tmp_path / "x.safetensors").read_bytes()[:-4])
        return read(plan, planner)

    reader.read_data = cut
    with pytest.raises(CheckpointException) as raised:
        dcp.load({name: torch.zeros_like(tensor) for name, tensor in values().items()}, storage_reader=reader)
    assert raised.value.failures[0][0].code == "DATA_TRUNCATED"
