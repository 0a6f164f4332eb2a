# SPDX-License-Identifier: Apache-2.0
"""coffer.load and coffer.Plan: what is loaded in the background is what a plain reader reads, whichever way it is asked for; and calls
that wait can be ended."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from conftest import array_file, taken_by_threads

import coffer
from coffer import _native


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape, name
        assert found[name].tobytes() == array.tobytes(), name


# ---- Everything --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [str, lambda path: path, coffer.open, lambda path: coffer.Plan(path).all()])
def test_everything(path, arrays, source):
    with coffer.load(source(path)) as load:
        assert sorted(load.names()) == sorted(arrays) and len(load) == len(arrays)
        assert_same(dict(load), arrays)
        assert list(load) == []


def test_of_several_files(tmp_path, path, arrays):
    index = coffer.split(path, tmp_path / "parts", 300)
    with coffer.load(index) as load:
        assert_same(dict(load), arrays)


def test_from_memory(path, arrays):
    assert_same(dict(coffer.load(coffer.open(path.read_bytes()))), arrays)


def test_memory_is_its_own(path, arrays, released):
    with coffer.load(path) as load:
        found = dict(load)
    found["matrix"][0, 0] += 1
    del load
    assert released(), "a tensor that was handed out keeps the file"
    assert found["matrix"][0, 0] == arrays["matrix"][0, 0] + 1
    assert path.read_bytes() == array_file({name: arrays[name] for name in coffer.open(path)._model.offset_keys()}, {"made by": "conftest"})


def test_what_is_not_taken_is_released(path, released):
    for end in (lambda load: load.close(), lambda load: load.__exit__(None, None, None), lambda load: load.cancel(), lambda load: None):
        load = coffer.load(path)
        next(load)
        end(load)
        del load
    assert released()


class Keeps:
    """Has a load that tells it how far it is."""

    def __init__(self, path):
        self.load = coffer.load(path, progress=self.tell)

    def tell(self, done, total):
        pass


def test_a_load_whose_progress_refers_to_it_is_collected(path, released):
    kept = [weakref.ref(Keeps(path)) for _ in range(3)]
    gc.collect()
    assert [keeps() for keeps in kept] == [None] * 3 and released()


def test_numbers_that_are_too_large(path):
    plan = coffer.Plan(path)
    for call in (
        lambda: plan.shard("matrix", 0, 1, 2**32 + 2),
        lambda: plan.shard("matrix", 0, 0, 2**40),
        lambda: plan.all(0, 2**32 + 2),
        lambda: plan.all(0, 2, rules={"*": 2**32}),
        lambda: plan.shard("matrix", 0, 0, 2, parts=(-2, 8)),
    ):
        with pytest.raises(ValueError, match=r"from 0|count from 0"):
            call()
    assert len(plan) == 0


# ---- Taking ------------------------------------------------------------------------------------------------------------


def test_take(path, arrays):
    with coffer.load(path) as load:
        assert_same({"cube": load.take("cube")}, {"cube": arrays["cube"]})
        assert_same({"bytes": load.take(load.names().index("bytes"))}, {"bytes": arrays["bytes"]})
        with pytest.raises(coffer.Error) as raised:
            load.take("cube")
        assert raised.value.code == "TAKEN" and isinstance(raised.value, ValueError)
        with pytest.raises(KeyError):
            load.take("none")
        assert_same(dict(load), {name: array for name, array in arrays.items() if name not in ("cube", "bytes")})


def test_a_name_that_is_there_twice(path, arrays):
    plan = coffer.Plan(path).add("matrix", slice(0, 2)).add("matrix", (slice(None), 3)).add("matrix")
    with coffer.load(plan) as load:
        parts = [load.take("matrix") for _ in range(3)]
        with pytest.raises(coffer.Error, match="matrix|before"):
            load.take("matrix")
    matrix = arrays["matrix"]
    with coffer.load(plan) as load:
        by_number = dict(load.numbered())
        assert sorted(by_number) == [0, 1, 2] and list(load.numbered()) == []
    for number, found in by_number.items():
        np.testing.assert_array_equal(found, parts[number])
    for found, wanted in zip(parts, (matrix[:2], matrix[:, 3], matrix), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_order_of_the_plan(path):
    names = ["scalar", "matrix", "bytes", "cube", "empty"]
    plan = coffer.Plan(path)
    for name in names:
        plan.add(name)
    with coffer.load(plan, order="plan") as load:
        load.wait()
        assert sorted(name for name, _ in load) == sorted(names)


# ---- A mapping ---------------------------------------------------------------------------------------------------------


def test_a_load_is_a_mapping(path, arrays):
    with coffer.load(path) as load:
        names = load.names()
        assert "cube" in load and "none" not in load and 3 not in load and len(load) == len(arrays)
        assert list(load.keys()) == names and set(load.keys()) == set(arrays) and len(load.items()) == len(arrays)
        cube = load["cube"]
        assert load["cube"] is cube and load.get("cube") is cube and load.get("none", 3) == 3
        with pytest.raises(KeyError):
            load["none"]
        assert_same(load.dict(), arrays)
        assert list(load.dict()) == list(dict(load)) == [name for name, _ in load.items()] == names
        assert dict(**load)["cube"] is cube and any(array is cube for array in load.values())
        assert next(load, None) is None, "everything was asked for"
    np.testing.assert_array_equal(cube, arrays["cube"])
    with pytest.raises(ValueError, match="closed"):
        load["cube"]


@pytest.mark.parametrize("numbered", [False, True])
def test_iterating_over_a_load_gives_what_nobody_has_asked_for(path, arrays, numbered):
    with coffer.load(path) as load:
        cube, matrix = load["cube"], load.take("matrix")
        found = dict(iter(load.numbered()) if numbered else (pair for pair in load))
        if numbered:
            found = {load.names()[number]: array for number, array in found.items()}
        assert_same(found, {name: array for name, array in arrays.items() if name not in ("cube", "matrix")})
        assert "matrix" not in load and "bytes" not in load and list(load.keys()) == ["cube"] and len(load) == 1
        assert load.dict() == {"cube": cube} and load.get("bytes") is None
        for name in ("matrix", "bytes"):
            with pytest.raises(coffer.Error) as raised:
                load[name]
            assert raised.value.code == "TAKEN"
        assert load.take("cube") is cube and len(load) == 0 and matrix is not None
        with pytest.raises(coffer.Error) as raised:
            load["cube"]
        assert raised.value.code == "TAKEN"


def test_a_mapping_has_the_first_of_each_name(path, arrays):
    plan = coffer.Plan(path).add("matrix", 0).add("cube").add("matrix", 1)
    with coffer.load(plan) as load:
        assert list(load.keys()) == ["matrix", "cube"] and len(load) == 3
        assert_same(load.dict(), {"matrix": arrays["matrix"][0], "cube": arrays["cube"]})
        np.testing.assert_array_equal(load.take(2), arrays["matrix"][1])


def test_what_was_waited_for_on_the_way_is_there(path, arrays):
    """Whoever asks for the last tensor waits for the others, too, and these are handed out once like all."""
    last = max(coffer.open(path).values(), key=lambda tensor: tensor.offset).name
    with coffer.load(path) as load:
        kept = load[last]
        rest = {name for name in arrays if name != last}
        taken = rest.pop()
        np.testing.assert_array_equal(load.take(taken), arrays[taken])
        assert {name for name, _ in load} == rest and load[last] is kept and len(load) == 1


def test_what_a_mapping_keeps_makes_space_in_a_budget(path, arrays):
    """The order of the plan is the opposite of that in which the file is read."""
    names = [tensor.name for tensor in sorted(coffer.open(path).values(), key=lambda tensor: -tensor.offset)]
    plan = coffer.Plan(path)
    for name in names:
        plan.add(name)
    assert_same(dict(coffer.load(plan, host_budget=480)), arrays)
    assert_same(coffer.load(plan, host_budget=480).dict(), arrays)


def test_many_threads_ask_for_the_same(path, arrays):
    with coffer.load(path) as load:
        found = []
        threads = [threading.Thread(target=lambda: found.append(load.dict())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert all(load.take(name) is array for name, array in found[0].items()) and len(load) == 0
        for one in found:
            assert_same(one, arrays)
            assert all(one[name] is found[0][name] for name in arrays)


IMPORTED = """
import sys, types
for name in sys.argv[2:]:
    sys.modules[name] = types.ModuleType(name)
