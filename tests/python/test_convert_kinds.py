# SPDX-License-Identifier: Apache-2.0
"""Files that have weights and no reader: the message says what they are, and what would convert them. They are made here, as far as the
first and the last bytes tell what they are."""

import bz2
import gzip
import lzma
import os
import struct
import subprocess
import zlib

import pytest

CLI = os.environ["COFFER_CLI"]
TABLE = b"\0\0" + bytes(200) + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"
KINDS = {
    "t.parquet": (b"PAR1" + bytes(100) + b"PAR1", "a Parquet file"),
    "t.feather": (b"FEA1" + bytes(100) + b"FEA1", "a Feather file of version 1"),
    "m.tflite": (b"\x1c\0\0\0TFL3" + bytes(100), "a TensorFlow Lite model"),
    "m.pte": (b"\x20\0\0\0ET12" + bytes(100), "an ExecuTorch program"),
    "m.xml": (b'<?xml version="1.0"?>\n<net name="m" version="11">\n<layers/></net>', "an OpenVINO model"),
    "m.mlmodel": (b"\x08\x06\x12\x20" + bytes(100), "a Core ML model"),
    "weight.bin": (struct.pack("<II", 1, 2) + bytes(56) + struct.pack("<I", 0xdeadbeef) + bytes(100), "a Core ML model or its weights"),
    "m.pdiparams": (struct.pack("<IQIi", 0, 0, 0, 6) + b"\x08\x05\x10\x03\x10\x02" + bytes(24), "parameters of Paddle without their names"),
    "manifest.ocdbt": (b"\x0c\xdb\x3a\x2a" + bytes(100), "an OCDBT database"),
    "checkpoint": (b'model_checkpoint_path: "m-2"\nall_model_checkpoint_paths: "m-1"\n', "a list of checkpoints of TensorFlow"),
    "m.data-00000-of-00012": (bytes(range(200)), "data of a checkpoint of TensorFlow"),
    "w.joblib": (zlib.compress(bytes(range(200))), "zlib's data, as joblib writes with compression"),
    "w.joblib.gz": (gzip.compress(bytes(200)), "a gzip file"),
    "w.joblib.bz2": (bz2.compress(bytes(200)), "a bzip2 file"),
    "w.joblib.xz": (lzma.compress(bytes(200)), "an xz file"),
    "w.joblib.lzma": (lzma.compress(bytes(200), lzma.FORMAT_ALONE), "an lzma file"),
    "w.7z": (b"7z\xbc\xaf\x27\x1c\0\4" + bytes(100), "a 7z archive"),
    "w.png": (b"\x89PNG\r\n\x1a\n" + bytes(100), "a PNG image"),
    "w.db": (b"SQLite format 3\0" + bytes(100), "an SQLite database"),
    "saved_model.pb": (b"\x08\x01\x12\x20" + bytes(100), "the graph of a SavedModel"),
}


@pytest.mark.parametrize("called", KINDS)
@pytest.mark.parametrize("sandbox", [[], ["--no-sandbox"]])
def test_named(called, sandbox, tmp_path):
    data, said = KINDS[called]
    path = tmp_path / called
    path.write_bytes(data)
    done = subprocess.run([CLI, "convert", path, "-o", tmp_path / "o.safetensors", *sandbox], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and said in done.stderr, done
    assert not (tmp_path / "o.safetensors").exists()


@pytest.mark.parametrize("data", [b"PAR1" + bytes(100), b"\x1c\0\0\0TFL2" + bytes(100), b"\x20\0\0\0ETxy" + bytes(100), bytes(100)])
def test_a_part_of_a_sign_is_none(data, tmp_path):
    path = tmp_path / "m"
    path.write_bytes(data)
    done = subprocess.run([CLI, "convert", path, "-o", tmp_path / "o.safetensors"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and not any(said in done.stderr for _, said in KINDS.values())


def test_a_checkpoint_of_the_first_version(tmp_path):
    path = tmp_path / "model.ckpt"
    path.write_bytes(TABLE)
    done = subprocess.run([CLI, "convert", path, "-o", tmp_path / "o.safetensors"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "TensorFlow's first version" in done.stderr
