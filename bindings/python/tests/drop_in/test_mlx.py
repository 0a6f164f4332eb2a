# SPDX-License-Identifier: Apache-2.0
"""coffer.mlx beside safetensors.mlx."""

import mlx.core as mx
from suite import Suite


class TestMlx(Suite):
    name = "mlx"
    short = "mlx"
    unknown = Suite.unknown | {"F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}

    def make(self, array):
        return mx.array(array)
