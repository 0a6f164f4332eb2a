# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of PyTorch, converted: compared with what torch itself reads, byte by byte."""

import collections
import json
import os
import random
import struct
import tarfile
import warnings
import zipfile
from io import BytesIO
from pathlib import Path
from pickle import Pickler, dump, dumps

import pytest
import torch
from torch import nn

import coffer

warnings.simplefilter("ignore")

DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64",
    torch.bool: "BOOL", torch.complex64: "C64", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ", torch.float8_e5m2fnuz: "F8_E5M2FNUZ", torch.float8_e8m0fnu: "F8_E8M0",
    torch.float4_e2m1fn_x2: "F4",
}  # fmt: skip


def flat(value, path="", depth=0):
    """Tensors by their keys, joined by dots."""
    if isinstance(value, torch.Tensor):
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    return {name: tensor for key, item in items for name, tensor in flat(item, f"{path}.{key}" if depth else str(key), depth + 1).items()}


def bytes_of(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype == torch.float4_e2m1fn_x2:
        tensor = tensor.view(torch.uint8)
    whole = torch.empty((tensor.numel(),), dtype=tensor.dtype)
    return whole.copy_(tensor.reshape(-1)).view(torch.uint8).numpy().tobytes()


def compare(source, expected, output=None, **options):
    """Converts a file, and compares all of it with tensors of torch. What is an alias has to be in the metadata."""
    output = output or source.with_suffix(".safetensors")
    output.unlink(missing_ok=True)
    told = coffer.convert(source, output, **options)
    assert told.total == told.written + told.aliased + told.skipped + told.unreferenced
    with coffer.open(output) as model:
        names = {tensor.name for tensor in told.tensors if tensor.fate != "skipped"}
        assert names == set(expected)
        aliases = {tensor.name: tensor.alias_of for tensor in told.tensors if tensor.fate == "alias"}
        assert set(model.keys()) == names - set(aliases)
        assert {key: value for key, value in model.metadata.items() if key != "format"} == aliases
        for name, tensor in expected.items():
            written = model[aliases.get(name, name)]
            shape = list(tensor.shape)
            if tensor.dtype == torch.float4_e2m1fn_x2:
                shape[-1] *= 2
            assert (written.dtype, list(written.shape)) == (DTYPES[tensor.dtype], shape), name
            assert written.tobytes() == bytes_of(tensor), name
        for dropped, kept in aliases.items():
            assert kept < dropped and expected[kept].data_ptr() == expected[dropped].data_ptr()
    return told


# ---- whatever torch saves


def any_tensor(draw):
    dtype = draw.choice(list(DTYPES))
    shape = [draw.randint(draw.random() > 0.1, 6) for _ in range(draw.randint(dtype == torch.float4_e2m1fn_x2, 4))]
    count = 1
    for size in shape:
        count *= size
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,)).bool().reshape(shape)
    data = torch.randint(0, 256, (count * dtype.itemsize,), dtype=torch.uint8)
    return data.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)


def any_view(draw, tensor):
    def transposed(t):
        return t.transpose(draw.randrange(t.dim()), draw.randrange(t.dim()))

    def cut(t):
        axis = draw.randrange(t.dim())
        return t.narrow(axis, min(1, t.shape[axis] - 1), t.shape[axis] - 1)

    def stepped(t):
        return t[(slice(None),) * draw.randrange(t.dim()) + (slice(None, None, 2),)]

    def expanded(t):
        return t[:1].expand(3, *t.shape[1:])

    for _ in range(draw.randint(0, 3)):
        ways = [transposed, cut, stepped, expanded] if tensor.dim() and tensor.numel() else []
        ways += [torch.conj, torch.imag, lambda t: t.conj().imag] if tensor.is_complex() else []
        if ways:
            tensor = draw.choice(ways)(tensor)
    return tensor


