# SPDX-License-Identifier: Apache-2.0
"""Models that several processes load together, each reading its share; and that all fail when one does."""

import os
import shutil
import time

import pytest
import ranks
import torch
import torch.distributed as dist

import coffer
import coffer.distributed as together
from coffer import _native
from coffer.torch import save_file

SPLIT = {"rows": 0, "columns": 1, "inner": 2, "one": 1, "bytes": 1}
SAID = 448  # bytes of each message in which its sender says whether it has failed


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
    return found | {f"layers.{number}": torch.randn(33, 17) for number in range(40)}


# ---- The schedule -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [1, 2, 3, 8])
@pytest.mark.parametrize("memory", [1, 20000, 1 << 30])
def test_each_byte_is_read_by_one_process(world, memory, tmp_path):
    save_file(values(), tmp_path / "x.safetensors")
    chunks = together.schedule(tmp_path / "x.safetensors", world=world, memory=memory)
    assert sum(chunk.nbytes for chunk in chunks) == sum(tensor.nbytes for tensor in values().values())
    spans = sorted((chunk.begin, chunk.end) for chunk in chunks)
    assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False))
    assert {chunk.process for chunk in chunks} == set(range(world)) and {chunk.shard for chunk in chunks} == {0}
    assert [(chunk.round, chunk.process) for chunk in chunks] == sorted((chunk.round, chunk.process) for chunk in chunks)
    assert max(chunk.round for chunk in chunks) == 0 or memory < 1 << 20
    for number in {(chunk.round, chunk.process) for chunk in chunks}:
        mine = [chunk.nbytes for chunk in chunks if (chunk.round, chunk.process) == number]
        assert sum(mine) <= max(memory // world, 4096)


@pytest.mark.parametrize("memory", [1 << 20, 1 << 30])
def test_shares_are_even(memory, tmp_path):
    save_file({str(number): torch.zeros(64, 1024) for number in range(16)}, tmp_path / "x.safetensors")
    chunks = together.schedule(tmp_path / "x.safetensors", world=4, memory=memory)
    shares = [sum(chunk.nbytes for chunk in chunks if chunk.process == rank) for rank in range(4)]
    assert sum(shares) == 16 << 18 and max(shares) - min(shares) <= 1 << 18


@pytest.mark.parametrize(("shape", "dim", "exchanged"), [((512, 1024), 0, 0), ((1, 8, 65536), 1, 0), ((512, 1024), 1, 1 << 20)])
def test_what_is_divided_along_its_first_dimension_is_not_exchanged(shape, dim, exchanged, tmp_path):
    """But for what shares the piece that both want, where one block ends and the other begins."""
    save_file({"a": torch.zeros(shape)}, tmp_path / "x.safetensors")
    exchange = _native.Exchange(together._plans(coffer.open(tmp_path / "x.safetensors"), {"a": dim}, 2))
    rounds = range(max(chunk[1] for chunk in exchange.chunks()) + 1)
    sent = sum(exchange.size(number, *way) for number in rounds for way in ((0, 1), (1, 0)))
    assert abs(sent - exchanged) <= 1 << 18


# ---- Loading ----------------------------------------------------------------------------------------------------------


def load_all(rank, world, path, memory):
    """How many bytes came from others, of what each process loads."""
    received = []
    original = together._Transport.carry

    def carry(self, send, send_sizes, receive, receive_sizes):
        assert send.nbytes == sum(send_sizes) and receive.nbytes == sum(receive_sizes) and send_sizes[rank] == receive_sizes[rank] == 0
        received.append(receive.nbytes - (world - 1) * SAID)
        original(self, send, send_sizes, receive, receive_sizes)

    together._Transport.carry = carry
    for split in (None, SPLIT, lambda name, shape: SPLIT.get(name)):
        found = together.load(path, split, memory=memory, threads=2, timeout=60)
        assert found.keys() == values().keys()
        for name, tensor in values().items():
            if split is not None and name in SPLIT:
                tensor = tensor.chunk(world, SPLIT[name])[rank]
            assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name
        if split is None:
            whole = sum(received)
    return whole


@pytest.mark.parametrize(("world", "memory"), [(4, 256 << 20), (4, 3000), (2, 1)])
def test_everybody_gets_it_and_nobody_reads_it_all(world, memory, tmp_path):
    save_file(values(), tmp_path / "x.safetensors")
    received = ranks.run(load_all, world, tmp_path, str(tmp_path / "x.safetensors"), memory)
    size = sum(tensor.nbytes for tensor in values().values())
    assert sum(received) == (world - 1) * size and min(received) > size * 0.2


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
            original, calls = together._Transport.carry, []

            def carry(*arguments):
                calls.append(arguments)
                if len(calls) == 3:
                    if how == "killed":
                        os._exit(0)
                    os.truncate(path, 5000)
                original(*arguments)

            together._Transport.carry = carry
    started = time.monotonic()
    try:
        together.load(path, memory=3000, threads=1, timeout=20)
    except coffer.Error as error:
        return error.code, str(error), time.monotonic() - started
    return "none", "", 0


@pytest.mark.parametrize(
    ("how", "own", "said"),
    [("missing", "NOT_FOUND", "host 1 of 4 failed: "), ("other", "PEER", "do not load the same"), ("cut", None, "host 1 of 4 failed: ")],
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


def refuse_by_a_failing_rule(rank, world, path):
    def rule(name, shape):
        if rank == 1:
            raise ZeroDivisionError("of their own")

    started = time.monotonic()
    with pytest.raises((coffer.Error, ZeroDivisionError)) as raised:
        together.load(path, rule, timeout=60)
    return type(raised.value).__name__, str(raised.value), time.monotonic() - started


def test_a_failure_of_the_callers_own_is_told_too(tmp_path):
    save_file(values(), tmp_path / "x.safetensors")
    found = ranks.run(refuse_by_a_failing_rule, 3, tmp_path, str(tmp_path / "x.safetensors"))
    assert found[1][0] == "ZeroDivisionError"
    for rank in (0, 2):
        assert found[rank][1] == 'host 1 of 3 failed: "of their own"' and found[rank][2] < 50


def load_in_a_group(rank, world, path):
    """Processes 1 and 2 of 3, and packed elements."""
    group = dist.new_group([1, 2])
    if rank == 0:
        return True
    found = together.load(path, {"packed": 0}, group=group, timeout=60)["packed"]
    return found.dtype == torch.float4_e2m1fn_x2 and found.view(torch.uint8).tolist() == [[16 * rank + i for i in range(8)]] * 2


def test_a_group_of_processes_loads_packed_elements(tmp_path):
    packed = torch.tensor([[16 * rank + i for i in range(8)] for rank in (1, 1, 2, 2)], dtype=torch.uint8)
    save_file({"packed": packed.view(torch.float4_e2m1fn_x2)}, tmp_path / "x.safetensors")
    assert ranks.run(load_in_a_group, 3, tmp_path, str(tmp_path / "x.safetensors")) == [True] * 3


def test_nccl_carries_it_on_the_gpu(monkeypatch):
    """Without a GPU: what torch is asked for, by a torch.distributed and an `empty` that only write it down."""
    asked = []
    empty = torch.empty

    def empty_there(size, *, dtype, device):
        asked.append(device)
        return empty(size, dtype=dtype)

    class Work:
        def wait(self, timeout):
            asked.append(timeout.total_seconds())

    def all_to_all_single(got, sent, receive_sizes, send_sizes, *, group, async_op):
        asked.append((sent.tolist(), receive_sizes, send_sizes, group, async_op))
        got.copy_(torch.tensor([7, 8, 9]))
        return Work()

    monkeypatch.setattr(dist, "get_rank", lambda group: 0)
    monkeypatch.setattr(dist, "get_world_size", lambda group: 2)
    monkeypatch.setattr(dist, "get_backend", lambda group: "cpu:gloo,cuda:nccl")
    monkeypatch.setattr(dist, "all_to_all_single", all_to_all_single)
    monkeypatch.setattr(torch, "empty", empty_there)
    transport = together._Transport("a group", 5)
    received = bytearray(3)
    transport.carry(memoryview(bytearray(b"\1\2")), [0, 2], memoryview(received), [0, 3])
    gpu = torch.device("cuda")
    assert asked == [gpu, gpu, gpu, ([1, 2], [0, 3], [0, 2], "a group", True), 5] and received == b"\7\x08\x09"
