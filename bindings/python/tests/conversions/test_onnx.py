# SPDX-License-Identifier: Apache-2.0
"""ONNX, converted, against the package onnx: models that it writes, with every type, in every way to store elements, with shapes by
chance. What onnx reads of a tensor has the same bytes in the new file."""

import json

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import coffer

DTYPES = {
    "FLOAT": "F32", "UINT8": "U8", "INT8": "I8", "UINT16": "U16", "INT16": "I16", "INT32": "I32", "INT64": "I64", "BOOL": "BOOL",
    "FLOAT16": "F16", "DOUBLE": "F64", "UINT32": "U32", "UINT64": "U64", "COMPLEX64": "C64", "BFLOAT16": "BF16",
    "FLOAT8E4M3FN": "F8_E4M3", "FLOAT8E4M3FNUZ": "F8_E4M3FNUZ", "FLOAT8E5M2": "F8_E5M2", "FLOAT8E5M2FNUZ": "F8_E5M2FNUZ",
    "FLOAT8E8M0": "F8_E8M0", "FLOAT4E2M1": "F4", "FLOAT6E2M3": "F6_E2M3", "FLOAT6E3M2": "F6_E3M2",
}  # fmt: skip
BITS = {"FLOAT4E2M1": 4, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6, "INT4": 4, "UINT4": 4, "INT2": 2, "UINT2": 2, "BOOL": 8, "COMPLEX64": 64}
FIELDS = {"FLOAT": "float_data", "COMPLEX64": "float_data", "DOUBLE": "double_data", "INT64": "int64_data", "UINT32": "uint64_data", "UINT64": "uint64_data"}
PACKED = ["INT4", "UINT4", "INT2", "UINT2"]


def bits_of(name):
    return BITS.get(name) or np.dtype(helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name))).itemsize * 8


def random_tensor(random, name, called, way):
    """A TensorProto, its shape and its bytes, without the package's own checks."""
    shape = [int(n) for n in random.integers(0, 4, random.integers(0, 4))]
    count = int(np.prod(shape)) if shape else 1
    bits = bits_of(name)
    if count * bits % 8:
        shape, count = [*shape, 4], count * 4
    data = random.integers(0, 2 if name == "BOOL" else 256, count * bits // 8, np.uint8).tobytes()
    tensor = TensorProto(name=called, dims=shape, data_type=getattr(TensorProto, name))
    if way == "raw":
        tensor.raw_data = data
        return tensor, tuple(shape), data
    field = FIELDS.get(name, "int32_data")
    unit = {"float_data": "<f4", "double_data": "<f8", "int64_data": "<i8"}.get(field)
    if unit is None:
        unit = {"INT32": "<i4", "INT16": "<i2", "INT8": "<i1", "UINT64": "<u8", "UINT32": "<u4"}.get(name) or ("<u1" if bits < 16 else "<u2")
    values = np.frombuffer(data, unit)
    if values.dtype.kind == "f":
        # Numbers that are none may lose their payload in the package's own setter.
        values = np.nan_to_num(values)
        data = values.tobytes()
    getattr(tensor, field).extend(values.tolist())
    return tensor, tuple(shape), data


def model_of(*initializers, nodes=(), functions=()):
    graph = helper.make_graph(list(nodes), "g", [], [], initializer=list(initializers))
    return helper.make_model(graph, functions=list(functions))


def save(model, path):
    path.write_bytes(model.SerializeToString())
    return path


def read(path, **options):
    output = path.parent / "o.safetensors"
    told = coffer.convert(path, output, **options)
    assert told.total == told.written + told.aliased + told.skipped + told.unreferenced
    with coffer.open(output) as model:
        return told, dict(model.metadata), {name: (model[name].dtype, model[name].shape, model[name].tobytes()) for name in model}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("way", ["raw", "typed"])
def test_every_type(seed, way, tmp_path):
    random = np.random.default_rng(seed)
    tensors, expected = [], {}
    for name, dtype in DTYPES.items():
        for i in range(3):
            tensor, shape, data = random_tensor(random, name, f"{name}.{i}", way)
            tensors.append(tensor)
            expected[tensor.name] = dtype, shape, data
    told, metadata, found = read(save(model_of(*tensors), tmp_path / "m.onnx"))
    assert told.kind == "an ONNX model" and metadata["format"] == "onnx"
    assert found == expected


def test_what_the_package_reads(tmp_path):
    """The same arrays as numpy_helper makes."""
    random = np.random.default_rng(0)
    arrays = {"f": random.standard_normal((3, 4)).astype("f4"), "i": np.array([-1, 2**62]), "h": np.arange(4, dtype="f2"), "b": np.array([True, False]),
              "bf": np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3), "s": np.float32(7)}
    model = model_of(*(numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()))
    _, _, found = read(save(model, tmp_path / "m"))
    again = onnx.load(tmp_path / "m")
    for tensor in again.graph.initializer:
        assert found[tensor.name][2] == numpy_helper.to_array(tensor).tobytes()


