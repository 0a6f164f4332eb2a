# SPDX-License-Identifier: Apache-2.0
"""`coffer.compat.bintensors` by a shorter name: files of the kind `.bt`, by the names of the package bintensors.

    tensors = coffer.bintensors.torch.load_file("model.bt")

It refuses what is no `.bt` file. `coffer.open` takes both kinds, and `coffer.Writer` writes both.
"""

from ..compat.bintensors import *  # noqa: F403
from ..compat.bintensors import PySafeSlice as PySafeSlice
from ..compat.bintensors import __version__ as __version__
