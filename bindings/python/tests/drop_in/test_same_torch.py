# SPDX-License-Identifier: Apache-2.0
"""coffer.torch does what safetensors.torch does, but for documented deviations, which carry their id."""

from __future__ import annotations

import collections
import copy
import gc
import inspect
import pickle
import re
import weakref

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from both import BITS, COFFER, EVERY_DTYPE, REFERENCE, Raised, one_tensor, outcome
from hypothesis import given, settings
from torch import nn

LIMITS = settings(max_examples=200, deadline=None, database=None, derandomize=True)

THEIRS, OURS = REFERENCE.module("torch"), COFFER.module("torch")
DTYPES = list(OURS._TYPES.values())


def both(call, *arguments):
    return [outcome(call, module, *arguments) for module in (THEIRS, OURS)]


def unordered(raised):
    """A text without the order of chance in which it lists a set."""
    text = re.sub(r"\{('[^}]*)\}", lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", raised.text)
    return Raised(raised.kind, text)


def assert_same(call, *arguments):
    theirs, ours = both(call, *arguments)
    if isinstance(theirs, Raised) and isinstance(ours, Raised):
        theirs, ours = unordered(theirs), unordered(ours)
    assert ours == theirs


# ---- Names ------------------------------------------------------------------------------------------------------------


def test_every_function_is_there_with_its_parameters():
    for name, function in vars(THEIRS).items():
        if inspect.isfunction(function) and function.__module__ == THEIRS.__name__:
            theirs, ours = (list(inspect.signature(getattr(module, name)).parameters) for module in (THEIRS, OURS))
            assert ours[: len(theirs)] == theirs, name


def test_tables():
    assert THEIRS._TYPES.items() <= OURS._TYPES.items()
    assert THEIRS._SIZE.items() <= OURS._SIZE.items()
    for name in THEIRS._TYPES:
        assert OURS._getdtype(name) == THEIRS._getdtype(name)


# ---- Tensors ----------------------------------------------------------------------------------------------------------


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(DTYPES))
    # torch has no scalars of packed pairs.
    shape = draw(st.lists(st.integers(0, 3), min_size=int(dtype == torch.float4_e2m1fn_x2), max_size=3))
    count = int(np.prod(shape))
    content = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    if dtype == torch.bool:
        content = bytes(byte & 1 for byte in content)
    flat = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
    return flat.view(dtype).view(shape)


NAMES = st.text(st.characters(codec="utf-8"), max_size=4).filter(lambda name: name != "__metadata__")
DICTS = st.dictionaries(NAMES, tensors(), max_size=3)
METADATA = st.none() | st.dictionaries(NAMES, NAMES, min_size=1, max_size=1)


@LIMITS
@given(wanted=DICTS, metadata=METADATA)
def test_save(wanted, metadata):
    assert_same(lambda module: module.save(wanted, metadata))


