# SPDX-License-Identifier: Apache-2.0
"""What coffer writes to files and how it behaves while it works: .npy files as numpy reads them, files of one tensor as the
reference reads them, progress on a terminal, Ctrl-C in the middle of it all. The texts are golden cases (test_golden.py)."""

import json
import os
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

import numpy
import pytest
import terminal
from model_files import bits_of, floats, header_bytes, make
from safetensors.numpy import load_file

CLI = os.environ["COFFER_CLI"]
NUMPY = {"BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "I32": "<i4", "U32": "<u4",
         "F32": "<f4", "C64": "<c8", "F64": "<f8", "I64": "<i8", "U64": "<u8"}
OTHERS = ("BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F6_E2M3", "F6_E3M2", "F4")


def coffer(*arguments, **options):
    return subprocess.run([CLI, *arguments], capture_output=True, timeout=60, check=False, **options)


def write(*arguments):
    result = coffer("get", *arguments)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


# ---- Files ----


@pytest.mark.parametrize("dtype", NUMPY)
def test_npy_of_every_dtype_that_numpy_has(tmp_path, dtype):
    body = bytes(i % 2 if dtype == "BOOL" else i * 37 % 251 for i in range(24 * bits_of(dtype) // 8))
    path = make(tmp_path / "m", {"x": (dtype, [2, 3, 4], body)})
    write(path, "x", "-o", tmp_path / "x.npy")
    found = numpy.load(tmp_path / "x.npy", allow_pickle=False)
    assert (found.dtype, found.shape, found.tobytes()) == (numpy.dtype(NUMPY[dtype]), (2, 3, 4), body)
    write(path, "x[::-1, 1:, -1]", "-o", tmp_path / "y.npy")
    assert numpy.array_equal(numpy.load(tmp_path / "y.npy").view("u1"),
                             numpy.ascontiguousarray(found[::-1, 1:, -1]).view("u1"))


@pytest.mark.parametrize("shape", [[], [0], [5], [0, 3], [1] * 200])
def test_npy_of_every_shape(tmp_path, shape):
    count = 5 if shape == [5] else 0 if 0 in shape else 1
    path = make(tmp_path / "m", {"x": ("I32", shape, struct.pack(f"<{count}i", *range(count)))})
    write(path, "x", "-o", tmp_path / "x.npy")
    content = (tmp_path / "x.npy").read_bytes()
    (size,) = struct.unpack("<H", content[8:10])
    assert content[:8] == b"\x93NUMPY\x01\x00"
    assert (10 + size) % 64 == 0
    assert content[9 + size:10 + size] == b"\n"
    header = eval(content[10:10 + size])  # numpy itself has at most 64 dimensions
    assert header == {"descr": "<i4", "fortran_order": False, "shape": tuple(shape)}
    assert content[10 + size:] == struct.pack(f"<{count}i", *range(count))


def test_npy_of_too_many_dimensions(tmp_path):
    path = make(tmp_path / "m", {"x": ("U8", [1] * 30000, b"a")})
    result = coffer("get", path, "x", "-o", tmp_path / "x.npy")
    assert result.returncode == 3
    assert b"30000 dimensions do not fit into the header of a .npy file; --format raw has no header" in result.stderr
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize("dtype", OTHERS)
def test_npy_of_other_dtypes_names_the_way_out(tmp_path, dtype):
    path = make(tmp_path / "m", {"x": (dtype, [8], bytes(bits_of(dtype)))})
    result = coffer("get", path, "x", "-o", tmp_path / "x.npy")
    assert result.returncode == 2
    assert f"the tensor is {dtype}, which .npy files cannot hold; --as f32 converts it".encode() in result.stderr
    assert os.listdir(tmp_path) == ["m"]
    write(path, "x", "--as", "f32", "-o", tmp_path / "x.npy")
    assert numpy.load(tmp_path / "x.npy").dtype == numpy.float32


def test_conversion_rounds_to_the_nearest(tmp_path):
    values = numpy.concatenate([numpy.random.default_rng(7).standard_normal(5000) * 10.0 ** e for e in range(-9, 6)])
    path = make(tmp_path / "m", {"x": ("F64", [len(values)], values.tobytes())})
    for name, dtype in (("f32", numpy.float32), ("f16", numpy.float16)):
        write(path, "x", "--as", name, "-o", tmp_path / f"{name}.npy")
        with numpy.errstate(over="ignore"):
            assert numpy.load(tmp_path / f"{name}.npy").tobytes() == values.astype(dtype).tobytes()


def test_a_file_of_one_tensor_is_what_the_reference_reads(tmp_path):
    matrix = numpy.arange(3000, dtype=numpy.float32).reshape(50, 60)
    path = make(tmp_path / "m", {"a": ("U8", [1], b"a"), "x": ("F32", [50, 60], matrix.tobytes())})
    write(path, "x[10:40:3, ::-7]", "-o", tmp_path / "part.safetensors")
    (name, found), = load_file(tmp_path / "part.safetensors").items()
    assert name == "x"
    assert numpy.array_equal(found, matrix[10:40:3, ::-7])


def test_a_large_tensor_goes_out_block_by_block(tmp_path):
    values = numpy.arange(3_000_000, dtype=numpy.int32).reshape(3, 1000, 1000)
    path = make(tmp_path / "m", {"x": ("I32", list(values.shape), values.tobytes())})
    write(path, "x", "-o", tmp_path / "x.npy")
    assert numpy.array_equal(numpy.load(tmp_path / "x.npy"), values)
    write(path, "x[::-1, ::3, 1:]", "--as", "f64", "-o", tmp_path / "y.npy")
    assert numpy.array_equal(numpy.load(tmp_path / "y.npy"), values[::-1, ::3, 1:].astype(numpy.float64))
    write(path, "x[:, 7]", "-o", tmp_path / "z.safetensors")
    assert numpy.array_equal(load_file(tmp_path / "z.safetensors")["x"], values[:, 7])


@pytest.mark.parametrize("command", [["get", "a", "x", "-o", "out.raw"], ["get", "a", "x", "-o", "out.npy"],
                                     ["hash", "a", "-o", "out"], ["stats", "a", "--plot", "out.svg"]])
def test_what_replaces_a_file_keeps_its_owner_and_access_list(tmp_path, command):
    make(tmp_path / "a", {"x": ("F32", [2], floats(1, 2))})
    path = tmp_path / command[-1]
    path.write_text("old")
    everybody = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in (
        (0x01, 6, 0xFFFFFFFF), (0x02, 4, 1000), (0x04, 0, 0xFFFFFFFF), (0x10, 4, 0xFFFFFFFF), (0x20, 0, 0xFFFFFFFF)))
    has_lists = True
    try:
        os.setxattr(path, "system.posix_acl_access", everybody)
    except OSError:  # a file system without: then the mode has to be kept
        has_lists = False
        path.chmod(0o640)
    groups = [g for g in os.getgroups() if g != os.getegid()]
    os.chown(path, *((12345, 23456) if os.geteuid() == 0 else (-1, groups[0] if groups else -1)))
    before = path.stat()
    assert subprocess.run([CLI, *command, "-f"], cwd=tmp_path, capture_output=True, check=False).returncode == 0
    after = path.stat()
    assert path.read_bytes() != b"old"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert not has_lists or os.getxattr(path, "system.posix_acl_access") == everybody


def test_what_replaces_a_file_keeps_its_mode_and_new_files_follow_the_umask(tmp_path):
    path = make(tmp_path / "m", {"x": ("U8", [3], b"abc")})
    (tmp_path / "old.raw").write_bytes(b"old")
    os.chmod(tmp_path / "old.raw", 0o640)
    for name, options, mode in (("old.raw", ["-f"], 0o640), ("new.raw", [], 0o604)):
        result = subprocess.run(["sh", "-c", 'umask 062; exec "$@"', "sh", CLI, "get", path, "x", "-o",
                                 tmp_path / name, *options], check=False)
        assert result.returncode == 0
        assert (tmp_path / name).read_bytes() == b"abc"
        assert (tmp_path / name).stat().st_mode & 0o777 == mode


def test_a_reader_of_the_old_file_keeps_it(tmp_path):
    path = make(tmp_path / "m", {"x": ("U8", [3], b"abc")})
    (tmp_path / "x.raw").write_bytes(b"old")
    with (tmp_path / "x.raw").open("rb") as reader:
        write(path, "x", "-f", "-o", tmp_path / "x.raw")
        assert reader.read() == b"old"
    assert (tmp_path / "x.raw").read_bytes() == b"abc"


# ---- Ctrl-C ----


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def holds_an_unnamed_file(pid):
    try:
        return any("(deleted)" in os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("name", ["x.txt", "x.raw", "x.npy", "x.safetensors"])
def test_ctrl_c_leaves_nothing_half_written(tmp_path, name):
    size = 3 << 30
    with (tmp_path / "m").open("wb") as file:
        file.write(header_bytes({"x": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}))
        file.truncate(file.tell() + size)
    with subprocess.Popen([CLI, "get", tmp_path / "m", "x", "-o", tmp_path / name], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        wait_until(lambda: len(os.listdir(tmp_path)) > 1 or holds_an_unnamed_file(process.pid))
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == -signal.SIGINT
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"coffer: interrupted\n")
    assert os.listdir(tmp_path) == ["m"]


def test_ctrl_c_in_a_terminal(tmp_path):
    """Typed, as people do it, while a thread waits for standard input: the program ends, and a shell calls that 130."""
    make(tmp_path / "m", {})
    os.mkfifo(tmp_path / "never")
    script = f'trap : INT; exec 9<>never; "{CLI}" check m - <never; echo "code $?"'
    code, said = terminal.run(["bash", "-c", script], 80, keys={b"m: ok": b"\x03"}, cwd=tmp_path,
                              env=dict(os.environ, TERM="dumb"))
    assert (code, said.replace("^C", "")) == (0, "m: ok\ncoffer: interrupted\ncode 130\n")


# ---- Progress ----


def progress(tmp_path, *options, environment=None):
    """What a terminal shows of a check that waits for a second."""
    path = make(tmp_path / "m", {"x": ("F32", [2], floats(1, 2))})
    script = f'(sleep 1; cat "{path}") | "{CLI}" check {" ".join(options)} "{path}" -'
    code, said = terminal.run(["bash", "-c", script], 60,
                              env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", **(environment or {})})
    assert code == 0
    return said.replace(path, "m")


def test_progress_is_shown_and_goes(tmp_path):
    said = progress(tmp_path)
    lines = re.findall(r"\r\x1b\[K(checking \[[#.]+\] [ 0-9]+%  [12] of 2)", said)
    assert lines and lines[-1].endswith("] 100%  2 of 2")
    assert all(len(line) < 60 for line in lines)
    assert re.sub(r"\r\x1b\[K(checking[^\r]*)?", "", said) == "m: ok\n-: ok\n"


@pytest.mark.parametrize(("options", "environment"), [(["--no-progress"], {}), ([], {"TERM": "dumb"})])
def test_no_progress_where_it_is_not_wanted(tmp_path, options, environment):
    assert progress(tmp_path, *options, environment=environment) == "m: ok\n-: ok\n"


def test_quiet_is_quiet(tmp_path):
    assert progress(tmp_path, "--quiet") == ""


# ---- Holes ----


def first_hole(path):
    """Where the file system says that the file has its first hole; a file has one at its end in any case."""
    with path.open("rb") as file:
        return os.lseek(file.fileno(), 0, os.SEEK_HOLE)


def test_check_notes_holes_and_with_data_tensors_of_zeros(tmp_path):
    path, size = tmp_path / "model.safetensors", 1 << 20
    make(path, {"full": ("U8", [size], b"x" * size), "hollow": ("F32", [size // 4], bytes(size)), "none": ("U8", [0], b"")})
    data_end, whole = path.stat().st_size, path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(data_end - size)
        file.truncate(data_end)
    assert path.read_bytes() == whole
    hole = first_hole(path)
    has_hole = hole < data_end  # not every file system tells, and none has to

    def notes(*options):
        result = subprocess.run([CLI, "check", "--json", *options, path], capture_output=True, text=True, timeout=60, check=True)
        return {note["kind"]: (note["count"], note["offset"], note["subject"]) for note in json.loads(result.stdout)[0]["notes"]}

    holes = {"file_hole": (1, hole, "hollow")} if has_hole else {}
    zeros = {"zeros": (1, data_end - size, "hollow")}
    assert notes() == holes
    assert notes("--data") == {**holes, **zeros}
    strict = subprocess.run([CLI, "check", "--strict", path], capture_output=True, timeout=60, check=False)
    assert strict.returncode == int(has_hole)
    path.write_bytes(whole)
    assert first_hole(path) == data_end
    assert notes() == {} and notes("--data") == zeros
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    assert notes("--data") == {}


def test_check_data_of_a_pipe_and_of_several_files(tmp_path):
    make(tmp_path / "a.safetensors", {"zero": ("F16", [3], bytes(6)), "one": ("U8", [1], b"\1")})
    with (tmp_path / "a.safetensors").open("rb") as file:
        result = subprocess.run(["bash", "-c", 'cat | "$0" check --data -', CLI], stdin=file, capture_output=True, text=True,
                                timeout=60, check=True)
    assert result.stdout.splitlines()[1].endswith("note: a tensor has only zeros (1 time, at byte "
                                                  f"{(tmp_path / 'a.safetensors').stat().st_size - 7} in zero)")
