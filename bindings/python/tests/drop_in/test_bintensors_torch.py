# SPDX-License-Identifier: Apache-2.0
"""coffer.bintensors.torch does what bintensors.torch does, but for documented deviations (docs/format.md), which carry their id."""

from __future__ import annotations

import hashlib
import re

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from both import BT_COFFER, BT_REFERENCE, Raised, outcome
from hypothesis import given, settings
from torch import nn

LIMITS = settings(max_examples=200, deadline=None, database=None, derandomize=True)
THEIRS, OURS = BT_REFERENCE.module("torch"), BT_COFFER.module("torch")
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
LACKING = [torch.complex64, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2]


def both(call, *arguments):
    return [outcome(call, module, *arguments) for module in (THEIRS, OURS)]


def unordered(value):
    """A text without the order of chance in which it lists a set, and without the page of the other package."""
    if not isinstance(value, Raised):
        return value
    text = re.sub(r"\{('[^}]*)\}", lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", value.text)
    return Raised(value.kind, text.replace("/docs/bintensors/", "/docs/safetensors/"))


def assert_same(call, *arguments):
    theirs, ours = both(call, *arguments)
    assert unordered(ours) == unordered(theirs)


def assert_same_but_for_the_words_of_a_type_error(call):
    """P1."""
    theirs, ours = both(call)
    if theirs.kind == "TypeError":
        assert ours.kind == "TypeError"
    else:
        assert unordered(ours) == unordered(theirs)


def test_tables():
    assert THEIRS._TYPES.items() <= OURS._TYPES.items()
    assert THEIRS._SIZE.items() <= OURS._SIZE.items()
    for name in ("_end_ptr", "_filter_shared_not_shared", "_find_shared_tensors", "_is_complete", "_remove_duplicate_names",
                 "_getdtype", "storage_ptr", "storage_size"):  # fmt: skip
        assert callable(getattr(OURS, name))


# ---- Tensors ----------------------------------------------------------------------------------------------------------


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(sorted(THEIRS._TYPES.values(), key=str)))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    size = int(np.prod(shape)) * dtype.itemsize
    content = draw(st.binary(min_size=size, max_size=size))
    if dtype == torch.bool:
        content = bytes(byte & 1 for byte in content)
    flat = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
    return flat.view(dtype).view(shape)


NAMES = st.text(st.characters(codec="utf-8"), max_size=4).filter(lambda name: name != "__metadata__")
DICTS = st.dictionaries(NAMES, tensors(), max_size=3)
METADATA = st.none() | st.dictionaries(NAMES, NAMES, max_size=2)


