# SPDX-License-Identifier: Apache-2.0
"""What stands below lazy tensors, without any framework: boxes, the learner, and reading ahead. Whatever is guessed, what is
taken has to be right, memory bounded, and what nobody takes of its kind never read."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import array_file
from numpy.lib.stride_tricks import as_strided

import coffer
from coffer import _native
from coffer.adapters import prefetch
from coffer.adapters.prefetch import ReadAhead
from coffer.adapters.boxes import box_of, counts, elements, slices, whole
from coffer.adapters.access_predictor import AccessPredictor

# ---- Boxes ------------------------------------------------------------------------------------------------------------


def described(array: np.ndarray, view: np.ndarray) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    offset = view.__array_interface__["data"][0] - array.__array_interface__["data"][0]
    return view.shape, tuple(stride // view.itemsize for stride in view.strides), offset // view.itemsize


def seen(array: np.ndarray, view: np.ndarray) -> tuple[np.ndarray, int]:
    """A view, found in what its box has, and how many elements that is."""
    box = box_of(array.shape, *described(array, view))
    inside = array[(*slices(box.ranges), ...)].copy()
    assert inside.shape == counts(box.ranges)
    strides = [stride * array.itemsize for stride in box.strides]
    return as_strided(inside.ravel()[box.offset :], view.shape, strides), elements(box.ranges)


def some_view(view: np.ndarray, choose: random.Random) -> np.ndarray:
    """One step on the way of an engine's loader: all of these are views in torch, too."""
    what = choose.choice(["slice", "step", "select", "transpose", "flatten", "split", "expand", "add"])
    if view.ndim == 0 or what == "add":
        return view[None]
    dim = choose.randrange(view.ndim)
    before = (slice(None),) * dim
    length = view.shape[dim]
    if what == "slice":
        start = choose.randint(0, length)
        return view[(*before, slice(start, choose.randint(start, length)))]
    if what == "step":
        return view[(*before, slice(None, None, choose.randint(1, 3)))]
    if what == "select" and length:
        return view[(*before, choose.randrange(length), ...)]
    if what == "transpose":
        return view.swapaxes(dim, choose.randrange(view.ndim))
    if what == "expand" and length == 1:
        return np.broadcast_to(view, (*view.shape[:dim], 3, *view.shape[dim + 1 :]))
    shape = (-1,) if what == "flatten" else (*view.shape[:dim], 2, length // 2, *view.shape[dim + 1 :])
    try:
        flat = view.view()
        flat.shape = shape  # an error where that would be a copy
    except (AttributeError, ValueError):
        return view
    return flat


@pytest.mark.filterwarnings("ignore:Setting the shape")
def test_boxes_have_what_views_have():
    choose = random.Random(3)
    for _ in range(4000):
        shape = tuple(choose.choice([1, 2, 3, 4, 6]) for _ in range(choose.randint(0, 4)))
        array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        view = array
        for _ in range(choose.randint(1, 5)):
            view = some_view(view, choose)
        if view.ndim <= 32:
            found, _ = seen(array, view)
            assert np.array_equal(found, view), (shape, described(array, view))


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        lambda a: a[1:3, 2:5],
        lambda a: a[2, ::2, 1:4],
        lambda a: a.transpose(2, 0, 1)[1:3],
        lambda a: a.reshape(4, 2, 3, 5)[:, 1],
        lambda a: a.reshape(4, 30)[1:2],
        lambda a: a[3, 2, 1, ...],
        lambda a: a.reshape(-1)[60:90],
        lambda a: a[1].reshape(-1)[5:15],
    ],
)
def test_boxes_have_nothing_else(view):
    array = np.arange(120).reshape(4, 6, 5)
    found, count = seen(array, view(array))
    assert np.array_equal(found, view(array)) and count == view(array).size


def test_a_view_across_dimensions_takes_rows():
    """Of the smallest block that has it: it is no box."""
    array = np.arange(120).reshape(4, 6, 5)
    assert seen(array, array[2].diagonal())[1] == 25
    assert seen(array, array[2].reshape(-1)[4:6])[1] == 10
    assert seen(array, array.reshape(-1)[29:31])[1] == 60


# ---- The learner ------------------------------------------------------------------------------------------------------

NAMES = [f"model.layers.{layer}.experts.{expert}.w" for layer in range(4) for expert in range(4)] + ["model.norm"]
HALF = ((0, 4, 1), (0, 8, 1))


def test_nothing_is_guessed_from_nothing():
    learner = AccessPredictor(NAMES)
    assert not learner.knows(NAMES[0]) and learner.guess(NAMES[0], (8, 8)) == ()


