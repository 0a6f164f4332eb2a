# SPDX-License-Identifier: Apache-2.0
"""What `coffer ls` lists, by the reference implementation: the ten lines that bench_cli.c compares it with."""

import sys

from safetensors import safe_open

with safe_open(sys.argv[1], framework="numpy") as model:
    for name in model.keys():
        part = model.get_slice(name)
        print(name, part.get_dtype(), part.get_shape())
