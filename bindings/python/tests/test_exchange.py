# SPDX-License-Identifier: Apache-2.0
"""Several processes load one model together: the extension's part of it. Here they are threads, and what carries their messages is a
barrier and a list; tests/adapters/test_distributed.py has processes and torch.distributed."""

import threading

import pytest

import coffer
from coffer import _native

WORLD = 3


class Meeting:
    """Carries messages between threads."""

    def __init__(self, world):
        self.world = world
        self.barrier = threading.Barrier(world, timeout=30)
        self.sent = [None] * world

    def carry(self, host):
        def carry(send, send_sizes, receive, receive_sizes):
            assert (send.nbytes, receive.nbytes) == (sum(send_sizes), sum(receive_sizes))
            self.sent[host] = [bytes(send[sum(send_sizes[:i]) : sum(send_sizes[: i + 1])]) for i in range(self.world)]
            self.barrier.wait()
            receive[:] = b"".join(sent[host] for sent in self.sent)
            self.barrier.wait()

        return carry


def run(world, part):
    """What part(host) gave back, or raised, in a thread for each host."""
    found = [None] * world

    def call(host):
        try:
            found[host] = part(host)
        except BaseException as error:
            found[host] = error

    threads = [threading.Thread(target=call, args=(host,)) for host in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.fixture
def path(tmp_path):
    rows = ("rows", "U8", (6, 4096), bytes(range(256)) * 96)
    _native.serialize_file([rows, ("none", "F32", (0, 4), b""), ("one", "F64", (), bytes(8))], tmp_path / "x.safetensors")
    return str(tmp_path / "x.safetensors")


def plans(model, split):
    found = [_native.Plan(model) for _ in range(WORLD)]
    for rank, plan in enumerate(found):
        for name in ("rows", "none", "one"):
            if name == "rows" and split is not None:
                plan.shard(name, split, (), rank, WORLD) if split == 0 else plan.add(name, (slice(None), slice(rank, None, WORLD)))
            else:
                plan.add(name)
    return found


@pytest.mark.parametrize("memory", [0, 1, 9000])
@pytest.mark.parametrize("split", [None, 0, 1])
def test_each_gets_what_a_load_alone_would_give(path, split, memory):
    meeting = Meeting(WORLD)

    def part(host):
        model = coffer.open(path, access="read")._model
        exchange = _native.Exchange(plans(model, split), memory=memory)
        return [bytes(memory) for memory in exchange.run(host, meeting.carry(host))]

    found = run(WORLD, part)
    for host in range(WORLD):
        load = _native.Load(plans(coffer.open(path, access="read")._model, split)[host])
        alone = {item[0]: bytes(item[1]) for item in iter(load.next, None)}
        assert found[host] == [alone[number] for number in range(3)]


def test_what_the_schedule_says(path):
    model = coffer.open(path, access="read")._model
    exchange = _native.Exchange(plans(model, None), memory=9000)
    chunks = exchange.chunks()
    assert sum(chunk[5] for chunk in chunks) == 6 * 4096 + 8
    rounds = max(chunk[1] for chunk in chunks) + 1
    for host in range(WORLD):
        read = sum(chunk[5] for chunk in chunks if chunk[0] == host)
        assert [sum(exchange.size(number, host, to) for number in range(rounds)) for to in range(WORLD)] == [read] * WORLD


def test_if_one_fails_the_others_know(path):
    meeting = Meeting(WORLD)

    def part(host):
        if host == 1:
            return _native.refuse_exchange(host, WORLD, meeting.carry(host), "no \x1b such model")
        exchange = _native.Exchange(plans(coffer.open(path, access="read")._model, None))
        return exchange.run(host, meeting.carry(host))

    found = run(WORLD, part)
    assert found[1] is None
    for host in (0, 2):
        assert isinstance(found[host], coffer.Error) and found[host].code == "PEER"
        assert str(found[host]) == 'host 1 of 3 failed: "no \\x1b such model"'


def test_what_carries_may_fail(path):
    def carry(*_):
        raise ZeroDivisionError("of the transport's own")

    exchange = _native.Exchange(plans(coffer.open(path, access="read")._model, None))
    with pytest.raises(ZeroDivisionError, match="of the transport's own"):
        exchange.run(0, carry)
    with pytest.raises(ZeroDivisionError, match="of the transport's own"):
        _native.refuse_exchange(0, WORLD, carry, "why")


def test_memory_is_lent_for_the_call(path):
    kept = []

    def carry(send, send_sizes, receive, receive_sizes):
        kept.extend((send, receive))

    exchange = _native.Exchange([_native.Plan(coffer.open(path, access="read")._model)])
    assert exchange.run(0, carry) == []
    assert len(kept) == 4
    for memory in kept:
        with pytest.raises(ValueError, match="released"):
            memory.nbytes


def test_what_is_refused(path):
    model = coffer.open(path, access="read")._model
    made = plans(model, None)
    exchange = _native.Exchange(made)
    with pytest.raises(ValueError, match="cannot be changed"):
        made[2].add("rows")
    with pytest.raises(ValueError, match="there is no process 3 of 3"):
        exchange.run(3, print)
    with pytest.raises(TypeError, match="a coffer.Staging is wanted"):
        exchange.run(0, print, staging=1)
    del exchange
    made[2].add("rows")
    with pytest.raises(TypeError, match=r"a coffer\.Plan is wanted"):
        _native.Exchange([made[0], "plan"])
    with pytest.raises(ValueError, match="plans of several models"):
        _native.Exchange([made[0], _native.Plan(coffer.open(path)._model)])
    with pytest.raises(ValueError, match="for no hosts"):
        _native.Exchange([])
    with pytest.raises(ValueError, match="negative|whole number"):
        _native.Exchange(made, memory=-1)