def test_a_layer_teaches_the_next_and_an_expert_teaches_no_other():
    learner = AccessPredictor(NAMES)
    learner.learn("model.layers.0.experts.1.w", (8, 8), [HALF])
    assert learner.guess("model.layers.3.experts.1.w", (8, 8)) == (HALF,)
    assert learner.guess("model.layers.0.experts.2.w", (8, 8)) == ()
    learner.learn("model.layers.1.experts.1.w", (8, 8), [])
    assert learner.guess("model.layers.3.experts.1.w", (8, 8)) == ()


def test_numbers_that_never_differ_are_no_layers():
    learner = AccessPredictor([f"model2.layers.{layer}.conv1.w" for layer in range(3)])
    learner.learn("model2.layers.0.conv1.w", (8, 8), [HALF])
    assert learner.guess("model2.layers.1.conv1.w", (8, 8)) == (HALF,)


@pytest.mark.parametrize(
    ("shape", "guess"),
    [((16, 8), (((0, 8, 1), (0, 8, 1)),)), ((8, 2), (((0, 4, 1), (0, 2, 1)),)), ((9, 8), ()), ((8,), ()), ((8, 8, 1), ())],
)
def test_other_shapes_get_the_same_fraction(shape, guess):
    learner = AccessPredictor(NAMES)
    learner.learn(NAMES[0], (8, 8), [HALF])
    assert learner.guess(NAMES[4], shape) == guess


# ---- Reading ahead ----------------------------------------------------------------------------------------------------


def layers(count: int, rows: int = 64) -> dict[str, np.ndarray]:
    make = np.random.default_rng(1)
    return {
        f"layers.{layer}.{name}": make.integers(0, 1 << 30, (rows, 16), dtype=np.int32)
        for layer in range(count)
        for name in ("a", "b.0", "b.1", "c")
    }


@pytest.fixture
def model(tmp_path):
    arrays = layers(12)
    paths = []
    for number, part in enumerate((list(arrays)[:20], list(arrays)[20:])):
        paths.append(tmp_path / f"{number}.safetensors")
        paths[-1].write_bytes(array_file({name: arrays[name] for name in part}))
    return arrays, paths


def take(source: ReadAhead, arrays: dict[str, np.ndarray], name: str, index: tuple[tuple[int, int, int], ...], into: bool) -> None:
    wanted = np.ascontiguousarray(arrays[name][slices(index)]).tobytes()
    if into:
        target = bytearray(len(wanted))
        source.read_into(name, index, memoryview(target))
    else:
        target = source.read(name, index)
    assert bytes(target) == wanted


ROWS = ((16, 32, 1), (0, 16, 1))
COLUMNS = ((0, 64, 1), (4, 8, 1))


def test_all_but_the_first_layer_is_read_ahead(model):
    arrays, paths = model
    with ReadAhead(paths) as source:
        for name in source:
            if not name.endswith("b.1"):
                take(source, arrays, name, COLUMNS if name.endswith("c") else ROWS, into=True)
        found = source.statistics
    size = 64 * 16
    assert (found.tensors, found.untouched, found.parts) == (48, 12, 36)
    assert (found.taken, found.demanded, found.found, found.wrong) == (36 * size, 3 * size, 33 * size, 0)


def test_it_reads_as_much_as_memory_allows(model):
    arrays, paths = model
    limit = 5000
    with ReadAhead(paths, memory=limit) as source:
        for name in source:
            take(source, arrays, name, ROWS, into=False)
            assert source.statistics.most <= limit
        assert source.statistics.wrong == 0 and source.statistics.found > source.statistics.taken // 2


@pytest.mark.parametrize("options", [{"memory": 0}, {"threads": 0}, {"memory": 100}])
def test_without_memory_everything_is_read_when_it_is_asked_for(model, options):
    arrays, paths = model
    with ReadAhead(paths, **options) as source:
        for name in source:
            take(source, arrays, name, ROWS, into=True)
        assert source.statistics.demanded == source.statistics.taken == 48 * 1024 and source.statistics.most == 0


def test_wrong_guesses_cost_reads_and_nothing_else(model):
    """Of each third layer something else is taken, of some nothing, of some the same twice, and some late."""
    arrays, paths = model
    choose = random.Random(5)
    for limit in (4000, 20000, 1 << 20):
        late = []
        with ReadAhead(paths, memory=limit, threads=2) as source:
            for name in source:
                index = choose.choice([ROWS, ROWS, ROWS, COLUMNS, whole((64, 16)), None])
                if index is None:
                    late.append(name)
                    continue
                for _ in range(choose.choice([1, 1, 2])):
                    take(source, arrays, name, index, into=choose.random() < 0.5)
            for name in late[::2]:
                take(source, arrays, name, ROWS, into=True)
        found = source.statistics
        assert 0 < found.found < found.taken and 0 < found.most <= limit and found.found + found.demanded == found.taken
        assert found.untouched == len(late) - len(late[::2])


