# SPDX-License-Identifier: Apache-2.0
"""`coffer convert` and `coffer scan` on files of other programs, as whole programs: attack files end in a refusal or a report
and never in a signal, limits of the system are errors that leave nothing behind, and files behind URLs are read by ranges.

What they say is in tests/golden; what is written equals what torch, numpy and paddle read by bindings/python/tests/conversions.
"""

import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import threading

import pickles_by_hand as p
import pytest
import zips_by_hand as z
from attacks_gguf import GGUF_TEXT, GgufTensor, gguf_file
from attacks_tar import pax, tar_member
from attacks_zip import zip64_end
from make_attacks import attacks, good_files
from model_files import make_foreign_files
from web_server import Server

CLI = os.environ["COFFER_CLI"]
HUGE = 100 * 10**9


def run(*arguments, code=None, **options):
    result = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", timeout=300, check=False,
                            **options)
    assert code is None or result.returncode == code, (result.returncode, result.stderr)
    return result


def limits(**limits):
    def set_them():
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, name), (value, value))

    return set_them


def tensors_of(path):
    """The file's bytes, taken apart by nothing but its header."""
    blob = path.read_bytes()
    size = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], blob[8 + size:][slice(*entry["data_offsets"])]) for name, entry in header.items()}


@pytest.fixture(name="foreign")
def fixture_foreign(tmp_path):
    make_foreign_files(tmp_path / "foreign")
    return tmp_path / "foreign"


# ---- attacks -----------------------------------------------------------------------------------------------------------


def test_no_attack_ends_in_a_signal_or_takes_the_reader_over(tmp_path):
    """Each file is refused with a sentence, or converts to what the library converts it to; and a scan never fails otherwise."""
    wrong = []
    for called, content in (*attacks(), *good_files()):
        path, output = tmp_path / f"attack.{called.rsplit('.', 1)[1]}", tmp_path / "o.safetensors"
        path.write_bytes(content)
        converted, scanned = run("convert", path, "-o", output), run("scan", path)
        for result, codes in ((converted, (0, 1, 3)), (scanned, (0, 1, 3))):
            said = result.stderr + result.stdout
            fine = result.returncode in codes and "ended by signal" not in said and "never gives" not in said
            if not fine or not all(c.isprintable() or c == "\n" for c in said):
                wrong.append((called, result.returncode, said))
        if (converted.returncode == 0) != output.exists():
            wrong.append((called, "left something behind, or nothing"))
        output.unlink(missing_ok=True)
        assert {entry.name for entry in tmp_path.iterdir()} == {path.name}, called
        path.unlink()
    assert not wrong


def test_the_sandbox_and_the_process_itself_say_the_same(foreign):
    # One of the files is what the graph has its weights in, and is no other program's.
    for path in sorted(path for path in foreign.iterdir() if path.suffix != ".safetensors"):
        for words in (["convert", "-n", "--json"], ["scan", "--json"]):
            inside, outside = run(*words, path), run(*words, path, "--no-sandbox")
            assert inside.returncode == outside.returncode
            found, expected = json.loads(inside.stdout), json.loads(outside.stdout)
            for answer in (found, expected):
                answer = answer if isinstance(answer, dict) else answer[0]
                answer.pop("seconds", None)
            assert found == expected


def test_nobody_starts_a_child_by_hand():
    """The word that the command gives itself means nothing to anybody else."""
    assert "unknown command" in run("confined-reader", code=2, stdin=subprocess.DEVNULL).stderr


# ---- limits ------------------------------------------------------------------------------------------------------------


