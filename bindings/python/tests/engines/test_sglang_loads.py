# SPDX-License-Identifier: Apache-2.0
"""SGLang's own loader, models and layers, on a CPU, by itself and by Coffer: all parameters have the same bits."""

import pytest

SCRIPT = "sglang_rank.py"
RUNS = [
    (1, ["dense", "mixture", "blocks", "online", "torch", "twice", "adapter", "draft"], {"COFFER_LOAD_AUTO": "1"}),
    (2, ["dense", "mixture", "experts", "blocks", "online", "adapter", "draft", "native"], {}),
]


def test_parameters_are_the_same(loaded, world, rank, case):
    found = loaded[world, rank, case]
    assert "error" not in found, found["error"]
    assert found["own"]
    assert found["coffer"] == found["own"]
    if "auto read" in found:
        assert found["auto"] == found["own"]


@pytest.mark.parametrize("case", ["dense", "mixture", "blocks", "online", "twice"])
def test_every_byte_is_read_once(loaded, case):
    found = loaded[1, 0, case]
    assert found["read"] == found["auto read"] == found["size"] > 0


@pytest.mark.parametrize("case", ["dense", "mixture", "experts", "blocks", "online"])
def test_ranks_read_their_part(loaded, case):
    for rank in range(2):
        found = loaded[2, rank, case]
        assert found["size"] // 2 <= found["read"] < found["size"] * 0.6


def test_files_of_torch_are_left_to_the_engine(loaded):
    assert loaded[1, 0, "torch"]["read"] == loaded[1, 0, "torch"]["auto read"] == 0
