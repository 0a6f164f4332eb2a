# SPDX-License-Identifier: Apache-2.0
"""coffer.bintensors.mlx beside bintensors.mlx."""

import mlx.core as mx
from suite import BintensorsSuite


class TestMlx(BintensorsSuite):
    name = "mlx"

    def make(self, array):
        return mx.array(array)
