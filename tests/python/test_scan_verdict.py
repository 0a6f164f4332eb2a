# SPDX-License-Identifier: Apache-2.0
"""`coffer scan` says clean only of what loaders stop at before they import anything: each way to write a pickle as no program does,
within a safetensors file that is valid, and the same bytes by themselves. tests/attacks/polyglots.py makes more of them at random.
"""

import json
import os
import pickle
import random
import struct
import subprocess

import polyglots
import pytest

CLI = os.environ["COFFER_CLI"]
LENGTH_5 = struct.pack("<Q", 5)
PREFIXES = {
    "nothing": b"", "hexadecimal": b"I0x10\n", "space": b"I 5\n", "octal": b"I010\n", "underscores": b"L1_000L\n", "infinity": b"Finfinity\n",
    "zeros of an index": b"Np00001\n", "append to a bytearray": b"\x96" + struct.pack("<Q", 1) + b"aK\1a",
    "item of a bytearray": b"\x96" + struct.pack("<Q", 1) + b"aK\0K\1s", "item of a list": b"]K\1aK\0K\2s", "state of a list": b"]Nb",
    "no items for None": b"N(e", "no pairs for None": b"N(u", "nothing to add to None": b"N(\x90", "NUL": b"I5\0x\n",
    "long frame": b"\x95" + struct.pack("<Q", 2**40), "much": b"N0" * 1_000_000, "many values": b"N" * 600_000,
    "many in the memo": b"".join(b"Nr" + struct.pack("<I", i * 256) for i in range(20_000)),
    "another pickle": b"N.", "bytes of another encoding": b"U\1\xff", "text that is no text": b"X\1\0\0\0\xff", "wrong escape": b"V\\u1\n",
}
IMPORTS = {
    "GLOBAL": b"cos\nsystem\n", "STACK_GLOBAL": b"\x8c\2os\x8c\6system\x93", "STRING": b"S'os'\nS'system'\n\x93",
    "SHORT_BINSTRING": b"U\2osU\6system\x93", "BINSTRING": b"T\2\0\0\0osT\6\0\0\0system\x93", "INST": b"(ios\nsystem\n",
}


def scan(path, code):
    done = subprocess.run([CLI, "scan", "--json", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)[0]["findings"] if done.stdout else []


def dangers(findings):
    return [finding["text"] for finding in findings if finding["weight"] == "danger"]


@pytest.mark.parametrize("shape", [polyglots.safetensors, polyglots.onnx, polyglots.tar])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_file_that_is_also_a_pickle_however_it_is_written(tmp_path, shape, prefix):
    for called, import_ in IMPORTS.items():
        path = tmp_path / called
        path.write_bytes(shape(random.Random(1), PREFIXES[prefix] + import_ + b"."))
        assert dangers(scan(path, 1)), called


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_same_without_a_file_around_it(tmp_path, prefix):
    for called, import_ in IMPORTS.items():
        path = tmp_path / called
        path.write_bytes(PREFIXES[prefix] + import_ + b")R.")
        assert dangers(scan(path, 1)), called


def test_a_frame_that_is_left_is_a_finding(tmp_path):
    """C drops the rest of a frame, and would import what another reader takes for the argument of an opcode."""
    path = tmp_path / "m.safetensors"
    path.write_bytes(polyglots.safetensors(random.Random(1), b"\x95" + struct.pack("<Q", 3) + b"J12" + b"\0\0\0\0cos\nsystem\n."))
    assert any("behind that" in text or "may go on" in text for text in dangers(scan(path, 1)))


def test_an_import_behind_what_is_refused_is_told(tmp_path):
    path = tmp_path / "m.pkl"
    path.write_bytes(b"\x80\2I0x10\n0cos\nsystem\n(S'id'\ntR.")
    assert any('import "os.system" first' in text for text in dangers(scan(path, 1)))


def test_inst_and_obj_are_told_as_calls(tmp_path):
    path = tmp_path / "m.pkl"
    for call in (b"(S'id'\nios\nsystem\n", b"(cos\nsystem\nS'id'\no"):
        path.write_bytes(b"\x80\2" + call + b".")
        texts = dangers(scan(path, 1))
        assert len(texts) == 1 and 'call "os.system(b\'id\')"' in texts[0]


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("around", [0, 10, 200_000])
def test_pickles_within_bytes_by_every_protocol(tmp_path, protocol, around):
    """Protocols 0 to 2 write bytes as text in latin-1; and a pickle needs no PROTO."""
    path = tmp_path / "m.pkl"
    rest = bytes(range(256)) * (around // 256 + 1)
    path.write_bytes(pickle.dumps({"a": b"cos\nsystem\n)R." + rest[:around]}, protocol))
    assert any("os.system()" in text for text in dangers(scan(path, 1)))
    path.write_bytes(pickle.dumps({"a": b"\xff\xd8" + rest, "b": b"class of bytes\nthat are text\n", "c": b"\x80\3\0\0\0"}, protocol))
    assert scan(path, 0) == []


def test_short_texts_of_python_2_are_no_pickles(tmp_path):
    path = tmp_path / "m.pkl"
    path.write_bytes(b"\x80\2}(U\x0cconv1.weightK\1U\2idK\2U\6importK\3u.")
    assert scan(path, 0) == []


def legacy(object_):
    """A checkpoint of the older format that has no storages."""
    parts = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}]
    return b"".join(pickle.dumps(part, 2) for part in parts) + object_ + pickle.dumps([], 2)


def test_bytes_after_a_legacy_stream(tmp_path):
    path = tmp_path / "m.pt"
    empty = pickle.dumps({}, 2)
    for more in (b"cos\nsystem\n(S'id'\ntR.", legacy(b"\x80\2cos\nsystem\n)R.")):
        path.write_bytes(legacy(empty) + more)
        assert any("os.system" in text for text in dangers(scan(path, 1)))
    path.write_bytes(legacy(empty) + legacy(empty))
    assert [finding["weight"] for finding in scan(path, 0)] == ["note"]
    path.write_bytes(legacy(empty) + random.Random(1).randbytes(1000))
    assert [finding["weight"] for finding in scan(path, 0)] == ["note"]


def test_a_module_of_the_legacy_format_is_judged_by_its_class(tmp_path):
    path = tmp_path / "m.pt"

    def module(where, name):
        id_ = b"(X\6\0\0\0modulec" + where + b"\n" + name + b"\nX\1\0\0\0fX\1\0\0\0st"
        return legacy(b"\x80\2" + id_ + b"Q)\x81}b.")

    path.write_bytes(module(b"torch.nn.modules.linear", b"Linear"))
    assert {finding["weight"] for finding in scan(path, 0)} == {"note"}
    path.write_bytes(module(b"my.models", b"Net"))
    assert {finding["weight"] for finding in scan(path, 1)} == {"opaque"}
    path.write_bytes(module(b"os", b"system"))
    assert "danger" in {finding["weight"] for finding in scan(path, 1)}
