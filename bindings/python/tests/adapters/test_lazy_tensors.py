# SPDX-License-Identifier: Apache-2.0
"""Lazy tensors for tensors of files: whatever a loader does with them, it gets what it would get from the tensors."""

import contextlib
import copy
import io
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from layers import Model, Sizes, checkpoint, same_values
from torch import nn

import coffer
from coffer.adapters.lazy_tensors import LazyTensor, Weights
from coffer.torch import load_file, save_file


@pytest.fixture(params=[torch.no_grad, torch.inference_mode, torch.enable_grad], ids=lambda mode: mode.__name__)
def mode(request):
    """torch takes operations apart in one way or another before lazy tensors see them."""
    with request.param():
        yield


@pytest.fixture
def weights(tmp_path, mode):
    torch.manual_seed(0)
    values = {
        "m": torch.randn(16, 8).bfloat16(),
        "v": torch.randn(6),
        "s": torch.tensor(3.5),
        "e": torch.empty(0, 4),
        "b": torch.tensor([True, False]),
        "c": torch.randn(2, 3, dtype=torch.complex64),
        "f": torch.randn(4, 4).to(torch.float8_e8m0fnu),
    }
    save_file(values, tmp_path / "x.safetensors")
    with Weights([tmp_path / "x.safetensors"]) as opened:
        yield opened, values


def bits(tensor):
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def test_they_look_like_the_tensors(weights):
    opened, values = weights
    assert dict(opened).keys() == values.keys() and len(opened) == len(values)
    for name, tensor in opened:
        wanted = values[name]
        assert isinstance(tensor, torch.Tensor) and type(tensor) is LazyTensor
        assert (tensor.shape, tensor.dtype, tensor.device) == (wanted.shape, wanted.dtype, wanted.device)
        assert (tensor.stride(), tensor.numel(), tensor.element_size()) == (wanted.stride(), wanted.numel(), wanted.element_size())
        assert f"'{name}'" in repr(tensor)
    assert opened.statistics.parts == 0


LAZY = {
    "all": lambda t: t,
    "narrow": lambda t: t.narrow(0, 4, 4),
    "steps": lambda t: t[3:9:2, 1:],
    "select": lambda t: t[3],
    "element": lambda t: t[3, 2],
    "turned": lambda t: t.t(),
    "permuted twice": lambda t: t.permute(1, 0)[2:5].permute(1, 0),
    "chunk": lambda t: t.chunk(2, 1)[1],
    "split": lambda t: t.split([6, 10])[1],
    "tensor_split": lambda t: t.tensor_split(3)[1],
    "unbind": lambda t: t.unbind(0)[2],
    "view": lambda t: t.view(4, 4, 8)[1],
    "view of rows": lambda t: t.view(4, 4, 8)[1:3, 2],
    "reshape": lambda t: t.reshape(-1)[5:60],
    "unflatten": lambda t: t.unflatten(0, (2, 8))[:, 3],
    "unsqueeze, expand": lambda t: t[None].expand(3, 16, 8),
    "squeeze": lambda t: t[4:5].squeeze(0),
    "diagonal": lambda t: t.diagonal(),
    "detach": lambda t: t.detach(),
    "data": lambda t: t.data,
    "parameter": lambda t: nn.Parameter(t, requires_grad=False),
    "other dtype, same size": lambda t: t.view(torch.int16)[:, 2:4],
    "as_strided": lambda t: t.as_strided((3, 2), (16, 3), 5),
    "movedim": lambda t: t.movedim(0, 1)[1:],
    "nothing": lambda t: t[4:4],
}


@pytest.mark.parametrize("view", LAZY.values(), ids=LAZY)
def test_views_read_nothing_and_are_right_when_copied(view, weights):
    opened, values = weights
    seen, wanted = view(opened["m"]), view(values["m"])
    assert type(seen) is LazyTensor and opened.statistics.parts == 0
    assert (seen.shape, seen.stride(), seen.dtype) == (wanted.shape, wanted.stride(), wanted.dtype)
    for target in (torch.empty_like(wanted), torch.empty(wanted.shape[::-1], dtype=wanted.dtype).permute(list(range(wanted.ndim))[::-1])):
        given = target.copy_(seen)
        assert given is target and bits(target) == bits(wanted)
    if "parameter" not in repr(view) and wanted.numel():
        double = torch.empty(wanted.shape, dtype=torch.float64)
        double.copy_(seen)
        assert torch.equal(double, wanted.double())


