# SPDX-License-Identifier: Apache-2.0
"""coffer.bintensors.flax beside bintensors.flax."""

import jax.numpy as jnp
from suite import BintensorsSuite


class TestFlax(BintensorsSuite):
    name = "flax"

    def make(self, array):
        return jnp.array(array)
