# SPDX-License-Identifier: Apache-2.0
"""coffer.torch fails with coffer.Error and says what coffer says."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import coffer
import coffer.torch

LINE = torch.zeros(10)
BAD = {
    "not a tensor": ({"a": 3}, "'a' is no tensor of torch, but of the type int"),
    "no mapping": ([LINE], "what is saved is a mapping of names to tensors, not list"),
    "transposed": ({"a": torch.zeros(2, 3).T}, "'a' is not contiguous: copy it with contiguous()"),
    "sparse": ({"a": LINE.to_sparse()}, "'a' is sparse, and files hold dense tensors only"),
    "shared": ({"b": LINE, "a": LINE}, "'a', 'b' share memory: save_model writes one of them for all"),
    "complex128": ({"a": LINE.to(torch.complex128)}, "'a' is of torch.complex128, which files have no dtype for"),
}


@pytest.mark.parametrize(("tensors", "said"), BAD.values(), ids=BAD)
def test_what_cannot_be_saved(tensors, said, tmp_path):
    for call in (lambda: coffer.torch.save(tensors), lambda: coffer.torch.save_file(tensors, tmp_path / "x")):
        with pytest.raises(coffer.Error) as raised:
            call()
        assert said in raised.value.message and raised.value.code in ("ARGUMENT", "DTYPE")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_does_not_fit(tmp_path):
    path = tmp_path / "x.safetensors"
    coffer.torch.save_file({"weight": torch.zeros(2, 3), "more": torch.zeros(1)}, path)
    with pytest.raises(coffer.Error, match="does not fit Linear: the file lacks bias; the module has no more"):
        coffer.torch.load_model(nn.Linear(3, 2), path)
    assert coffer.torch.load_model(nn.Linear(3, 2), path, strict=False) == ({"bias"}, ["more"])


def test_parts_of_what_is_not_there(tmp_path):
    module = nn.Module()
    whole = torch.zeros(10)
    module.register_buffer("a", whole[:5])
    module.register_buffer("b", whole[3:])
    with pytest.raises(coffer.Error, match="'a', 'b' share memory, and none of them takes all of it"):
        coffer.torch.save_model(module, tmp_path / "x")


def test_packed_elements(tmp_path):
    """Two elements of F4 are one of torch's; a row of an odd number of them torch cannot have."""
    path = tmp_path / "x.safetensors"
    with coffer.Writer(path, {"a": ("F4", (2, 4))}) as writer:
        writer.write("a", b"\x01\x02\x03\x04")
    loaded = coffer.torch.load_file(path)
    assert loaded["a"].shape == (2, 2)
    coffer.torch.save_file(loaded, tmp_path / "y.safetensors")
    assert (tmp_path / "y.safetensors").read_bytes() == path.read_bytes()
    with coffer.Writer(path, {"a": ("F4", (4, 1))}) as writer:
        writer.write("a", b"\x01\x02")
    with pytest.raises(coffer.Error, match="F4 has two elements in a byte") as raised:
        coffer.torch.load_file(path)
    assert raised.value.code == "PARTIAL_BYTE"
    with pytest.raises(coffer.Error, match="no framework has a dtype for F6_E2M3"):
        with coffer.Writer(path, {"a": ("F6_E2M3", (4,))}) as writer:
            writer.write("a", b"abc")
        coffer.torch.load_file(path)


def test_devices_are_torch_s(tmp_path):
    path = tmp_path / "x.safetensors"
    coffer.torch.save_file({"a": torch.zeros(2)}, path)
    for device in ("cpu", torch.device("cpu")):
        assert coffer.torch.load_file(path, device)["a"].device == torch.device("cpu")
    assert coffer.torch.load_file(path, "meta")["a"].device == torch.device("meta")
    assert coffer.load_file(path, "torch", "cpu", backend="pread")["a"].shape == (2,)