COPIES = {
    "clone": lambda t: t.clone(),
    "contiguous": lambda t: t.t().contiguous(),
    "cast": lambda t: t.float(),
    "to": lambda t: t.t().to(torch.float16, memory_format=torch.contiguous_format),
    "reshape of a turned one": lambda t: t.t().reshape(4, -1)[1:3],
    "part of a copy": lambda t: t.t().contiguous()[2:4, 5:9],
    "copy of a part": lambda t: t[3:9].t().contiguous().t()[1:4],
    "copy of a copy": lambda t: t.t().contiguous().view(4, 32)[:, 4:20].contiguous().float()[1],
    "other dtype": lambda t: t.t().contiguous().view(torch.int16)[1],
}


@pytest.mark.parametrize("operation", COPIES.values(), ids=COPIES)
def test_copies_are_made_when_they_are_used(operation, weights):
    opened, values = weights
    tensor = opened["m"]
    found, wanted = operation(tensor), operation(values["m"])
    assert type(found) is LazyTensor and opened.statistics.parts == 0 and found.stride() == wanted.stride()
    assert bits(torch.empty_like(wanted).copy_(found)) == bits(wanted)
    tensor.zero_()
    assert bits(torch.empty_like(wanted).copy_(found)) == bits(wanted)
    found.fill_(1)
    assert bits(torch.empty_like(wanted).copy_(found)) == bits(torch.ones_like(wanted)) and not tensor.any()


OTHER = {
    "copy in another order": lambda t: t.t().clone(),
    "sum of a copy": lambda t: t.clone() + 1,
    "sum": lambda t: t + 1,
    "cat": lambda t: torch.cat([t, t[:3]]),
    "stack": lambda t: torch.stack([t, t]),
    "gather": lambda t: t[[1, 2, 5]],
    "where": lambda t: torch.where(t > 0, t, 0),
    "bytes": lambda t: t.view(torch.uint8),
    "product": lambda t: t @ t.t(),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("operation", OTHER.values(), ids=OTHER)
def test_everything_else_gets_the_bytes(operation, weights):
    opened, values = weights
    found, wanted = operation(opened["m"]), operation(values["m"])
    assert type(found) is torch.Tensor and bits(found) == bits(wanted)


def test_conjugated_and_negated_ones(weights):
    opened, values = weights
    views = (
        torch.conj,
        torch._neg_view,
        lambda t: t.mH,
        lambda t: t.conj()[1].imag,
        lambda t: torch._neg_view(torch.view_as_real(t)[..., 0]),
    )
    for view in views:
        wanted = view(values["c"]).resolve_conj().resolve_neg()
        seen = view(opened["c"])
        assert torch.equal(torch.empty_like(wanted).copy_(seen), wanted) and torch.equal(seen + 0, wanted)
        assert seen.tolist() == wanted.tolist()


def test_one_path_is_no_list(tmp_path):
    with pytest.raises(TypeError, match="list of paths"):
        Weights(str(tmp_path / "x.safetensors"))


def test_numbers_arrays_and_pickles(weights):
    opened, values = weights
    assert opened["s"].item() == float(opened["s"]) == 3.5 and opened["v"].tolist() == values["v"].tolist()
    assert np.array_equal(opened["v"].numpy(), values["v"].numpy()) and np.array_equal(np.asarray(opened["v"]), values["v"].numpy())
    assert torch.equal(torch.from_dlpack(opened["v"]), values["v"]) and opened["v"].data_ptr() != 0
    assert torch.equal(pickle.loads(pickle.dumps(opened["v"])), values["v"])
    saved = io.BytesIO()
    torch.save({"v": opened["v"]}, saved)
    saved.seek(0)
    assert torch.equal(torch.load(saved)["v"], values["v"])
    assert bool(opened["b"][0]) and opened["b"].sum() == 1 and torch.equal(opened["c"].real, values["c"].real)


def test_a_change_is_seen_by_all_views_and_not_by_the_file(weights):
    opened, values = weights
    tensor, wanted = opened["m"], values["m"].clone()
    rows, numbers = tensor[2:], tensor.view(torch.int16)
    assert tensor.add_(1) is tensor
    wanted.add_(1)
    rows[0, 0] = 7
    wanted[2, 0] = 7
    tensor[5].copy_(opened["m"][6])
    wanted[5] = values["m"][6]
    torch.mul(tensor[0], 2, out=tensor[1])
    wanted[1] = wanted[0] * 2
    target = torch.empty(16, 8, dtype=torch.bfloat16)
    assert bits(target.copy_(tensor)) == bits(wanted) == bits(numbers) and bits(rows) == bits(wanted[2:])
    assert bits(opened["m"].clone()) == bits(values["m"])
    with pytest.raises(coffer.Error, match="cannot change the shape of a lazy tensor"):
        tensor.t_()


def test_a_copy_does_not_see_what_is_changed_later(weights):
    opened, values = weights
    tensor = opened["m"].add_(1)
    copies = [tensor.clone(), tensor[2].float()]
    tensor.zero_()
    assert torch.equal(copies[0], values["m"] + 1) and torch.equal(copies[1], (values["m"] + 1)[2].float())


def test_several_threads_take_a_tensor_into_the_same_memory(weights):
    opened, _ = weights
    tensor = opened["m"]
    read, meet = opened._source.read, threading.Barrier(2)

    def slowly(*what):
        with contextlib.suppress(threading.BrokenBarrierError):
            meet.wait(0.2)  # for another thread that reads it too
        return read(*what)

    opened._source.read = slowly
    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(lambda _: tensor.data_ptr(), range(2)))) == 1


