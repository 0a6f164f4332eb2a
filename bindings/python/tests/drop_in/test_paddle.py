# SPDX-License-Identifier: Apache-2.0
"""coffer.paddle beside safetensors.paddle."""

import numpy as np
import paddle
import pytest
from both import COFFER, comparable
from suite import MATRIX, Suite


class TestPaddle(Suite):
    name = "paddle"
    short = "paddle"
    reference_has_empty = False
    # What the reference makes of U16 are numbers of bfloat16.
    unknown = Suite.unknown | {"U16", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}

    def make(self, array):
        return paddle.to_tensor(array)

    def test_what_is_not_contiguous(self):
        theirs, ours = self.both(lambda module: module.save({"a": paddle.to_tensor(MATRIX).T}))
        assert ours == theirs and ours.kind == "ValueError"

    def test_tensors_are_writable_and_outlive_the_file(self, tmp_path):
        COFFER.module("paddle").save_file({"a": paddle.to_tensor(MATRIX)}, tmp_path / "x")
        before = (tmp_path / "x").read_bytes()
        for backend in ("mmap", "pread"):
            tensor = COFFER.module("paddle").load_file(tmp_path / "x", backend=backend)["a"]
            tensor.add_(paddle.to_tensor(np.float32(1)))
            assert comparable(tensor) == comparable(paddle.to_tensor(MATRIX + 1))
            assert (tmp_path / "x").read_bytes() == before

    @pytest.mark.parametrize("value", [3, MATRIX, "x"], ids=lambda value: type(value).__name__)
    def test_what_is_no_tensor(self, value):
        theirs, ours = self.both(lambda module: module.save({"a": value}))
        assert ours == theirs and ours.kind == "ValueError"
