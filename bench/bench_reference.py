# SPDX-License-Identifier: Apache-2.0
"""The reference implementation, timed inside Python, for the benchmarks: bench_support.c starts it and gives it orders.

An order is a line `open|open-bintensors|save TAB number TAB path`; the answer is a line with the seconds.
"""

import sys
import time

import bintensors
import numpy
from safetensors import safe_open
from safetensors.numpy import save_file


def open_file(path, repeats):
    """Mean seconds of opening the file and asking for its tensors' names."""
    start = time.perf_counter()
    for _ in range(repeats):
        with safe_open(path, framework="numpy") as model:
            model.keys()
    return (time.perf_counter() - start) / repeats


def open_bintensors(path, repeats):
    """The same of bintensors."""
    start = time.perf_counter()
    for _ in range(repeats):
        with bintensors.safe_open(path, framework="numpy") as model:
            model.keys()
    return (time.perf_counter() - start) / repeats


def save(path, size, made={}):
    """Seconds of saving one float32 tensor of `size` bytes, which is made at the first call and kept."""
    if size not in made:
        made.clear()
        made[size] = numpy.ones(size // 4, numpy.float32)
    start = time.perf_counter()
    save_file({"data": made[size]}, path)
    return time.perf_counter() - start


def main():
    orders = {"open": open_file, "open-bintensors": open_bintensors, "save": save}
    for line in sys.stdin:
        order, number, path = line.rstrip("\n").split("\t")
        print(orders[order](path, int(number)), flush=True)


main()
