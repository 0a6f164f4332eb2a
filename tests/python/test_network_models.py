# SPDX-License-Identifier: Apache-2.0
"""Models of several files behind URLs: an index, a folder, a repository of the Hub; how many requests each takes."""

import ctypes
import json
import os
import re
import resource
import subprocess

import pytest

import coffer_ctypes as coffer
from network import FIRST, Model, file_with_header, quick  # noqa: F401
from test_network_hub import COMMIT, make_cache
from web_server import Server

INDEX = "model.safetensors.index.json"


def make_model(shards, longer=(), tensors=3):
    """Files by name, the index among them; those of the shards named in `longer` have headers that do not fit."""
    files, weights, bodies = {}, {}, {}
    for number in range(1, shards + 1):
        names = ["s%d.t%d" % (number, k) for k in range(tensors)]
        file = "model-%05d-of-%05d.safetensors" % (number, shards)
        header_len = FIRST + 1000 if number in longer else 1000
        content, body = file_with_header(header_len, tensors, 100, ["s%d.t%d" % (number, k) for k in range(tensors)])
        files[file] = content
        for k, name in enumerate(names):
            weights[name] = file
            bodies[name] = body[100 * k : 100 * (k + 1)]
    files[INDEX] = json.dumps({"metadata": {"total_size": 300 * shards}, "weight_map": weights}).encode()
    return files, bodies


def serve(files, prefix="/"):
    return Server({prefix + name: content for name, content in files.items()})


def count(model):
    function = coffer.LIB.coffer_count
    function.restype, function.argtypes = ctypes.c_size_t, (ctypes.c_void_p,)
    return function(model.handle)


@pytest.mark.parametrize("shards", [1, 2, 40])
def test_an_index_takes_a_request_for_each_file(shards):
    files, bodies = make_model(shards)
    with serve(files, "/a/b/") as server, Model(server.url("/a/b/%s?download=true" % INDEX)) as model:
        assert model.code == "OK", model.message
        assert len(server.log) == 1 + shards
        assert sorted(set(server.paths)) == sorted(["/a/b/%s?download=true" % INDEX, *("/a/b/" + f for f in files if f != INDEX)])
        assert count(model) == 3 * shards
        for name in ("s1.t0", "s%d.t2" % shards):
            assert model.read(name) == bodies[name]
        # All of such small files came with the headers.
        assert len(server.log) == 1 + shards


def test_few_descriptors_are_enough():
    """As many files are asked for at once as half of the descriptors allow."""
    files, _ = make_model(100)
    with serve(files) as server:
        command = [os.environ["COFFER_CLI"], "ls", "--json", server.url("/" + INDEX)]
        limit = (60, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        said = subprocess.run(command, capture_output=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit))
        assert (said.returncode, said.stderr) == (0, b"")
        assert len(server.log) == 101
        assert 2 <= len({request.connection for request in server.log}) <= 10


def test_headers_that_do_not_fit_take_one_more_each():
    files, bodies = make_model(5, longer=(2, 5))
    with serve(files) as server, Model(server.url("/" + INDEX)) as model:
        assert model.code == "OK", model.message
        assert len(server.log) == 1 + 5 + 2
        assert model.read("s5.t1") == bodies["s5.t1"]


def test_an_index_of_any_size_is_one_request():
    files, _ = make_model(2)
    files[INDEX] = files[INDEX] + b" " * (3 * FIRST)
    with serve(files) as server, Model(server.url("/" + INDEX)) as model:
        assert model.code == "OK", model.message
        assert len(server.log) == 3


def test_a_folder_takes_one_more():
    files, bodies = make_model(3)
    with serve(files, "/a/") as server, Model(server.url("/a/")) as model:
        assert model.code == "OK", model.message
        assert len(server.log) == 2 + 3
        assert server.paths[:2] == ["/a/model.safetensors", "/a/" + INDEX]
        assert model.read("s3.t0") == bodies["s3.t0"]


def test_a_folder_of_one_shard_takes_one_connection():
    """What was not there and what was: all of it over the first one."""
    files, _ = make_model(1)
    with serve(files, "/a/") as server, Model(server.url("/a/")) as model:
        assert model.code == "OK", model.message
        assert len({id(request.connection) for request in server.log}) == 1
        assert len(server.log) == 3


def test_a_folder_with_one_file_takes_one():
    content, body = file_with_header(500, 1, 100)
    with serve({"model.safetensors": content}, "/a/") as server, Model(server.url("/a/")) as model:
        assert model.code == "OK", model.message
        assert server.paths == ["/a/model.safetensors"]
        assert model.read("t0") == body