@LIMITS
@given(wanted=DICTS, metadata=METADATA)
def test_what_one_saves_the_other_loads(wanted, metadata, tmp_path_factory):
    folder = tmp_path_factory.mktemp("crossing")
    THEIRS.save_file(wanted, folder / "theirs", metadata)
    OURS.save_file(wanted, folder / "ours", metadata)
    assert (folder / "theirs").read_bytes() == (folder / "ours").read_bytes()
    assert outcome(OURS.load_file, folder / "theirs") == outcome(THEIRS.load_file, folder / "ours")
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize(("dtype", "shape"), EVERY_DTYPE, ids=str)
def test_load(dtype, shape, tmp_path):
    """T1: F8_E8M0 from bytes, and F4 in every way, where the reference has an error."""
    content = one_tensor(dtype, shape)
    (tmp_path / "x").write_bytes(content)
    calls = {
        "load": lambda module: module.load(content),
        "mmap": lambda module: module.load_file(tmp_path / "x"),
        "pread": lambda module: module.load_file(str(tmp_path / "x"), "cpu", backend="pread"),
    }
    known = {name: outcome(call, OURS) for name, call in calls.items()}
    for name, call in calls.items():
        theirs = outcome(call, THEIRS)
        if dtype in ("F4", "F8_E8M0") and isinstance(theirs, Raised):
            assert known[name] == known["mmap"]
        elif dtype.startswith("F6_") and name == "load":
            assert (theirs.kind, known[name].kind) == ("KeyError", "SafetensorError")
        else:
            assert known[name] == theirs, name


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("dtype", BITS)
def test_one_by_one(dtype, backend, tmp_path):
    (tmp_path / "x").write_bytes(one_tensor(dtype, [2, 4]))

    def call(side):
        with side.package.safe_open(tmp_path / "x", "pt", backend=backend) as f:
            part = f.get_slice("a")
            return f.get_tensor("a"), f.get_tensors(), part[0:1], part[:, 0:2], part.get_shape(), part.get_dtype()

    theirs, ours = (outcome(call, side) for side in (REFERENCE, COFFER))
    if dtype == "F4":
        with COFFER.package.safe_open(tmp_path / "x", "pt", backend=backend) as f:
            assert f.get_tensor("a").dtype == torch.float4_e2m1fn_x2
            assert f.get_slice("a")[:, 0:2].view(torch.uint8).tolist() == [[0], [0]]
            assert f.get_slice("a")[1].view(torch.uint8).tolist() == [0, 1]
    else:
        assert ours == theirs


def test_the_order_is_that_of_the_file():
    for side in (THEIRS, OURS):
        content = side.save({"z": torch.zeros(1, dtype=torch.uint8), "a": torch.zeros(1, dtype=torch.uint8), "m": torch.zeros(1)})
        assert list(OURS.load(content)) == ["m", "a", "z"]


# ---- Memory -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    OURS.save_file({"a": torch.arange(6.0).view(2, 3), "b": torch.arange(4), "e": torch.zeros(0, 3)}, tmp_path / "x")
    return tmp_path / "x"


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_tensors_are_apart_and_writable(path, backend):
    before = path.read_bytes()
    loaded = OURS.load_file(path, backend=backend)
    sizes = {name: (tensor.untyped_storage().nbytes(), tensor.storage_offset()) for name, tensor in loaded.items()}
    assert sizes == {"a": (24, 0), "b": (32, 0), "e": (0, 0)}
    loaded["a"].add_(1)
    assert loaded["b"].tolist() == [0, 1, 2, 3]
    assert path.read_bytes() == before
    assert OURS.load_file(path, backend=backend)["a"].flatten().tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("module", [THEIRS, OURS], ids=["reference", "coffer"])
@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_what_was_loaded_can_be_saved(path, module, backend):
    """Over the very file that the tensors view, too."""
    before = path.read_bytes()
    OURS.save_file(module.load_file(path, backend=backend), path)
    assert path.read_bytes() == before


def test_tensors_of_one_file_are_the_same_memory(path):
    for side in (REFERENCE, COFFER):
        with side.package.safe_open(path, "pt") as f:
            f.get_slice("a")[0].fill_(7)
            assert f.get_tensor("a")[0].tolist() == [7, 7, 7]


def test_tensors_outlive_the_file_and_its_name(path):
    with COFFER.package.safe_open(path, "pt") as f:
        tensor = f.get_tensor("a")
    path.unlink()
    assert tensor.sum() == 15


def test_copies(path):
    tensor = OURS.load_file(path)["a"]
    assert torch.equal(copy.deepcopy(tensor), tensor)
    assert torch.equal(pickle.loads(pickle.dumps(tensor)), tensor)


def maps_of(path):
    with open("/proc/self/maps") as maps:
        return sum(str(path) in line for line in maps)


