# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch and of others that are given to be written and to be read into, as arrays of numpy's are (test_given.py)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from conftest import array_file

import coffer
import coffer.numpy
import coffer.torch


def written(tmp_path, dtype, data, shape=(4,)):
    with coffer.Writer(tmp_path / "x", {"a": (dtype, shape)}) as writer:
        writer.write("a", data)
    return coffer.open(tmp_path / "x")["a"].tolist()


FOUR = torch.arange(4.0)


class Own(torch.Tensor):
    """A class of a program's."""


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("F32", FOUR), ("F32", torch.arange(8.0)[::2] / 2), ("F32", FOUR.half()), ("F32", FOUR.bfloat16()), ("BF16", FOUR.bfloat16()),
        ("BF16", torch.arange(8).bfloat16()[::2] / 2), ("F64", FOUR.int()), ("F32", torch.nn.Parameter(FOUR)), ("F32", FOUR.as_subclass(Own)),
        ("F8_E4M3", FOUR.to(torch.float8_e4m3fn)), ("BF16", FOUR.to(torch.float8_e4m3fn)), ("I64", FOUR.to(torch.int8)),
        ("C64", torch.complex(FOUR, torch.zeros(4)).conj()), ("C64", FOUR), ("F32", FOUR.numpy()),
    ],
    ids=str,
)  # fmt: skip
def test_written(tmp_path, dtype, data):
    assert written(tmp_path, dtype, data) == [0, 1, 2, 3]


def test_written_by_strides(tmp_path):
    tensor = torch.arange(6.0).reshape(2, 3)
    assert written(tmp_path, "F32", tensor.T, (3, 2)) == tensor.T.tolist()
    assert written(tmp_path, "F32", tensor.view(torch.uint8).reshape(-1), (2, 3)) == tensor.tolist()
    assert written(tmp_path, "F4", torch.tensor([0x21, 0x43], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)) == [0.5, 1, 1.5, 2]


@pytest.mark.parametrize(
    ("dtype", "data", "said"),
    [
        ("BF16", FOUR, "'a' is BF16, and what is written to it is F32"), ("BF16", FOUR.half(), "what is written to it is F16"),
        ("F32", FOUR.int(), "what is written to it is I32"), ("F32", torch.zeros(2).double(), "what is written to it is F64"),
        ("F16", FOUR.bfloat16(), "what is written to it is BF16"), ("F32", FOUR.to_sparse(), "'a' is sparse"),
        ("F32", torch.empty(4, device="meta"), "'a' is on the device meta"), ("F32", torch.nn.Linear(2, 2), "'a' is not a tensor of torch"),
        ("C64", torch.zeros(2, dtype=torch.complex128), "'a' is of torch.complex128"),
    ],
    ids=str,
)  # fmt: skip
def test_refused(tmp_path, dtype, data, said):
    with pytest.raises(coffer.Error, match=said):
        written(tmp_path, dtype, data)


def test_jax(tmp_path):
    assert written(tmp_path, "BF16", jnp.arange(4, dtype=jnp.bfloat16)) == written(tmp_path, "F32", jnp.arange(4, dtype=jnp.int8)) == [0, 1, 2, 3]
    with pytest.raises(TypeError, match="what is written to it is BF16"):
        written(tmp_path, "F16", jnp.arange(4, dtype=jnp.bfloat16))


@pytest.fixture
def source():
    return coffer.open(coffer.torch.save({"f": torch.arange(6.0).reshape(2, 3), "b": torch.arange(4.0).bfloat16()}))


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(2, 3), lambda: torch.zeros(3, 2).T, lambda: torch.zeros(2, 3).double(), lambda: torch.zeros(2, 6)[:, ::2],
        lambda: torch.nn.Parameter(torch.zeros(2, 3)), lambda: torch.zeros(2, 3, dtype=torch.complex64),
    ],
)  # fmt: skip
def test_read_into(source, make):
    target = make()
    source["f"].read_into(target)
    assert torch.equal(target.detach().real.double(), torch.arange(6.0).reshape(2, 3).double())


def test_read_into_other_dtypes(source):
    target = torch.zeros(4)
    source["b"].read_into(target)
    assert torch.equal(target, FOUR)
    raw = torch.zeros(24, dtype=torch.uint8)
    source["f"].read_into(raw)
    assert torch.equal(raw.view(torch.float32), torch.arange(6.0))
    for wrong in (torch.zeros(6).half(), torch.zeros(6, dtype=torch.int32), torch.zeros(3).double(), torch.zeros(12).bfloat16()):
        with pytest.raises(coffer.Error):
            source["f"].read_into(wrong)
        assert not wrong.any()
    with pytest.raises(coffer.Error, match="cannot be read into the tensor of torch"):
        source["b"].read_into(torch.zeros(1).expand(4))
    with pytest.raises(TypeError, match="'b' is read into a dense tensor"):
        source["b"].read_into(FOUR.to_sparse())


def test_of_another_framework():
    with pytest.raises(TypeError, match="'a' is not a tensor of numpy, but one of torch"):
        coffer.numpy.save({"a": FOUR})
    with pytest.raises(TypeError, match="'a' is not a tensor of torch, but of the type ndarray"):
        coffer.torch.save({"a": np.zeros(2)})


def test_compared():
    tensor = coffer.open(array_file({"a": np.arange(4, dtype=np.float32)}))["a"]
    assert torch.equal(tensor == FOUR, torch.ones(4, dtype=torch.bool)) and not (tensor != FOUR).any()
