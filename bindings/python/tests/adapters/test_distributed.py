# SPDX-License-Identifier: Apache-2.0
"""Models that several processes load together, each reading its share; and that all fail when one does."""

import os
import shutil
import time

import pytest
import ranks
import torch

import coffer
import coffer.distributed as together
from coffer.distributed import Wanted
from coffer.torch import save_file

SPLIT = {"rows": 0, "columns": 1, "inner": 2, "one": 1, "bytes": 1}


def values():
    torch.manual_seed(4)
    found = {
        "rows": torch.randn(8, 30),
        "columns": torch.randn(30, 16).bfloat16(),
        "inner": torch.randint(0, 99, (5, 3, 8)),
        "one": torch.randn(1, 8, 3),
        "bytes": torch.randint(0, 99, (7, 4), dtype=torch.uint8),
        "scalar": torch.tensor(1.5),
        "none": torch.empty(0, 4),
        "flags": torch.tensor([True, False, True]),
    }
    return found | {f"layers.{number}": torch.randn(33, 17) for number in range(12)}


# ---- The schedule -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [1, 2, 3, 8])
@pytest.mark.parametrize("memory", [1, 1000, 1 << 30])
def test_each_byte_is_read_by_one_process(world, memory):
    wanted = [Wanted(name, tuple(tensor.shape), tensor.itemsize, None) for name, tensor in values().items()]
    rounds = together.schedule(wanted, world, memory)
    read = {}
    for each in rounds:
        assert len(each.lanes) == world and each.size == max(sum(piece.size for piece in lane) for lane in each.lanes)
        for lane in each.lanes:
            for piece in lane:
                read.setdefault(piece.name, []).append((piece.start, piece.stop, piece.size))
    assert read.keys() == values().keys() - {"none"}
    for name, pieces in read.items():
        tensor = values()[name]
        assert sum(piece[2] for piece in pieces) == tensor.nbytes
        assert [piece[0] for piece in pieces[1:]] == [piece[1] for piece in pieces[:-1]] and pieces[0][0] == 0
    longest = max(tensor[0].nbytes if tensor.ndim else tensor.nbytes for name, tensor in values().items() if name != "none")
    assert max(each.size for each in rounds) <= max(memory // world, longest)


def test_shares_are_even():
    wanted = [Wanted(str(number), (64, 1024), 4, None) for number in range(16)]
    rounds = together.schedule(wanted, 4, 1 << 20)
    shares = [sum(piece.size for each in rounds for piece in each.lanes[rank]) for rank in range(4)]
    assert sum(shares) == 16 << 18 and max(shares) == min(shares)


def test_what_is_divided_along_its_first_dimension_is_not_exchanged():
    wanted = [Wanted("a", (8, 4), 4, 0), Wanted("b", (1, 8, 4), 4, 1), Wanted("c", (8, 4), 4, 1)]
    rounds = together.schedule(wanted, 2, 1 << 20)
    assert [each.kind for each in rounds] == ["exchange"] and {piece.name for lane in rounds[0].lanes for piece in lane} == {"c"}


# ---- Loading ----------------------------------------------------------------------------------------------------------


def load_all(rank, world, path, memory):
    read = []
    original = together.load_parts
    together.load_parts = lambda model, parts, window: (read.extend(len(part[2]) for part in parts), original(model, parts, window))[1]
    for split in (None, SPLIT, lambda name, shape: SPLIT.get(name)):
        found = together.load(path, split, memory=memory, threads=2, timeout=60)
        assert found.keys() == values().keys()
        for name, tensor in values().items():
            if split is not None and name in SPLIT:
                tensor = tensor.chunk(world, SPLIT[name])[rank]
            assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name
    return sum(read)


@pytest.mark.parametrize(("world", "memory"), [(4, 256 << 20), (4, 3000), (2, 1)])
def test_everybody_gets_it_and_nobody_reads_it_all(world, memory, tmp_path):
    save_file(values(), tmp_path / "x.safetensors")
    read = ranks.run(load_all, world, tmp_path, str(tmp_path / "x.safetensors"), memory)
    size = sum(tensor.nbytes for tensor in values().values())
    assert sum(read) == 3 * size and max(read) < 3 * size * 0.8


def load_and_fail(rank, world, folder, how):
    """Rank 1 has a model of its own, with which something is wrong."""
    path = f"{folder}/{rank if rank == 1 else 'x'}.safetensors"
    if rank == 1:
        shutil.copy(f"{folder}/x.safetensors", path)
        if how == "missing":
            os.remove(path)
        elif how == "other":
            save_file(values() | {"layers.3": torch.zeros(1)}, path)
        elif how in ("cut", "killed"):
            original, calls = together.load_parts, []

            def read(*arguments):
                calls.append(arguments)
                if len(calls) == 3:
                    if how == "killed":
                        os._exit(0)
                    os.truncate(path, 5000)
                return original(*arguments)

            together.load_parts = read
    started = time.monotonic()
    try:
        together.load(path, memory=3000, threads=1, timeout=20)
    except coffer.Error as error:
        return error.code, str(error), time.monotonic() - started
    return "none", "", 0


@pytest.mark.parametrize(
    ("how", "own", "said"),
    [("missing", "NOT_FOUND", "process 1 of 4 failed: "), ("other", "PEER", "do not load the same"), ("cut", None, "process 1 of 4 failed: ")],
)
def test_if_one_fails_all_fail(how, own, said, tmp_path):
    save_file(values(), tmp_path / "x.safetensors")
    found = ranks.run(load_and_fail, 4, tmp_path, str(tmp_path), how)
    assert found[1][0] in ([own] if own else ["CHANGED", "DATA_TRUNCATED"])
    for rank in (0, 2, 3):
        assert found[rank][0] == "PEER" and said in found[rank][1] and found[rank][2] < 60


def test_if_one_is_killed_the_others_fail(tmp_path):
    save_file(values(), tmp_path / "x.safetensors")
    found = ranks.run(load_and_fail, 3, tmp_path, str(tmp_path), "killed", dead=(1,))
    assert len(found) == 2
    for code, text, seconds in found:
        assert code == "PEER" and "the exchange with the other processes failed" in text and seconds < 60


def test_what_cannot_be_divided(tmp_path):
    save_file(values(), tmp_path / "x.safetensors")
    found = ranks.run(refused, 2, tmp_path, str(tmp_path / "x.safetensors"), {"not there": 0}, "NO_TENSOR")
    assert all("no tensor 'not there'" in text for text in found)
    found = ranks.run(refused, 2, tmp_path, str(tmp_path / "x.safetensors"), {"rows": 2}, "ARGUMENT")
    assert all("'rows' with the shape [8, 30] cannot be divided along 2 among 2" in text for text in found)


def refused(rank, world, path, split, code):
    with pytest.raises(coffer.Error) as raised:
        together.load(path, split)
    assert raised.value.code == code
    return str(raised.value)
