# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint writes and reads the files of the Hugging Face storage."""

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter

WANTED = {"a": torch.arange(12.0).view(3, 4), "b": torch.arange(5), "c": torch.ones(2, dtype=torch.bfloat16)}


def empty():
    return {name: torch.zeros_like(tensor) for name, tensor in WANTED.items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shards", [{"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 2, "c": 2}], ids=["one file", "two files"])
def test_saving_and_loading(shards, tmp_path):
    dcp.save(dict(WANTED), storage_writer=HuggingFaceStorageWriter(path=str(tmp_path), fqn_to_index_mapping=shards))
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) == len(set(shards.values()))
    found = {name: tensor for file in files for name, tensor in load_file(file).items()}
    assert found.keys() == WANTED.keys() and all(torch.equal(found[name], WANTED[name]) for name in WANTED)

    loaded = empty()
    dcp.load(loaded, storage_reader=HuggingFaceStorageReader(path=str(tmp_path)))
    assert all(torch.equal(loaded[name], WANTED[name]) for name in WANTED)