@pytest.mark.parametrize("seed", range(3))
def test_external_data(seed, tmp_path):
    random = np.random.default_rng(seed)
    arrays = {f"w{i}": random.standard_normal((int(random.integers(1, 60)), 7)).astype("f4") for i in range(9)}
    model = model_of(*(numpy_helper.from_array(array, name) for name, array in arrays.items()))
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, all_tensors_to_one_file=seed != 1, size_threshold=0,
                    location="m.onnx_data" if seed != 1 else None)  # fmt: skip
    told, _, found = read(tmp_path / "m.onnx")
    assert {name: data for name, (_, _, data) in found.items()} == {name: array.tobytes() for name, array in arrays.items()}
    assert told.unreferenced == 0


def external(name, shape, location, **fields):
    tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **fields}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def test_the_same_bytes_are_ties(tmp_path):
    (tmp_path / "d").write_bytes(np.arange(8, dtype="f4").tobytes())
    path = save(model_of(external("b", [4], "d", offset=0), external("a", [4], "d"), external("c", [2, 2], "d", length=16)), tmp_path / "m.onnx")
    told, metadata, found = read(path)
    assert set(found) == {"a", "c"} and metadata["b"] == "a"
    assert set(read(path, tied="keep")[2]) == {"a", "b", "c"}
    overlap = save(model_of(external("a", [4], "d"), external("b", [4], "d", offset=8)), tmp_path / "m.onnx")
    with pytest.raises(coffer.Error, match="share bytes"):
        coffer.convert(overlap, tmp_path / "o.safetensors")


@pytest.mark.parametrize("location", ["../d", "/etc/passwd", "x/../../d", "..", "", "x\\d", "https://host/d", "%2e%2e/d"])
def test_other_folders_are_not_opened(location, tmp_path):
    folder = tmp_path / "x"
    folder.mkdir()
    (tmp_path / "d").write_bytes(bytes(16))
    with pytest.raises(coffer.Error):
        coffer.convert(save(model_of(external("a", [4], location)), folder / "m.onnx"), folder / "o.safetensors")


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    folder = tmp_path / "x"
    folder.mkdir()
    (tmp_path / "d").write_bytes(bytes(16))
    (folder / "d").symlink_to(tmp_path / "d")
    with pytest.raises(coffer.Error):
        coffer.convert(save(model_of(external("a", [4], "d")), folder / "m.onnx"), folder / "o.safetensors")


def test_constants_subgraphs_and_functions(tmp_path):
    value = numpy_helper.from_array(np.arange(3, dtype="f4"), "value")
    constant = helper.make_node("Constant", [], ["c"], value=value)
    fill = helper.make_node("ConstantOfShape", ["s"], ["f"], name="fill", value=numpy_helper.from_array(np.ones(1, "i8"), ""))
    branches = {f"{way}_branch": helper.make_graph([constant], way, [], [], initializer=[numpy_helper.from_array(np.full(2, i, "f4"), "w")])
                for i, way in enumerate(("then", "else"))}  # fmt: skip
    choice = helper.make_node("If", ["x"], ["y"], name="choice", **branches)
    function = helper.make_function("d", "Scale", ["x"], ["y"], [constant], [helper.make_opsetid("", 20)])
    path = save(model_of(numpy_helper.from_array(np.ones(2, "f4"), "w"), nodes=[constant, fill, choice], functions=[function]), tmp_path / "m.onnx")
    told, _, found = read(path)
    assert {name: data for name, (_, _, data) in found.items()} == {
        "w": np.ones(2, "f4").tobytes(), "choice.then_branch.w": np.zeros(2, "f4").tobytes(), "choice.else_branch.w": np.ones(2, "f4").tobytes()}
    assert any("the option constants takes them" in finding.text for finding in told.findings)
    _, _, found = read(path, constants=True)
    three = ("F32", (3,), np.arange(3, dtype="f4").tobytes())
    assert {name for name, tensor in found.items() if tensor == three} == {"c", "choice.then_branch.c", "choice.else_branch.c", "Scale.c"}
    assert found["fill.value"] == ("I64", (1,), np.ones(1, "i8").tobytes())