def test_copying_broadcasts_and_refuses_as_torch_does(weights):
    opened, values = weights
    assert torch.equal(torch.zeros(3).copy_(opened["s"]), torch.full((3,), 3.5))
    assert torch.equal(torch.zeros(16, 8).copy_(opened["m"][0]), values["m"][0].float().expand(16, 8))
    with pytest.raises(RuntimeError, match="must match the size|broadcast"):
        torch.zeros(5).copy_(opened["v"])


def test_into_tensors_that_are_not_plain_memory(weights):
    opened, values = weights
    turned = torch.zeros(2, 3, dtype=torch.complex64).conj()
    assert torch.equal(turned.copy_(opened["c"]), values["c"])


def test_what_has_no_memory_gets_nothing_from_the_file(weights):
    """So engines count what a loader copies, before they let it copy."""
    opened, _ = weights
    tensor = opened["m"]
    target = torch.empty(16, 8, dtype=torch.bfloat16, device="meta")
    assert target.copy_(tensor) is target
    target[2:4].copy_(tensor[4:6])
    target.float().copy_(tensor)
    target.copy_(tensor.t().contiguous().t())
    assert tensor.to("meta").shape == tensor.t().to("meta", torch.float32).shape[::-1] == (16, 8)
    with pytest.raises(RuntimeError, match="must match the size|broadcast"):
        target[0, :3].copy_(tensor[0])
    assert opened.statistics.parts == 0


def test_programs_may_have_another_device_as_their_default(weights):
    opened, values = weights
    target = torch.zeros(8, 16)
    with torch.device("meta"):
        assert opened["m"].device.type == "cpu" and opened["e"].clone().device.type == "cpu"
        target.copy_(opened["m"].t().contiguous().float())
        empty, changed = opened["e"], opened["m"].zero_()
        empty.zero_()
        assert changed.tolist() == [[0] * 8] * 16 and opened["e"].tolist() == []
    assert torch.equal(target, values["m"].t().float())


def test_parts_go_straight_into_parameters(weights):
    """Not through memory of their own: rows of a tensor, into rows of a parameter."""
    opened, values = weights
    parameter = nn.Parameter(torch.zeros(8, 8, dtype=torch.bfloat16), requires_grad=False)
    opened._source.read = None  # what would give memory of its own
    parameter.data[2:6].copy_(opened["m"].narrow(0, 4, 4))
    assert torch.equal(parameter.data[2:6], values["m"][4:8]) and not parameter.data[:2].any() and not parameter.data[6:].any()
    assert opened.statistics.taken == 4 * 8 * 2


def test_packed_elements_come_as_tensors(tmp_path):
    values = {"p": torch.arange(16, dtype=torch.uint8).view(4, 4).view(torch.float4_e2m1fn_x2)}
    save_file(values, tmp_path / "x.safetensors")
    with Weights([tmp_path / "x.safetensors"]) as opened:
        assert opened["p"].shape == (4, 4) and torch.equal(opened["p"].view(torch.uint8), values["p"].view(torch.uint8))


# ---- Models -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", range(1, 17))
def test_engines_loaders_get_the_same_bits(world, tmp_path):
    sizes = Sizes(world, world)
    values = checkpoint(sizes)
    names = list(values)
    for number, part in enumerate((names[: len(names) // 3], names[len(names) // 3 :])):
        save_file({name: values[name] for name in part}, tmp_path / f"{number}.safetensors")
    paths = sorted(tmp_path.iterdir())
    for rank in range(world):
        plain, lazy = Model(sizes, rank, world), Model(sizes, rank, world)
        for path in paths:
            plain.load(load_file(path, backend="pread").items())
        with Weights(paths) as weights, torch.inference_mode(world % 2 == 0):
            lazy.load(weights)
        assert same_values(plain, lazy)
        found = weights.statistics
        needed = sum(parameter.nbytes for parameter in lazy.values.values()) - 2 * sizes.layers * sizes.dtype.itemsize
        assert needed <= found.taken <= needed + 4 * sizes.layers * sizes.dtype.itemsize  # the scale is taken three times
        assert found.untouched == sizes.layers * (sizes.experts - sizes.experts // world)
        assert found.wrong == 0 and found.found > found.taken // 2
