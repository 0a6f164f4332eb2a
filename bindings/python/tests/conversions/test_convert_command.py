# SPDX-License-Identifier: Apache-2.0
"""What the command `coffer convert` writes, read by the reference, is what torch, numpy and paddle read themselves.

Files are saved by the frameworks here and now; the real files of COFFER_REALDATA, where it is set, come from as many versions of them
as there are repositories. Bytes are compared, never numbers, since NaN is unequal to itself.
"""

import os
import pathlib
import pickle
import random
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

COMMAND = [os.environ["COFFER_CLI"]] if "COFFER_CLI" in os.environ else [sys.executable, "-m", "coffer"]
REAL = pathlib.Path(os.environ["COFFER_REALDATA"]) if "COFFER_REALDATA" in os.environ else None
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
          torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2,
          torch.float8_e8m0fnu, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


def run(*arguments, code=0):
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    return done


def bytes_of(tensor):
    """Also of dtypes that torch can do little with."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.numel() == 0:
        return b""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def check_tensors(output, expected):
    """`expected`: tensors by name, as a loader that executes has them."""
    found = load_file(output)
    with safe_open(output, "pt") as file:
        aliases = {name: kept for name, kept in (file.metadata() or {}).items() if name != "format"}
    assert set(found) | set(aliases) == set(expected) and not set(found) & set(aliases)
    for name, tensor in expected.items():
        ours = found[aliases.get(name, name)]
        assert (ours.dtype, ours.shape) == (tensor.dtype, tensor.shape), name
        assert bytes_of(ours) == bytes_of(tensor), name


# ---- torch -------------------------------------------------------------------------------------------------------------


def random_tensor(generator, dtype):
    shape = [generator.choice([0, 1, 2, 3, 5]) for _ in range(generator.randrange(4))]
    size = max(1, int(np.prod(shape))) * torch.empty((), dtype=dtype).element_size()
    content = bytearray(generator.randbytes(size))
    if dtype == torch.bool:
        content = bytearray(byte & 1 for byte in content)
    flat = torch.frombuffer(content, dtype=dtype)
    return flat[:int(np.prod(shape))].reshape(shape) if shape else flat[0]


def random_view(generator, tensor):
    """The tensor itself, or another view of its storage."""
    kind = generator.randrange(5)
    if kind == 0 and tensor.dim() >= 2:
        return tensor.transpose(0, 1)
    if kind == 1 and tensor.dim() >= 1 and tensor.shape[0] > 1:
        return tensor[1:]
    if kind == 2 and tensor.dim() >= 1 and tensor.shape[-1] > 2:
        return tensor[..., ::2]
    if kind == 3:
        return tensor.unsqueeze(0).expand(3, *tensor.shape)
    return tensor


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(12))
def test_random_dicts_of_torch(seed, protocol, tmp_path):
    generator = random.Random(seed * 10 + protocol)
    state, tensors = {}, []
    for i in range(generator.randrange(1, 25)):
        new = random_tensor(generator, generator.choice(DTYPES)) if not tensors or generator.random() < 0.6 else generator.choice(tensors)
        tensors.append(new)
        state[f"layers.{i}.w"] = random_view(generator, new)
    if any(value.dtype == torch.complex64 for value in state.values()):
        state["turned"] = next(value for value in state.values() if value.dtype == torch.complex64).conj()
    path, output = tmp_path / "m.pt", tmp_path / "m.safetensors"
    torch.save(state, path, pickle_protocol=protocol)
    run("convert", path, "-o", output)
    check_tensors(output, state)
    run("scan", path)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(20, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.head = torch.nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("mask", torch.ones(4, 4, dtype=torch.bool).tril(), persistent=False)


@pytest.mark.parametrize("zipped", [True, False])
def test_modules_and_checkpoints(zipped, tmp_path):
    model = Model()
    expected = dict(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters())
    whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "args": pathlib.PurePosixPath("a")}
    for name, value in (("state", model.state_dict()), ("training", whole), ("module", model)):
        path, output = tmp_path / f"{name}.pt", tmp_path / f"{name}.safetensors"
        torch.save(value, path, _use_new_zipfile_serialization=zipped)
        run("convert", path, "-o", output)
        check_tensors(output, expected)
        run("convert", path, "-o", tmp_path / "all.safetensors", "-f", "--tied", "keep")
        assert set(load_file(tmp_path / "all.safetensors")) == set(expected)


def test_shards_and_digests(tmp_path):
    state = {f"w{i}": torch.randn(100, 10) for i in range(7)}
    torch.save(state, tmp_path / "m.pt")
    run("convert", tmp_path / "m.pt", "-o", tmp_path / "model.safetensors", "--max-shard-size", "10KB", "--digest", "sha256")
    found = {}
    for path in tmp_path.glob("model-*.safetensors"):
        found |= load_file(path)
    assert {name: bytes_of(tensor) for name, tensor in found.items()} == {name: bytes_of(tensor) for name, tensor in state.items()}
    run("verify", tmp_path / "model.safetensors.index.json")


# ---- numpy and paddle --------------------------------------------------------------------------------------------------


def arrays():
    base = np.arange(24).reshape(4, 6)
    found = {f"{order}{code}": np.asarray(base.astype(f"{order}{code}")) for order in "<>" for code in ("f2", "f4", "f8", "i2", "i4", "i8",
                                                                                                       "u2", "u4", "u8", "c8")}
    return found | {"bytes": base.astype("u1"), "bools": base % 2 == 0, "columns": np.asfortranarray(base.astype("f4")),
                    "none": np.zeros((0, 3), "f4"), "one": np.float32(7)}


def check_arrays(output, expected):
    with safe_open(output, "np") as file:
        assert set(file.keys()) == set(expected)
        for name, array in expected.items():
            ours = file.get_tensor(name)
            array = np.asarray(array)
            assert ours.shape == array.shape and ours.dtype == array.dtype.newbyteorder("="), name
            assert ours.tobytes() == array.astype(ours.dtype).tobytes(), name


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=lambda save: save.__name__)
def test_archives_of_numpy(save, tmp_path):
    save(tmp_path / "m.npz", **arrays())
    run("convert", tmp_path / "m.npz", "-o", tmp_path / "m.safetensors")
    check_arrays(tmp_path / "m.safetensors", arrays())


def test_arrays_of_numpy(tmp_path):
    for i, array in enumerate(arrays().values()):
        path, output = tmp_path / "array.npy", tmp_path / f"{i}.safetensors"
        np.save(path, array)
        run("convert", path, "-o", output)
        check_arrays(output, {"array": array})


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickled_arrays(protocol, tmp_path):
    tree = {"layer": {"w": np.asfortranarray(np.arange(6, dtype="f4").reshape(2, 3)), "b": np.arange(3).astype(ml_dtypes.bfloat16)}}
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(tree, protocol))
    run("convert", tmp_path / "m.pkl", "-o", tmp_path / "m.safetensors", "--root", "all")
    found = load_file(tmp_path / "m.safetensors")
    assert bytes_of(found["layer.w"]) == tree["layer"]["w"].tobytes()
    assert found["layer.b"].dtype == torch.bfloat16 and bytes_of(found["layer.b"]) == tree["layer"]["b"].tobytes()


def test_paddle(tmp_path):
    paddle = pytest.importorskip("paddle")
    layer = paddle.nn.Linear(4, 3)
    state = dict(layer.state_dict()) | {"half": paddle.ones([2, 2], "bfloat16")}
    paddle.save(state, str(tmp_path / "m.pdparams"))
    run("convert", tmp_path / "m.pdparams", "-o", tmp_path / "m.safetensors")
    found = load_file(tmp_path / "m.safetensors")
    assert set(found) == set(state) and found["half"].dtype == torch.bfloat16
    assert found["half"].tolist() == [[1, 1], [1, 1]]
    assert bytes_of(found["weight"]) == state["weight"].numpy().tobytes()


# ---- real files --------------------------------------------------------------------------------------------------------

FILES = sorted(path for ending in ("pt", "pth") for path in REAL.rglob(f"*.{ending}")) if REAL else []


def flat(value, path=()):
    """Tensors of nested dicts and lists, by their joined paths."""
    if isinstance(value, torch.Tensor):
        return {".".join(path): value}
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return {}
    return {name: tensor for key, inner in items for name, tensor in flat(inner, (*path, str(key))).items()}


@pytest.mark.parametrize("path", FILES or [None], ids=lambda path: path.name if path else "none here")
def test_real_files_equal_what_torch_reads(path, tmp_path):
    if path is None:
        assert not REAL  # files from the wild are looked at where they are
        return
    try:
        expected = flat(torch.load(path, weights_only=True))
    except Exception as error:  # what torch does not read is at least refused in words
        expected = error
    done = subprocess.run([*COMMAND, "convert", str(path), "-o", str(tmp_path / "m.safetensors"), "--root", "all"], capture_output=True,
                          text=True, check=False)
    assert done.returncode in (0, 1) and "ended by signal" not in done.stderr
    if isinstance(expected, Exception) or not expected or "" in expected:
        assert done.returncode == 1 or isinstance(expected, Exception), done.stderr
    else:
        assert done.returncode == 0, done.stderr
        check_tensors(tmp_path / "m.safetensors", expected)
