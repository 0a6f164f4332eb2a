# SPDX-License-Identifier: Apache-2.0
"""`coffer.compat.bintensors.mlx` by a shorter name: both are one module. What is imported from it is for type checkers."""

import sys

from ..compat.bintensors import mlx
from ..compat.bintensors.mlx import *  # noqa: F403

sys.modules[__name__] = mlx