from coffer._frameworks import imported_framework
print(imported_framework(False), imported_framework(True))
"""


@pytest.mark.parametrize(
    ("modules", "wanted"),
    [
        ([], ["numpy", "torch"]),
        (["numpy"], ["numpy", "torch"]),
        (["numpy", "torch"], ["torch", "torch"]),
        (["jax", "jaxlib", "ml_dtypes"], ["flax", "torch"]),
        (["paddle"], ["paddle", "paddle"]),
        (["torch", "tensorflow"], ["numpy", "torch"]),
    ],
)
def test_the_framework_is_the_one_that_is_imported(modules, wanted):
    done = subprocess.run([sys.executable, "-c", IMPORTED, "x", *modules], capture_output=True, text=True, check=True)
    assert done.stdout.split() == wanted


# ---- Slices, ranks, places ---------------------------------------------------------------------------------------------


INDICES = [
    None, 1, -2, slice(1, 3), slice(None, None, 2), slice(None, None, -1), (slice(None), 2), (0, slice(1, 4), -1),
    (..., slice(1, 3)), (slice(2, 2),), (slice(0, 3, 2), slice(None), slice(4, 0, -2)), (1, 2, 3),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_slices(path, arrays, index):
    wanted = arrays["cube"] if index is None else arrays["cube"][index]
    plan = coffer.Plan(path).add("cube", index)
    item = plan.items[0]
    assert (item.name, item.dtype, item.shape, item.nbytes) == ("cube", "I64", wanted.shape, wanted.nbytes)
    assert item.whole == (index is None) or wanted.size == 60
    np.testing.assert_array_equal(dict(coffer.load(plan))["cube"], wanted)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_shares_put_together_are_the_tensor(path, arrays, world):
    matrix = arrays["matrix"]
    shares = [dict(coffer.load(coffer.Plan(path).shard("matrix", 0, rank, world)))["matrix"] for rank in range(world)]
    np.testing.assert_array_equal(np.concatenate(shares), matrix)


def test_fused_parts(path, arrays):
    """Each part is split by itself."""
    found = [dict(coffer.load(coffer.Plan(path).shard("matrix", -1, rank, 2, parts=[4, 2, 2])))["matrix"] for rank in (0, 1)]
    matrix = arrays["matrix"]
    np.testing.assert_array_equal(found[0], matrix[:, [0, 1, 4, 6]])
    np.testing.assert_array_equal(found[1], matrix[:, [2, 3, 5, 7]])


def test_ranks_by_rules(path, arrays):
    for rank in (0, 1):
        plan = coffer.Plan(path).all(rank, 2, rules={"mat*": 1, "cube": None, "*": 0})
        found = dict(coffer.load(plan))
        np.testing.assert_array_equal(found["matrix"], arrays["matrix"][:, 4 * rank : 4 * rank + 4])
        np.testing.assert_array_equal(found["cube"], arrays["cube"])
        np.testing.assert_array_equal(found["bytes"], arrays["bytes"])  # 31 cannot be split evenly


def test_places(path, arrays):
    matrix = np.zeros((6, 8), np.float32)
    columns = np.zeros((8, 12), np.float32)
    raw = bytearray(31)
    scalar = np.zeros((), np.float16)
    plan = coffer.Plan(path).add("matrix", out=matrix).add("matrix", (slice(0, 4),), out=columns.T[::3])
    plan.add("bytes", out=raw).add("scalar", out=scalar).add("cube").add("empty", out=np.zeros((0, 3), np.float32))
    with coffer.load(plan) as load:
        load.wait()
        np.testing.assert_array_equal(matrix, arrays["matrix"])
        np.testing.assert_array_equal(columns.T[::3], arrays["matrix"][:4])
        assert not columns.T[1::3].any() and not columns.T[2::3].any()
        assert raw == arrays["bytes"].tobytes() and scalar == arrays["scalar"]
        assert load.take(0) is matrix
        np.testing.assert_array_equal(load.take("cube"), arrays["cube"])
    with coffer.load(plan) as load:  # once more
        assert len(dict(load)) == 5


@pytest.mark.parametrize(
    ("out", "text"),
    [
        (np.zeros((6, 8), np.float64), "float32, and the place is for float64"),
        (np.zeros((8, 6), np.float32), r"\[6, 8\], and the place \[8, 6\]"),
        (np.broadcast_to(np.float32(0), (6, 8)), "read-only"),
        (bytes(192), "not writable"),
        (memoryview(bytearray(384))[::2], "not contiguous"),
    ],
)
def test_places_that_do_not_fit(path, out, text):
    with pytest.raises(coffer.Error, match=f"'matrix' cannot go to its place: .*{text}"):
        coffer.load(coffer.Plan(path).add("matrix", out=out))


def test_places_that_the_library_refuses(path):
    same = np.zeros((6, 8), np.float32)
    for plan in (
        coffer.Plan(path).add("matrix", out=bytearray(191)),
        coffer.Plan(path).add("matrix", out=same).add("matrix", slice(0, 2), out=same[4:]),
    ):
        with pytest.raises(ValueError) as raised:
            coffer.load(plan)
        assert raised.value.code == "DESTINATION"
    assert not same.any(), "something was read before everything was checked"


def test_what_cannot_be_planned(path):
    plan = coffer.Plan(path)
    for add, kind in (
        (lambda: plan.add("none"), KeyError),
        (lambda: plan.add("cube", 3), IndexError),
        (lambda: plan.add("cube", (0, 0, 0, 0)), IndexError),
        (lambda: plan.add("cube", "x"), TypeError),
        (lambda: plan.shard("bytes", 0, 0, 2), IndexError),
        (lambda: plan.shard("matrix", 2, 0, 2), IndexError),
        (lambda: plan.shard("matrix", 0, 0, 2, parts=[4, 4]), IndexError),
        (lambda: plan.shard("matrix", 0, 2, 2), ValueError),
        (lambda: plan.all(0, 2, rules={"*": "x"}), TypeError),
        (lambda: coffer.load(path, order="x"), ValueError),
        (lambda: coffer.load(path, "cuda:0", "numpy"), ValueError),
        (lambda: coffer.load(path, framework="x"), ValueError),
        (lambda: coffer.Staging(engine="x"), ValueError),
    ):
        with pytest.raises(kind):
            add()
    assert len(plan) == 0 and repr(plan) == "<coffer.Plan: 0 items, 0 bytes>"


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda path: coffer.load(path, host_budget=-1), ValueError, "from 0 to 18446744073709551615 is wanted, not -1"),
        (lambda path: coffer.load(path, progress=3), TypeError, "progress is a function, True, False or None, not 3"),
        (lambda path: coffer.Staging(memory=-1), ValueError, "is wanted, not -1"),
        (lambda path: coffer.Staging(threads=1 << 32), ValueError, "from 0 to 4294967295 is wanted, not 4294967296"),
        (lambda path: coffer.load(coffer.Plan(path).add("cube", out=3)), TypeError, "'cube' cannot go to its place: .* not int"),
        (lambda path: coffer.load(coffer.Plan(path).add("matrix", out=np.zeros((6, 8), np.float32)[::-1])), ValueError, "backwards"),
        (lambda path: coffer.Plan(path).shard("matrix", 0, -1, 2), ValueError, "there is no rank -1 of 2"),
        (lambda path: coffer.Plan(path).all(2, 2), ValueError, "there is no rank 2 of 2"),
        (lambda path: coffer.Plan(path).all(rules=3), TypeError, "rules are a mapping of patterns to dimensions, not int"),
        (lambda path: coffer.Plan(path).all(rules={3: 0}), TypeError, "a rule is a pattern and a dimension or None, not 3: 0"),
        (lambda path: coffer.Plan(path).all(rules={"*": -1}), ValueError, "has the dimension -1"),
        (lambda path: coffer.Plan(path).cost(1), ValueError, "there is no file 1"),
        (lambda path: coffer.load(path).take(5), ValueError, "there is no item 5"),
        (lambda path: coffer.load(path).take(1.5), TypeError, "by its name or number, not by a float"),
        (lambda path: pickle.dumps(coffer.load(path)), TypeError, "a coffer.Load cannot be pickled or copied"),
        (lambda path: copy.copy(coffer.Plan(path)), TypeError, "a coffer.Plan cannot be pickled or copied"),
    ],
)
def test_what_wrong_calls_are_told(path, call, kind, said):
    with pytest.raises(kind, match=said):
        call(path)


def test_a_load_says_what_it_is(path):
    with coffer.load(path) as load:
        next(load)
        assert repr(load) == f"<coffer.Load of {path}: 5 items, 1 taken>"


def test_a_plan_in_use(path):
    plan = coffer.Plan(path).all()
    with coffer.load(plan) as load:
        with pytest.raises(ValueError, match="while a load carries it out"):
            plan.add("cube")
        assert len(dict(load)) == 5
    assert len(plan.add("cube")) == 6


def test_any_plan(tmp_path):
    """Random slices of random tensors, to memory of the load's own and to places with gaps, against numpy."""
    rng = np.random.default_rng(11)
    dice = random.Random(5)
    arrays = {f"t{i}": rng.integers(0, 255, dice.choices([1, 3, 17, 64], k=dice.randint(0, 4)), dtype=np.uint8) for i in range(40)}
    path = tmp_path / "x"
    path.write_bytes(array_file(arrays))
    plan, wanted = coffer.Plan(path), []
    for name in dice.choices(list(arrays), k=300):
        array = arrays[name]
        index = tuple(slice(*sorted(dice.choices(range(n + 1), k=2)), dice.choice([1, 1, 2])) for n in array.shape)
        part = array[index]
        out = None
        if dice.random() < 0.5 and part.ndim:
            room = np.zeros([2 * n + 1 for n in part.shape], np.uint8)
            out = room[tuple(slice(0, 2 * n, 2) for n in part.shape)]
        plan.add(name, index, out=out)
        wanted.append(part)
    with coffer.load(plan, staging=coffer.Staging(memory=4 << 20, threads=3)) as load:
        for number, part in enumerate(wanted):
            np.testing.assert_array_equal(load.take(number), part)


