# SPDX-License-Identifier: Apache-2.0
"""From tensors to tensorflow."""

import pytest
import tensorflow as tf
from ways import PACKED, refused


@pytest.mark.parametrize("way", [tf.convert_to_tensor, tf.constant], ids=["convert_to_tensor", "constant"])
def test_every_dtype(way):
    assert refused(way, lambda made: made.numpy()) == {"F8_E8M0", *PACKED}