def any_tree(draw, pool, depth=0):
    values = []
    for _ in range(draw.randint(1, 5)):
        kind = draw.random()
        if kind < 0.25 and depth < 3:
            values.append(any_tree(draw, pool, depth + 1))
        elif kind < 0.35:
            values.append(draw.choice([None, 1, 2.5, "text", True, b"bytes", torch.float32, torch.Size([1]), {1, 2}, 1 << 80]))
        else:
            if not pool or draw.random() < 0.7:
                pool.append(any_tensor(draw))
            tensor = any_view(draw, draw.choice(pool))
            if kind > 0.9 and tensor.dtype in (torch.float32, torch.complex64, torch.bfloat16):
                tensor = draw.choice([nn.Parameter, nn.Buffer])(tensor)
            values.append(tensor)
    if depth and draw.random() < 0.5:
        return draw.choice([list, tuple])(values)
    keys = [draw.choice([f"w{i}", f"é{i}", f"a b{i}", i]) for i in range(len(values))]
    return draw.choice([dict, collections.OrderedDict])(zip(keys, values, strict=True))


@pytest.mark.parametrize("container", ["archive", "stream"])
def test_whatever_torch_saves(tmp_path, container):
    compared = 0
    for seed in range(150):
        draw = random.Random(f"{container} {seed}")
        torch.manual_seed(seed)
        tree = any_tree(draw, [])
        expected = flat(tree)
        try:
            torch.save(
                tree,
                tmp_path / "a.pt",
                pickle_protocol=draw.choice([1, 2, 3, 4, 5]),
                _use_new_zipfile_serialization=container == "archive",
            )
        except RuntimeError:  # of one storage as two types
            continue
        if expected:
            compare(tmp_path / "a.pt", expected, root="all", tied=draw.choice(["hf", "keep"]))
            compared += 1
    assert compared > 100


def test_big_endian(tmp_path):
    """torch writes this only on big-endian machines: here the bytes and the record that says so are exchanged."""
    tensors = {"f": torch.randn(3, 5), "h": torch.randn(4).half(), "c": torch.randn(2, dtype=torch.complex64), "b": torch.arange(3).byte()}
    torch.save(tensors, tmp_path / "little.pt")
    with torch.serialization._open_zipfile_reader(str(tmp_path / "little.pt")) as reader:
        records = {name: reader.get_record(name) for name in reader.get_all_records()}
    widths = {f"data/{i}": width for i, width in enumerate([4, 2, 4, 1])}
    with torch.serialization._open_zipfile_writer(str(tmp_path / "big.pt")) as writer:
        for name, data in records.items():
            if name in widths:
                data = b"".join(data[at : at + widths[name]][::-1] for at in range(0, len(data), widths[name]))
            if name == "byteorder":
                data = b"big"
            if not name.startswith(".") and name != "version":
                writer.write_record(name, data, len(data))
    told = compare(tmp_path / "big.pt", tensors)
    assert [tensor.changed for tensor in told.tensors] == [True, True, True, False]


# ---- modules


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.twice = nn.ModuleList([nn.Linear(2, 2)] * 2)
        self.norm = nn.BatchNorm2d(3)
        self.register_buffer("cache", torch.ones(2), persistent=False)
        self.register_parameter("none", None)
        self.plain = torch.ones(7)

    def forward(self, x):
        return self.head(self.embedding(x))


MODULES = {
    "model": Model,
    "parallel": lambda: nn.DataParallel(Model()),
    "layers": lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.LSTM(2, 3), nn.TransformerEncoderLayer(8, 2, 16)),
}


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("name", MODULES)
def test_whole_modules_are_read_as_their_state_dict(tmp_path, name, new):
    module = MODULES[name]()
    torch.save(module, tmp_path / "a.pt", _use_new_zipfile_serialization=new)
    compare(tmp_path / "a.pt", module.state_dict())
    optimizer = {"state": {0: {"average": torch.ones(3)}}}
    torch.save({"epoch": 1, "model": module, "ema": None, "optimizer": optimizer}, tmp_path / "b.pt", _use_new_zipfile_serialization=new)
    told = compare(tmp_path / "b.pt", module.state_dict())
    assert "optimizer.state.0.average" in {tensor.name for tensor in told.tensors if tensor.fate == "skipped"}