# ---- What it costs, and what it did -------------------------------------------------------------------------------------


def test_cost(path, arrays):
    plan = coffer.Plan(path).add("matrix", slice(0, 3)).add("cube")
    cost = plan.cost()
    assert (cost.items, cost.needed) == (2, 96 + 480) and cost.read >= cost.needed and cost.requests >= 1
    assert plan.cost(0) == cost
    told = json.loads(plan.to_json())
    assert told["cost"] == cost._asdict() and told["shards"][0]["path"] == str(path)
    assert told["items"][0] == {"name": "matrix", "dtype": "F32", "shape": [3, 8], "nbytes": 96, "whole": False}
    with pytest.raises(coffer.Error):
        plan.cost(1)


def test_stats_and_progress(path, arrays):
    total = sum(array.nbytes for array in arrays.values())
    told = []
    with coffer.load(path, progress=lambda *now: told.append(now)) as load:
        assert len(dict(load)) == 5
        stats = load.stats()
    assert told[-1] == (total, total) and told == sorted(told)
    assert (stats.wanted, stats.done) == (total, total) and stats.read >= total and stats.requests >= 1
    assert stats.engines and set(stats.engines) <= {"buffered", "direct", "ring"}
    assert 0 <= stats.first <= stats.seconds < 60 and stats.threads >= 0


