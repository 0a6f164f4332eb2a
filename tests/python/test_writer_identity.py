# SPDX-License-Identifier: Apache-2.0
"""For the same tensors the reference implementation and ours write the same bytes.

Of several metadata keys the reference writes a random order and ours the order of their bytes, so there the reference's
keys are put in order first. F6 dtypes cannot be given to the reference's Python package; it reads them back instead.
"""

import ctypes
import json
import random

import coffer_ctypes
import numpy
import pytest
import reference
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

# The name by which the reference takes each dtype.
CONSTRUCTORS = {
    "BOOL": "bool", "F4": "float4_e2m1fn_x2", "U8": "uint8", "I8": "int8", "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz", "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16",
    "I32": "int32", "U32": "uint32", "F32": "float32", "C64": "complex64", "F64": "float64", "I64": "int64",
    "U64": "uint64",
}  # fmt: skip
BYTES = {"I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "C64": 8, "F64": 8, "I64": 8, "U64": 8}

SETTINGS = settings(max_examples=1500, derandomize=True, database=None, deadline=None)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", "a", "a\0", "\x7f", "\u2028", '"\\/\b\f\n\r\t\x1f', "é", "e\u0301", "\ufeff", "\U0010ffff", "A", "ab", "dtype"]
)
NAMES = TEXT.filter(lambda name: name != "__metadata__")
SHAPES = st.lists(st.integers(0, 5), max_size=4)


def tensor_of(name, dtype, shape, seed):
    """(name, dtype, shape, bytes). F4 comes in pairs, so its last dimension becomes even."""
    if dtype == "F4":
        shape = [*shape[:-1], 2 * shape[-1]] if shape else [2]
    elements = 1
    for dimension in shape:
        elements *= dimension
    size = elements // 2 if dtype == "F4" else elements * BYTES.get(dtype, 1)
    return name, dtype, shape, random.Random(seed).randbytes(size)


TENSORS = st.lists(
    st.builds(tensor_of, NAMES, st.sampled_from(sorted(CONSTRUCTORS)), SHAPES, st.integers(0, 99)),
    max_size=8,
    unique_by=lambda tensor: tensor[0],
)


def by_the_reference(tensors, metadata):
    specs, buffers = {}, []
    for name, dtype, shape, body in tensors:
        buffer = ctypes.create_string_buffer(body, max(len(body), 1))
        buffers.append(buffer)
        given_shape = [*shape[:-1], shape[-1] // 2] if dtype == "F4" else shape
        specs[name] = safetensors.TensorSpec(
            dtype=CONSTRUCTORS[dtype], shape=given_shape, data_ptr=ctypes.addressof(buffer), data_len=len(body)
        )
    return safetensors.serialize(specs, metadata)


def text_of(pairs):
    return json.dumps(dict(pairs), ensure_ascii=False, separators=(",", ":")).encode()


def with_sorted_metadata(content):
    """The same file, its metadata keys in the order of their bytes."""
    header_size = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + header_size]).get("__metadata__", {})
    found, ordered = text_of(metadata.items()), text_of(sorted(metadata.items(), key=lambda pair: pair[0].encode()))
    assert found in content
    return content.replace(found, ordered, 1)


@SETTINGS
@given(TENSORS, st.none() | st.dictionaries(TEXT, TEXT, min_size=1, max_size=1))
def test_same_bytes(tensors, metadata):
    assert coffer_ctypes.serialize(tensors, metadata) == by_the_reference(tensors, metadata)


@SETTINGS
@given(TENSORS, st.dictionaries(TEXT, TEXT, min_size=2, max_size=6))
def test_same_bytes_with_metadata_in_order(tensors, metadata):
    assert coffer_ctypes.serialize(tensors, metadata) == with_sorted_metadata(by_the_reference(tensors, metadata))


@SETTINGS
@given(TENSORS, st.dictionaries(TEXT, TEXT, max_size=4), st.randoms(use_true_random=False))
def test_order_of_declaration_does_not_matter(tensors, metadata, rng):
    content = coffer_ctypes.serialize(tensors, metadata)
    pairs = list(metadata.items())
    rng.shuffle(tensors)
    rng.shuffle(pairs)
    assert coffer_ctypes.serialize(tensors, dict(pairs)) == content


@SETTINGS
@given(TENSORS, st.dictionaries(TEXT, TEXT, max_size=4))
def test_both_read_it_back(tensors, metadata):
    content = coffer_ctypes.serialize(tensors, metadata)
    wanted = {name: (dtype, shape, body) for name, dtype, shape, body in tensors}
    assert reference.deserialize(content) == wanted
    verdict = coffer_ctypes.parse(content)
    assert {t.name: (t.dtype, t.shape, content[t.offset : t.offset + t.size]) for t in verdict.tensors} == wanted
    assert verdict.metadata == metadata


@pytest.mark.parametrize("count", [0, 1, 22])
def test_every_dtype_in_canonical_order(count):
    """F6 too: the reference reads what ours wrote, and the order is that of dtypes, highest first, then of names."""
    dtypes = sorted(coffer_ctypes.DTYPES, key=coffer_ctypes.DTYPES.get)[:count]
    bits = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
    tensors = []
    for dtype in dtypes:
        size = bits.get(dtype, 8 * BYTES.get(dtype, 1))  # bytes of 8 elements
        tensors += [(name + dtype, dtype, [2, 4], bytes([size]) * size) for name in ("b", "a")]
    content = coffer_ctypes.serialize(tensors)
    assert reference.deserialize(content) == {name: (dtype, shape, body) for name, dtype, shape, body in tensors}
    found = [t.name for t in coffer_ctypes.parse(content).tensors]
    assert found == [name + dtype for dtype in reversed(dtypes) for name in ("a", "b")]


def test_the_package_numpy_uses():
    """As numpy users write: names and shapes of a small model."""
    rng = numpy.random.default_rng(7)
    arrays = {"h.%d.%s" % (i, part): rng.standard_normal((4, i + 1), dtype=numpy.float32)
              for i in range(12) for part in ("attn.weight", "mlp.weight")}  # fmt: skip
    arrays |= {"ids": numpy.arange(7), "mask": numpy.ones((3, 3), bool), "step": numpy.array(3, numpy.int32)}
    tensors = [(name, {"float32": "F32", "int64": "I64", "bool": "BOOL", "int32": "I32"}[array.dtype.name],
                list(array.shape), array.tobytes()) for name, array in arrays.items()]  # fmt: skip
    assert coffer_ctypes.serialize(tensors, {"format": "np"}) == safetensors.numpy.save(arrays, {"format": "np"})


@pytest.mark.parametrize(
    ("tensors", "code"),
    [
        ([("__metadata__", "U8", [1], b"a")], "NAME"),
        ([("a", "U8", [1], b"a"), ("a", "U8", [1], b"a")], "DUPLICATE_NAME"),
        ([("a", "F4", [3], b"ab")], "PARTIAL_BYTE"),
        ([("a", "U8", [2**32, 2**32], b"")], "OVERFLOW"),
    ],
)
def test_what_could_not_be_read_back_is_refused(tensors, code):
    with pytest.raises(ValueError, match="^%s: " % code):
        coffer_ctypes.serialize(tensors)
