# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of distributed trainings, which tests/attacks/make_shards.py makes: the right ones convert, in the confined process and
without it, and those that contradict themselves are refused, with the tensor and the place."""

import json
import os
import struct
import subprocess

import make_shards
import pytest

COMMAND = os.environ["COFFER_CLI"]
SECONDS = 60


def write(folder, files):
    folder.mkdir()
    for called, bytes_ in files.items():
        (folder / called).write_bytes(bytes_)
    return folder


def convert(path, output, *options):
    return subprocess.run([COMMAND, "convert", "--json", path, "-o", output, *options], capture_output=True, text=True, timeout=SECONDS,
                          check=False)


def tensors_of(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__")
    return {called: (each["dtype"], each["shape"], data[8 + size + each["data_offsets"][0] : 8 + size + each["data_offsets"][1]])
            for called, each in header.items()}


WHOLE = struct.pack("<24f", *range(24))


@pytest.mark.parametrize(("called", "files"), list(make_shards.dcp_good()), ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("option", ["--no-sandbox", "-q"])
def test_good_folders(tmp_path, called, files, option):
    folder = write(tmp_path / called, files)
    run = convert(folder, tmp_path / "w.safetensors", option)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["from"] == "dcp" and told["verified"]
    assert sum(told["account"][each] for each in ("written", "aliased", "skipped", "unreferenced")) == told["account"]["total"]
    assert tensors_of(tmp_path / "w.safetensors") == {"w": ("F32", [4, 6], WHOLE)}
    scanned = subprocess.run([COMMAND, "scan", folder / ".metadata"], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert scanned.returncode == 0, scanned.stdout


@pytest.mark.parametrize(("called", "files", "status", "says"), list(make_shards.dcp_attacks()),
                         ids=lambda value: value if isinstance(value, str) and value.islower() else "")
def test_attacks(tmp_path, called, files, status, says):
    folder = write(tmp_path / called, files)
    for option in ("--no-sandbox", "-q"):
        run = convert(folder, tmp_path / "w.safetensors", option)
        if status is None:
            assert run.returncode == 0, run.stderr
            (tmp_path / "w.safetensors").unlink()
            continue
        assert run.returncode == 1, run.stderr
        error = json.loads(run.stdout)["error"]
        assert (error["name"], says in error["message"]) == (status, True), error
        assert not (tmp_path / "w.safetensors").exists()


def test_damaged_bytes_are_found(tmp_path):
    files = make_shards.checkpoint()
    at = files["__1_0.distcp"].index(make_shards.floats((0, 3), (2, 3), (4, 6)))
    files["__1_0.distcp"] = files["__1_0.distcp"][:at] + b"\x01" + files["__1_0.distcp"][at + 1 :]
    folder = write(tmp_path / "damaged", files)
    run = convert(folder, tmp_path / "w.safetensors")
    assert run.returncode == 1
    assert json.loads(run.stdout)["error"]["name"] == "CHECKSUM"
    assert convert(folder, tmp_path / "w.safetensors", "--no-crc").returncode == 0


def test_calls_in_parts_are_found(tmp_path):
    evil = make_shards.call(make_shards.name("os", "system"), make_shards.text("true"))
    folder = write(tmp_path / "evil", make_shards.checkpoint(archive=lambda *box: make_shards.part_archive(*box, pickle=evil)))
    run = subprocess.run([COMMAND, "scan", folder / ".metadata"], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert run.returncode == 1
    assert run.stdout.count("os.system") >= 4


def test_folders_without_a_checkpoint(tmp_path):
    folder = write(tmp_path / "empty", {"a.txt": b"x"})
    run = convert(folder, tmp_path / "w.safetensors")
    assert run.returncode in (1, 3)
    assert not (tmp_path / "w.safetensors").exists()
