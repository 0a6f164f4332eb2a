# SPDX-License-Identifier: Apache-2.0
"""vLLM's own loader, models and layers, on a CPU, by itself and by Coffer: all parameters have the same bits."""

import pytest

SCRIPT = "vllm_rank.py"
RUNS = [
    (1, ["dense", "mixture", "blocks", "online", "unused", "torch", "twice", "encoder"], {"COFFER_LOAD_AUTO": "1"}),
    (2, ["dense", "mixture", "experts", "filtered experts", "blocks", "online", "unused"], {}),
]


def test_parameters_are_the_same(loaded, world, rank, case):
    found = loaded[world, rank, case]
    assert "error" not in found, found["error"]
    assert found["own"]
    assert found["coffer"] == found["own"]
    if world == 1:
        assert found["auto"] == found["own"]


@pytest.mark.parametrize("case", ["dense", "mixture", "blocks", "online", "unused", "twice"])
def test_every_byte_is_read_once(loaded, case):
    """Also where tensors are first copied to nowhere, to count what a loader copies: "online"."""
    found = loaded[1, 0, case]
    assert found["read"] == found["auto read"] == found["size"] > 0


@pytest.mark.parametrize("case", ["dense", "mixture", "experts", "filtered experts", "blocks", "online", "unused"])
def test_ranks_read_their_part(loaded, case):
    for rank in range(2):
        found = loaded[2, rank, case]
        assert found["size"] // 2 <= found["read"] < found["size"] * 0.6


def test_files_that_an_encoder_does_without_are_not_opened(loaded):
    assert 0 < loaded[1, 0, "encoder"]["size"] < loaded[1, 0, "dense"]["size"]


def test_files_of_torch_are_left_to_the_engine(loaded):
    assert loaded[1, 0, "torch"]["read"] == loaded[1, 0, "torch"]["auto read"] == 0
