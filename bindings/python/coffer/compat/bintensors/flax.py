# SPDX-License-Identifier: Apache-2.0
"""`.bt` files of jax arrays, by way of numpy's."""

from __future__ import annotations

import jax.numpy as jnp  # noqa: F401  names that bintensors has
import numpy as np  # noqa: F401
from jax import Array

from ..safetensors.flax import _jnp2np, _np2jnp
from . import numpy as numpy
from ._by_numpy import ByNumpy
from ._safe_open import safe_open as safe_open

__all__ = ["load", "load_file", "save", "save_file", "save_with_checksum"]

_FLAX = ByNumpy[Array](_np2jnp, _jnp2np)
save, save_with_checksum, save_file = _FLAX.save, _FLAX.save_with_checksum, _FLAX.save_file
load, load_file = _FLAX.load, _FLAX.load_file
