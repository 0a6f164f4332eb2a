# SPDX-License-Identifier: Apache-2.0
"""How far the layers of two files are apart, by numpy: the script that bench_cli.c compares `coffer diff --summary` with."""

import sys

import numpy
from safetensors import safe_open

with safe_open(sys.argv[1], framework="numpy") as before, safe_open(sys.argv[2], framework="numpy") as after:
    for name in before.keys():
        a, b = (model.get_tensor(name).astype(numpy.float64).ravel() for model in (before, after))
        norm = numpy.linalg.norm(a)
        print(name, numpy.count_nonzero(a != b), numpy.linalg.norm(b - a) / norm, a @ b / (norm * numpy.linalg.norm(b)))
