# SPDX-License-Identifier: Apache-2.0
"""coffer.convert and coffer.scan: files of other programs, made here by hand, so that none of the programs is needed."""

import pickle
import struct
import zipfile
from pathlib import Path
from typing import Literal

import pytest

import coffer


def npy(values: list[float], shape: tuple[int, ...], *, order: str = "<", fortran: bool = False) -> bytes:
    """An array of F32 as numpy writes it."""
    head = f"{{'descr': '{order}f4', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    head += b" " * (-(10 + len(head) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"{order}{len(values)}f", *values)


def npz(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


VALUES = [float(i) for i in range(6)]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_of_arrays(tmp_path: Path, method: int) -> None:
    members = {"a": npy(VALUES, (2, 3)), "f": npy(VALUES, (2, 3), fortran=True), "big": npy(VALUES, (6,), order=">")}
    source = npz(tmp_path / "a.npz", members, method)
    told = coffer.convert(source, tmp_path / "a.safetensors")
    assert told.format == "npz"
    assert [tensor.name for tensor in told.tensors] == ["a", "f", "big"]
    assert {tensor.name: (tensor.dtype, tensor.shape, tensor.size, tensor.fate) for tensor in told.tensors} == {
        "a": ("F32", (2, 3), 24, "written"),
        "f": ("F32", (2, 3), 24, "written"),
        "big": ("F32", (6,), 24, "written"),
    }
    assert told.total == told.written + told.aliased + told.skipped + told.unreferenced
    assert told.output_size == 72
    with coffer.open(tmp_path / "a.safetensors") as file:
        assert file["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert file["f"].tolist() == [[0, 2, 4], [1, 3, 5]]
        assert file["big"].tolist() == VALUES


def test_nothing_is_written_without_an_output(tmp_path: Path) -> None:
    source = npz(tmp_path / "a.npz", {"a": npy(VALUES, (2, 3))})
    told = coffer.convert(source, None)
    assert [tensor.name for tensor in told.tensors] == ["a"]
    assert 0 < told.bytes_read
    assert list(tmp_path.iterdir()) == [source]


def test_several_files(tmp_path: Path) -> None:
    source = npz(tmp_path / "a.npz", {name: npy(VALUES, (6,)) for name in "abcd"})
    seen: list[tuple[int, int]] = []
    coffer.convert(
        source,
        tmp_path / "m.safetensors",
        max_shard_size=50,
        digests="sha256",
        progress=lambda done, total: seen.append((done, total)),
    )
    assert len(list(tmp_path.glob("m-*.safetensors"))) == 2
    assert seen[-1] == (192, 192)  # what is written, and what is compared
    with coffer.open(tmp_path / "m.safetensors.index.json", verify=True) as model:
        assert model["c"].tolist() == VALUES


def test_several_inputs(tmp_path: Path) -> None:
    first = npz(tmp_path / "a.npz", {"w": npy(VALUES, (6,)), "v": npy(VALUES, (3, 2))})
    second = npz(tmp_path / "b.npz", {"u": npy(VALUES, (2, 3))})
    told = coffer.convert([first, str(second)], tmp_path / "m.safetensors")
    assert [tensor.name for tensor in told.tensors] == ["w", "v", "u"]
    assert (told.format, told.total, told.written) == ("npz", 72, 72)
    with coffer.open(tmp_path / "m.safetensors") as model:
        assert {name: model[name].shape for name in model} == {"w": (6,), "v": (3, 2), "u": (2, 3)}
    with pytest.raises(coffer.Error, match='tensor "w" is in .*a.npz" and in .*c.npz"') as caught:
        coffer.convert([first, second, npz(tmp_path / "c.npz", {"w": npy(VALUES, (6,))})], tmp_path / "n.safetensors")
    assert caught.value.code == "DUPLICATE_NAME"
    assert not (tmp_path / "n.safetensors").exists()
    with pytest.raises(coffer.Error, match="no file to convert"):
        coffer.convert([], None)
    with pytest.raises(ValueError, match="from one file"):
        coffer.convert([first, second], tmp_path / "m.npz")
    with pytest.raises(TypeError):
        coffer.convert([first, 3], None)  # type: ignore[list-item]


def test_a_callback_cancels(tmp_path: Path) -> None:
    source = npz(tmp_path / "a.npz", {"a": npy(VALUES, (6,))})

    def stop(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        coffer.convert(source, tmp_path / "m.safetensors", verify=False, progress=stop)
    assert not (tmp_path / "m.safetensors").exists()


def test_damage_is_found(tmp_path: Path) -> None:
    source = npz(tmp_path / "a.npz", {"a": npy([5.0] * 100000, (100000,))})
    data = bytearray(source.read_bytes())
    data[200000] ^= 1
    source.write_bytes(data)
    with pytest.raises(coffer.Error) as caught:
        coffer.convert(source, tmp_path / "m.safetensors")
    assert (caught.value.code, caught.value.tensor) == ("CHECKSUM", "a")
    assert not (tmp_path / "m.safetensors").exists()
    coffer.convert(source, tmp_path / "m.safetensors", crc=False)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_is_opened_as_it_is(tmp_path: Path, method: int) -> None:
    members = {"a": npy(VALUES, (2, 3)), "f": npy(VALUES, (2, 3), fortran=True), "big": npy(VALUES, (6,), order=">")}
    source = npz(tmp_path / "a.npz", members, method)
    with coffer.open(source) as f:
        assert sorted(f.keys()) == ["a", "big", "f"]
        assert f["a"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        assert f["f"].tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
        assert f["f"][1:, ::2].tolist() == [[1.0, 5.0]]
        assert f["big"][-2:].tolist() == [4.0, 5.0]
        assert f["f"].offset is None
        stored = f["f"].stored
        assert stored is not None
        assert (stored["type"], stored["gathered"], stored["tied"]) == ("F32", True, None)
        assert stored["decoded"] is (method == zipfile.ZIP_DEFLATED)
    coffer.convert(source, tmp_path / "a.safetensors")
    with coffer.open(tmp_path / "a.safetensors") as f:
        assert f["a"].stored is None
    with pytest.raises(coffer.Error) as caught:
        coffer.open(source, formats="own")
    assert caught.value.code == "IS_ZIP"
    with pytest.raises(coffer.Error):
        coffer.open(source, formats="any")  # type: ignore[arg-type]


def test_a_pickle_is_opened_as_data(tmp_path: Path) -> None:
    source = tmp_path / "evil.pkl"
    source.write_bytes(pickle.dumps({"w": bytearray(b"not a tensor"), "call": print}))
    with pytest.raises(coffer.Error):  # it has no tensors
        coffer.open(source)


def test_wrong_arguments(tmp_path: Path) -> None:
    source = npz(tmp_path / "a.npz", {"a": npy(VALUES, (6,))})
    with pytest.raises(ValueError, match="tied"):
        coffer.convert(source, None, tied="no")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        coffer.convert(tmp_path / "absent.npz", None)
    with pytest.raises(coffer.Error) as caught:
        coffer.convert(source, source, to="safetensors")
    assert caught.value.code == "ARGUMENT"
    with pytest.raises(coffer.Error) as caught:
        coffer.convert(source, source)  # an archive is made of safetensors only
    assert caught.value.code == "IS_ZIP"


def test_blocks_of_gguf(tmp_path: Path) -> None:
    """A tensor of one block of Q8_0: a scale of 0.5, and 32 numbers."""
    block = struct.pack("<e32b", 0.5, *range(-16, 16))
    head = b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"w" + struct.pack("<IQIQ", 1, 32, 8, 0)
    source, output = tmp_path / "a.gguf", tmp_path / "a.safetensors"
    source.write_bytes(head + bytes(-len(head) % 32) + block)
    with pytest.raises(coffer.Error, match="Q8_0 1") as caught:
        coffer.convert(source, None)
    assert caught.value.code == "NO_EQUIVALENT"
    assert coffer.convert(source, output, dequantize="F32").kind == "a GGUF model"
    with coffer.open(output) as model:
        assert model["w"].tobytes() == struct.pack("<32f", *(q / 2 for q in range(-16, 16)))
    coffer.convert(source, output, raw=True)
    with coffer.open(output) as model:
        assert (model["w"].dtype, model["w"].tobytes()) == ("U8", block)
        assert model.metadata["gguf.tensors"] == '{"w": {"type": "Q8_0", "shape": [32]}}'
    with pytest.raises(ValueError, match="dequantize"):
        coffer.convert(source, None, dequantize="I8")  # type: ignore[arg-type]
    with pytest.raises(coffer.Error) as caught:
        coffer.convert(source, None, dequantize="F16", raw=True)
    assert caught.value.code == "ARGUMENT"


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, ("touch /tmp/was-here",)


def test_scan(tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.pkl"
    with hostile.open("wb") as file:
        pickle.dump({"w": Hostile()}, file, protocol=2)
    findings = coffer.scan(hostile)
    assert any(finding.weight == "danger" and "system" in finding.subject for finding in findings)
    assert not Path("/tmp/was-here").exists()
    assert coffer.scan(npz(tmp_path / "a.npz", {"a": npy(VALUES, (6,))})) == ()
    with pytest.raises(coffer.Error) as caught:
        coffer.scan(tmp_path / "text.txt" if (tmp_path / "text.txt").write_bytes(b"hello") else tmp_path)
    assert caught.value.code == "UNKNOWN_INPUT"


# ---- the way back ------------------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    coffer.convert(npz(tmp_path / "a.npz", {"w": npy(VALUES, (2, 3)), "b": npy(VALUES[:2], (2,))}), tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


@pytest.mark.parametrize(("name", "to"), [("m.npz", None), ("m.pt", None), ("m.ckpt", None), ("m", "npz"), ("m.bin", "pt")])
def test_there_and_back(tmp_path: Path, model: Path, name: str, to: Literal["npz", "pt"] | None) -> None:
    told = coffer.convert(model, tmp_path / name, to=to)
    assert told.format == "safetensors"
    assert {(tensor.name, tensor.dtype, tensor.shape, tensor.fate) for tensor in told.tensors} == {
        ("w", "F32", (2, 3), "written"),
        ("b", "F32", (2,), "written"),
    }
    assert told.output_size == told.total == told.written == 32
    coffer.convert(tmp_path / name, tmp_path / "back.safetensors")
    assert coffer.diff(model, tmp_path / "back.safetensors").tensors == []


def test_one_array(tmp_path: Path, model: Path) -> None:
    assert [tensor.name for tensor in coffer.convert(model, tmp_path / "w.npy", tensor="w").tensors] == ["w"]
    assert (tmp_path / "w.npy").read_bytes() == npy(VALUES, (2, 3))
    with pytest.raises(coffer.Error) as failure:
        coffer.convert(model, tmp_path / "x.npy", tensor="x")
    assert failure.value.code == "NO_TENSOR"
    with pytest.raises(coffer.Error) as failure:
        coffer.convert(model, tmp_path / "x.npy")
    assert failure.value.code == "UNSUPPORTED"
    assert not (tmp_path / "x.npy").exists()


def test_exports_that_cannot_be(tmp_path: Path, model: Path) -> None:
    with pytest.raises(coffer.Error) as failure:
        coffer.convert(model, model, to="pt")
    assert failure.value.code == "ARGUMENT" and str(model) in str(failure.value)
    with pytest.raises(coffer.Error):
        coffer.convert(model, tmp_path / "m.npz", bytes_as="F8_E4M3")
    with pytest.raises(coffer.Error):
        coffer.convert(model, tmp_path / "m.npz", bytes_as="nothing")
    with pytest.raises(coffer.Error):
        coffer.convert(tmp_path / "a.npz", tmp_path / "m.npz")


def test_progress_of_an_export(tmp_path: Path, model: Path) -> None:
    told: list[tuple[int, int]] = []
    coffer.convert(model, tmp_path / "m.pt", progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (32, 32)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        coffer.convert(model, tmp_path / "n.pt", progress=stop)
    assert not (tmp_path / "n.pt").exists()
