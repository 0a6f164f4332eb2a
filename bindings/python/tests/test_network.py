# SPDX-License-Identifier: Apache-2.0
"""Files behind URLs, by a server that answers ranges: what works on a file works on them, without a map."""

from __future__ import annotations

import http.server
import json
import re
import threading

import numpy as np
import pytest
from conftest import array_file

import coffer
import coffer.numpy

ARRAYS = {"a": np.arange(300_000, dtype=np.float32).reshape(300, 1000), "b": np.arange(5, dtype=np.int8)}


class Ranges(http.server.BaseHTTPRequestHandler):
    """Serves the bytes of `files`, and notes how many of them."""

    files: dict[str, bytes]
    sent: list[int]
    serves_ranges = True

    def do_GET(self):
        content = self.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"] or "") if self.serves_ranges else None
        first, last = (int(wanted[1]), min(int(wanted[2]), len(content) - 1)) if wanted else (0, len(content) - 1)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(last - first + 1))
        self.end_headers()
        self.wfile.write(content[first : last + 1])
        self.sent.append(last - first + 1)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    handler = type("Handler", (Ranges,), {"files": {"/x.safetensors": array_file(ARRAYS, {"k": "v"})}, "sent": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        handler.base = f"http://127.0.0.1:{running.server_port}"
        yield handler
        running.shutdown()
        thread.join()


def test_a_file(server):
    with coffer.open(f"{server.base}/x.safetensors") as f:
        assert (list(f), f.metadata, f._model.access) == (["a", "b"], {"k": "v"}, "read")
        assert f["a"][299, ::500].numpy().tolist() == [299_000, 299_500]
        assert f["b"].numpy().tolist() == [0, 1, 2, 3, 4]
    assert sum(server.sent) < len(server.files["/x.safetensors"]) / 2


def test_a_server_without_ranges_is_good_enough_to_fetch_from(server, tmp_path):
    server.serves_ranges = False
    with pytest.raises(coffer.Error) as caught:
        coffer.open(f"{server.base}/x.safetensors")
    assert caught.value.code == "ANSWER" and "ranges" in str(caught.value)
    got = coffer.fetch(f"{server.base}/x.safetensors", tmp_path)
    assert (tmp_path / "x.safetensors").read_bytes() == server.files["/x.safetensors"]
    assert got == str(tmp_path / "x.safetensors")


def test_loading(server):
    loaded = coffer.numpy.load_file(f"{server.base}/x.safetensors")
    assert all(np.array_equal(loaded[name], array) for name, array in ARRAYS.items())


def test_a_model_of_several_files(server):
    for name, array in ARRAYS.items():
        server.files[f"/m/{name}.safetensors"] = array_file({name: array})
    weight_map = {name: f"{name}.safetensors" for name in ARRAYS}
    server.files["/m/x.index.json"] = json.dumps({"weight_map": weight_map}).encode()
    with coffer.open(f"{server.base}/m/x.index.json") as f:
        assert f.shards == [f"{server.base}/m/a.safetensors", f"{server.base}/m/b.safetensors"]
        assert all(np.array_equal(f[name].numpy(), array) for name, array in ARRAYS.items())


def test_nothing_there(server):
    with pytest.raises(FileNotFoundError):
        coffer.open(f"{server.base}/none.safetensors")


def test_a_file_of_another_program_is_converted_by_ranges(server, tmp_path):
    with (tmp_path / "a.npz").open("wb") as file:
        np.savez(file, **ARRAYS)
    server.files["/a.npz"] = (tmp_path / "a.npz").read_bytes()
    told = coffer.convert(server.base + "/a.npz", None)
    assert [tensor.name for tensor in told.tensors] == ["a", "b"]
    assert sum(server.sent) < 400_000 < told.total
    coffer.convert(server.base + "/a.npz", tmp_path / "a.safetensors")
    for name, array in coffer.numpy.load_file(tmp_path / "a.safetensors").items():
        assert np.array_equal(array, ARRAYS[name])
    with pytest.raises(FileNotFoundError):
        coffer.convert(server.base + "/absent.npz", None)