def test_progress_that_raises_ends_the_load(path):
    def refuse(done, total):
        raise OSError("enough")

    with coffer.load(path, progress=refuse) as load:
        with pytest.raises(OSError, match="enough"):
            next(load)
        with pytest.raises(coffer.Error) as raised:
            list(load)
        assert raised.value.code == "CANCELLED"


def test_digests(path, arrays):
    coffer.record_digests(path)
    assert_same(dict(coffer.load(path)), arrays)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(coffer.Error) as raised:
        dict(coffer.load(path))
    assert raised.value.code == "TENSOR_DIGEST"
    assert dict(coffer.load(path, verify=False))["bytes"][-1] == arrays["bytes"][-1] ^ 1


def test_a_file_that_is_cut(path):
    plan = coffer.Plan(path).all()
    os.truncate(path, path.stat().st_size - 5)
    with pytest.raises(coffer.Error) as raised:
        dict(coffer.load(plan))
    assert raised.value.code == "CHANGED"


def test_budgets(path, arrays):
    with coffer.load(path, host_budget=512) as load:
        assert_same({name: array.copy() for name, array in load}, arrays)
    with pytest.raises(ValueError) as raised:
        coffer.load(path, host_budget=100)
    assert raised.value.code == "BUDGET"


# ---- Ending what waits --------------------------------------------------------------------------------------------------