def sparse_checkpoint(path, size):
    """A checkpoint with a tensor of so many bytes, all of which are a hole. No CRC is computed, as torch can be told."""
    short = b"\x8a\x06" + size.to_bytes(6, "little")
    pickle = p.checkpoint(p.tensor((size,), (1,), 0, p.storage("0", size, "ByteStorage"))).replace(p.number(size), short)
    entries, at = b"", 0
    with open(path, "wb") as file:
        for name, data, large in ((b"m/data.pkl", pickle, 0), (b"m/data/0", b"", size), (b"m/version", b"3\n", 0)):
            whole = struct.pack("<HHQQ", 1, 16, large, large) if large else b""
            sizes = (0xFFFFFFFF, 0xFFFFFFFF) if large else (len(data), len(data))
            file.write(struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 45, 0x800, 0, 0, 0, 0, *sizes, len(name), len(whole)))
            file.write(name + whole + data)
            far = at > 0xFFFFFFFF
            extra = struct.pack("<HHQQ", 1, 16, large, large) if large else struct.pack("<HHQ", 1, 8, at) if far else b""
            entries += struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 45, 45, 0x800, 0, 0, 0, 0, *sizes, len(name), len(extra), 0,
                                   0, 0, 0, 0xFFFFFFFF if far else at) + name + extra
            file.seek(large, os.SEEK_CUR)
            at = file.tell()
        file.write(entries)
        file.write(zip64_end(3, len(entries), at, at + len(entries)))
        file.write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 3, 3, 0xFFFFFFFF, 0xFFFFFFFF, 0))


def test_a_sparse_file_of_100_gb_needs_neither_memory_nor_disk(tmp_path):
    path, output = tmp_path / "m.pt", tmp_path / "m.safetensors"
    sparse_checkpoint(path, HUGE)
    run("convert", path, "-o", output, code=0, preexec_fn=limits(RLIMIT_AS=256 << 20))
    assert output.stat().st_size > HUGE and output.stat().st_blocks * 512 < 1 << 20
    listed = json.loads(run("ls", "--json", output, code=0).stdout)
    assert [(tensor["name"], tensor["shape"]) for tensor in listed["tensors"]] == [("w", [HUGE])]


