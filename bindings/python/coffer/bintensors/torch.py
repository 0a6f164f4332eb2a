# SPDX-License-Identifier: Apache-2.0
"""`coffer.compat.bintensors.torch` by a shorter name: both are one module. What is imported from it is for type checkers."""

import sys

from ..compat.bintensors import torch
from ..compat.bintensors.torch import *  # noqa: F403

sys.modules[__name__] = torch
