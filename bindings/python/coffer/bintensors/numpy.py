# SPDX-License-Identifier: Apache-2.0
"""`coffer.compat.bintensors.numpy` by a shorter name: both are one module. What is imported from it is for type checkers."""

import sys

from ..compat.bintensors import numpy
from ..compat.bintensors.numpy import *  # noqa: F403

sys.modules[__name__] = numpy