@pytest.fixture
def slow(server):
    """The URL of a model whose data never come, and the event that they were asked for."""
    server.half_silent = {"/x.safetensors"}
    return f"{server.base}/x.safetensors", server.asked


def test_closed(path):
    load = coffer.load(path)
    load.close()
    load.close()
    load.cancel()
    for call in (lambda: next(load), lambda: load.take("cube"), load.wait, load.stats):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_interrupts_and_cancelling(slow):
    """What waits for a server that is silent ends at once, by Ctrl-C and from another thread."""
    url, asked = slow
    with coffer.load(url) as load:
        pressing = threading.Timer(0.3, lambda: (asked.wait(), signal.raise_signal(signal.SIGINT)))
        with pytest.raises(KeyboardInterrupt):
            pressing.start()
            load.take("a")
        threading.Timer(0.05, load.cancel).start()
        with pytest.raises(coffer.Error) as raised:
            load.wait()
        assert raised.value.code == "CANCELLED"


def test_closing_while_another_thread_waits(slow):
    url, asked = slow
    load = coffer.load(url)
    failed = []

    def wait():
        try:
            load.wait()
        except coffer.Error as error:
            failed.append(error.code)

    thread = threading.Thread(target=wait)
    thread.start()
    asked.wait()
    load.close()
    thread.join()
    assert failed == ["CANCELLED"]


