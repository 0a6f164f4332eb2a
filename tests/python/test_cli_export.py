# SPDX-License-Identifier: Apache-2.0
"""`coffer convert` to files of NumPy and PyTorch, as a whole program: limits of the system, files behind URLs, models of several
files, every dtype. What torch and numpy make of the files is in bindings/python/tests/conversions."""

import io
import json
import os
import resource
import subprocess
import zipfile

import numpy as np
import pytest
from model_files import make
from web_server import Server

CLI = os.environ["COFFER_CLI"]
HUGE = 100 * 10**9


def run(*arguments, code=0, **options):
    result = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", timeout=300, check=False,
                            **options)
    assert result.returncode == code, (result.returncode, result.stderr)
    return result


def limits(**limits):
    def set_them():
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, name), (value, value))

    return set_them


@pytest.fixture(name="model")
def fixture_model(tmp_path):
    rng = np.random.default_rng(1)
    tensors = {f"t{i}": ("F32", [100 * i], rng.bytes(400 * i)) for i in range(9)}
    make(tmp_path / "m.safetensors", tensors | {"large": ("U8", [9 << 20], rng.bytes(9 << 20))}, {"twin": "large"})
    return tmp_path / "m.safetensors"


@pytest.mark.parametrize("ending", ["npz", "pt"])
def test_a_full_disk_leaves_nothing(model, tmp_path, ending):
    """A limit on the size of files fails as a full disk does: at the beginning, or in the middle of a tensor."""
    output = tmp_path / "out" / f"m.{ending}"
    output.parent.mkdir()
    for size in (64, 5 << 20):
        result = run("convert", model, "-o", output, code=3, preexec_fn=limits(RLIMIT_FSIZE=size))
        assert result.stderr and list(output.parent.iterdir()) == []


@pytest.mark.parametrize("ending", ["npz", "pt", "npy"])
def test_a_hole_of_100_gb_in_little_memory(tmp_path, ending):
    path, output = tmp_path / "m.safetensors", tmp_path / f"m.{ending}"
    header = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (HUGE, HUGE)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + HUGE)
    if path.stat().st_blocks * 512 > HUGE // 2:
        return  # a file system without holes
    run("convert", path, "-o", output, preexec_fn=limits(RLIMIT_AS=256 << 20))
    assert output.stat().st_size > HUGE and output.stat().st_blocks * 512 < 64 << 20


@pytest.mark.parametrize("ending", ["npz", "pt"])
def test_models_behind_urls(model, tmp_path, ending):
    with Server({"/m.safetensors": model.read_bytes()}) as server:
        run("convert", server.url("/m.safetensors"), "-o", tmp_path / f"far.{ending}")
    run("convert", model, "-o", tmp_path / f"near.{ending}")
    assert (tmp_path / f"far.{ending}").read_bytes() == (tmp_path / f"near.{ending}").read_bytes()


def test_models_of_several_files(model, tmp_path):
    (tmp_path / "parts").mkdir()
    run("split", model, "-o", tmp_path / "parts" / "m.safetensors", "--max-shard-size", "1MB")
    run("convert", tmp_path / "parts" / "m.safetensors.index.json", "-o", tmp_path / "parts.npz")
    run("convert", model, "-o", tmp_path / "one.npz")
    with np.load(tmp_path / "parts.npz") as parts, np.load(tmp_path / "one.npz") as one:
        assert set(parts.files) == set(one.files) >= {"twin", "large", "t3"}
        assert all(parts[name].tobytes() == one[name].tobytes() for name in one.files)


def test_damage_is_not_exported(model, tmp_path):
    """A file that records digests is verified while it is exported."""
    run("hash", "--write", model)
    blob = bytearray(model.read_bytes())
    blob[-1] ^= 1
    model.write_bytes(blob)
    for ending in ("npz", "pt"):
        run("convert", model, "-o", tmp_path / f"m.{ending}", code=1)
        assert not (tmp_path / f"m.{ending}").exists()


def test_tied_names(model, tmp_path):
    run("convert", model, "-o", tmp_path / "with.npz")
    run("convert", model, "-o", tmp_path / "without.npz", "--tied", "keep")
    assert {*np.load(tmp_path / "with.npz").files} - {*np.load(tmp_path / "without.npz").files} == {"twin"}


def test_sizes_are_known_before(model, tmp_path):
    told = json.loads(run("convert", model, "-n", "-o", tmp_path / "m.pt", "--json").stdout)
    run("convert", model, "-o", tmp_path / "m.pt")
    assert told["done"] == "dry_run" and told["size"] == (tmp_path / "m.pt").stat().st_size


def test_archives_that_python_checks(model, tmp_path):
    """Names, sizes, CRCs and places of every member, by another reader of archives."""
    for ending in ("npz", "pt"):
        run("convert", model, "-o", tmp_path / f"m.{ending}")
        with zipfile.ZipFile(tmp_path / f"m.{ending}") as archive:
            assert archive.testzip() is None
            blob = (tmp_path / f"m.{ending}").read_bytes()
            for member in archive.infolist():
                head = blob[member.header_offset:]
                data = 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
                assert (member.header_offset + data) % 64 == 0
                assert head[14:18] == member.CRC.to_bytes(4, "little") and member.date_time == (1980, 1, 1, 0, 0, 0)
                assert archive.read(member) == head[data:data + member.file_size]
                if ending == "npz":
                    np.lib.format.read_array(io.BytesIO(archive.read(member)))
