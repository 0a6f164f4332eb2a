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


def expected_layer(pairs):
    """The numbers of a layer by numpy, of [(before, after)] as doubles."""
    left, right = (np.concatenate(numbers) for numbers in zip(*pairs))
    finite = np.isfinite(left) & np.isfinite(right)
    differ = (left != right) & ~(np.isnan(left) & np.isnan(right))
    a, b = left[finite], right[finite]
    return {"numbers": len(left), "differing": np.count_nonzero(differ), "not_finite": np.count_nonzero(~finite),
            "nan": np.count_nonzero(differ & (np.isnan(left) | np.isnan(right))),
            "relative_norm": np.linalg.norm(b - a) / np.linalg.norm(a),
            "cosine": a @ b / (np.linalg.norm(a) * np.linalg.norm(b))}


def check_layer(found, expected):
    for key in ("numbers", "differing", "not_finite", "nan"):
        assert found[key] == expected[key]
    assert found["changed"] == pytest.approx(expected["differing"] / expected["numbers"])
    assert found["relative_norm"] == pytest.approx(expected["relative_norm"], rel=1e-9)
    assert found["cosine"] == pytest.approx(expected["cosine"], rel=1e-9)


@pytest.mark.parametrize("dtype", ["F16", "F32", "C64"])
def test_layers_are_those_of_numpy(dtype, tmp_path):
    generator = np.random.default_rng(7)
    made = {"a": {}, "b": {}}
    layers = {}
    for name in ("m.embed.weight", "m.layers.2.q", "m.layers.10.q", "m.layers.10.k", "head"):
        before = generator.normal(size=2 * LARGE).astype("<f2" if dtype == "F16" else "<f4")
        after = (before + generator.normal(size=2 * LARGE) * 0.01).astype(before.dtype)
        before[5:9] = [np.nan, np.inf, np.nan, -np.inf]
        after[5:9] = [np.nan, np.inf, 1, np.inf]
        shape = [LARGE if dtype == "C64" else 2 * LARGE]
        made["a"][name] = (dtype, shape, before.tobytes())
        made["b"][name] = (dtype, shape, after.tobytes())
        layer = "m.layers.10" if ".10." in name else "m.layers.2" if ".2." in name else name.removesuffix(".weight")
        layers.setdefault(layer, []).append((before.astype(np.float64), after.astype(np.float64)))
    # Indices are compared, but are no part of a norm.
    for side in made:
        made[side]["m.layers.2.ids"] = ("I64", [2], np.array([10**6, ord(side)], "<i8").tobytes())
    expected = {layer: expected_layer(pairs) for layer, pairs in layers.items()}
    expected["m.layers.2"]["numbers"] += 2
    expected["m.layers.2"]["differing"] += 1
    for side, tensors in made.items():
        make(tmp_path / side, tensors)
    found = answer("diff", "--summary", tmp_path / "a", tmp_path / "b", code=1)
    assert [layer["layer"] for layer in found["layers"]] == ["head", "m.embed", "m.layers.2", "m.layers.10"]
    for layer in found["layers"]:
        check_layer(layer, expected[layer["layer"]])
    total = expected_layer(sum(layers.values(), []))
    total["numbers"] += 2
    total["differing"] += 1
    check_layer(found["all"], total)
    found = answer("diff", "--summary", "--filter", "*.10.*", "--threshold", "1", tmp_path / "a", tmp_path / "b", code=1)
    assert not found["within_threshold"], "a NaN in one file only is beyond every threshold"


@pytest.mark.parametrize("threshold, code", [(0.02, 0), (0.005, 1)])
def test_a_threshold_forgives_distance_and_dtypes(threshold, code, tmp_path):
    before = np.random.default_rng(3).normal(size=LARGE).astype("<f4")
    after = before * np.float32(1.01)
    make(tmp_path / "a", {"x": ("F32", [LARGE], before.tobytes())})
    make(tmp_path / "b", {"x": ("F64", [LARGE], after.astype("<f8").tobytes())})
    found = answer("diff", "--summary", "--threshold", str(threshold), tmp_path / "a", tmp_path / "b", code=code)
    assert found["within_threshold"] == (code == 0)
    assert found["layers"][0]["other_dtype"] == 1


def test_norms_beyond_the_doubles_are_not_told(tmp_path):
    for name, number in (("a", 1e200), ("b", -1e200)):
        make(tmp_path / name, {"x": ("F64", [2], np.array([number, 1], "<f8").tobytes())})
    layer = answer("diff", "--summary", tmp_path / "a", tmp_path / "b", code=1)["layers"][0]
    assert (layer["differing"], layer["relative_norm"], layer["cosine"]) == (1, None, None)
    answer("diff", "--summary", "--threshold", "1e9", tmp_path / "a", tmp_path / "b", code=1)


def test_headers_are_compared_without_their_data(tmp_path):
    """Two models that are larger than the disk, in sparse files whose data nothing could read in time."""
    header = b'{"x":{"dtype":"U8","shape":[4000000000000],"data_offsets":[0,4000000000000]}}'
    for name in "a", "b":
        with open(tmp_path / name, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + 4 * 10**12)
    assert answer("diff", "--header", tmp_path / "a", tmp_path / "b")["equal"]


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
                                     ["diff", "a", "b", "--json"], ["diff", "a", "b", "--summary"], ["hash", "--content", "a"], ["verify", "a"],
                                     ["doctor", "a", "--data"], ["doctor", "a", "--data", "--json"]])
@pytest.mark.parametrize("at", [3, 7])
def test_what_is_interrupted_says_nothing_that_looks_complete(two_files, command, at):
    """Ctrl-C comes while the data are read: numbers of a part, and "no difference" in it, would be believed."""
    environment = {**os.environ, "LD_PRELOAD": str(two_files / "interrupt.so"), "INTERRUPT_AT": str(at)}
    result = subprocess.run([CLI, *command], cwd=two_files, env=environment, capture_output=True, text=True, timeout=60,
                            check=False)
    assert result.returncode == -signal.SIGINT
    assert result.stdout == "" and re.fullmatch(r"(coffer: .*interrupted.*\n)?", result.stderr), result
