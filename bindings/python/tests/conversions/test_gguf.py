# SPDX-License-Identifier: Apache-2.0
"""GGUF, converted, against the package gguf: files that it writes, and numbers that its dequantisers make of random blocks of every type,
equal to the bit."""

import json

import gguf
import ml_dtypes
import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter
from gguf.quants import dequantize
from hypothesis import given, settings
from hypothesis import strategies as st

import coffer

PLAIN = ["F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"]
BLOCKS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL",
          "IQ3_S", "IQ2_S", "IQ4_XS", "IQ1_M", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4"]  # fmt: skip
NUMBERS = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16)}


def random_blocks(random, name, rows=7, blocks=5):
    _, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    return random.integers(0, 256, (rows, blocks * size), np.uint8)


@pytest.fixture(name="model")
def fixture_model(tmp_path):
    """Its path, and each tensor's type and bytes as rows."""
    random = np.random.default_rng(1)
    writer = GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_uint32("a.count", 7)
    writer.add_array("a.list", [1.5, -2.0])
    writer.add_array("a.words", ["x", "y"])
    tensors = {name: random_blocks(random, name) for name in BLOCKS}
    for name in PLAIN:
        tensors[name] = random.integers(0, 256, (3, 40), np.uint8)
    for name, rows in tensors.items():
        writer.add_tensor(f"t.{name}", rows, raw_dtype=GGMLQuantizationType[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "m.gguf", tensors


def same(found, expected):
    """The same bits, but of numbers that are none: their payloads are free."""
    bits = np.dtype(f"<u{expected.dtype.itemsize}")
    nans = np.isnan(expected.astype(np.float32))
    return np.array_equal(np.isnan(found.astype(np.float32)), nans) and np.array_equal(found.view(bits)[~nans], expected.view(bits)[~nans])


def test_plain_types_and_keys(model, tmp_path):
    path, tensors = model
    told = coffer.convert(path, tmp_path / "o.safetensors", raw=True)
    assert told.kind == "a GGUF model"
    with coffer.open(tmp_path / "o.safetensors") as opened:
        for name in PLAIN:
            assert (opened[f"t.{name}"].dtype, opened[f"t.{name}"].tobytes()) == (name, tensors[name].tobytes())
        metadata = dict(opened.metadata)
        for name in BLOCKS:
            assert opened[f"t.{name}"].tobytes() == tensors[name].tobytes()
    assert metadata["gguf.general.architecture"] == '"llama"'
    assert [json.loads(metadata[f"gguf.a.{key}"]) for key in ("count", "list", "words")] == [7, [1.5, -2], ["x", "y"]]
    types = json.loads(metadata["gguf.tensors"])
    reader = gguf.GGUFReader(path)
    for tensor in reader.tensors:
        if tensor.tensor_type.name in BLOCKS:
            assert types[tensor.name] == {"type": tensor.tensor_type.name, "shape": tensor.shape.tolist()[::-1]}


@pytest.mark.parametrize("dtype", NUMBERS)
def test_blocks_become_the_same_numbers(model, tmp_path, dtype):
    path, tensors = model
    coffer.convert(path, tmp_path / "o.safetensors", dequantize=dtype)
    with coffer.open(tmp_path / "o.safetensors") as opened, np.errstate(all="ignore"):
        for name in BLOCKS:
            expected = dequantize(tensors[name], GGMLQuantizationType[name]).astype(np.float32)
            found = np.frombuffer(opened[f"t.{name}"].tobytes(), NUMBERS[dtype]).reshape(opened[f"t.{name}"].shape)
            assert (opened[f"t.{name}"].dtype, found.shape) == (dtype, expected.shape)
            assert same(found, expected.astype(NUMBERS[dtype])), name


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("experts", [0, 5])
def test_second_scales_of_nvfp4(tmp_path, dtype, experts):
    random = np.random.default_rng(experts)
    shape = (7, 5 * 36) if experts == 0 else (experts, 7, 5 * 36)
    blocks = random.integers(0, 256, shape, np.uint8)
    scale = random.standard_normal(max(experts, 1)).astype("<f4")
    writer = GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_tensor("w.weight", blocks, raw_dtype=GGMLQuantizationType.NVFP4)
    writer.add_tensor("w.scale", scale)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    coffer.convert(tmp_path / "m.gguf", tmp_path / "o.safetensors", dequantize=dtype)
    numbers = dequantize(blocks, GGMLQuantizationType.NVFP4).astype(np.float32)
    expected = numbers * scale.reshape(-1, *[1] * (numbers.ndim - 1))
    with coffer.open(tmp_path / "o.safetensors") as opened:
        assert list(opened) == ["w.weight"]
        found = np.frombuffer(opened["w.weight"].tobytes(), NUMBERS[dtype]).reshape(expected.shape)
    assert expected.dtype == np.float32 and same(found, expected.astype(NUMBERS[dtype]))


def test_gguf_reads_what_goes_back(model, tmp_path):
    path, tensors = model
    coffer.convert(path, tmp_path / "o.safetensors", raw=True)
    coffer.convert(tmp_path / "o.safetensors", tmp_path / "back.gguf")
    reader = gguf.GGUFReader(tmp_path / "back.gguf")
    found = {tensor.name: (tensor.tensor_type.name, np.ascontiguousarray(tensor.data).tobytes()) for tensor in reader.tensors}
    assert found == {f"t.{name}": (name, rows.tobytes()) for name, rows in tensors.items()}
    expected = gguf.GGUFReader(path)
    assert {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")} == {
        name: field.contents() for name, field in expected.fields.items() if not name.startswith("GGUF.")
    }
    coffer.convert(tmp_path / "o.safetensors", tmp_path / "other.gguf", arch="gpt2")
    assert gguf.GGUFReader(tmp_path / "other.gguf").get_field("general.architecture").contents() == "gpt2"


SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLAIN + BLOCKS), SHAPES), min_size=1, max_size=12), st.integers(0, 5), st.integers(0, 2**32))
def test_what_gguf_writes(tmp_path_factory, tensors, together, seed):
    """Tensors of any types and shapes, in one file or in several of so many tensors, whichever of them is named."""
    folder = tmp_path_factory.mktemp("gguf")
    random = np.random.default_rng(seed)
    writer = GGUFWriter(folder / "m.gguf", "llama", split_max_tensors=together)
    wanted = {}
    for i, (name, shape) in enumerate(tensors):
        elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
        rows = random.integers(0, 256, (*shape[:-1], shape[-1] * size), np.uint8)
        writer.add_tensor(f"t{i}", rows, raw_dtype=GGMLQuantizationType[name])
        wanted[f"t{i}"] = name, (*shape[:-1], shape[-1] * elements), rows
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path = random.choice(sorted(folder.glob("m*.gguf")))
    coffer.convert(path, folder / "raw.safetensors", raw=True)
    with coffer.open(folder / "raw.safetensors") as opened:
        assert {name: opened[name].tobytes() for name in opened} == {name: rows.tobytes() for name, (_, _, rows) in wanted.items()}
    coffer.convert(path, folder / "o.safetensors", dequantize="F32")
    with coffer.open(folder / "o.safetensors") as opened, np.errstate(all="ignore"):
        for name, (kind, shape, rows) in wanted.items():
            assert tuple(opened[name].shape) == shape
            if kind in BLOCKS:
                expected = dequantize(rows, GGMLQuantizationType[kind]).astype(np.float32).reshape(shape)
                assert same(np.frombuffer(opened[name].tobytes(), "<f4").reshape(shape), expected), kind
    coffer.convert(folder / "raw.safetensors", folder / "back.gguf")
    assert {tensor.name: (tensor.tensor_type.name, tuple(tensor.shape.tolist()[::-1]), np.ascontiguousarray(tensor.data).tobytes())
            for tensor in gguf.GGUFReader(folder / "back.gguf").tensors} == {name: (kind, shape, rows.tobytes()) for name, (kind, shape, rows) in wanted.items()}
