# SPDX-License-Identifier: Apache-2.0
"""coffer.tensorflow beside safetensors.tensorflow."""

import tensorflow as tf
from suite import Suite


class TestTensorflow(Suite):
    name = "tensorflow"
    short = "tf"
    unknown = Suite.unknown | {"F8_E8M0"}

    def make(self, array):
        return tf.constant(array)