def test_torchscript(tmp_path):
    module = torch.jit.trace(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), torch.ones(2, 3))
    module.save(tmp_path / "a.pt")
    compare(tmp_path / "a.pt", module.state_dict())
    # Its classes are in the archive. Without the member by which torch.load tells TorchScript, Python would import them.
    assert coffer.scan(tmp_path / "a.pt") == ()
    with zipfile.ZipFile(tmp_path / "a.pt") as whole, zipfile.ZipFile(tmp_path / "b.pt", "w") as part:
        for name in whole.namelist():
            if not name.endswith("/constants.pkl"):
                part.writestr(name, whole.read(name))
    assert {finding.weight for finding in coffer.scan(tmp_path / "b.pt")} == {"opaque"}


def test_protocol_0_is_refused_as_torch_refuses_it(tmp_path):
    for new in (True, False):
        torch.save({"w": torch.ones(2)}, tmp_path / "a.pt", pickle_protocol=0, _use_new_zipfile_serialization=new)
        with pytest.raises(AssertionError):
            torch.load(tmp_path / "a.pt", weights_only=False)
        with pytest.raises(coffer.Error, match="saved with protocol 0"):
            coffer.convert(tmp_path / "a.pt", None)


def test_exported_programs(tmp_path):
    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 4)
            self.turned = nn.Parameter(torch.randn(4, 2).t())
            self.register_buffer("steps", torch.arange(3))

        def forward(self, x):
            return self.linear(x) @ self.turned.t() + torch.tensor([1.0, 2.0]) + self.steps.sum()

    program = torch.export.export(Small(), (torch.ones(1, 3),))
    torch.export.save(program, tmp_path / "a.pt2")
    told = compare(tmp_path / "a.pt2", program.state_dict)
    assert told.format == "pt2"


# ---- older and larger ones