def test_a_pipeline_s_other_layers_are_not_read_for_long(model):
    """Of the layers from 4 on nothing is taken: what was guessed of them is dropped, and guessing ends."""
    arrays, paths = model
    with ReadAhead(paths, memory=8192) as source:
        for name in source:
            if int(name.split(".")[1]) < 4:
                take(source, arrays, name, ROWS, into=True)
    assert source.statistics.wrong <= 8192 and source.statistics.untouched == 32


def test_what_another_process_owns_is_never_read(tmp_path):
    names = [f"layers.{layer}.experts.{expert}.w" for layer in range(6) for expert in range(8)]
    arrays = {name: np.full((8, 8), number, np.float32) for number, name in enumerate(names)}
    (tmp_path / "x").write_bytes(array_file(arrays))
    with ReadAhead([tmp_path / "x"]) as source:
        for name in source:
            if int(name.split(".")[3]) in (2, 3):
                take(source, arrays, name, whole((8, 8)), into=True)
    found = source.statistics
    assert (found.wrong, found.untouched, found.found) == (0, 36, 10 * 256) and found.taken == 12 * 256


def test_a_file_that_is_cut_meanwhile_is_an_error(model):
    arrays, paths = model
    with ReadAhead(paths, threads=1) as source:
        names = iter(source)
        take(source, arrays, next(names), ROWS, into=True)
        paths[1].write_bytes(paths[1].read_bytes()[:1000])
        with pytest.raises(coffer.Error) as raised:
            for name in names:
                take(source, arrays, name, ROWS, into=True)
    assert raised.value.code in ("CHANGED", "DATA_TRUNCATED")


@pytest.mark.parametrize("damaged", ["layers.0.a", "layers.9.a"])
def test_what_is_taken_whole_is_verified(tmp_path, damaged):
    """Both what was read ahead, and what was read when it was asked for. A part cannot be verified, and a wrong guess harms nobody."""
    arrays = layers(12)
    path = tmp_path / "x"
    path.write_bytes(array_file(arrays))
    coffer.record_digests(path)
    content = bytearray(path.read_bytes())
    content[coffer.open(path)[damaged].offset] ^= 1
    path.write_bytes(content)
    all_of_it = whole((64, 16))
    with ReadAhead([path]) as source:
        for name in source:
            if name == damaged:
                with pytest.raises(coffer.Error) as raised:
                    source.read(name, all_of_it)
                assert (raised.value.code, raised.value.tensor) == ("TENSOR_DIGEST", damaged)
                source.read(name, ROWS)
            else:
                take(source, arrays, name, all_of_it, into=True)


def test_what_is_read_ahead_is_loaded(model, monkeypatch):
    """In few loads, through one staging buffer; what is asked for and large is a load with a staging buffer of its own."""
    arrays, paths = model
    loads = []
    load = prefetch._native.Load
    monkeypatch.setattr(prefetch, "_LARGE", 4096)

    class Native:
        def __getattr__(self, name):
            return getattr(_native, name)

        def Load(self, plan, *, staging):
            loads.append((len(plan), staging))
            return load(plan, staging=staging)

    monkeypatch.setattr(prefetch, "_native", Native())
    with ReadAhead(paths) as source:
        for name in source:
            take(source, arrays, name, whole((64, 16)), into=True)
        assert {staging for _, staging in loads} == {source._staging}
    assert sum(count for count, _ in loads) == 44 and len(loads) <= 16


def test_closing_while_loads_are_under_way(tmp_path):
    """What was begun is ended, and what is taken of it afterwards is read again."""
    arrays = {f"layers.{layer}.w": np.full((1 << 20,), layer, np.uint8) for layer in range(40)}
    (tmp_path / "x").write_bytes(array_file(arrays))
    source = ReadAhead([tmp_path / "x"])
    names = iter(source)
    for _ in range(3):
        take(source, arrays, next(names), ((0, 1 << 20, 1),), into=False)
    source.close()
    for name in names:
        take(source, arrays, name, ((0, 1 << 20, 1),), into=False)
    assert source.statistics.parts == 40


def test_threads_that_ask_in_an_order_of_their_own(model):
    """As those do who slice tensors by name, four at a time, and sort names by the numbers in them."""
    arrays, paths = model
    order = sorted(arrays, key=lambda name: [int(part) if part.isdigit() else part for part in name.split(".")])
    assert order != sorted(arrays)

    def ask(name: str) -> None:
        source.follow(name)
        take(source, arrays, name, COLUMNS if name.endswith("c") else ROWS, into=False)

    with ReadAhead(paths, order=order) as source, ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, order))
    assert source.statistics.parts == 48 and source.statistics.found > 0


def test_after_closing_parts_can_be_taken(model):
    arrays, paths = model
    source = ReadAhead(paths)
    names = iter(source)
    for _ in range(6):
        take(source, arrays, next(names), ROWS, into=True)
    source.close()
    source.close()
    for name in names:
        take(source, arrays, name, COLUMNS, into=False)