def test_a_folder_without_a_model():
    with Server() as server, Model(server.url("/a/")) as model:
        assert model.code == "NOT_FOUND"
        assert "there is no model.safetensors, no index of it" in model.message
        assert model.err.path.decode() == server.url("/a/")
        assert len(server.log) == 6


def test_diffusers_names():
    content, _ = file_with_header(500, 1, 100)
    with serve({"diffusion_pytorch_model.safetensors": content}, "/a/") as server, Model(server.url("/a/")) as model:
        assert model.code == "OK", model.message


def test_a_file_that_is_missing():
    files, _ = make_model(3)
    del files["model-00002-of-00003.safetensors"]
    with serve(files) as server, Model(server.url("/" + INDEX)) as model:
        assert model.code == "SHARD_MISSING"
        assert model.err.path.decode() == server.url("/model-00002-of-00003.safetensors")


@pytest.mark.parametrize("name", ["../m.safetensors", "http://127.0.0.1:1/m.safetensors", "//evil/m", "%2e%2e%2fm", "a/../b"])
def test_names_in_an_index_lead_nowhere_else(name):
    files = {INDEX: json.dumps({"weight_map": {"a": name}}).encode()}
    with serve(files) as server, Model(server.url("/" + INDEX)) as model:
        assert model.code == "SHARD_NAME"
        assert len(server.log) == 1


def test_a_name_that_has_to_be_escaped():
    content, body = file_with_header(500, 1, 100)
    files = {INDEX: json.dumps({"weight_map": {"t0": "a b#?&.safetensors"}}).encode()}
    with Server({"/" + INDEX: files[INDEX], "/a%20b%23%3F%26.safetensors": content}) as server:
        with Model(server.url("/" + INDEX)) as model:
            assert model.code == "OK", model.message
            assert model.read("t0") == body


def test_a_name_may_lead_below_the_index():
    content, body = file_with_header(500, 1, 100)
    files = {"/" + INDEX: json.dumps({"weight_map": {"t0": "shards/a/m.safetensors"}}).encode(), "/shards/a/m.safetensors": content}
    with Server(files) as server, Model(server.url("/" + INDEX)) as model:
        assert model.code == "OK", model.message
        assert model.read("t0") == body


def test_an_index_that_is_too_large():
    def behave(request):
        request.head(200, {"Content-Length": 250_000_001})
        request.raw(b" " * 1000)
        request.closes = True

    with Server(behave=behave) as server, Model(server.url("/" + INDEX)) as model:
        assert model.code == "INDEX_TOO_LARGE"
        assert model.err.expected == 250_000_000
        assert len(server.log) == 1


def test_an_index_that_breaks_off_is_asked_for_again():
    files, _ = make_model(2)

    def behave(request):
        if request.number == 0:
            request.head(200, {"Content-Length": len(files[INDEX])})
            request.raw(files[INDEX][:50])
            request.closes = True
        else:
            server.serve(request)

    with serve(files) as server:
        server.behave = behave
        with Model(server.url("/" + INDEX)) as model:
            assert model.code == "OK", model.message
            assert len(server.log) == 4


# ---- Counting parameters ---------------------------------------------------------------------------------------------

CLI = os.environ["COFFER_CLI"]
CONFIG = json.dumps({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}).encode()


def counted(url):
    """What coffer info says of parameters: as stored and as trained, and what was assumed."""
    result = subprocess.run([CLI, "info", "--json", url], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)[0]
    return said["parameters"], said["trained"]["parameters"], said["trained"]["assumed"]


ASSUMED = '"bitsandbytes": weights of 4 bits, two in each byte; scales do not count'


@pytest.mark.parametrize(("name", "more"), [(INDEX, 1), ("", 2)])
def test_counting_takes_one_more_for_the_configuration(name, more):
    files, _ = make_model(3)
    with serve(files | {"config.json": CONFIG}, "/a/") as server:
        assert counted(server.url("/a/" + name)) == (900, 1800, ASSUMED)
        assert len(server.log) == more + 3 + 1
        assert server.paths.count("/a/config.json") == 1


def test_counting_in_one_file():
    content, _ = file_with_header(1000, 3, 100)
    with serve({"m.safetensors": content, "config.json": CONFIG}) as server:
        assert counted(server.url("/m.safetensors?signed=1")) == (300, 600, ASSUMED)
        assert server.paths == ["/m.safetensors?signed=1", "/config.json"]