@LIMITS
@given(wanted=DICTS, metadata=METADATA)
def test_save_and_load(wanted, metadata, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    assert_same(lambda module: module.save(wanted, metadata))
    assert_same(lambda module: module.save_with_checksum(wanted, metadata, hashlib.md5))
    THEIRS.save_file(wanted, folder / "theirs", metadata)
    OURS.save_file(wanted, folder / "ours", metadata)
    content = (folder / "ours").read_bytes()
    assert content == (folder / "theirs").read_bytes()
    assert_same(lambda module: module.load_file(folder / "ours"))
    assert_same(lambda module: module.load(content))


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_dtypes_that_the_reference_cannot_save(dtype, tmp_path):
    """P10: uint16, uint32 and uint64 are saved, and loaded from bytes."""
    wanted = {"a": torch.arange(4).to(dtype)}
    assert outcome(THEIRS.save, wanted).kind == "KeyError"
    OURS.save_file(wanted, tmp_path / "x")
    assert outcome(OURS.load_file, tmp_path / "x") == outcome(THEIRS.load_file, tmp_path / "x") == outcome(lambda: wanted)
    assert outcome(OURS.load, (tmp_path / "x").read_bytes()) == outcome(lambda: wanted)


@pytest.mark.parametrize("dtype", LACKING, ids=str)
def test_dtypes_that_bintensors_lacks(dtype, tmp_path):
    """P10: a BintensorError, where the reference has a KeyError."""
    wanted = {"a": torch.zeros(8, dtype=torch.uint8).view(dtype)}
    assert outcome(THEIRS.save, wanted).kind == "KeyError"
    name = str(dtype).removeprefix("torch.")
    assert outcome(OURS.save_file, wanted, tmp_path / "x") == Raised("BintensorError", f"dtype {name} is not covered")
    assert list(tmp_path.iterdir()) == []


MATRIX = torch.arange(6.0).view(2, 3)
BAD = {
    "a list": [MATRIX], "None": None, "no tensor": {"a": [1]}, "sparse": {"a": MATRIX.to_sparse()}, "transposed": {"a": MATRIX.T},
    "shared": {"a": MATRIX, "b": MATRIX}, "overlapping": {"a": MATRIX.view(-1)[:4], "b": MATRIX.view(-1)[2:]},
    "an int for a name": {1: MATRIX}, "meta": {"a": torch.zeros(2, device="meta")},
}  # fmt: skip


@pytest.mark.parametrize("wanted", BAD.values(), ids=BAD)
def test_what_cannot_be_saved(wanted, tmp_path):
    """P11: the page named for shared memory is that of safetensors, which exists."""
    assert_same_but_for_the_words_of_a_type_error(lambda module: module.save(wanted))
    assert_same_but_for_the_words_of_a_type_error(lambda module: module.save_file(wanted, tmp_path / "x"))
    assert_same_but_for_the_words_of_a_type_error(lambda module: module.save_with_checksum(wanted))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wanted", [{"a": MATRIX[0], "b": MATRIX[1]}, {"a": nn.Parameter(MATRIX)}, {"a": MATRIX[1:]}], ids=str)
def test_parts(wanted):
    assert_same(lambda module: module.save(wanted))


def test_marks(tmp_path):
    """P12: of a tensor that is negated as a mark, the values."""
    negated = torch._neg_view(MATRIX)
    assert torch.equal(OURS.load(OURS.save({"a": negated}))["a"], negated)
    assert not torch.equal(THEIRS.load(THEIRS.save({"a": negated}))["a"], negated)


@pytest.mark.parametrize("index", [0, -1, ..., (..., 0), slice(None, None, 2), slice(-1, None), (slice(None), 1)], ids=repr)
def test_slices(index, tmp_path):
    """Both leave them to torch."""
    OURS.save_file({"a": MATRIX}, tmp_path / "x")
    assert_same(lambda module: module.safe_open(tmp_path / "x", "pt").get_slice("a")[index] if module is THEIRS
                else BT_COFFER.package.safe_open(tmp_path / "x", "pt").get_slice("a")[index])  # fmt: skip


def test_tensors_can_be_changed_and_the_file_is_not(tmp_path):
    OURS.save_file({"a": MATRIX}, tmp_path / "x")
    before = (tmp_path / "x").read_bytes()
    OURS.load_file(tmp_path / "x")["a"].add_(1)
    assert (tmp_path / "x").read_bytes() == before


def test_devices(tmp_path):
    OURS.save_file({"a": MATRIX}, tmp_path / "x")
    for arguments in (("cpu",), ("meta",), ("cuda:",)):
        assert_same(lambda module, arguments=arguments: module.load_file(tmp_path / "x", *arguments))
    assert_same(lambda module: module.load_file(tmp_path / "none"))


# ---- Modules ----------------------------------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self, tied=True):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        if tied:
            self.b.weight = self.a.weight


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.c = nn.Linear(3, 3), nn.Linear(2, 2)


class Transposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("x", MATRIX.clone().T)


@pytest.mark.parametrize("model", [Tied(), Tied(False), Transposed()], ids=["tied", "not tied", "transposed"])
@pytest.mark.parametrize("metadata", [None, {"k": "v"}], ids=repr)
def test_save_model(model, metadata, tmp_path):
    """P12: the metadata that were given stay as they are."""
    given_metadata = None if metadata is None else dict(metadata)
    THEIRS.save_model(model, tmp_path / "theirs", given_metadata)
    given_metadata = None if metadata is None else dict(metadata)
    OURS.save_model(model, tmp_path / "ours", given_metadata)
    assert given_metadata == metadata
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_force_contiguous(tmp_path):
    assert_same(lambda module: module.save_model(Transposed(), tmp_path / "x", force_contiguous=False))


@pytest.mark.parametrize("make", [Tied, lambda: Tied(False), Other], ids=["tied", "not tied", "other"])
@pytest.mark.parametrize("strict", [True, False])
def test_load_model(make, strict, tmp_path):
    torch.manual_seed(0)
    OURS.save_model(Tied(), tmp_path / "x")
    assert_same(lambda module: module.load_model(make(), tmp_path / "x", strict=strict))

    def loaded(module):
        model = make()
        module.load_model(model, tmp_path / "x", strict=False)
        return {name: tensor for name, tensor in model.state_dict().items() if name in ("a.weight", "a.bias", "b.bias")}

    assert_same(loaded)
