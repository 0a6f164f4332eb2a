# SPDX-License-Identifier: Apache-2.0
"""paddle, which imports safetensors itself, saves and loads state dicts by it."""

import numpy as np
import paddle
from paddle.distributed.flex_checkpoint.dcp import utils
from safetensors import safe_open
from safetensors.paddle import load_file, save_file


def layer():
    paddle.seed(0)
    return paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.LayerNorm(16))


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name].numpy(), other[name].numpy()) for name in one)


def test_safe_open_is_coffer_s():
    """By which its checkpoints are read; without that name paddle cannot be imported."""
    assert utils.safe_open is safe_open and safe_open.__module__.startswith("coffer.")


def test_state_dicts(tmp_path):
    wanted = layer().state_dict()
    save_file(wanted, tmp_path / "x.safetensors")
    assert same(load_file(tmp_path / "x.safetensors"), wanted)
    loaded = layer()
    loaded.set_state_dict(load_file(tmp_path / "x.safetensors"))
    assert same(loaded.state_dict(), wanted)


def test_by_paddle_s_own_functions(tmp_path):
    wanted = layer().state_dict()
    path = str(tmp_path / "x.safetensors")
    paddle.save(wanted, path, safetensors=True)
    assert same(load_file(path), wanted)
    assert same(paddle.load(path, safetensors=True), wanted)
    arrays = paddle.load(path, safetensors=True, return_numpy=True)
    assert all(np.array_equal(arrays[name], wanted[name].numpy()) for name in wanted)
