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
from pickle import Pickler, _Pickler, dump, dumps

import numpy as np
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


# ---- pickle.dump, which saves each storage by torch.save into bytes of the pickle


class Python2(_Pickler):
    """Writes bytes and texts as Python 2 does: as strings, which protocol 0 has as lines with escapes."""

    dispatch = dict(_Pickler.dispatch)

    def save_string(self, value):
        data = value if isinstance(value, bytes) else value.encode("latin1")
        if self.proto == 0:
            self.write(b"S" + repr(data)[1:].encode() + b"\n")
        else:
            self.write((b"U" + bytes([len(data)]) if len(data) < 256 else b"T" + struct.pack("<i", len(data))) + data)

    dispatch[bytes] = dispatch[str] = save_string


def dumped(path, value, protocol):
    dumping = Pickler if isinstance(protocol, int) else Python2
    with path.open("wb") as file:
        dumping(file, int(str(protocol)[-1])).dump(value)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5, "2.0", "2.1", "2.2"])
def test_what_pickle_dumps(tmp_path, protocol):
    whole = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    escapes = torch.tensor([92, 117, 92, 92, 10, 13, 0, 26, 39, 34, 127, 128, 255, 92], dtype=torch.uint8)
    model = Model()
    for value, expected in (
        (whole, {"tensor": whole}),
        (nn.Parameter(whole), {"tensor": whole}),
        ({"w": whole, "part": whole[1:, ::2], "empty": torch.empty(0, 3), "bytes": escapes, "epoch": 3, "of": torch.ones(70000).bfloat16()}, None),
        ({"v": torch.arange(300).to(torch.uint16), "f": torch.randn(7).to(torch.float8_e4m3fn)}, None),
        (model.state_dict(), model.state_dict()),
        (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), "module"),
    ):
        if isinstance(protocol, str) and isinstance(value, nn.Module):
            continue
        dumped(tmp_path / "a.pkl", value, protocol)
        expected = value.state_dict() if expected == "module" else flat(value) if expected is None else expected
        compare(tmp_path / "a.pkl", expected, tmp_path / "a.safetensors", tied="keep")


def test_a_storage_within_bytes_is_checked(tmp_path):
    """The count before the bytes, their end, and what else the checkpoint within may be of."""
    data = dumps({"w": torch.arange(6, dtype=torch.float32)}, 4)
    at = data.index(struct.pack("<6f", *range(6)))
    for changed in (data[: at - 8] + struct.pack("<q", 5) + data[at:], data[: at - 8] + struct.pack("<q", 1 << 60) + data[at:]):
        (tmp_path / "a.pkl").write_bytes(changed)
        with pytest.raises(coffer.Error, match="elements, and the pickle says"):
            coffer.convert(tmp_path / "a.pkl", None)

    class Bytes:
        def __init__(self, value, **options):
            held = BytesIO()
            torch.save(value, held, **options)
            self.data = held.getvalue()

        def __reduce__(self):
            return torch.storage._load_from_bytes, (self.data,)

    class Tensor:
        def __init__(self, storage):
            self.storage = storage

        def __reduce__(self):
            return torch._utils._rebuild_tensor_v2, (self.storage, 1, (2,), (2,), False, collections.OrderedDict())

    storage = torch.arange(6, dtype=torch.float32).storage()
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        (tmp_path / "a.pkl").write_bytes(dumps({"w": Tensor(Bytes(storage, **options))}))
        compare(tmp_path / "a.pkl", {"w": torch.tensor([1.0, 3.0])})
        (tmp_path / "a.pkl").write_bytes(dumps({"w": Tensor(Bytes([storage], **options))}))
        with pytest.raises(coffer.Error, match="no storage alone"):
            coffer.convert(tmp_path / "a.pkl", None)


def test_what_numpy_saves_of_objects(tmp_path):
    tree = {"conv1": [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(2, np.float16)], "n": {"t": np.arange(3)}, "name": "VGG"}
    expected = {"conv1.0": torch.arange(6.0).reshape(2, 3), "conv1.1": torch.ones(2).half(), "n.t": torch.arange(3)}
    np.save(tmp_path / "a.npy", tree, allow_pickle=True)
    compare(tmp_path / "a.npy", expected, root="all")
    uneven = np.empty(2, object)
    uneven[:] = [np.ones(3), np.ones((2, 2))]
    np.save(tmp_path / "a.npy", uneven, allow_pickle=True)
    compare(tmp_path / "a.npy", {"0": torch.ones(3).double(), "1": torch.ones(2, 2).double()})
    np.save(tmp_path / "a.npy", {"w": torch.ones(3)}, allow_pickle=True)
    compare(tmp_path / "a.npy", {"w": torch.ones(3)})
    # Texts and numbers as objects are none that a name could be given, and are refused as before.
    np.save(tmp_path / "a.npy", np.array(["a", 1], object), allow_pickle=True)
    with pytest.raises(coffer.Error, match="objects"):
        coffer.convert(tmp_path / "a.npy", None)
    for protocol in range(3):
        header = BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "|O", "fortran_order": False, "shape": ()})
        Python2(header, protocol).dump(np.array(tree, object))
        (tmp_path / "a.npy").write_bytes(header.getvalue())
        compare(tmp_path / "a.npy", expected, root="all")


