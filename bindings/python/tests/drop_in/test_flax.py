# SPDX-License-Identifier: Apache-2.0
"""coffer.flax beside safetensors.flax."""

import jax.numpy as jnp
from suite import Suite


class TestFlax(Suite):
    name = "flax"
    short = "flax"

    def make(self, array):
        return jnp.array(array)