@pytest.mark.parametrize("name", PACKED)
def test_packed_integers(name, tmp_path):
    random = np.random.default_rng(1)
    per = 8 // BITS[name]
    even = random.integers(0, 256, 6, np.uint8).tobytes()
    odd = TensorProto(name="odd", dims=[3, 3], data_type=getattr(TensorProto, name), raw_data=bytes(-(-9 // per)))
    whole = TensorProto(name="even", dims=[3, 2 * per], data_type=getattr(TensorProto, name), raw_data=even)
    path = save(model_of(odd, whole), tmp_path / "m.onnx")
    with pytest.raises(coffer.Error, match="the option packed"):
        coffer.convert(path, tmp_path / "o.safetensors")
    _, metadata, found = read(path, packed=True)
    assert found == {"odd": ("U8", (-(-9 // per),), bytes(-(-9 // per))), "even": ("U8", (3, 2), even)}
    assert json.loads(metadata["coffer.packed_dtypes"]) == {"odd": {"dtype": name, "shape": [3, 3]}, "even": {"dtype": name, "shape": [3, 2 * per]}}


def test_elements_that_share_bytes(tmp_path):
    """Rows that do not fill bytes are no obstacle; a tensor that does not is."""
    fours = TensorProto(name="w", dims=[2, 3], data_type=TensorProto.FLOAT4E2M1, raw_data=b"abc")
    sixes = TensorProto(name="v", dims=[2, 2], data_type=TensorProto.FLOAT6E2M3, raw_data=b"abc")
    _, _, found = read(save(model_of(fours, sixes), tmp_path / "m.onnx"))
    assert found == {"w": ("F4", (2, 3), b"abc"), "v": ("F6_E2M3", (2, 2), b"abc")}
    odd = TensorProto(name="w", dims=[3], data_type=TensorProto.FLOAT4E2M1, raw_data=b"ab")
    with pytest.raises(coffer.Error, match="the option packed"):
        coffer.convert(save(model_of(odd), tmp_path / "m.onnx"), tmp_path / "o.safetensors")


def test_what_safetensors_lacks(tmp_path):
    texts = helper.make_tensor("s", TensorProto.STRING, [2], [b"a", b"b"])
    z = numpy_helper.from_array(np.array([1 + 2j]), "z")
    w = numpy_helper.from_array(np.ones(2, "f4"), "w")
    path = save(model_of(texts, w), tmp_path / "m.onnx")
    told, _, found = read(path)
    assert set(found) == {"w"} and [tensor.fate for tensor in told.tensors] == ["skipped", "written"]
    path = save(model_of(z, w), tmp_path / "m.onnx")
    with pytest.raises(coffer.Error, match="COMPLEX128"):
        coffer.convert(path, tmp_path / "o.safetensors")
    assert set(read(path, skip_unsupported=True)[2]) == {"w"}
    assert read(path, complex128=True)[2]["z"] == ("F64", (1, 2), np.array([1 + 2j]).tobytes())


def test_properties_become_metadata(tmp_path):
    model = model_of(numpy_helper.from_array(np.ones(2, "f4"), "w"))
    helper.set_model_props(model, {"author": "somebody", "e": ""})
    assert read(save(model, tmp_path / "m.onnx"))[1] == {"format": "onnx", "onnx.author": "somebody", "onnx.e": ""}


def test_a_graph_that_names_a_safetensors_file(tmp_path):
    """Its tensors lie there uncompressed, so a graph can use them as external data; and it converts as any other."""
    array = np.arange(12, dtype="f4").reshape(3, 4)
    coffer.save_file({"w": array, "b": np.ones(3, "f4")}, tmp_path / "m.safetensors")
    with coffer.open(tmp_path / "m.safetensors") as opened:
        model = model_of(*(external(name, opened[name].shape, "m.safetensors", offset=opened[name].offset, length=opened[name].nbytes) for name in opened))
    save(model, tmp_path / "m.onnx")
    loaded = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert np.array_equal(loaded["w"], array)
    assert {name: data for name, (_, _, data) in read(tmp_path / "m.onnx")[2].items()} == {"w": array.tobytes(), "b": np.ones(3, "f4").tobytes()}


def test_many_numbers(tmp_path):
    """More than is decoded at once, so that numbers end in every place of what is read."""
    random = np.random.default_rng(2)
    numbers = random.integers(-2**63, 2**63, 2_300_000, np.int64) >> random.integers(0, 64, 2_300_000)
    tensor = TensorProto(name="w", dims=[1150, 2000], data_type=TensorProto.INT64)
    tensor.int64_data.extend(numbers.tolist())
    _, _, found = read(save(model_of(tensor, numpy_helper.from_array(np.ones(2, "f4"), "a")), tmp_path / "m.onnx"))
    assert found["w"] == ("I64", (1150, 2000), numbers.tobytes())
