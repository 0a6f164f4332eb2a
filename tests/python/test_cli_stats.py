# SPDX-License-Identifier: Apache-2.0
"""What stats and diff find out, compared with numpy. What they say is in tests/golden."""

import json
import os
import re
import signal
import subprocess

import numpy as np
import pytest
from model_files import make

CLI = os.environ["COFFER_CLI"]
NUMPY = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "I32": "<i4",
         "U32": "<u4", "I64": "<i8", "U64": "<u8", "BOOL": "?", "C64": "<c8"}
LARGE = 700_001  # several pieces, and an odd rest


def answer(*arguments, code=0):
    result = subprocess.run([CLI, *map(str, arguments), "--json"], capture_output=True, text=True, encoding="utf-8",
                            timeout=60, check=False)
    assert result.returncode == code, result.stderr
    return json.loads(result.stdout)


def numbers_of(dtype, count, seed=3):
    random = np.random.default_rng(seed)
    kind = np.dtype(NUMPY[dtype])
    if dtype == "BOOL":
        return random.integers(0, 2, count).astype("?")
    if dtype == "C64":
        return (random.normal(size=count) + 1j * random.normal(size=count)).astype("<c8")
    if kind.kind in "iu":
        return np.frombuffer(random.bytes(count * kind.itemsize), kind)
    numbers = (1000 + random.normal(size=count)).astype(kind)
    numbers[::1001] = 0
    numbers[1::5003] = np.nan
    numbers[2::7001] = -np.inf
    numbers[3::9001] = np.finfo(kind).smallest_subnormal
    return numbers


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("count", [LARGE, 5, 1])
def test_statistics_are_those_of_numpy(dtype, count, tmp_path):
    path = tmp_path / "model.safetensors"
    numbers = numbers_of(dtype, count)
    make(path, {"x": (dtype, [count], numbers.tobytes())})
    found = answer("stats", path)["tensors"][0]
    wide = numbers.view("<f4") if dtype == "C64" else numbers
    wide = wide.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    assert found["count"] == len(wide)
    assert found["nan"] == np.isnan(wide).sum() and found["infinite"] == np.isinf(wide).sum()
    assert found["zeros"] == (wide == 0).sum()
    if np.dtype(NUMPY[dtype]).kind == "f":
        tiny = np.finfo(NUMPY[dtype]).tiny
        assert found["subnormal"] == ((np.abs(wide) < float(tiny)) & (wide != 0)).sum()
    if len(finite) == 0:
        assert found["min"] is found["mean"] is None
        return
    assert (found["min"], found["max"]) == (finite.min(), finite.max())
    assert found["mean"] == pytest.approx(finite.mean(), rel=1e-12, abs=1e-12)
    assert found["std"] == pytest.approx(finite.std(), rel=1e-10, abs=1e-12)


def test_no_digits_cancel(tmp_path):
    """The textbook formula, the mean of the squares less the square of the mean, has not one digit left here."""
    path = tmp_path / "model.safetensors"
    numbers = 1e9 + np.arange(LARGE) % 2
    make(path, {"x": ("F64", [LARGE], numbers.astype("<f8").tobytes())})
    assert answer("stats", path)["tensors"][0]["std"] == pytest.approx(numbers.std(), rel=1e-9)


def test_histograms_count_every_finite_number_once(tmp_path):
    path = tmp_path / "model.safetensors"
    numbers = np.random.default_rng(9).normal(size=LARGE).astype("<f4")
    numbers[:3] = [np.nan, np.inf, -np.inf]
    make(path, {"x": ("F32", [LARGE], numbers.tobytes()), "y": ("F32", [2], np.array([-20, 20], "<f4").tobytes())})
    found = answer("stats", path, "--histogram")
    histogram = found["tensors"][0]["histogram"]
    finite = numbers[np.isfinite(numbers)].astype(np.float64)
    expected, _ = np.histogram(finite, bins=24, range=(histogram["low"], histogram["high"]))
    assert sum(histogram["counts"]) == len(finite)
    # A number on the edge of a bin may be rounded to either side.
    assert np.abs(np.array(histogram["counts"]) - expected).max() <= 2
    assert sum(found["all"]["histogram"]["counts"]) == len(finite) + 2
    assert found["all"]["histogram"]["low"] == -20