def test_the_map_lives_as_long_as_the_last_tensor(path):
    loaded = OURS.load_file(path)
    assert maps_of(path) == 1
    last = loaded.pop("b")
    gone = weakref.ref(loaded["a"])
    del loaded
    gc.collect()
    assert gone() is None and maps_of(path) == 1 and last.tolist() == [0, 1, 2, 3]
    del last
    gc.collect()
    assert maps_of(path) == 0


def test_loading_leaves_nothing_behind(path):
    OURS.load_file(path)
    gc.collect()
    objects = len(gc.get_objects())
    for _ in range(20):
        OURS.load_file(path)
        OURS.load_file(path, backend="pread")
    gc.collect()
    assert len(gc.get_objects()) - objects < 10
    assert maps_of(path) == 0


def test_a_tensor_that_is_not_aligned(tmp_path):
    header = b'{"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}}'
    content = len(header).to_bytes(8, "little") + header + b"\x01" + np.array([1, 2], "<f4").tobytes()
    (tmp_path / "x").write_bytes(content)
    for backend in ("mmap", "pread"):
        assert OURS.load_file(tmp_path / "x", backend=backend)["a"].tolist() == [1, 2]


# ---- What cannot be saved ---------------------------------------------------------------------------------------------

WHOLE = torch.arange(6.0).view(2, 3)
LINE = torch.zeros(10)
BAD = {
    "transposed": {"a": WHOLE.T},
    "with gaps": {"a": WHOLE[:, ::2]},
    "expanded": {"a": torch.zeros(1).expand(3)},
    "sparse": {"a": WHOLE.to_sparse(), "b": WHOLE},
    "compressed": {"a": WHOLE.to_sparse_csr()},
    "meta": {"a": WHOLE.to("meta")},
    "numpy": {"a": WHOLE.numpy()},
    "a number": {"a": 3},
    "no dict": [WHOLE],
    "nothing": None,
    "another mapping": collections.UserDict(a=WHOLE),
    "an int for a name": {1: WHOLE},
    "complex128": {"a": WHOLE.to(torch.complex128)},
    "quantized": {"a": torch.quantize_per_tensor(WHOLE, 1.0, 0, torch.qint8)},
    "the same twice": {"a": LINE, "b": LINE},
    "overlapping": {"a": LINE[:5], "b": LINE[3:]},
    "whole and part": {"a": LINE, "b": LINE[:5]},
    "other shape": {"a": LINE, "b": LINE.view(2, 5)},
    "other dtype": {"a": LINE, "b": LINE.view(torch.int32)},
    "two groups": {"a": LINE, "b": LINE, "c": WHOLE, "d": WHOLE},
}