def save_as_tar(path, tensors):
    """What torch before 0.1.10 wrote, by what torch still reads."""
    members = {"sys_info": dumps({}, 2)}
    views = {id(tensor): tensor for tensor in tensors.values()}
    roots = {tensor.untyped_storage().data_ptr(): tensor for tensor in views.values()}

    class ByNumber(Pickler):
        def persistent_id(self, value):
            return id(value) if id(value) in views else None

    with BytesIO() as out:
        ByNumber(out, 2).dump(tensors)
        members["pickle"] = out.getvalue()
    with BytesIO() as out:
        dump(len(views), out, 2)
        for number, tensor in views.items():
            dump((number, tensor.untyped_storage().data_ptr(), "type"), out, 2)
            rank = tensor.dim()
            out.write(struct.pack(f"<i4x{2 * rank + 1}q", rank, *tensor.shape, *tensor.stride(), tensor.storage_offset()))
        members["tensors"] = out.getvalue()
    with BytesIO() as out:
        dump(len(roots), out, 2)
        for number, tensor in roots.items():
            kind = {torch.float32: torch.FloatStorage, torch.int64: torch.LongStorage, torch.float16: torch.HalfStorage}[tensor.dtype]
            dump((number, "cpu", kind), out, 2)
            data = bytes(tensor.untyped_storage())
            out.write(struct.pack("<q", len(data) // tensor.dtype.itemsize) + data)
        dump([], out, 2)
        members["storages"] = out.getvalue()
    with tarfile.open(path, "w:", format=tarfile.PAX_FORMAT) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, BytesIO(data))


def test_archives_before_0_1_10(tmp_path):
    whole = torch.randn(3, 4)
    tensors = {"w": whole, "t": whole.t(), "part": whole[1:, 2:], "i": torch.arange(5), "h": torch.ones(2).half(), "one": torch.ones(())}
    save_as_tar(tmp_path / "a.pth", tensors)
    read = torch.load(tmp_path / "a.pth", weights_only=False)
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
    told = compare(tmp_path / "a.pth", read)
    assert told.format == "torch-tar"


def test_archives_of_nemo(tmp_path):
    """As NeMo packs the folder that it fills: all of it, with the folder's own name."""
    folder = tmp_path / "m"
    folder.mkdir()
    tensors = {"encoder.w": torch.randn(3, 4), "encoder.t": torch.randn(3, 4).t(), "i": torch.arange(5)}
    torch.save(tensors, folder / "model_weights.ckpt")
    (folder / "model_config.yaml").write_text("target: nemo.collections.asr.models.EncDecCTCModel\n")
    with tarfile.open(tmp_path / "m.nemo", "w:") as archive:
        archive.add(folder, arcname=".")
    told = compare(tmp_path / "m.nemo", tensors)
    assert told.format == "nemo"


def test_several_files_with_an_index(tmp_path):
    shards = {"a-1.bin": {"x": torch.randn(3, 4), "y": torch.arange(4)}, "a-2.bin": {"z": torch.randn(2).half()}}
    for name, tensors in shards.items():
        torch.save(tensors, tmp_path / name, _use_new_zipfile_serialization=name == "a-1.bin")
    weight_map = {tensor: name for name, tensors in shards.items() for tensor in tensors}
    index = tmp_path / "a.bin.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    compare(index, shards["a-1.bin"] | shards["a-2.bin"])
    index.write_text(json.dumps({"weight_map": {**weight_map, "lost": "a-2.bin"}}))
    with pytest.raises(coffer.Error, match="lost"):
        coffer.convert(index, None)


def real_files():
    folder = os.environ.get("COFFER_REALDATA")
    return sorted(Path(folder).rglob("*.pt*")) if folder else []


def test_real_files(tmp_path):
    """Files of other people's programs."""
    for path in real_files():
        try:
            value = torch.load(path, weights_only=True)
        except Exception:  # what torch refuses
            with pytest.raises(coffer.Error):
                coffer.convert(path, None)
            continue
        expected = {name or "tensor": tensor for name, tensor in flat(value).items()}
        compare(path, expected, tmp_path / "a.safetensors", root="all")


# ---- what is refused, and what is found


def test_what_safetensors_cannot_express(tmp_path):
    for value in (
        torch.eye(3).to_sparse(),
        torch.eye(3).to_sparse_csr(),
        torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        torch.empty(3, device="meta"),
        torch.ones(2, dtype=torch.complex128),
    ):
        torch.save({"w": torch.ones(2), "odd": value}, tmp_path / "a.pt")
        with pytest.raises(coffer.Error) as caught:
            coffer.convert(tmp_path / "a.pt", None)
        assert caught.value.code == "NO_EQUIVALENT" and caught.value.tensor == "odd"
        told = compare(tmp_path / "a.pt", {"w": torch.ones(2)}, skip_unsupported=True)
        assert told.total == told.written + told.skipped + told.unreferenced


def test_a_call_is_found_and_never_made(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path}/called",)

    for new in (True, False):
        torch.save({"w": torch.ones(2), "evil": Evil()}, tmp_path / "a.pt", _use_new_zipfile_serialization=new)
        compare(tmp_path / "a.pt", {"w": torch.ones(2)})
        (finding,) = [finding for finding in coffer.scan(tmp_path / "a.pt") if finding.weight == "danger"]
        assert finding.subject.endswith(f".system('touch {tmp_path}/called')")
        with pytest.raises(coffer.Error) as caught:
            coffer.convert(tmp_path / "a.pt", None, strict=True)
        assert caught.value.code == "OPAQUE"
    assert not (tmp_path / "called").exists()


def test_a_clean_checkpoint_has_no_findings(tmp_path):
    torch.save(Model().state_dict(), tmp_path / "a.pt")
    assert coffer.scan(tmp_path / "a.pt") == ()
