# SPDX-License-Identifier: Apache-2.0
"""The readers of NumPy's files against NumPy: the plan that is made of a file, carried out here by NumPy itself, gives the arrays that
were saved, whatever their type, shape and order, and however they were stored."""

import io
import random
import struct
import zipfile
import zlib

import numpy
import pytest

import convert_dump

TYPES = {"bool": "BOOL", "u1": "U8", "i1": "I8", "<u2": "U16", "<i2": "I16", "<f2": "F16", "<u4": "U32", "<i4": "I32",
         "<f4": "F32", "<u8": "U64", "<i8": "I64", "<f8": "F64", "<c8": "C64", ">u2": "U16", ">i2": "I16", ">f2": "F16",
         ">i4": "I32", ">f4": "F32", ">f8": "F64", ">u8": "U64", ">c8": "C64"}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return convert_dump.build(tmp_path_factory.mktemp("dump"))


def random_array(r):
    kind = r.choice(list(TYPES))
    shape = tuple(r.choice([0, 1, 1, 2, 3, 5, 17]) for _ in range(r.choice([0, 1, 1, 2, 3, 4])))
    dtype = numpy.dtype(kind)
    count = int(numpy.prod(shape, dtype=object)) if shape else 1
    bytes_ = r.randbytes(count * dtype.itemsize)
    array = numpy.frombuffer(bytes_, dtype="u1" if kind == "bool" else dtype, count=count)
    array = (array & 1).astype(bool) if kind == "bool" else array
    array = array.reshape(shape)
    return numpy.asfortranarray(array) if r.random() < 0.4 and array.ndim > 1 else array


def storages(dump, file):
    """The bytes of each storage; every CRC that is recorded has to be theirs."""
    out = {}
    for number, coding, offset, stored, size, has_crc, crc in dump.pieces:
        bytes_ = file[offset:offset + stored]
        bytes_ = zlib.decompress(bytes_, -15) if coding == 1 else bytes_
        assert len(bytes_) == size and (not has_crc or zlib.crc32(bytes_) == crc)
        out[number] = out.get(number, b"") + bytes_
    return out


def carry_out(dump, file):
    """Name → dtype, shape and the bytes that a row stands for."""
    data = storages(dump, file)
    tensors = {}
    for name, dtype, fate, offset, item, swap, storage, *dimensions in dump.rows:
        assert fate == "0"
        sizes, counts, strides = zip(*(map(int, d.split(":")) for d in dimensions)) if dimensions else ((), (), ())
        assert sizes == counts
        elements = numpy.ndarray(counts, f"V{item}", data[int(storage)], int(offset), strides)
        bytes_ = elements.tobytes()
        if swap != "0":
            bytes_ = numpy.frombuffer(bytes_, f">u{swap}").astype(f"<u{swap}").tobytes()
        tensors[name.decode()] = dtype, counts, bytes_
    return tensors


def expected(array):
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return TYPES[array.dtype.str if array.dtype.itemsize > 1 else "bool" if array.dtype == bool else array.dtype.str[1:]], \
        array.shape, little.tobytes()


def plans(program, paths):
    for path, dump in zip(paths, convert_dump.run(program, "plan", paths)):
        assert dump.status == "OK", dump.message
        assert dump.account[0] == sum(dump.account[1:5])
        yield dump, path.read_bytes()


def test_npy(program, tmp_path):
    r = random.Random(1)
    arrays = [random_array(r) for _ in range(400)]
    paths = []
    for i, array in enumerate(arrays):
        paths.append(tmp_path / f"array{i}.npy")
        numpy.save(paths[-1], array)
    for array, path, (dump, file) in zip(arrays, paths, plans(program, paths)):
        assert dump.reader == "npy"
        assert carry_out(dump, file) == {path.stem: expected(array)}
        assert dump.account[1] == array.nbytes and dump.account[4] == 0


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
def test_npz(program, tmp_path, save):
    r = random.Random(2)
    paths, files = [], []
    for i in range(60):
        files.append({r.choice(["w", "W", "a/b", "é", "x.y", "arr_0", "a b"]): random_array(r) for _ in range(r.randrange(1, 6))})
        paths.append(tmp_path / f"{i}.npz")
        save(paths[-1], **files[-1])
    for arrays, (dump, file) in zip(files, plans(program, paths)):
        assert dump.reader == "npz"
        assert carry_out(dump, file) == {name: expected(array) for name, array in arrays.items()}
        assert dump.account[1] == sum(array.nbytes for array in arrays.values())


def npy(header, data, version=1):
    header = header.encode()
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


@pytest.mark.parametrize("header, version", [
    ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" + " " * 57 + "\n", 1),
    ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, ), }\n", 1),  # as MLX writes it
    ('{"shape":(2,3),"fortran_order":False,"descr":"<f4"}', 1),
    ("{'shape': (2L, 3L), 'descr': '<f4', 'fortran_order': False}", 1),  # as NumPy under Python 2
    ("{'descr': '=f4', 'fortran_order': False, 'shape': (2, 3), }\n", 2),
    ("{'descr': 'f4', 'fortran_order': False, 'shape': (2, 3), }\n", 3),
])
def test_headers_that_others_write(program, tmp_path, header, version):
    path = tmp_path / "x.npy"
    data = bytes(range(24))
    path.write_bytes(npy(header, data, version))
    ((dump, file),) = plans(program, [path])
    assert carry_out(dump, file) == {"x": ("F32", (2, 3), data)}


@pytest.mark.parametrize("order", ["True", "False"])
def test_one_dimension_has_no_order(program, tmp_path, order):
    path = tmp_path / "x.npy"
    path.write_bytes(npy(f"{{'descr': '<i2', 'fortran_order': {order}, 'shape': (3,), }}\n", b"\1\0\2\0\3\0"))
    ((dump, file),) = plans(program, [path])
    assert carry_out(dump, file) == {"x": ("I16", (3,), b"\1\0\2\0\3\0")}


@pytest.mark.parametrize("descr, dtype", [("<V2", "BF16"), ("|V2", "BF16"), ("<f1", "F8_E5M2")])
def test_types_of_ml_dtypes(program, tmp_path, descr, dtype):
    path = tmp_path / "x.npy"
    data = bytes(range(6 if dtype == "BF16" else 3))
    path.write_bytes(npy(f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (3,), }}\n", data))
    ((dump, file),) = plans(program, [path])
    assert carry_out(dump, file) == {"x": (dtype, (3,), data)}
    assert bool(dump.findings) == (dtype == "BF16")


def test_a_member_without_an_array_is_left_out_and_counted(program, tmp_path):
    path = tmp_path / "x.npz"
    array = io.BytesIO()
    numpy.save(array, numpy.arange(3))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", array.getvalue())
        archive.writestr("note.txt", b"hello")
    ((dump, file),) = plans(program, [path])
    assert list(carry_out(dump, file)) == ["x"]
    assert dump.account[4] == 5 and "note.txt" in dump.findings[0][1]


def test_an_empty_archive(program, tmp_path):
    path = tmp_path / "x.npz"
    numpy.savez(path)
    ((dump, _),) = plans(program, [path])
    assert dump.reader == "npz" and dump.rows == []
