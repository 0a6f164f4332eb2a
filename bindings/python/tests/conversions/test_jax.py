# SPDX-License-Identifier: Apache-2.0
"""From tensors to jax."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ways import PACKED, refused

jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("way", [jnp.asarray, jnp.array], ids=["asarray", "array"])
def test_every_dtype(way):
    assert refused(way, np.asarray) == set(PACKED)