def test_many_threads_take(path, arrays):
    with coffer.load(path) as load:
        found = taken_by_threads(load, arrays)
    assert_same(found, arrays)


def _raises_value_error(call):
    try:
        call()
    except ValueError as error:
        return "forked" in str(error)
    return False


def test_a_fork_does_not_wait_for_threads_that_it_does_not_have(path):
    load = coffer.load(path)
    child = os.fork()
    if child == 0:
        calls = (lambda: next(load), load.wait, lambda: load.take(0), load.stats)
        refused = sum(_raises_value_error(call) for call in calls)
        del load, calls
        gc.collect()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    assert len(dict(load)) == 5


# ---- Devices and staging buffers ----------------------------------------------------------------------------------------


def test_host_memory_is_a_device(path):
    kind, number, name, total, free, _, _ = _native.Device("cpu").describe()
    assert (kind, number) == ("cpu", 0) and name and total >= free > 0
    with pytest.raises(RuntimeError) as raised:
        _native.Device("cuda:999")
    assert raised.value.code == "NO_DEVICE"


def test_facilities(path):
    for facilities in (_native.list_facilities(None), _native.list_facilities(path)):
        names = [name for name, *_ in facilities]
        assert len(set(names)) == len(names) >= 2
        assert all(detail for _, _, detail, _ in facilities)


def test_a_staging_buffer_serves_many_loads(path, arrays):
    staging = coffer.Staging(memory=2 << 20, threads=2, engine="buffered")
    for _ in range(3):
        assert_same(dict(coffer.load(path, staging=staging)), arrays)
    with pytest.raises(TypeError):
        coffer.load(path, staging=3)