@pytest.mark.parametrize("protocol", ["2.0", "2.1", "2.2", 0])
def test_arrays_of_every_byte(tmp_path, protocol):
    draw = np.random.default_rng(5)
    arrays = {"every": np.arange(256, dtype=np.uint8), "slashes": np.full(3000, 92, np.uint8), "long": draw.bytes(200_000)}
    arrays["long"] = np.frombuffer(arrays["long"], np.uint8)
    dumped(tmp_path / "a.pkl", arrays, protocol)
    compare(tmp_path / "a.pkl", {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}, tmp_path / "a.safetensors")


# ---- which part of a file is the model


def findings(told, weight="note"):
    return [finding.text for finding in told.findings if finding.weight == weight]


def test_files_of_which_all_is_wanted(tmp_path):
    layer = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(3)).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    torch.save(state, tmp_path / "optimizer.pt")
    told = compare(tmp_path / "optimizer.pt", flat(state["state"]))
    assert 'left out (not tensors): "param_groups"' in findings(told)
    hqq = {"model.layers.0.q_proj": {"W_q": torch.ones(3), "meta": {"scale": torch.ones(1), "nbits": 4}}, "lm_head": {"weight": torch.ones(2)}}
    torch.save(hqq, tmp_path / "hqq.pt")
    compare(tmp_path / "hqq.pt", flat(hqq))
    network = {"step": 7, 320: [{"w": torch.ones(3)}, {"w": torch.ones(2)}], 768: [{"w": torch.ones(3)}, {"w": torch.ones(2)}]}
    torch.save(network, tmp_path / "hypernetwork.pt")
    compare(tmp_path / "hypernetwork.pt", flat(network))
    torch.save({"encoder": {"w": torch.ones(3)}, "decoder": {"w": torch.ones(3)}}, tmp_path / "two.pt")
    with pytest.raises(coffer.Error, match="say which: encoder .*, decoder"):
        coffer.convert(tmp_path / "two.pt", None)


@pytest.mark.parametrize(("model", "other"), [("state_dict", "ema_state_dict"), ("model", "model_ema"), ("generator", "discriminator")])
def test_other_parts_and_what_is_left_out_are_told(tmp_path, model, other):
    torch.save({model: {"w": torch.ones(3)}, other: {"w": torch.zeros(3)}, "epoch": 3, "args": {"lr": 0.1, "on": [True]},
                "optimizer": {"state": {0: {"exp_avg": torch.ones(3)}}}}, tmp_path / "a.pt")  # fmt: skip
    told = compare(tmp_path / "a.pt", {"w": torch.ones(3)})
    assert [text for text in findings(told) if "not taken" in text] == [f'the tensors in "{other}" are not taken: --root takes another part']
    assert 'left out (not tensors): "epoch, args"' in findings(told)
    compare(tmp_path / "a.pt", {"w": torch.zeros(3)}, root=other)


def test_no_name_begins_with_a_dot(tmp_path):
    """What has no key of its own goes by the names around it; at the top of a file there are none."""

    plain = collections.OrderedDict(w=torch.ones(2))
    plain.hidden = {"np": torch.ones(3)}
    torch.save(plain, tmp_path / "a.pt")
    told = coffer.convert(tmp_path / "a.pt", tmp_path / "a.safetensors")
    assert sorted((tensor.name, tensor.fate) for tensor in told.tensors) == [("hidden.np", "skipped"), ("w", "written")]


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


def test_folders_of_the_hub(tmp_path):
    tensors = {"a.w": torch.ones(3), "b.w": torch.zeros(2, 2)}
    for name in ("pytorch_model.bin", "diffusion_pytorch_model.bin", "adapter_model.bin"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        torch.save(tensors, folder / name)
        compare(folder, tensors, tmp_path / "a.safetensors")
        if name == "adapter_model.bin":
            continue
        weight_map = {}
        for i, (key, tensor) in enumerate(tensors.items()):
            weight_map[key] = name.replace(".bin", f"-0000{i + 1}-of-00002.bin")
            torch.save({key: tensor}, folder / weight_map[key])
        (folder / name).unlink()
        (folder / f"{name}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
        compare(folder, tensors, tmp_path / "a.safetensors")


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
