# SPDX-License-Identifier: Apache-2.0
"""Files and machines as users have them: huge, odd, full, read-only, without a locale or a home.

Each condition is met with the command line, or with the library where the command line has no option for it. What the
unit tests hold already (umask, setgid directories, two savers, links, bind mounts, a file that shrinks) is not repeated.
"""

import ctypes
import json
import os
import subprocess
import sys

import pytest

import coffer_ctypes
from test_cli import CLI, coffer, floats, header_bytes, make

MANY = 1_300_000


def sparse(path, size):
    """A file of one U8 tensor of `size` bytes, of which none takes room on the disk but the last three."""
    header = header_bytes({"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}, slack=200)
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(len(header) + size)
        file.seek(-3, os.SEEK_END)
        file.write(b"\1\2\3")
    return str(path)


@pytest.mark.parametrize("folder", ["disk", "memory"])
def test_a_file_of_100_gb(tmp_path, folder):
    if folder == "memory":
        path = f"/dev/shm/coffer-test-{os.getpid()}.safetensors"
    else:
        path = str(tmp_path / "huge.safetensors")
    try:
        sparse(path, 100_000_000_000)
        assert coffer("check", path).stdout == f"{path}: ok\n"
        assert "100,000,000,000" in coffer("info", path).stdout
        assert coffer("get", path, "x[-4:]").stdout.split() == ["[0,", "1,", "2,", "3]"]
        assert coffer("get", path, "x[99999999999]").stdout == "3\n"
        edited = coffer("meta", path, "--set", "k=v")
        assert (edited.returncode, "edited in place" in edited.stderr or "clone" in edited.stderr) == (0, True)
        assert coffer("meta", path, "k").stdout == "v\n"
        assert coffer("check", path).returncode == 0
    finally:
        os.unlink(path)


def many_tensors():
    entry = b'"layer.%07d.weight_of_a_projection":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    return b"{" + b",".join(entry % i for i in range(MANY)) + b"}"


def test_1_300_000_tensors(tmp_path):
    text = many_tensors()
    assert len(text) > 100_000_000
    path = tmp_path / "many.safetensors"
    path.write_bytes(header_bytes(text))
    refused = coffer("info", str(path))
    assert refused.returncode == 1
    assert str(len(text) // 8 * 8 + 8 * (len(text) % 8 > 0)) in refused.stderr and "100000000" in refused.stderr
    content = path.read_bytes()
    options = coffer_ctypes.ParseOptions(ctypes.sizeof(coffer_ctypes.ParseOptions), len(content), 200_000_000)
    table, err = ctypes.c_void_p(), coffer_ctypes.Error()
    status = coffer_ctypes._parse(ctypes.byref(table), None, content, len(content), coffer_ctypes.ALLOCATOR,
                                  ctypes.byref(options), ctypes.byref(err))  # fmt: skip
    assert (status, coffer_ctypes._table_count(table)) == (0, MANY)
    coffer_ctypes._table_free(table)


def test_the_writer_refuses_1_300_000_tensors_before_it_writes(tmp_path):
    lib, err = coffer_ctypes.LIB, coffer_ctypes.Error()
    header, writer = ctypes.c_void_p(), ctypes.c_void_p()
    coffer_ctypes._header_new(ctypes.byref(header), coffer_ctypes.ALLOCATOR, ctypes.byref(err))
    shape = (ctypes.c_uint64 * 1)(0)
    for i in range(MANY):
        name = b"layer.%07d.weight_of_a_projection" % i
        coffer_ctypes._header_add(header, name, len(name), 5, shape, 1, None)
    opens = coffer_ctypes._declare(lib, "coffer_writer_open", ctypes.c_int, ctypes.POINTER(ctypes.c_void_p),
                                   ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p,
                                   ctypes.POINTER(coffer_ctypes.Error))  # fmt: skip
    status = opens(ctypes.byref(writer), header, os.fsencode(tmp_path / "out"), None, ctypes.byref(err))
    coffer_ctypes._header_free(header)
    assert coffer_ctypes.CODE_NAMES[status] == "HEADER_TOO_LARGE"
    assert b"100000000" in err.message
    assert os.listdir(tmp_path) == []


def test_a_path_that_is_not_utf8(tmp_path):
    path = make(tmp_path / "a.safetensors", {"x": ("F32", [1], floats(1))})
    odd = os.fsencode(tmp_path) + b"/\xff\x1b[31m.safetensors"
    os.rename(path, odd)
    for command in (["info"], ["check"], ["meta", "--set", "k=v"]):
        result = subprocess.run([CLI, command[0], odd, *command[1:]], capture_output=True, timeout=60, check=False)
        assert result.returncode == 0
        assert b"\x1b" not in result.stdout + result.stderr
        assert b"\\xff\\x1b" in result.stdout + result.stderr
    told = json.loads(subprocess.run([CLI, "info", "--json", odd], capture_output=True, timeout=60, check=True).stdout)
    assert "\ufffd" in told[0]["path"]


def in_a_mount(script, folder, **variables):
    """Runs a script of the shell in mounts of its own, which only root can make; another user gets a user namespace. Below a
    changed root directory its mounts cannot be made private, so they are taken away again."""
    wanted = ["unshare", "--mount", "--propagation", "unchanged"] + ["--map-root-user"] * (os.geteuid() != 0)
    script = 'mount --make-rprivate / 2>/dev/null || true; trap \'cd /; umount "$DIR"\' EXIT; ' + script
    return subprocess.run([*wanted, "sh", "-ec", script], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "CLI": CLI, "DIR": str(folder), **variables})


def test_a_read_only_file_system(tmp_path):
    path = make(tmp_path / "a.safetensors", {"x": ("F32", [1], floats(1))}, slack=100)
    result = in_a_mount('mount --bind "$DIR" "$DIR"; mount -o remount,ro,bind "$DIR"; "$CLI" get "$DIR/a.safetensors" x; '
                        '"$CLI" meta "$DIR/a.safetensors" --set k=v || echo "exit $?"', tmp_path)
    assert result.stdout == "[1]\nexit 3\n"
    assert "the file system is read-only" in result.stderr
    assert os.listdir(tmp_path) == ["a.safetensors"]
    assert coffer("check", path).returncode == 0


def test_a_full_disk(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    result = in_a_mount('mount -t tmpfs -o size=96k none "$DIR"; cd "$DIR"; cp "$FROM" a.safetensors; '
                        'before=$(cksum <a.safetensors); "$CLI" meta a.safetensors --set k=v || echo "exit $?"; '
                        'test "$before" = "$(cksum <a.safetensors)"; ls -A',
                        full, FROM=make(tmp_path / "b", {"x": ("U8", [80_000], bytes(80_000))}))
    assert result.stdout == "exit 3\na.safetensors\n"
    assert "no space left on the device" in result.stderr


def test_standard_input(tmp_path):
    path = make(tmp_path / "a.safetensors", {"x": ("F32", [2], floats(1, 2))})
    with open(path, "rb") as file:
        assert coffer("get", "/dev/stdin", "x", stdin=file).stdout == "[1, 2]\n"
    piped = subprocess.run(f'cat "{path}" | "{CLI}" info /dev/stdin', shell=True, capture_output=True, text=True,
                           timeout=60, check=False)
    assert (piped.returncode, piped.stdout) == (3, "")
    assert "pipe" in piped.stderr


def test_no_locale_no_home(tmp_path):
    path = make(tmp_path / "a.safetensors", {"gr\u00fc\u00df": ("F32", [1], floats(1.5))})
    for variables in ({}, {"LC_ALL": "C"}, {"LC_ALL": "de_DE.UTF-8"}, {"LC_ALL": "nonsense", "HOME": "/nowhere"}):
        result = coffer("get", path, "gr\u00fc\u00df", env=variables)
        assert (result.returncode, result.stdout, result.stderr) == (0, "[1.5]\n", "")
        assert "gr\u00fc\u00df" in coffer("ls", path, env=variables).stdout


def test_an_edit_that_is_interrupted_by_the_keyboard_leaves_nothing(tmp_path):
    """SIGINT at whatever moment it comes: the file is whole, and at most the undo file tells that an edit was cut."""
    path = make(tmp_path / "a.safetensors", {"x": ("U8", [4_000_000], bytes(4_000_000))})
    for delay in range(12):
        script = (f"import signal, subprocess, time\np = subprocess.Popen([{CLI!r}, 'meta', {path!r}, '--rewrite', "
                  f"'--set', 'k={delay}'], stderr=subprocess.DEVNULL)\ntime.sleep({delay} * 0.0005)\n"
                  "p.send_signal(signal.SIGINT)\np.wait()")
        subprocess.run([sys.executable, "-c", script], timeout=60, check=True)
        assert coffer("check", path).returncode == 0
        assert os.listdir(tmp_path) == ["a.safetensors"]
