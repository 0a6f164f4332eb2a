# SPDX-License-Identifier: Apache-2.0
"""coffer plan, load, devices and keep, as whole programs.

Needs COFFER_CLI.
"""

import json
import os
import signal
import socket
import struct
import subprocess

import pytest
from model_files import make

CLI = os.environ["COFFER_CLI"]
ENGINES = {"auto", "buffered", "direct", "ring", "cufile"}
LAYERS = 3


def run(*arguments, code=0):
    result = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == code, result.stderr
    return result


def read(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


def test_ctrl_c_while_a_server_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as server:
        for command in ("load", "plan", "info"):
            with subprocess.Popen([CLI, command, f"http://127.0.0.1:{server.getsockname()[1]}/m.safetensors"],
                                  stderr=subprocess.PIPE) as process:
                connection, _ = server.accept()
                with connection:
                    connection.recv(1)
                    process.send_signal(signal.SIGINT)
                    assert process.wait(timeout=20) == -signal.SIGINT
                assert process.stderr.read() == b"coffer: interrupted\n"


def test_devices_of_a_path_that_is_not_there(tmp_path):
    told = json.loads(run("devices", "--json", tmp_path / "none", code=3).stdout)
    assert told["error"]["name"] == "NOT_FOUND"


def matrix(rows, columns, seed):
    return ("F32", [rows, columns], b"".join(struct.pack("<f", (seed + i) % 97) for i in range(rows * columns)))


def transformer():
    """The names of a usual transformer, of which ranks split some along dimension 0, some along 1, and some not."""
    tensors = {"model.embed_tokens.weight": matrix(32, 8, 1), "model.norm.weight": ("F32", [8], bytes(32))}
    for i in range(LAYERS):
        tensors[f"model.layers.{i}.self_attn.q_proj.weight"] = matrix(8, 8, i)
        tensors[f"model.layers.{i}.self_attn.o_proj.weight"] = matrix(8, 8, i + 1)
        tensors[f"model.layers.{i}.mlp.down_proj.weight"] = matrix(8, 16, i + 2)
        tensors[f"model.layers.{i}.input_layernorm.weight"] = ("F32", [8], bytes(32))
    return tensors


@pytest.fixture(name="path")
def fixture_path(tmp_path):
    return make(tmp_path / "model.safetensors", transformer())


@pytest.fixture(name="sharded")
def fixture_sharded(tmp_path):
    names, weights = list(transformer().items()), {}
    for part in range(2):
        file = f"model-{part + 1:05}-of-00002.safetensors"
        make(tmp_path / file, dict(names[part::2]))
        weights |= {name: file for name, _ in names[part::2]}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    return tmp_path


def size_of(name):
    return len(transformer()[name][2])


# ---- plan ----


def test_one_rank_needs_everything(path):
    (rank,) = read("plan", path)["ranks"]
    assert rank["needed"] == rank["read"] == sum(map(size_of, transformer()))
    assert rank["tensors"] == len(transformer())


def test_ranks_need_their_parts_and_what_nobody_splits(path):
    ranks = read("plan", path, "--tp", 4)["ranks"]
    whole = sum(size_of(name) for name in transformer() if "norm" in name)
    split = sum(map(size_of, transformer())) - whole
    assert [rank["rank"] for rank in ranks] == [0, 1, 2, 3]
    assert {rank["needed"] for rank in ranks} == {whole + split // 4}


def test_one_rank_is_shown_tensor_by_tensor(sharded):
    plan = read("plan", sharded, "--tp", 2, "--rank", 1)
    items = {item["name"]: item for item in plan["items"]}
    assert items.keys() == transformer().keys()
    assert items["model.layers.0.self_attn.q_proj.weight"]["shape"] == [4, 8]
    assert items["model.layers.0.mlp.down_proj.weight"]["shape"] == [8, 8]
    assert items["model.norm.weight"]["whole"]
    assert not items["model.embed_tokens.weight"]["whole"]
    assert len(plan["files"]) == 2
    for sum_of in ("tensors", "needed", "read", "requests"):
        assert sum(file[sum_of] for file in plan["files"]) == plan[sum_of]


def test_the_plan_names_the_engine_that_the_load_uses(tmp_path):
    """Of a large file that is not cached, one that is small, and one of which a rank wants nothing."""
    large, small = tmp_path / "model-00001-of-00002.safetensors", tmp_path / "model-00002-of-00002.safetensors"
    make(large, {"a": ("U8", [6 << 20], bytes(6 << 20))})
    make(small, {"b": ("U8", [4], b"abcd"), "none": ("U8", [0], b"")})
    weights = {"a": large.name, "b": small.name, "none": small.name}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    for file in (large, small):
        os.utime(file, (1, 1))  # it was not written a moment ago
    plan = read("plan", tmp_path, "--rank", 0)
    found = read("load", tmp_path)
    first, second = (file["engines"] for file in plan["files"])
    assert len(first) == 1
    assert second == ["buffered"]
    assert set(plan["engines"]) == set(first + second) == set(found["engines"])


def test_what_cannot_be_split_evenly_is_whole(path):
    ranks = read("plan", path, "--tp", 3)["ranks"]
    assert {rank["needed"] for rank in ranks} == {sum(map(size_of, transformer()))}


def test_rules_of_ones_own(path):
    plan = read("plan", path, "--tp", 2, "--rank", 0, "--split", "*q_proj*=whole", "--split", "*_proj*=1")
    shapes = {item["name"]: item["shape"] for item in plan["items"]}
    assert shapes["model.layers.0.self_attn.q_proj.weight"] == [8, 8]
    assert shapes["model.layers.0.self_attn.o_proj.weight"] == [8, 4]
    assert shapes["model.embed_tokens.weight"] == [32, 8]


def test_a_table_for_people(sharded):
    lines = run("plan", sharded, "--tp", 2).stdout.splitlines()
    assert lines[0].split() == ["rank", "tensors", "needed", "read", "ratio", "requests", "engine"]
    assert [line.split()[0] for line in lines[1:]] == ["0", "1"]
    assert {line.split()[-1] for line in lines[1:]} == {"buffered"}
    files = run("plan", sharded, "--rank", 0).stdout.splitlines()
    assert files[-1].split()[0] == "all"


@pytest.mark.parametrize(
    "options",
    [("--tp", 0), ("--tp", "many"), ("--rank", 1), ("--tp", 2, "--rank", 2), ("--split", "x"), ("--split", "x=y"), ("--split", "=1")],
)
def test_wrong_command_lines(path, options):
    run("plan", path, *options, code=2)


def test_planning_reads_headers_only(tmp_path):
    path = tmp_path / "huge.safetensors"
    size = 1 << 36
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)
    assert read("plan", path, "--tp", 8, "--split", "w=0")["ranks"][7]["needed"] == size // 8


# ---- load ----


@pytest.mark.parametrize("options", [(), ("--cold",), ("--engine", "buffered"), ("--device", "cpu")])
def test_loading(sharded, options):
    found = read("load", sharded, *options)
    assert found["tensors"] == len(transformer())
    assert found["size"] == sum(map(size_of, transformer()))
    assert found["read"] >= found["size"]
    assert set(found["engines"]) <= ENGINES
    assert found["seconds"] >= found["first_seconds"] > 0
    assert found["limit"] in {"source", "memory", "device", "caller", "processors"}
    assert found["device"] == "cpu"
    assert not found["verified"]


def test_loading_for_people(path):
    labels = [line.split()[0] for line in run("load", path).stdout.splitlines()]
    assert labels == ["loaded", "rate", "read", "cost", "limit", "digests"]  # too little to measure what is possible


def test_what_the_machine_can_do_is_told(tmp_path):
    path = make(tmp_path / "model.safetensors", {"w": ("U8", [160 << 20], bytes(160 << 20))})
    found = read("load", path, "--engine", "buffered")
    labels = [line.split()[0] for line in run("load", path, "--engine", "buffered").stdout.splitlines()]
    if found["floor_of"] == "page cache":  # not every file system has the other
        assert found["floor"] > 0
        assert labels[2] in {"disk", "page"}


def test_nothing_is_loaded_fast(tmp_path):
    lines = run("load", make(tmp_path / "empty.safetensors", {})).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["loaded", "read", "cost", "limit", "digests"]
    assert "nothing to load" in lines[3]


@pytest.mark.parametrize("device", ["gpu", "cpu:3", "cuda:x"])
def test_a_device_that_is_none(path, device):
    result = run("load", path, "--device", device, code=3)
    assert result.stderr == f'coffer: {path}: "{device}" names no device: write cpu, cuda, cuda:N, hip or hip:N\n'


def test_what_was_cached_is_told(tmp_path):
    path = make(tmp_path / "model.safetensors", {"w": ("U8", [8 << 20], bytes(8 << 20))})
    (tmp_path / "model.safetensors").read_bytes()
    found = read("load", path, "--engine", "buffered")
    assert found["cached"] <= found["read"]
    asked = {facility["name"]: facility for facility in read("devices", path)}
    if asked["page cache"]["usable"]:
        assert found["cached"] == found["read"]
        assert found["floor_of"] == "page cache"
    small = make(tmp_path / "small.safetensors", {"w": ("U8", [1], b"1")})
    line = next(line for line in run("load", small).stdout.splitlines() if line.startswith("read"))
    assert line.split() == ["read", "1", "B", "in", "1", "request;", "engine:", "buffered"]
    empty = make(tmp_path / "empty.safetensors", {})
    assert ["read", "nothing"] in [line.split() for line in run("load", empty).stdout.splitlines()]


def test_digests_are_checked(path):
    assert "coffer hash --write" in run("load", path, "--verify", code=1).stderr
    run("hash", "--write", path)
    assert read("load", path, "--verify")["verified"]
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    result = run("load", path, code=1)
    assert "digest" in result.stderr


def test_an_engine_that_is_not_here(path):
    assert "cufile" in run("load", path, "--engine", "cufile", code=3).stderr


def test_a_device_that_is_not_known(path):
    for device in ("tpu", "cuda:x", "cpu:1"):
        assert device in run("load", path, "--device", device, code=3).stderr


def test_a_file_that_is_not_there(tmp_path):
    run("load", tmp_path / "missing.safetensors", code=3)


# ---- devices ----


def test_devices(tmp_path):
    facilities = {facility["name"]: facility for facility in read("devices", tmp_path)}
    assert facilities["cpu"]["usable"]
    for facility in facilities.values():
        assert facility["detail"]
        assert facility["usable"] or facility["name"].startswith(("cuda", "hip")) or facility["advice"]
    lines = run("devices").stdout.splitlines()
    assert lines[0].split()[:2] == ["cpu", "yes"]


# ---- keep ----


def test_a_kept_model_is_found(path):
    server = subprocess.Popen([CLI, "keep", path], stderr=subprocess.PIPE, text=True)
    try:
        assert "kept in memory" in server.stderr.readline()
        assert read("load", path)["tensors"] == len(transformer())
        assert "used by 1 load so far" in server.stderr.readline()
        lines = run("load", path).stdout.splitlines()
        assert any(line.split()[0] == "read" and line.endswith("from the memory of coffer keep") for line in lines)
        assert "the load was not cold" in run("load", "--cold", path).stderr
        named = run("load", "--engine", "buffered", path)
        assert "engine: buffered" in named.stdout and named.stderr == ""
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)
    finally:
        server.kill()
    assert server.returncode == -signal.SIGINT


def test_nothing_to_keep(tmp_path):
    run("keep", tmp_path / "missing.safetensors", code=3)