def test_results_are_the_same_every_time(tmp_path):
    """Pieces are done by several threads in any order, and summed up in one."""
    path = tmp_path / "model.safetensors"
    make(path, {f"t{i}": ("F32", [LARGE], numbers_of("F32", LARGE, i).tobytes()) for i in range(3)})
    first = answer("stats", path)
    for _ in range(5):
        assert answer("stats", path) == first


@pytest.mark.parametrize("dtype", ["F16", "F32", "F64", "I16", "C64"])
def test_differences_are_those_of_numpy(dtype, tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    before = numbers_of(dtype, LARGE)
    after = before.copy()
    after[100::999] = 1
    after[LARGE - 1] = before[0]
    make(a, {"same": ("U8", [3], b"abc"), "x": (dtype, [LARGE], before.tobytes())})
    make(b, {"x": (dtype, [LARGE], after.tobytes()), "same": ("U8", [3], b"abc")})
    found = answer("diff", a, b, code=1)
    parts = [numbers.view("<f4") if dtype == "C64" else numbers for numbers in (before, after)]
    left, right = (numbers.astype(np.float64) for numbers in parts)
    with np.errstate(all="ignore"):
        apart = np.abs(left - right)
    apart[(left == right) | (np.isnan(left) & np.isnan(right))] = 0
    apart[np.isnan(apart)] = np.inf
    assert [tensor["name"] for tensor in found["tensors"]] == ["x"]
    assert found["tensors"][0]["differing"] == np.count_nonzero(apart)
    assert float(found["tensors"][0]["max"]) == apart.max()
    assert float(found["tensors"][0]["mean"]) == pytest.approx(apart.mean(), rel=1e-9)


# Raises SIGINT in the read whose number is in INTERRUPT_AT, so that the command knows of it before that returns.
INTERRUPT = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static atomic_int reads;
ssize_t pread64(int fd, void *buffer, size_t size, off64_t offset)
{
    if (atomic_fetch_add(&reads, 1) + 1 == atoi(getenv("INTERRUPT_AT"))) {
        sigset_t interrupt, before;
        sigemptyset(&interrupt);
        sigaddset(&interrupt, SIGINT);
        pthread_sigmask(SIG_UNBLOCK, &interrupt, &before);
        raise(SIGINT);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    return syscall(SYS_pread64, fd, buffer, size, offset);
}
"""


@pytest.fixture(scope="module")
def two_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    (folder / "interrupt.c").write_text(INTERRUPT)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "interrupt.so", "interrupt.c"], cwd=folder, check=True)
    numbers = np.arange(6_000_000, dtype="<f4").tobytes()
    for name in "ab":
        make(folder / name, {"x": ("F32", [6_000_000], numbers), "y": ("F32", [6_000_000], numbers)})
    subprocess.run([CLI, "hash", "--write", "--quiet", "a"], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("command", [["stats", "a"], ["stats", "a", "--json"], ["stats", "a", "--tsv"], ["diff", "a", "b"],
                                     ["diff", "a", "b", "--json"], ["hash", "--content", "a"], ["verify", "a"]])
@pytest.mark.parametrize("at", [3, 7])
def test_what_is_interrupted_says_nothing_that_looks_complete(two_files, command, at):
    """Ctrl-C comes while the data are read: numbers of a part, and "no difference" in it, would be believed."""
    environment = {**os.environ, "LD_PRELOAD": str(two_files / "interrupt.so"), "INTERRUPT_AT": str(at)}
    result = subprocess.run([CLI, *command], cwd=two_files, env=environment, capture_output=True, text=True, timeout=60,
                            check=False)
    assert result.returncode == -signal.SIGINT
    assert result.stdout == "" and re.fullmatch(r"(coffer: .*interrupted.*\n)?", result.stderr), result
