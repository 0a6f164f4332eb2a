# SPDX-License-Identifier: Apache-2.0
"""Files that an ONNX model names as external data: in its folder or below it, by links only as the Hub's cache has them, and never
elsewhere, in the confined process and without it."""

import json
import os
import struct
import subprocess

import pytest
from attacks_onnx import onnx_external, onnx_file
from web_server import Server

CLI = os.environ["COFFER_CLI"]
DATA = struct.pack("<6f", *range(6))


def write(path, location):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(onnx_file(onnx_external(("location", location))))
    return path


def convert(path, output, *options):
    return subprocess.run([CLI, "convert", "--json", path, "-o", output, *options], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(params=["-q", "--no-sandbox"])
def ways(request, tmp_path):
    """Converts a model, and gives the error's name, or None after the tensor has been compared."""

    def way(path):
        output = tmp_path / "w.safetensors"
        told = convert(path, output, request.param, "-f")
        if told.returncode != 0:
            assert not output.exists(), told.stdout
            return json.loads(told.stdout)["error"]["name"]
        assert output.read_bytes().endswith(DATA)
        output.unlink()
        return None

    return way


@pytest.mark.parametrize("location", ["w.bin", "data/w.bin", "a/b/c/d.e/ä w.bin", "…/...", "data/w%41.bin"])
def test_files_below_the_folder(ways, tmp_path, location):
    model = write(tmp_path / "m/model.onnx", location)
    (tmp_path / "m" / location).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "m" / location).write_bytes(DATA)
    assert ways(model) is None


@pytest.mark.parametrize("location", ["../w.bin", "data/../../w.bin", "data/../data/w.bin", "..", "data/..", "./data/w.bin", "data/./w.bin", "/w.bin",
                                      "//data/w.bin", "data//w.bin", "data/", "/", "data\\w.bin", "data/..\\w.bin", "data/%2e%2e/w.bin",
                                      "data%2fw.bin", "c:/w.bin", "file:///w.bin", "data/w\1.bin", "data/" + "w" * 256, "d/" * 600 + "w.bin"])
def test_paths_that_are_refused(ways, tmp_path, location):
    (tmp_path / "m/data").mkdir(parents=True)
    for each in ("w.bin", "m/w.bin", "m/data/w.bin"):
        (tmp_path / each).write_bytes(DATA)
    assert ways(write(tmp_path / "m/model.onnx", location)) == "SHARD_NAME"


@pytest.mark.parametrize("location", ["Data/w.bin", "data/W.bin", "data/x/w.bin", "data/w.bin/x"])
def test_files_that_are_not_there(ways, tmp_path, location):
    (tmp_path / "m/data").mkdir(parents=True)
    (tmp_path / "m/data/w.bin").write_bytes(DATA)
    assert ways(write(tmp_path / "m/model.onnx", location)) == "SHARD_MISSING"


def test_links(ways, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "w.bin").write_bytes(DATA)
    folder = tmp_path / "m"
    (folder / "real").mkdir(parents=True)
    (folder / "real/w.bin").write_bytes(DATA)
    (folder / "inside").symlink_to("real")
    (folder / "out").symlink_to("../outside")
    (folder / "real/file").symlink_to("../../outside/w.bin")
    (folder / "real/up").symlink_to("../real/w.bin")
    (folder / "real/nowhere").symlink_to("none")
    for location, expected in (("inside/w.bin", None), ("real/up", None), ("out/w.bin", "SHARD_LINK"), ("real/file", "SHARD_LINK"),
                               ("inside/file", "SHARD_LINK"), ("real/nowhere", "SHARD_MISSING")):
        assert ways(write(folder / "model.onnx", location)) == expected, location


def test_the_cache_of_the_hub(ways, tmp_path):
    """Every file is a link into blobs/, whose depth is that of its folder."""
    cache = tmp_path / "models--a--b"
    (cache / "blobs").mkdir(parents=True)
    (cache / "blobs/1").write_bytes(DATA)
    snapshot = cache / "snapshots/abc"
    for folder, location in ((snapshot, "data/w.bin"), (snapshot / "onnx", "w.bin"), (snapshot / "onnx", "data/w.bin")):
        model = write(cache / "blobs/2", location)
        data = folder / location
        data.parent.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").symlink_to(os.path.relpath(model, folder))
        data.symlink_to(os.path.relpath(cache / "blobs/1", data.parent))
        assert ways(folder / "model.onnx") is None
        (folder / "model.onnx").unlink()
        data.unlink()


def test_files_below_a_url(ways, tmp_path):
    model = write(tmp_path / "model.onnx", "data/w 1.bin")
    with Server({"/a/model.onnx": model.read_bytes(), "/a/data/w%201.bin": DATA}) as server:
        assert ways(server.url("/a/model.onnx")) is None
