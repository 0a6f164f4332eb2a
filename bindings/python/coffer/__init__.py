# SPDX-License-Identifier: Apache-2.0
"""Tensors, kept safe: reads, checks, slices and writes safetensors files."""

from ._errors import Error as Error
from ._errors import SafetensorError as SafetensorError
from ._native import VERSION as __version__
from ._native import Tensor as Tensor
from ._native import Writer as Writer
