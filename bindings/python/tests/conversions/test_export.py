# SPDX-License-Identifier: Apache-2.0
"""Files that coffer.convert writes for torch and NumPy, as torch and NumPy read them, and back."""

import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import coffer

DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
]
SHAPES = [(), (3,), (2, 5), (0, 4), (4, 0, 3), (1, 1, 7)]


def raw(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy()) if tensor.numel() else b""


def random(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    made = torch.randint(0, 2 if dtype is torch.bool else 256, (count,), dtype=torch.uint8)
    return made.view(dtype).reshape(shape)


def numpy_has(dtype: torch.dtype) -> bool:
    return "float8" not in str(dtype)


@pytest.fixture
def every(tmp_path: Path) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    tensors = {f"{str(dtype)[6:]}{list(shape)}": random(dtype, shape) for dtype in DTYPES for shape in SHAPES}
    tensors["large"] = random(torch.float32, (1500, 1500))
    save_file(tensors, tmp_path / "m.safetensors", metadata={"format": "pt", "tied": "large", "licence": "MIT"})
    return tensors


@pytest.mark.parametrize("mmap", [False, True])
def test_torch_reads_every_dtype(tmp_path: Path, every: dict[str, torch.Tensor], mmap: bool) -> None:
    told = coffer.convert(tmp_path / "m.safetensors", tmp_path / "m.pt")
    assert {tensor.name for tensor in told.tensors} == set(every)
    assert told.output_size == sum(len(raw(tensor)) for tensor in every.values())
    loaded = torch.load(tmp_path / "m.pt", weights_only=True, mmap=mmap)
    assert set(loaded) == {*every, "tied"}
    for name, tensor in every.items():
        found = loaded[name]
        assert (found.dtype, found.shape, found.stride()) == (tensor.dtype, tensor.shape, tensor.stride()), name
        assert raw(found) == raw(tensor), name
        assert not found.requires_grad
    assert loaded["tied"].data_ptr() == loaded["large"].data_ptr()


def test_float4(tmp_path: Path) -> None:
    packed = torch.randint(0, 256, (4, 6), dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    save_file({"w": packed}, tmp_path / "m.safetensors")
    coffer.convert(tmp_path / "m.safetensors", tmp_path / "m.pt")
    found = torch.load(tmp_path / "m.pt", weights_only=True)["w"]
    assert (found.dtype, found.shape) == (packed.dtype, packed.shape)
    assert torch.equal(found.view(torch.uint8), packed.view(torch.uint8))


def test_numpy_reads_what_it_has(tmp_path: Path, every: dict[str, torch.Tensor]) -> None:
    known = {name: tensor for name, tensor in every.items() if numpy_has(tensor.dtype)}
    save_file(known, tmp_path / "known.safetensors")
    coffer.convert(tmp_path / "known.safetensors", tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as arrays:
        assert set(arrays.files) == set(known)
        for name, tensor in known.items():
            found = arrays[name]
            bfloat16 = tensor.dtype is torch.bfloat16
            assert found.dtype == (np.dtype("V2") if bfloat16 else tensor.numpy().dtype), name
            assert found.shape == tuple(tensor.shape)
            assert found.tobytes() == raw(tensor), name
            if bfloat16:
                assert found.view(ml_dtypes.bfloat16).tobytes() == raw(tensor)
    assert zipfile.ZipFile(tmp_path / "m.npz").testzip() is None


def test_numpy_and_bytes(tmp_path: Path, every: dict[str, torch.Tensor]) -> None:
    with pytest.raises(coffer.Error, match="NumPy has nothing"):
        coffer.convert(tmp_path / "m.safetensors", tmp_path / "m.npz")
    coffer.convert(tmp_path / "m.safetensors", tmp_path / "m.npz", bytes_as="U8", tied="keep")
    with np.load(tmp_path / "m.npz") as arrays:
        assert set(arrays.files) == set(every)
        name = "float8_e4m3fn[2, 5]"
        assert arrays[name].dtype == np.uint8 and arrays[name].tobytes() == raw(every[name])


def test_the_bytes_are_the_same_each_time(tmp_path: Path, every: dict[str, torch.Tensor]) -> None:
    for name in ("a.pt", "other name.pt"):
        coffer.convert(tmp_path / "m.safetensors", tmp_path / name, threads=1 if name == "a.pt" else 0)
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "other name.pt").read_bytes()


def test_back_and_forth_by_torch(tmp_path: Path, every: dict[str, torch.Tensor]) -> None:
    every["alias"] = every["large"]
    torch.save(every, tmp_path / "theirs.pt")
    coffer.convert(tmp_path / "theirs.pt", tmp_path / "a.safetensors")
    coffer.convert(tmp_path / "a.safetensors", tmp_path / "ours.pt")
    coffer.convert(tmp_path / "ours.pt", tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    loaded = torch.load(tmp_path / "ours.pt", weights_only=True)
    assert {name: raw(tensor) for name, tensor in loaded.items()} == {name: raw(tensor) for name, tensor in every.items()}
    assert loaded["alias"].data_ptr() == loaded["large"].data_ptr()


def test_back_and_forth_by_numpy(tmp_path: Path) -> None:
    arrays = {"a/b": np.arange(6, dtype=np.float32).reshape(2, 3), "W": np.ones(2), "w": np.zeros(0, np.int8)}
    np.savez(tmp_path / "theirs.npz", **arrays)
    coffer.convert(tmp_path / "theirs.npz", tmp_path / "a.safetensors")
    coffer.convert(tmp_path / "a.safetensors", tmp_path / "ours.npz")
    coffer.convert(tmp_path / "ours.npz", tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    with np.load(tmp_path / "ours.npz") as found:
        assert {name: found[name].tolist() for name in found.files} == {name: array.tolist() for name, array in arrays.items()}


def test_odd_names(tmp_path: Path) -> None:
    names = ["file", "x.npy", "é€😀", "a b", "", "line\nbreak", "'quoted'", "allow_pickle", "f", "archive/data.pkl", "data/0"]
    tensors = {name: torch.full((2,), i, dtype=torch.int32) for i, name in enumerate(names)}
    save_file(tensors, tmp_path / "m.safetensors")
    coffer.convert(tmp_path / "m.safetensors", tmp_path / "m.npz")
    coffer.convert(tmp_path / "m.safetensors", tmp_path / "m.pt")
    loaded = torch.load(tmp_path / "m.pt", weights_only=True)
    with np.load(tmp_path / "m.npz") as arrays:
        for i, name in enumerate(names):
            assert arrays[name].tolist() == [i, i]
            assert loaded[name].tolist() == [i, i]


def test_many_tensors(tmp_path: Path) -> None:
    tensors = {f"layers.{i}.weight": torch.tensor([i], dtype=torch.int32) for i in range(100_000)}
    save_file(tensors, tmp_path / "m.safetensors")
    coffer.convert(tmp_path / "m.safetensors", tmp_path / "m.npz")
    coffer.convert(tmp_path / "m.safetensors", tmp_path / "m.pt")
    loaded = torch.load(tmp_path / "m.pt", weights_only=True, mmap=True)
    assert len(loaded) == len(tensors) and loaded["layers.99999.weight"].item() == 99999
    with np.load(tmp_path / "m.npz") as arrays:
        assert len(arrays.files) == len(tensors) and arrays["layers.77777.weight"].tolist() == [77777]


@pytest.mark.parametrize("ending", ["npz", "pt"])
def test_a_tensor_of_more_than_4_gib(tmp_path: Path, ending: str) -> None:
    """Most of it is a hole, here and in the copies."""
    size = (4 << 30) + 4096
    header = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
    with open(tmp_path / "m.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
        file.seek(-3, 2)
        file.write(b"end")
    coffer.convert(tmp_path / "m.safetensors", tmp_path / f"m.{ending}")
    assert (tmp_path / f"m.{ending}").stat().st_blocks * 512 < 64 << 20
    if ending == "pt":
        found = torch.load(tmp_path / "m.pt", weights_only=True, mmap=True)["w"]
        assert found.shape == (size,) and bytes(found[-3:].numpy()) == b"end" and found[0] == 0
    else:
        with zipfile.ZipFile(tmp_path / "m.npz") as archive, archive.open("w.npy") as member:
            assert archive.getinfo("w.npy").file_size == size + 128
            assert np.lib.format.read_magic(member) == (1, 0)
            assert np.lib.format.read_array_header_1_0(member)[0] == (size,)


def test_one_array(tmp_path: Path) -> None:
    save_file({"w": torch.arange(6.0).reshape(2, 3), "s": torch.tensor(7)}, tmp_path / "m.safetensors")
    told = coffer.convert(tmp_path / "m.safetensors", tmp_path / "w.npy", tensor="w")
    assert [tensor.name for tensor in told.tensors] == ["w"]
    assert np.load(tmp_path / "w.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.load(tmp_path / "w.npy", mmap_mode="r").offset % 64 == 0
    coffer.convert(tmp_path / "m.safetensors", tmp_path / "w", to="npy", tensor="s")
    assert np.load(tmp_path / "w").tolist() == 7


def test_mlx_reads_archives(tmp_path: Path) -> None:
    mx = pytest.importorskip("mlx.core")
    save_file({"w": torch.arange(6.0).reshape(2, 3), "layer/b": torch.ones(4, dtype=torch.float16)}, tmp_path / "m.safetensors")
    coffer.convert(tmp_path / "m.safetensors", tmp_path / "m.npz")
    arrays = mx.load(str(tmp_path / "m.npz"))
    assert set(arrays) == {"w", "layer/b"} and arrays["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
