# SPDX-License-Identifier: Apache-2.0
"""coffer.jax, on eight devices that are all this machine's processor."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import ml_dtypes
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

import coffer
import coffer.jax
from coffer.numpy import save_file

MESH = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
SPECS = {
    "rows": PartitionSpec("x"),
    "columns": PartitionSpec(None, "x"),
    "both": PartitionSpec("x", "y"),
    "one dimension by two axes": PartitionSpec(("x", "y")),
    "everywhere": PartitionSpec(),
    "scalar": PartitionSpec(),
    "cube": PartitionSpec("y", None, "x"),
}


def sharding(spec):
    return NamedSharding(MESH, spec)


@pytest.fixture
def model(tmp_path):
    make = np.random.default_rng(2)
    values = {name: make.standard_normal((16, 8)).astype(np.float32) for name in SPECS}
    values |= {"scalar": np.array(3, np.int32), "cube": make.standard_normal((4, 3, 8)).astype(ml_dtypes.bfloat16)}
    save_file(values, tmp_path / "x.safetensors")
    return tmp_path / "x.safetensors", values


def same(found, wanted):
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    assert np.asarray(found).tobytes() == np.ascontiguousarray(wanted).tobytes()
    for part in found.addressable_shards:
        assert np.asarray(part.data).tobytes() == np.ascontiguousarray(wanted[part.index]).tobytes()


@pytest.mark.parametrize("memory", [256 << 20, 600, 0])
def test_each_device_gets_its_part(memory, model):
    path, values = model
    assert len(jax.devices()) == 8
    found = coffer.jax.load_sharded(path, {name: sharding(spec) for name, spec in SPECS.items()}, memory=memory, threads=2)
    assert found.keys() == values.keys()
    for name, array in found.items():
        assert array.sharding == sharding(SPECS[name])
        same(array, values[name])


def test_by_a_function_and_by_one_for_all(model):
    path, values = model
    with coffer.open(path, access="read") as file:
        for name, array in coffer.jax.load_sharded(file, lambda name, shape: sharding(PartitionSpec(*[None] * len(shape)))).items():
            same(array, values[name])
    one = SingleDeviceSharding(jax.devices()[3])
    found = coffer.jax.load_sharded(path, one, ["cube", "rows"])
    assert found.keys() == {"cube", "rows"} and found["cube"].devices() == {jax.devices()[3]}
    same(found["cube"], values["cube"])


def test_only_what_the_devices_hold_is_read_and_once(model, monkeypatch):
    """Of a mesh of two of the devices, which have the same."""
    path, values = model
    planned = []
    add = coffer.Plan.add

    def noted(plan, name, index=None, **options):
        planned.append((name, index))
        return add(plan, name, index, **options)

    monkeypatch.setattr(coffer.Plan, "add", noted)
    mesh = Mesh(np.array(jax.devices()[2:4]), ("y",))
    found = coffer.jax.load_sharded(path, NamedSharding(mesh, PartitionSpec(None)), ["rows"])
    same(found["rows"], values["rows"])
    assert planned == [("rows", (slice(0, 16), slice(0, 8)))]


def test_digests_and_files_that_are_cut(model):
    path, values = model
    coffer.record_digests(path)
    everywhere = sharding(PartitionSpec())
    same(coffer.jax.load_sharded(path, everywhere, ["rows"])["rows"], values["rows"])
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(coffer.Error) as raised:
        coffer.jax.load_sharded(path, everywhere)
    assert raised.value.code == "TENSOR_DIGEST"
    with coffer.open(path, access="read") as file:
        path.write_bytes(content[:-4])
        with pytest.raises(coffer.Error) as raised:
            coffer.jax.load_sharded(file, everywhere)
    assert raised.value.code == "CHANGED"


def test_what_cannot_be(model):
    path, _ = model
    with pytest.raises(KeyError) as raised:
        coffer.jax.load_sharded(path, sharding(PartitionSpec()), ["none"])
    assert raised.value.code == "NO_TENSOR"
    with pytest.raises(coffer.Error, match="there is no sharding for 'cube'"):
        coffer.jax.load_sharded(path, {"rows": sharding(PartitionSpec())}, ["cube"])
    with pytest.raises(ValueError, match="evenly divide"):
        coffer.jax.load_sharded(path, sharding(PartitionSpec(None, "x")), ["cube"])
