# SPDX-License-Identifier: Apache-2.0
"""Files of jax arrays, by way of numpy's. jax makes float64 and int64 of 32 bits, unless it was told otherwise."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..._frameworks import from_flax, map_values, to_flax
from . import numpy
from ._by_numpy import ByNumpy
from ._safe_open import safe_open as safe_open

# The modules are there because the reference has them.
__all__ = ["Array", "jnp", "load", "load_file", "np", "numpy", "safe_open", "save", "save_file"]


def _np2jnp(numpy_dict: dict[str, Any]) -> dict[str, Array]:
    return map_values(to_flax, numpy_dict)


def _jnp2np(jnp_dict: dict[str, Array]) -> dict[str, Any]:
    return map_values(from_flax, jnp_dict)


_FLAX = ByNumpy[Array](_np2jnp, _jnp2np)
save, save_file, load, load_file = _FLAX.save, _FLAX.save_file, _FLAX.load, _FLAX.load_file
