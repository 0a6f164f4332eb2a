# SPDX-License-Identifier: Apache-2.0
"""Indexing what get_slice gives: the same results and the same errors, but for S1 and S2 of docs/python.md."""

from __future__ import annotations

import os

import hypothesis.strategies as st
import numpy as np
import pytest
from both import COFFER, REFERENCE, Raised, one_tensor, outcome
from conftest import array_file
from hypothesis import given, settings

LIMITS = settings(max_examples=500, deadline=None, database=None, derandomize=True)

SHAPES = ([2, 3], [4], [], [2, 3, 4], [0, 3], [1, 1])
FRAMEWORKS = [("np", "mmap"), ("np", "pread"), ("pt", "mmap"), ("pt", "pread")]

BOUND = st.none() | st.integers(-6, 6)
ITEM = st.one_of(
    st.integers(-5, 5),
    st.builds(slice, BOUND, BOUND, st.none() | st.integers(-2, 3)),
    st.just(Ellipsis),
    st.sampled_from([None, [], [0], [0, 1], 1.5, "a", True, 2**63, 2**70, np.int64(1), np.array(1), slice("a"), slice(0, 1.5)]),
)
INDEX = ITEM | st.lists(ITEM, max_size=4).map(tuple)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slices")
    for number, shape in enumerate(SHAPES):
        (folder / str(number)).write_bytes(one_tensor("I16", shape))
    return folder


def taken(side, path, framework, backend, index):
    return side.package.safe_open(path, framework, backend=backend).get_slice("a")[index]


BEYOND = [2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70]


@pytest.mark.parametrize(("framework", "backend"), FRAMEWORKS)
@pytest.mark.parametrize("n", [*BEYOND, *(-n for n in BEYOND)])
@pytest.mark.filterwarnings("ignore:Truncating the start")
def test_integers_that_are_beyond_everything(files, framework, backend, n):
    for index in (n, (0, n), (..., n), np.s_[::n]) + ((np.s_[:n], np.s_[n:]) if n > 0 else ()):
        arguments = files / "0", framework, backend, index
        assert outcome(taken, COFFER, *arguments) == outcome(taken, REFERENCE, *arguments)


def items_of(index):
    return index if isinstance(index, tuple) else (index,)


def counts_from_the_end(item):
    """A slice with a bound below 0: OverflowError in the reference."""
    return isinstance(item, slice) and any(isinstance(bound, int) and bound < 0 for bound in (item.start, item.stop))


def is_backwards(item):
    """A slice that begins after its end: SystemError in the reference."""
    return isinstance(item, slice) and all(isinstance(bound, int) for bound in (item.start, item.stop)) and item.start > item.stop


def by_pythons_rules(shape, index):
    """S1, S2: what the reference fails on by accident follows Python's rules."""
    return 0 in shape or any(counts_from_the_end(item) or is_backwards(item) for item in items_of(index))


@pytest.mark.parametrize(("framework", "backend"), FRAMEWORKS)
@LIMITS
@given(number=st.sampled_from(range(len(SHAPES))), index=INDEX)
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_slices(files, framework, backend, number, index):
    arguments = files / str(number), framework, backend, index
    theirs, ours = outcome(taken, REFERENCE, *arguments), outcome(taken, COFFER, *arguments)
    if ours == theirs:
        return
    assert (framework, backend) != ("pt", "mmap"), "there torch itself indexes"
    shape = SHAPES[number]
    assert isinstance(theirs, Raised)
    assert by_pythons_rules(shape, index)
    if not isinstance(ours, Raised):
        content = np.frombuffer(one_tensor("I16", shape)[-2 * int(np.prod(shape)) :] if 0 not in shape else b"", "<i2")
        wanted = content.reshape(shape)[() if index == [] else index] if index != [] else content.reshape(shape)[0:0]
        assert ours[2:] == (wanted.shape, wanted.tobytes())


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_python_rules_where_the_reference_fails_by_accident(files, backend):
    path = files / "0"
    for index in (slice(-1, None), slice(-100, 1), slice(1, 0), (slice(None), slice(-2, -1)), slice(1, -1)):
        whole = COFFER.package.safe_open(path, "np", backend=backend).get_tensor("a")
        assert np.array_equal(taken(COFFER, path, "np", backend, index), whole[index])


@pytest.mark.parametrize("dtype", ["F4", "F6_E2M3"])
def test_parts_of_a_byte(tmp_path, dtype):
    """Elements that are no whole bytes can be sliced where the cuts are at whole bytes."""
    (tmp_path / "x").write_bytes(one_tensor(dtype, [2, 4]))
    for framework in ("np", "pt"):
        ours = outcome(taken, COFFER, tmp_path / "x", framework, "pread", (slice(None), slice(0, 1)))
        theirs = outcome(taken, REFERENCE, tmp_path / "x", framework, "pread", (slice(None), slice(0, 1)))
        assert ours == theirs and "byte boundary" in ours.text


def test_a_pread_slice_reads_only_what_it_needs(tmp_path):
    """The bytes that the process asked the system for, from /proc."""
    columns = 2**16
    (tmp_path / "x").write_bytes(one_tensor("U8", [256, columns]))

    def asked():
        with open("/proc/self/io") as io:
            return dict(line.split(": ") for line in io.read().splitlines())["rchar"]

    part = COFFER.package.safe_open(tmp_path / "x", "np", backend="pread").get_slice("a")
    before = int(asked())
    assert part[:, :64].shape == (256, 64)
    assert int(asked()) - before < 256 * columns // 16


@pytest.mark.parametrize(("framework", "backend"), FRAMEWORKS)
def test_a_loop_of_slices_works_in_no_background(tmp_path, framework, backend):
    """Reading ahead what a loader might take next was never faster than reading what it takes, and several times slower in a loop
    over cached files: bench/bench_python.py, loops_of_slices."""
    layers = {f"layers.{i}.weight": np.full((256, 256), i, np.int32) for i in range(24)}
    (tmp_path / "x").write_bytes(array_file(layers))
    before = set(os.listdir("/proc/self/task"))
    with COFFER.package.safe_open(tmp_path / "x", framework, backend=backend) as file:
        for name, array in layers.items():
            assert np.array_equal(np.asarray(file.get_slice(name)[64:192]), array[64:192])
        assert set(os.listdir("/proc/self/task")) <= before


@pytest.mark.parametrize(("framework", "backend"), FRAMEWORKS)
def test_a_file_that_cannot_be_mapped_is_read(unmappable, framework, backend):
    """The reference fails there with the backend "mmap"."""
    wanted = np.arange(6, dtype=np.float32).reshape(3, 2)
    with open(unmappable, "rb", closefd=False) as file, COFFER.package._safe_open_handle(file, framework, backend=backend) as f:
        assert np.array_equal(np.asarray(f.get_tensor("small")), wanted)
        for index in (np.s_[1:], np.s_[:, 1], np.s_[...]):
            assert np.array_equal(np.asarray(f.get_slice("small")[index]), wanted[index])
