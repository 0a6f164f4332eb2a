# SPDX-License-Identifier: Apache-2.0
"""Arrow IPC, converted, against pyarrow: tensors and files that it writes, with types, shapes, strides and batches by chance, have the same
bytes afterwards."""

import numpy as np
import pyarrow as pa
import pytest

import coffer

DTYPES = {"float16": "F16", "float32": "F32", "float64": "F64", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8",
          "uint16": "U16", "uint32": "U32", "uint64": "U64"}  # fmt: skip


def read(path, **options):
    output = path.parent / "o.safetensors"
    told = coffer.convert(path, output, **options)
    assert told.total == told.written + told.skipped + told.unreferenced
    with coffer.open(output) as model:
        assert dict(model.metadata)["format"] == "arrow"
        return told, {name: (model[name].dtype, model[name].shape, model[name].tobytes()) for name in model}


def random_array(random, name, shape):
    return random.integers(0, 256, int(np.prod(shape)) * np.dtype(name).itemsize, np.uint8).view(name).reshape(shape)


@pytest.mark.parametrize("name", DTYPES)
def test_tensors(name, tmp_path):
    random = np.random.default_rng(0)
    arrays = [random_array(random, name, shape) for shape in ((3, 4), (1,), (2, 3, 4))]
    arrays += [np.asfortranarray(arrays[0]), arrays[2].transpose(2, 0, 1)]
    for array in arrays:
        with pa.OSFile(str(tmp_path / "weight.arrow"), "wb") as file:
            pa.ipc.write_tensor(pa.Tensor.from_numpy(array), file)
        assert read(tmp_path / "weight.arrow")[1] == {"weight": (DTYPES[name], array.shape, array.tobytes())}
    with pa.OSFile(str(tmp_path / "several"), "wb") as file:
        for array in arrays:
            pa.ipc.write_tensor(pa.Tensor.from_numpy(array), file)
    found = read(tmp_path / "several")[1]
    assert found == {f"several.{i}": (DTYPES[name], array.shape, array.tobytes()) for i, array in enumerate(arrays)}


def write_file(path, table, batch=None, **options):
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=batch)
    return path


@pytest.mark.parametrize("seed", range(8))
def test_files(seed, tmp_path):
    random = np.random.default_rng(seed)
    rows = int(random.integers(0, 40))
    columns, expected = {}, {}
    for name, dtype in DTYPES.items():
        size = int(random.integers(1, 5))
        plain, lists = random_array(random, name, (rows,)), random_array(random, name, (rows, size))
        columns[name] = pa.array(plain)
        columns[f"{name}.list"] = pa.FixedSizeListArray.from_arrays(pa.array(lists.reshape(-1)), size)
        expected[name] = dtype, (rows,), plain.tobytes()
        expected[f"{name}.list"] = dtype, (rows, size), lists.tobytes()
    path = write_file(tmp_path / "m.arrow", pa.table(columns), int(random.integers(1, 9)))
    assert read(path)[1] == expected


def test_slices(tmp_path):
    """Of a slice only its own values are written, by pyarrow and here."""
    table = pa.table({"x": pa.array(np.arange(100, dtype="i4"))}).slice(13, 20)
    assert read(write_file(tmp_path / "m.arrow", table))[1] == {"x": ("I32", (20,), np.arange(13, 33, dtype="i4").tobytes())}


@pytest.mark.parametrize("column, said", [
    (pa.array([1, None, 3]), "missing"), (pa.array([True, False]), "single bits"), (pa.array([[1], [2, 3]]), "lists"),
    (pa.array([{"a": 1}]), "structures"), (pa.array(["a", "b"]).dictionary_encode(), "dictionary"), (pa.array([1, 2], pa.timestamp("s")), "timestamps"),
])  # fmt: skip
def test_what_no_tensor_is(column, said, tmp_path):
    path = write_file(tmp_path / "m.arrow", pa.table({"x": column}))
    with pytest.raises(coffer.Error, match=said):
        coffer.convert(path, tmp_path / "o.safetensors")


def test_columns_are_left_out_if_that_is_wanted(tmp_path):
    table = pa.table({"t": ["a", "bc"], "b": [True, False], "x": pa.array([1.0, 2.0], pa.float32()), "d": pa.array(["a", "a"]).dictionary_encode()})
    told, found = read(write_file(tmp_path / "m.arrow", table), skip_unsupported=True)
    assert found == {"x": ("F32", (2,), np.array([1, 2], "f4").tobytes())}
    assert [tensor.name for tensor in told.tensors if tensor.fate == "skipped"] == ["t", "b", "d"]


def test_what_is_refused_by_name(tmp_path):
    table = pa.table({"x": np.arange(1000)})
    with pytest.raises(coffer.Error, match="compressed"):
        coffer.convert(write_file(tmp_path / "m.arrow", table, compression="zstd"), tmp_path / "o.safetensors")
    with pa.ipc.new_stream(tmp_path / "m.arrows", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(coffer.Error, match="stream"):
        coffer.convert(tmp_path / "m.arrows", tmp_path / "o.safetensors")
