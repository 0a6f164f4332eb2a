# SPDX-License-Identifier: Apache-2.0
"""From tensors to pandas."""

import pandas as pd
import pytest
from ways import PACKED, refused

WAYS = {
    "Series": pd.Series,
    "a column": lambda tensor: pd.DataFrame({"a": tensor})["a"],
}


@pytest.mark.parametrize("way", WAYS)
def test_every_dtype(way):
    assert refused(WAYS[way], lambda made: made.to_numpy(), [(6,), (1,), (0,)]) == set(PACKED)


def test_an_index():
    """Of which some float formats have none."""
    assert refused(pd.Index, lambda made: made.to_numpy(), [(6,), (1,), (0,)]) == {"F16", "F8_E5M2", *PACKED}


def test_tables():
    assert refused(pd.DataFrame, lambda made: made.to_numpy(), [(2, 3), (1, 3)]) == set(PACKED)
