# SPDX-License-Identifier: Apache-2.0
"""From tensors to polars, which takes numpy's arrays, and Python's lists."""

import numpy as np
import polars as pl
import pytest
from ways import EVERYTHING, PACKED, refused

WAYS = {
    "Series": lambda tensor: pl.Series(np.asarray(tensor)),
    "from_numpy": lambda tensor: pl.from_numpy(tensor.numpy(), ["a"])["a"],
}


@pytest.mark.parametrize("way", WAYS)
def test_every_dtype(way):
    assert refused(WAYS[way], lambda made: np.array(made.to_list()), [(6,), (1,)]) == set(PACKED)


@pytest.mark.parametrize("way", [pl.Series, pl.DataFrame, lambda tensor: pl.DataFrame({"a": tensor})])
def test_tensors_themselves_are_refused(way):
    assert refused(way, np.asarray, [(6,), (2, 3)]) == EVERYTHING
