# SPDX-License-Identifier: Apache-2.0
"""Whether a model came back as it was. Its weights have to be the same bits. What it computes need not be: tensors of a file are
aligned as the file has them, and where that is not as torch itself would, its kernels may add in another order."""

import torch


def same_bits(one, other):
    """Of two state dicts."""
    return {name: described(tensor) for name, tensor in one.items()} == {name: described(tensor) for name, tensor in other.items()}


def described(tensor):
    return tensor.dtype, tensor.shape, tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def same_outputs(one, other):
    """Whether two models' numbers differ by no more than the order of sums can make them."""
    tolerance = 1e-4 if one.dtype == torch.float32 else 5e-2
    return one.dtype == other.dtype and torch.allclose(one, other, rtol=tolerance, atol=tolerance)