def test_a_sparse_gguf_of_100_gb_needs_neither_memory_nor_disk(tmp_path):
    """Half of it a plain tensor, half of it blocks."""
    path, output, back = tmp_path / "m.gguf", tmp_path / "m.safetensors", tmp_path / "b.gguf"
    half = HUGE // 2 // 32 // 34 * 32 * 34
    tensors = [GgufTensor("w", (half // 4,), 0, b""), GgufTensor("q", (32, half // 34), 8, b"", half)]
    path.write_bytes(gguf_file([("general.architecture", GGUF_TEXT, "llama")], tensors))
    size = path.stat().st_size + 2 * half
    os.truncate(path, size + -size % 32)
    run("convert", path, "--raw", "-o", output, code=0, preexec_fn=limits(RLIMIT_AS=256 << 20))
    assert output.stat().st_size > 2 * half and output.stat().st_blocks * 512 < 1 << 20
    listed = json.loads(run("ls", "--json", output, code=0).stdout)
    assert {tensor["name"]: tensor["shape"] for tensor in listed["tensors"]} == {"w": [half // 4], "q": [half // 34, 34]}
    run("convert", output, "-o", back, code=0, preexec_fn=limits(RLIMIT_AS=256 << 20))
    assert back.stat().st_size == path.stat().st_size and back.stat().st_blocks * 512 < 1 << 20


@pytest.mark.parametrize("kind", ["pax", "base-256"])
def test_a_member_of_a_tar_above_8_gib(kind, tmp_path):
    """Twelve octal digits end there: what is larger is in a pax record, as Python's tarfile writes it, or in base 256, as GNU's
    tar does. The file is sparse."""
    count, path = 9 << 30, tmp_path / "m.tar"
    before = p.stream(p.number(1)) + p.stream(p.tuple_of(
        p.number(3), p.text("cpu"), p.name("torch", "ByteStorage"))) + struct.pack("<q", count)
    after = p.stream(b"]")
    size = len(before) + count + len(after)
    tensors = p.stream(p.number(1)) + p.stream(p.tuple_of(
        p.number(7), p.number(3), p.name("torch", "ByteTensor"))) + struct.pack("<iiqqq", 1, 0, count, 1, 0)
    with open(path, "wb") as file:
        if kind == "pax":
            file.write(tar_member(b"PaxHeaders/storages", pax(size=b"%d" % size), b"x"))
        file.write(tar_member(b"storages", b"", size=0 if kind == "pax" else b"\x80" + size.to_bytes(11, "big")) + before)
        file.seek(count, os.SEEK_CUR)
        file.write(after + bytes(-size % 512) + tar_member(b"tensors", tensors)
                   + tar_member(b"pickle", p.stream(p.dict_of((p.text("w"), p.number(7) + b"Q"))))
                   + bytes(1024))
    plan = json.loads(run("convert", "-n", "--json", path, code=0).stdout)
    assert [(tensor["name"], tensor["shape"]) for tensor in plan["plan"]] == [("w", [count])]
    run("scan", path, code=0)


def test_a_scan_of_100_gb_reads_its_directory_and_pickle(tmp_path):
    path = tmp_path / "m.pt"
    sparse_checkpoint(path, HUGE)
    assert json.loads(run("scan", "--json", path, code=0).stdout)[0]["bytes_read"] < 128 << 10


def test_a_full_disk_leaves_nothing(foreign, tmp_path):
    """A limit on the size of files fails as a full disk does: in the middle of a tensor."""
    output = tmp_path / "out" / "m.safetensors"
    output.parent.mkdir()
    for more in ([], ["--max-shard-size", "60"], ["--digest", "sha256"]):
        result = run("convert", foreign / "model.pt", "-o", output, *more, code=3, preexec_fn=limits(RLIMIT_FSIZE=64))
        assert result.stderr and list(output.parent.iterdir()) == []


class Stalling:
    """Serves a file until its end is asked for, which is after the reader was started, and then says nothing."""

    def __init__(self, content):
        self.content, self.stalled = content, threading.Event()

    def __call__(self, request):
        if request.range is None or request.range[0] == 0:
            return request.ranges(self.content)
        self.stalled.set()
        return request.stall()


@pytest.fixture(name="waiting")
def fixture_waiting(tmp_path):
    """A scan that waits for a server, with a child that waits for the scan."""
    sparse_checkpoint(tmp_path / "m.pt", 1 << 20)
    behave = Stalling((tmp_path / "m.pt").read_bytes())
    with Server(behave=behave) as server, subprocess.Popen(
            [CLI, "scan", server.url("/m.pt")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "HF_TOKEN": "secret"}) as process:
        assert behave.stalled.wait(timeout=60)
        yield process
        process.kill()


def test_ctrl_c_ends_the_wait_for_a_server(waiting):
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(timeout=60) == -signal.SIGINT
    assert waiting.stdout.read() == b""


def test_the_child_has_one_descriptor_and_nothing_of_the_environment(waiting):
    """Tokens are none of its business."""
    children = pathlib.Path(f"/proc/{waiting.pid}/task/{waiting.pid}/children").read_text().split()
    assert len(children) == 1
    for child in children:
        about = pathlib.Path("/proc") / child
        assert b"secret" not in (about / "environ").read_bytes()
        assert os.listdir(about / "fd") == ["0"]
        assert os.readlink(about / "fd/0").startswith("socket:")
        status = dict(line.split(":\t", 1) for line in (about / "status").read_text().splitlines() if ":\t" in line)
        assert status["NoNewPrivs"] == "1"


# ---- names, places, files of an index ----------------------------------------------------------------------------------


def test_files_of_an_index(foreign, tmp_path):
    """Each file is read as one of its own, and what is beside the index is found."""
    folder = tmp_path / "several"
    folder.mkdir()
    shutil.copy(foreign / "model.pt", folder / "pytorch_model-00001-of-00002.bin")
    second = z.torch_file(p.stream(p.dict_of((p.text("other.weight"), p.tensor()))))
    (folder / "pytorch_model-00002-of-00002.bin").write_bytes(second)
    names = {name: "pytorch_model-00001-of-00002.bin" for name in ("wte.weight", "lm_head.weight", "h.0.turned", "h.0.bias")}
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": names | {"other.weight": "pytorch_model-00002-of-00002.bin"}}))
    output = tmp_path / "m.safetensors"
    run("convert", index, "-o", output, code=0)
    assert set(tensors_of(output)) == {"lm_head.weight", "h.0.turned", "h.0.bias", "other.weight"}
    assert tensors_of(output)["other.weight"] == ("F32", [2, 2], z.DATA)
    run("scan", index, code=0)
    (folder / "pytorch_model-00002-of-00002.bin").unlink()
    assert "00002" in run("convert", index, "-o", output, "-f", code=1).stderr


def test_an_output_that_is_the_input_under_another_name_is_refused(foreign, tmp_path):
    before = (foreign / "model.pt").read_bytes()
    (tmp_path / "link.safetensors").symlink_to(foreign / "model.pt")
    os.link(foreign / "model.pt", tmp_path / "hard.safetensors")
    for name in ("link.safetensors", "hard.safetensors"):
        assert "destroy the input" in run("convert", foreign / "model.pt", "-o", tmp_path / name, "-f", code=3).stderr
    assert (foreign / "model.pt").read_bytes() == before


def test_a_dry_run_of_what_is_not_there_says_so(tmp_path):
    assert "no such file" in run("convert", "-n", tmp_path / "missing.pt", code=3).stderr


def test_damaged_data_are_noticed(foreign, tmp_path):
    blob = bytearray((foreign / "model.pt").read_bytes())
    blob[blob.index(struct.pack("<3f", 0, 1, 2))] ^= 1
    (tmp_path / "damaged.pt").write_bytes(blob)
    result = run("convert", tmp_path / "damaged.pt", "-o", tmp_path / "m.safetensors", code=1)
    assert "CRC" in result.stderr and not (tmp_path / "m.safetensors").exists()
    run("convert", tmp_path / "damaged.pt", "-o", tmp_path / "m.safetensors", "--no-crc", code=0)


# ---- files behind URLs -------------------------------------------------------------------------------------------------


def test_a_url_is_converted_and_scanned_by_ranges(foreign, tmp_path):
    with Server({"/model.pt": (foreign / "model.pt").read_bytes(), "/evil.pt": (foreign / "evil.pt").read_bytes()}) as server:
        output = tmp_path / "m.safetensors"
        run("convert", server.url("/model.pt"), "-o", output, code=0)
        run("convert", foreign / "model.pt", "-o", tmp_path / "same.safetensors", code=0)
        assert output.read_bytes() == (tmp_path / "same.safetensors").read_bytes()
        assert "os.system" in run("scan", server.url("/evil.pt"), code=1).stdout


def array_file(count):
    """A .npy file as NumPy writes it."""
    head = ("{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % count).ljust(117) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + bytes(4 * count)


@pytest.mark.parametrize(("called", "count", "elements", "most"), [
    ("m.npz", 40, 20, 4), ("m.npz", 40, 1500, 12), ("m.pt", 200, 20, 6), ("m.pt", 200, 3000, 40),
])
def test_an_archive_of_many_members_takes_few_requests(called, count, elements, most, tmp_path):
    """Heads of members that lie near each other are read together, and so are heads of arrays: not one round trip for each."""
    member = z.Member
    if called == "m.npz":
        blob = z.Archive([member(b"t%d.npy" % i, array_file(elements)) for i in range(count)]).bytes()
    else:
        blob = z.added(*(member(b"a/data/%d" % (i + 1), bytes(4 * elements)) for i in range(count)))
    (tmp_path / called).write_bytes(blob)
    with Server({"/" + called: blob}) as server:
        plan = json.loads(run("convert", "-n", "--json", server.url("/" + called), code=0).stdout)
        assert len(server.log) <= most, server.paths
    here = json.loads(run("convert", "-n", "--json", tmp_path / called, code=0).stdout)
    assert (plan["plan"], plan["unreferenced"]) == (here["plan"], here["unreferenced"])
    assert len(plan["plan"]) + len(plan["unreferenced"]) >= count