@pytest.mark.parametrize("wanted", BAD.values(), ids=BAD)
def test_what_cannot_be_saved(wanted, tmp_path):
    assert isinstance(outcome(OURS.save, wanted), Raised)
    assert_same(lambda module: module.save(wanted))
    assert_same(lambda module: module.save_file(wanted, tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []


GOOD = {
    "rows": {"a": WHOLE[1:]},
    "parts that do not overlap": {"a": LINE[:5], "b": LINE[5:]},
    "a parameter": {"a": nn.Parameter(WHOLE)},
    "a scalar": {"a": torch.tensor(1.0)},
    "empty": {"a": LINE[:0], "b": LINE[5:5]},
    "nothing": {},
    "ordered": collections.OrderedDict(b=LINE, a=WHOLE),
}


@pytest.mark.parametrize("wanted", GOOD.values(), ids=GOOD)
def test_what_can_be_saved(wanted):
    assert isinstance(outcome(OURS.save, wanted), bytes)
    assert_same(lambda module: module.save(wanted))


def test_conjugated_and_negated_tensors_are_saved_as_they_read():
    """T2: torch keeps such tensors as a mark; the reference writes what they were before."""
    values = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
    for tensor in (values.conj(), values.conj().imag.clone(), values.conj().imag):
        if tensor.is_contiguous():
            assert torch.equal(OURS.load(OURS.save({"a": tensor}))["a"], tensor.resolve_neg().resolve_conj())


def test_contiguous_copies_what_is_not(tmp_path):
    wanted = {"a": WHOLE.T, "b": WHOLE.clone()[:, ::2]}
    OURS.save_file(wanted, tmp_path / "x", contiguous=True)
    assert outcome(OURS.load_file, tmp_path / "x") == outcome(lambda: wanted) == outcome(OURS.load, OURS.save(wanted, contiguous=True))


# ---- Devices, backends ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cuda:x", "cpu:0", "meta", torch.device("cpu"), -1, "vulkan", None], ids=repr)
def test_devices(path, device):
    assert_same(lambda module: list(module.load_file(path, device)))


def test_moving(path, monkeypatch):
    """Of every device torch itself is asked, in the words the caller used."""
    moves = []
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device: moves.append(device) or tensor)
    OURS.load_file(path, "cuda")
    OURS.load_file(path, 3)
    with COFFER.package.safe_open(path, "pt", "npu:1") as f:
        f.get_tensor("a")
        f.get_slice("a")[0]
    assert moves == ["cuda:0"] * 3 + [3] * 3 + ["npu:1"] * 2


def test_files_that_cannot_be_loaded(path, tmp_path):
    for call in (
        lambda module: module.load_file(tmp_path / "none"),
        lambda module: module.load_file(str(path).encode()),
        lambda module: module.load_file(path, backend="foo"),
        lambda module: module.load(bytearray(8)),
        lambda module: module.load(None),
    ):
        assert_same(call)


def test_progress(path, capsys):
    assert outcome(OURS.load_file, path, progress=True) == outcome(OURS.load_file, path)
    assert "100%" in capsys.readouterr().err


# ---- Shared memory ----------------------------------------------------------------------------------------------------


@st.composite
def views(draw):
    """Tensors that are parts of two pieces of memory."""
    pieces = [torch.zeros(8), torch.zeros(8)]
    found = {}
    for name in draw(st.lists(st.sampled_from("abcdef"), max_size=5, unique=True)):
        first = draw(st.integers(0, 7))
        found[name] = pieces[draw(st.integers(0, 1))][first : draw(st.integers(first + 1, 8))]
    return found


NAME_LISTS = st.none() | st.lists(st.sampled_from("abcdef"), max_size=3)


def has_nested(wanted):
    """Whether a tensor ends before one that begins before it (T3)."""
    places = sorted((tensor.data_ptr(), OURS._end_ptr(tensor)) for tensor in wanted.values())
    return any(after[1] < before[1] for before, after in zip(places, places[1:], strict=False))


@LIMITS
@given(wanted=views(), preferred=NAME_LISTS, discarded=NAME_LISTS)
def test_shared_tensors(wanted, preferred, discarded):
    """T3: a tensor within another one shares its memory, whatever lies between; the reference looks at neighbours only."""
    if has_nested(wanted):
        ends = [OURS._end_ptr(tensor) for tensor in wanted.values()]
        assert sum(map(len, OURS._find_shared_tensors(wanted))) == len(ends)
        return
    assert_same(lambda module: module._find_shared_tensors(wanted))
    assert_same(lambda module: [module._is_complete(tensor) for tensor in wanted.values()])
    assert_same(lambda module: [module._end_ptr(tensor) for tensor in wanted.values()])
    if len(wanted) == len({(t.data_ptr(), t.numel()) for t in wanted.values()}):
        assert_same(lambda module: module.save(wanted))
    assert_same(
        lambda module: module._remove_duplicate_names(wanted, preferred_names=preferred, discard_names=discarded)
    )


def test_nested_tensors_are_one_group():
    assert OURS._find_shared_tensors({"a": LINE, "b": LINE[1:2], "c": LINE[5:6]}) == [{"a", "b", "c"}]


def test_storages():
    for tensor in (WHOLE, WHOLE[1:], WHOLE.to("meta"), WHOLE.half(), WHOLE.to_sparse()):
        assert_same(lambda module, tensor=tensor: module.storage_ptr(tensor))
        assert_same(lambda module, tensor=tensor: module.storage_size(tensor))
    assert_same(lambda module: module._to_ndarray(WHOLE))
    assert_same(lambda module: module._to_ndarray(WHOLE.to(torch.bfloat16)))
    assert_same(lambda module: module._find_shared_tensors({"a": WHOLE.to("meta"), "b": WHOLE.to_sparse(), "c": WHOLE}))


# ---- Modules ----------------------------------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.b.weight = self.a.weight


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.d = nn.Linear(3, 3), nn.Linear(3, 3)


class Wider(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 4), nn.Linear(3, 3), nn.Linear(3, 3)


class Transposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.arange(6.0).view(2, 3).T)


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        whole = torch.zeros(4)
        self.register_buffer("b", whole)
        self.register_buffer("a", whole)
        self.register_buffer("c", whole[:2])


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        whole = torch.zeros(10)
        self.register_buffer("a", whole[:6])
        self.register_buffer("b", whole[5:])