@pytest.mark.parametrize("config", [None, b"{}", b'{"quantization_config": null}'])
def test_counting_what_is_not_quantised(config):
    content, _ = file_with_header(1000, 3, 100)
    with serve({"m.safetensors": content} | ({} if config is None else {"config.json": config})) as server:
        assert counted(server.url("/m.safetensors"))[:2] == (300, 300)
        assert len(server.log) == 2


def test_a_configuration_of_a_repository_is_of_its_commit(monkeypatch):
    content, _ = file_with_header(1000, 3, 100)
    there = {"model.safetensors": content, "config.json": CONFIG}

    def behave(request):
        bytes_ = there.get(request.path.rpartition("/")[2])
        return request.answer(404) if bytes_ is None else request.ranges(bytes_, {"X-Repo-Commit": COMMIT})

    with Server(behave=behave) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.origin)
        assert counted("hf://owner/name") == (300, 600, ASSUMED)
        assert server.paths == ["/owner/name/resolve/main/model.safetensors", "/owner/name/resolve/%s/config.json" % COMMIT]


# ---- Repositories --------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch):
    """A Hub with one repository of 3 shards, whose main branch moves on with every request."""
    files, bodies = make_model(3)
    with Server() as server:

        def behave(request):
            match = re.fullmatch(r"/owner/name/resolve/([^/]+)/([^/]+)", request.path)
            content = files.get(match[2]) if match else None
            if content is None:
                return request.answer(404)
            return request.ranges(content, {"X-Repo-Commit": COMMIT} if match[1] in ("main", COMMIT) else {})

        server.behave, server.model, server.bodies = behave, files, bodies
        monkeypatch.setenv("HF_ENDPOINT", server.origin)
        yield server


def test_a_repository_takes_two_more_than_its_files(hub):
    with Model("hf://owner/name") as model:
        assert model.code == "OK", model.message
        assert len(hub.log) == 2 + 3
        assert model.read("s2.t1") == hub.bodies["s2.t1"]
    # All that follows the index is of the commit that it was of.
    assert hub.paths[:2] == ["/owner/name/resolve/main/model.safetensors", "/owner/name/resolve/main/" + INDEX]
    assert all(path.startswith("/owner/name/resolve/%s/model-" % COMMIT) for path in hub.paths[2:])


def test_an_index_of_a_repository(hub):
    with Model("hf://owner/name@main/" + INDEX) as model:
        assert model.code == "OK", model.message
        assert len(hub.log) == 1 + 3


def test_a_repository_in_the_cache(hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    make_cache(tmp_path, "main", hub.model)
    with Model("hf://owner/name") as model:
        assert model.code == "OK", model.message
        assert model.read("s3.t2") == hub.bodies["s3.t2"]
    assert hub.log == []


def test_what_a_cached_repository_lacks_is_fetched(hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    make_cache(tmp_path, "main", {name: content for name, content in hub.model.items() if "00002" not in name})
    with Model("hf://owner/name") as model:
        assert model.code == "OK", model.message
        assert model.read("s2.t2") == hub.bodies["s2.t2"]
    assert hub.paths == ["/owner/name/resolve/%s/model-00002-of-00003.safetensors" % COMMIT]


@pytest.mark.parametrize("command", ["check", "info"])
def test_what_else_lies_behind_a_url_is_said_not_to_be_looked_at(command):
    files, _ = make_model(2)
    with serve(files, "/model/") as server:
        for url, said in ((server.url("/model/"), True), (server.url("/model/" + INDEX), False)):
            result = subprocess.run([CLI, command, url], capture_output=True, text=True, timeout=60, check=True)
            assert ("and 1 more file; nothing else there was looked for" in result.stderr) == said
            assert "ignored" not in result.stderr


def test_of_a_url_only_the_wanted_tensors_are_read(tmp_path):
    content, body = file_with_header(1000, 5, 1 << 20)
    part = tmp_path / "part.safetensors"
    with Server({"/model.safetensors": content}) as server:
        subprocess.run([CLI, "get", server.url("/model.safetensors"), "t1", "t[3]", "-o", part], timeout=60, check=True)
        asked = [request.headers["range"].removeprefix("bytes=").split("-") for request in server.log[1:]]
    wanted = [(1000 + i * (1 << 20), 1000 + (i + 1) * (1 << 20) - 1) for i in (1, 3)]
    assert asked
    assert all(any(start <= int(first) and int(last) <= end for start, end in wanted) for first, last in asked)
    assert sum(int(last) - int(first) + 1 for first, last in asked) == 2 << 20
    assert part.read_bytes().endswith(body[1 << 20 : 2 << 20] + body[3 << 20 : 4 << 20])