MODULES = [Tied, Other, Wider, Transposed, Buffers, Parts]


@pytest.mark.parametrize("force_contiguous", [True, False])
@pytest.mark.parametrize("kind", MODULES)
def test_save_model(kind, force_contiguous, tmp_path):
    torch.manual_seed(0)
    model = kind()

    def saved(module):
        path = tmp_path / module.__name__
        module.save_model(model, path, force_contiguous=force_contiguous)
        return module.load_file(path), COFFER.package.safe_open(path, "pt").metadata()

    assert_same(saved)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"b.weight": "kept"}], ids=repr)
def test_save_model_names_what_it_leaves_out(metadata, tmp_path):
    """T4: the reference adds that to the caller's own dict too."""
    given = dict(metadata or {})
    OURS.save_model(Tied(), tmp_path / "x", metadata)
    assert COFFER.package.safe_open(tmp_path / "x", "pt").metadata() == {"b.weight": "a.weight", **given}
    assert (metadata or {}) == given


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("loaded", MODULES)
@pytest.mark.parametrize("saved", [Tied, Other, Buffers])
def test_load_model(saved, loaded, strict, tmp_path):
    THEIRS.save_model(saved(), tmp_path / "x")

    def call(module):
        model = loaded()
        result = module.load_model(model, tmp_path / "x", strict=strict)
        return result, [type(names) for names in result], dict(model.state_dict())

    assert_same(lambda module: call(module)[:2])
    if not isinstance(outcome(call, OURS), Raised):
        assert outcome(lambda: call(OURS)[2].keys()) == outcome(lambda: call(THEIRS)[2].keys())


def test_weights_come_back(tmp_path):
    model, other = Tied(), Tied()
    OURS.save_model(model, str(tmp_path / "x"))
    assert OURS.load_model(other, tmp_path / "x", backend="pread") == (set(), [])
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in model.state_dict().items())
    assert other.b.weight is other.a.weight


def test_tied_and_transposed(tmp_path):
    """T5: the reference fails at tensors that share memory and are not contiguous."""

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            whole = torch.arange(6.0).view(2, 3)
            self.w, self.v = nn.Parameter(whole.T), nn.Parameter(whole)

    model, other = Both(), Both()
    nn.init.zeros_(other.v)
    OURS.save_model(model, tmp_path / "x")
    assert OURS.load_model(other, tmp_path / "x") == (set(), [])
    assert torch.equal(other.w, model.w)


def test_what_is_no_module(tmp_path):
    assert_same(lambda module: module.save_model({}, tmp_path / "x"))
    assert_same(lambda module: module.load_model(Tied(), tmp_path / "none"))
